// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// listed is a package as go list names it.
type listed struct {
	ImportPath, Dir, ForTest string
	GoFiles                  []string
	ImportMap                map[string]string
	Standard                 bool
	Module                   *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// typeErrors checks the types of packages of this module as they are on a platform.
func typeErrors(t *testing.T, system, arch string, tests bool, packages []string) []error {
	t.Helper()
	return typeErrorsIn(t, filepath.Join("..", ".."), system, arch, tests, packages)
}

func typeErrorsIn(t *testing.T, dir, system, arch string, tests bool, packages []string) (found []error) {
	t.Helper()
	args := []string{"list", "-e", "-deps", "-json=ImportPath,Dir,ForTest,GoFiles,ImportMap,Standard,Module,Error"}
	if tests {
		args = append(args, "-test")
	}
	list := exec.CommandContext(t.Context(), "go", append(args, packages...)...)
	list.Dir, list.Env = dir, crossEnv(system, arch)
	out, err := list.Output()
	must(t, err)
	c := checker{files: token.NewFileSet(), sizes: types.SizesFor("gc", arch), checked: map[string]*types.Package{"unsafe": types.Unsafe}}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; { // what a package imports stands before it
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			must(t, err)
		}
		if p.Error != nil {
			found = append(found, errors.New(p.Error.Err))
			continue
		}
		if p.ImportPath != "unsafe" && !strings.HasSuffix(p.ImportPath, ".test") { // the main of a test stands in the build cache
			found = append(found, c.check(&p)...)
		}
	}
	return found
}

// checker has the packages that were checked, by the path that go list gives them: that of a test has the test in brackets.
type checker struct {
	files   *token.FileSet
	sizes   types.Sizes
	checked map[string]*types.Package
}

// check returns the errors of a package of this module, and none of what it takes from others.
func (c *checker) check(p *listed) (found []error) {
	ours := p.Module != nil && p.Module.Main
	files := make([]*ast.File, 0, len(p.GoFiles))
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		file, err := parser.ParseFile(c.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return []error{err}
		}
		files = append(files, file)
	}
	conf := types.Config{
		IgnoreFuncBodies: !ours,
		Sizes:            c.sizes,
		Error: func(err error) {
			if ours {
				found = append(found, err)
			}
		},
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if pkg := c.checked[path]; pkg != nil {
				return pkg, nil
			}
			return nil, fmt.Errorf("%s was not checked before %s", path, p.ImportPath)
		}),
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	c.checked[p.ImportPath], _ = conf.Check(path, c.files, files, nil)
	return found
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
