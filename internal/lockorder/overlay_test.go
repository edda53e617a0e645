// SPDX-License-Identifier: Apache-2.0

package lockorder_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// trees are the folders whose mutexes are recorded.
var trees = []string{"redlock", "election", "semaphore", "multilock", "flight", "node", "internal/lock", "internal/masters", "internal/instants", "internal/logline"}

// overlay writes the sources that have a mutex with recording ones, and returns the file for -overlay, and the structs that have one.
func overlay(t *testing.T, root string) (file string, structs []string) {
	t.Helper()
	dir, replace := t.TempDir(), make(map[string]string)
	for _, tree := range trees {
		err := filepath.WalkDir(filepath.Join(root, tree), func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && (e.Name() == "nodetest" || e.Name() == "testdata"):
				return filepath.SkipDir // a master in memory stands for a process of its own
			case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			changed, of := rewrite(t, path, string(source))
			if len(of) == 0 {
				return nil
			}
			structs = append(structs, of...)
			to := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(path, root), string(filepath.Separator), "_"))
			replace[path] = to
			return os.WriteFile(to, []byte(changed), 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	slices.Sort(structs)
	return file, structs
}

// rewrite puts a recording mutex in place of each field of type sync.Mutex. Lines stay where they are.
func rewrite(t *testing.T, path, source string) (changed string, structs []string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	type edit struct {
		at, end int
		text    string
	}
	var edits []edit
	for _, d := range f.Decls {
		types, ok := d.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		for _, s := range types.Specs {
			spec := s.(*ast.TypeSpec)
			body, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range body.Fields.List {
				if isMutex(field.Type) {
					at := fset.Position(field.Type.Pos()).Offset
					edits = append(edits, edit{at, fset.Position(field.Type.End()).Offset, "lockorder.Mutex[" + spec.Name.Name + "]"})
					structs = append(structs, f.Name.Name+"."+spec.Name.Name)
				}
			}
		}
	}
	seen := 0
	ast.Inspect(f, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok && isMutex(e) {
			seen++
		}
		return true
	})
	if seen != len(edits) {
		t.Errorf("%s: a mutex that is no field of a named struct, or an RWMutex: this test cannot name it", path)
	}
	if len(edits) == 0 {
		return source, nil
	}
	slices.Reverse(edits)
	for _, e := range edits {
		source = source[:e.at] + e.text + source[e.end:]
	}
	end := fset.Position(f.Name.End()).Offset
	return source[:end] + `; import "github.com/redlock-go/redlock/internal/lockorder"` + source[end:] + "\nvar _ sync.Locker\n", structs
}

func isMutex(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "sync" && (s.Sel.Name == "Mutex" || s.Sel.Name == "RWMutex")
}
