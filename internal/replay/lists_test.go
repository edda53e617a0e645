// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// testFiles are the files of the project that only tests use, with their names below root.
func testFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != root {
			return filepath.SkipDir
		}
		rel, _ := filepath.Rel(root, name)
		rel = filepath.ToSlash(rel)
		helper := slices.Contains(strings.Split(path.Dir(rel), "/"), "internal") && strings.HasSuffix(path.Dir(rel), "test")
		if d.IsDir() || !strings.HasSuffix(rel, "_test.go") && !(helper && strings.HasSuffix(rel, ".go")) {
			return nil
		}
		files[rel], err = parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// unknown returns what is wrong with the names in the list of a package that has these tests.
func unknown(pkg, text string, tests []string) []string {
	lines, err := ParseList(text)
	if err != nil {
		return []string{fmt.Sprintf("%s/%v", pkg, err)}
	}
	var wrong []string
	for _, l := range lines {
		if !slices.Contains(tests, l.Test) {
			wrong = append(wrong, fmt.Sprintf("%s/%s: the package has no test %s", pkg, List, l.Test))
		}
	}
	return wrong
}

// Every list of the project has seeds of tests that exist. A random test that has no seed fails by itself.
func TestLists_everyName_isATestOfThePackage(t *testing.T) {
	tests := map[string][]string{}
	for name, f := range testFiles(t) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				tests[path.Dir(name)] = append(tests[path.Dir(name)], fn.Name.Name)
			}
		}
	}
	lists := 0
	for pkg, names := range tests {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(pkg), filepath.FromSlash(List)))
		if err != nil {
			continue
		}
		lists++
		for _, wrong := range unknown(pkg, string(text), names) {
			t.Error(wrong)
		}
	}
	if lists < 20 {
		t.Errorf("only %d lists: where are the others?", lists)
	}
	if got := unknown("a/b", "TestA 1\nTestB 1\nTestB 2 a fault\n", []string{"TestA"}); len(got) != 2 || got[0] != "a/b/testdata/seeds: the package has no test TestB" {
		t.Errorf("a test that is not there: %q", got)
	}
}

// drawn returns where a file draws from the source that math/rand shares, or makes a source from the clock.
func drawn(f *ast.File) []string {
	shared := ""
	for _, im := range f.Imports {
		if p := strings.Trim(im.Path.Value, `"`); p == "math/rand" || p == "math/rand/v2" {
			if shared = "rand"; im.Name != nil {
				shared = im.Name.Name
			}
		}
	}
	var found []string
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == shared && shared != "" &&
			!slices.Contains([]string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}, sel.Sel.Name) {
			found = append(found, shared+"."+sel.Sel.Name)
		}
		return true
	})
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "uint64" && len(call.Args) == 1 {
			if inner, ok := call.Args[0].(*ast.CallExpr); ok {
				if sel, ok := inner.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "Unix") {
					found = append(found, "uint64(..."+sel.Sel.Name+"())")
				}
			}
		}
		return true
	})
	return found
}

// No test takes chance from elsewhere: not from the clock, and not from the source of math/rand that all share.
func TestLists_noOtherChance(t *testing.T) {
	for name, f := range testFiles(t) {
		for _, what := range drawn(f) {
			t.Errorf("%s: %s: take a seed by replay.Each, replay.Many or replay.Seeds", name, what)
		}
	}
	for text, want := range map[string]int{
		`import "math/rand/v2"; var a = rand.Uint64()`:                          1,
		`import r "math/rand"; var a = r.Perm(3)`:                               1,
		`import "math/rand/v2"; var a = rand.New(rand.NewPCG(1, 2)).IntN(3)`:    0,
		`import "time"; var a = uint64(time.Now().UnixNano())`:                  1,
		`import "time"; var a = uint64(time.Since(time.Time{}).Milliseconds())`: 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a; "+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := drawn(f); len(got) != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
