// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// without are the names of package redlock that no Example uses, each with the reason.
var without = map[string]string{
	"DefaultMaxTTL":         "a default, that the option names",
	"DefaultNodeTimeout":    "a default, that the option names",
	"DefaultOutageTimeout":  "a default, that the option names",
	"DefaultTTL":            "a default, that the option names",
	"Engine":                "no program can call it",
	"ErrUnfinished":         "only calls of package admin return it",
	"WithClock":             "for tests in virtual time, and for simulations",
	"WithFixedMasters":      "for a list of masters that nobody will ever change: nobody should copy it",
	"WithUnsafeRecoveryOff": "gives up a guarantee: nobody should copy it",
}

// A package that a program may import has an Example, which go doc shows behind its text. node/lua is the texts of the scripts, and no API.
func TestExamples_everyPublicPackageHasOne(t *testing.T) {
	public := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		dir, _ := filepath.Rel("..", path)
		switch {
		case err != nil || !d.IsDir() || dir == ".":
			return err
		case dir == "cmd", dir == "chaos", dir == "docs", dir == filepath.Join("node", "lua"), d.Name()[0] == '.', d.Name() == "internal", d.Name() == "testdata":
			return filepath.SkipDir
		}
		if names, used := exported(t, dir); len(names) > 0 {
			if public++; used == nil {
				t.Errorf("%s has %d public names and no Example", dir, len(names))
			}
		}
		return nil
	})
	if err != nil || public < 18 {
		t.Errorf("%d public packages: %v", public, err)
	}
}

func TestExamples_everyPublicName_hasOneOrAReason(t *testing.T) {
	names, used := exported(t, "redlock")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !used[name] && without[name] == "" {
			t.Errorf("redlock.%s is in no Example, and has no reason for that", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(without)) {
		if !names[name] || used[name] {
			t.Errorf("redlock.%s is gone, or is in an Example: take it off the list", name)
		}
	}
}

// exported returns the exported names of a package, without methods, and the names that its Examples use, or nil if it has no Example.
func exported(t *testing.T, dir string) (names, used map[string]bool) {
	files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names = make(map[string]bool)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		test := strings.HasSuffix(file, "_test.go")
		for _, d := range parsed.Decls {
			fn, isFunc := d.(*ast.FuncDecl)
			switch {
			case !test:
				addNames(names, d)
			case isFunc && strings.HasPrefix(fn.Name.Name, "Example"):
				if used == nil {
					used = make(map[string]bool)
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						used[id.Name] = true
					}
					return true
				})
				used[strings.TrimPrefix(fn.Name.Name, "Example")] = true
			}
		}
	}
	return names, used
}

func addNames(names map[string]bool, d ast.Decl) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names[id.Name] = true
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			add(d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				add(s.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					add(id)
				}
			}
		}
	}
}
