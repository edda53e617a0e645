// SPDX-License-Identifier: Apache-2.0

// Package scan reads from the sources which tests the repository has, and what each needs. It runs nothing.
//
// A test needs what its own body calls of package needs, and what any function outside of test files calls in its
// package. Names of tests and packages are as go test takes them.
package scan

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/replay"
)

// A Test is one test function of the repository, and what its source says of it.
type Test struct {
	Module string // the folder of its go.mod, "." for the root
	Pkg    string // its folder as go test takes it in that module, such as ./redlock
	Name   string
	Needs  []string // the functions of package needs that its body calls
	Tags   string   // what -tags must name for its file to be built: nothing, mutants, or Elsewhere
	Seeds  bool     // the package's list has a seed for it
	Around []string // the functions of package needs that anything in its folder calls
}

// Calls reports whether the test calls one of these functions of package needs.
func (f Test) Calls(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(f.Needs, n) })
}

// Flags are those with which go test builds the test's file.
func (f Test) Flags() []string {
	if f.Tags == "" {
		return nil
	}
	return []string{"-tags", f.Tags}
}

// Path is the package as go test takes it in the root, also where it is of a nested module.
func (f Test) Path() string { return "./" + path.Join(f.Module, f.Pkg) }

// Tests reads every test file below root. Fuzz tests are among the functions.
func Tests(root string) ([]Test, error) {
	var found []Test
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
			return filepath.SkipDir
		}
		here, err := scanFolder(root, path)
		found = append(found, here...)
		return err
	})
	return found, err
}

func scanFolder(root, folder string) ([]Test, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, err
	}
	module := moduleOf(root, folder)
	rel, err := filepath.Rel(filepath.Join(root, module), folder)
	if err != nil {
		return nil, err
	}
	var found []Test
	var around, shared []string // what its functions need; helpers outside of test files need, and so every test does
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		tags, err := tagsOf(folder, filepath.Base(file))
		if err != nil {
			return nil, err
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			around = append(around, needsOf(f.Body)...)
			switch {
			case !strings.HasSuffix(file, "_test.go"):
				shared = append(shared, needsOf(f.Body)...)
			case IsTest(f):
				found = append(found, Test{Module: module, Pkg: "./" + filepath.ToSlash(rel), Name: f.Name.Name, Needs: needsOf(f.Body), Tags: tags})
			}
		}
	}
	lines, err := seedsOf(folder)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if folder != filepath.Join(root, "internal", "needs") {
			found[i].Needs = append(found[i].Needs, shared...)
		}
		found[i].Around = around
		found[i].Seeds = slices.ContainsFunc(lines, func(l replay.Line) bool { return l.Test == found[i].Name })
	}
	return found, nil
}

// moduleOf returns the folder, relative to root, of the go.mod that rules folder.
func moduleOf(root, folder string) string {
	for ; folder != root; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			rel, _ := filepath.Rel(root, folder)
			return filepath.ToSlash(rel)
		}
	}
	return "."
}

// IsTest reports whether f is a test function of its file.
func IsTest(f *ast.FuncDecl) bool {
	name := f.Name.Name
	return f.Recv == nil && len(f.Type.Params.List) == 1 && name != "TestMain" &&
		(strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz"))
}

// needsOf returns the names of the functions of package needs that body calls.
func needsOf(body ast.Node) (names []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "needs" {
				names = append(names, s.Sel.Name)
			}
		}
		return true
	})
	return names
}

// Elsewhere stands for the tags of a file that is not built on this system, whatever they are.
const Elsewhere = "of another system"

// tagsOf returns what -tags must name for a file to be built. As the go command, it goes by the file's name and by its build constraint.
func tagsOf(folder, file string) (string, error) {
	for _, tags := range []string{"", "mutants"} {
		here := build.Default
		here.BuildTags = strings.Fields(tags)
		if built, err := here.MatchFile(folder, file); built || err != nil {
			return tags, err
		}
	}
	return Elsewhere, nil
}

func seedsOf(folder string) ([]replay.Line, error) {
	text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(replay.List)))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines, err := replay.ParseList(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return lines, nil
}

// Pick returns the tests that want keeps.
func Pick(tests []Test, want func(Test) bool) []Test {
	return slices.DeleteFunc(slices.Clone(tests), func(f Test) bool { return !want(f) })
}

// Packages returns the packages of tests, each once, sorted.
func Packages(tests []Test) []string {
	var pkgs []string
	for _, f := range tests {
		pkgs = append(pkgs, f.Pkg)
	}
	slices.Sort(pkgs)
	return slices.Compact(pkgs)
}

// Pattern matches the names of tests, and no others.
func Pattern(tests []Test) string {
	var names []string
	for _, f := range tests {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$"
}
