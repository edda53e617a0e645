// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A shim has every exported name of its peer, with the same type, or docs/adapters.md names it in the peer's table: what
// differs is a compile error or documented.
func TestShims_namesOfThePeer_sameOrInTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, p := range map[string]struct{ peer, shim string }{
		"redsync":       {"github.com/go-redsync/redsync/v4", "github.com/redlock-go/redlock/compat/redsync"},
		"bsm/redislock": {"github.com/bsm/redislock", "github.com/redlock-go/redlock/compat/redislock"},
	} {
		_, section, found := strings.Cut(string(page), "\n## "+heading+"\n")
		if !found {
			t.Fatalf("no section %s", heading)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		told := make(map[string]bool)
		for line := range strings.Lines(section) {
			if cells := strings.Split(line, "|"); len(cells) > 2 {
				for i, name := range strings.Split(cells[1], "`") {
					if i%2 == 1 {
						told[name] = true
					}
				}
			}
		}
		shim := exported(t, p.shim)
		same := 0
		for name, typ := range exported(t, p.peer) {
			_, method, _ := strings.Cut(name, ".")
			switch _, there := shim[name]; {
			case shim[name] == typ:
				same++
			case told[name], told[method], told[strings.SplitN(name, ".", 2)[0]] && !there:
			default:
				t.Errorf("%s: %s is %s, the shim has %q, and no row of the table says so", heading, name, typ, shim[name])
			}
		}
		if same < 10 {
			t.Errorf("%s: only %d names are the same", heading, same)
		}
	}
}

// exported returns the exported names of a package, with their types: functions, types, values, and the methods and fields
// of exported types as Type.Name.
func exported(t *testing.T, pkg string) map[string]string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		t.Fatal(pkg, err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	add := func(of, name, typ string) {
		if ast.IsExported(name) && (of == "" || ast.IsExported(of)) {
			if of != "" {
				name = of + "." + name
			}
			names[name] = typ
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				of := ""
				if d.Recv != nil {
					recv := d.Recv.List[0].Type
					if star, ok := recv.(*ast.StarExpr); ok {
						recv = star.X
					}
					of = recv.(*ast.Ident).Name
				}
				add(of, d.Name.Name, typeText(d.Type))
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, n := range s.Names {
							add("", n.Name, d.Tok.String())
						}
					case *ast.TypeSpec:
						typ := typeText(s.Type)
						if st, ok := s.Type.(*ast.StructType); ok {
							typ = "struct"
							for _, field := range st.Fields.List {
								for _, n := range field.Names {
									add(s.Name.Name, n.Name, typeText(field.Type))
								}
								if len(field.Names) == 0 {
									embedded := typeText(field.Type)
									add(s.Name.Name, embedded[strings.LastIndexAny(embedded, ".*")+1:], embedded)
								}
							}
						}
						add("", s.Name.Name, typ)
					}
				}
			}
		}
	}
	return names
}

// typeText is the text of a type, without the names of parameters.
func typeText(e ast.Expr) string {
	if f, ok := e.(*ast.FuncType); ok {
		for _, list := range []*ast.FieldList{f.Params, f.Results} {
			if list == nil {
				continue
			}
			var types []*ast.Field
			for _, p := range list.List {
				for range max(1, len(p.Names)) {
					types = append(types, &ast.Field{Type: p.Type})
				}
			}
			list.List = types
		}
	}
	var b bytes.Buffer
	_ = printer.Fprint(&b, token.NewFileSet(), e) // of an AST that was parsed, into memory
	return strings.Join(strings.Fields(b.String()), " ")
}
