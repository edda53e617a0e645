// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/gate/scan"
	"github.com/redlock-go/redlock/internal/logline"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/said"
)

const (
	messagesBegin = "<!-- messages: written by REDLOCK_WRITE=1 go test ./internal/gate -run Messages -->\n"
	messagesEnd   = "<!-- end of messages -->\n"
	saidBegin     = "<!-- said: written by REDLOCK_WRITE=1 go test ./internal/gate -run Said -->\n"
	saidEnd       = "<!-- end of said -->\n"
	logLinesBegin = "<!-- log lines: written by REDLOCK_WRITE=1 go test ./internal/gate -run LogLines -->\n"
	logLinesEnd   = "<!-- end of log lines -->\n"
)

// The tables of docs/messages.md, and for each the test in whose source every word of it stands.
var messageTables = []struct {
	title string
	test  shower
	rows  func() []cause.Cause
}{
	{"What the masters are in", shower{"TestMessages_shortUniqueAndShown", "./internal/membership", "internal/membership/messages_test.go"}, func() (rows []cause.Cause) {
		for _, m := range membership.Messages() {
			rows = append(rows, cause.Cause(m))
		}
		return rows
	}},
	{"How many masters vote", shower{"TestAdvice_isTrue", "./cmd/redlock", "cmd/redlock/advice_test.go"}, cause.Verdicts},
	{"Why one master does not vote", shower{"TestOf_eachCause", "./internal/cause", "internal/cause/cause_test.go"}, cause.All},
}

// A shower is a test that shows a message: the word of the message stands in its file.
type shower struct{ name, pkg, file string }

// onMasters are those that show messages on real masters, do what is advised, and lock.
var onMasters = []shower{
	{"TestAdvice_isTrue", "./cmd/redlock", "cmd/redlock/advice_test.go"},
	{"TestAdvice_causes_areTrue", "./cmd/redlock", "cmd/redlock/causes_test.go"},
	{"TestAdvice_situations_areTrue", "./cmd/redlock", "cmd/redlock/changes_test.go"},
}

// source returns the file of a test, which must be there.
func (s shower) source(t *testing.T, tests []scan.Test) string {
	t.Helper()
	if !slices.ContainsFunc(tests, func(f scan.Test) bool { return f.Pkg == s.pkg && f.Name == s.name }) {
		t.Fatalf("%s has no %s", s.pkg, s.name)
	}
	source, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(s.file)))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// Each message of the commands stands in the tables of docs/messages.md, with its remedy and its test. None is long, and none is said twice.
func TestMessages_table_asTheCode(t *testing.T) {
	root := filepath.Join("..", "..")
	tests, err := scan.Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	said := map[string]bool{}
	for _, m := range messageTables {
		source := m.test.source(t, tests)
		fmt.Fprintf(&table, "\n### %s\n\n| word | what it says | what to do | shown by |\n| --- | --- | --- | --- |\n", m.title)
		for _, row := range m.rows() {
			word := `"` + row.Word + `"`
			if !strings.Contains(source, word) {
				t.Errorf("%s has nothing for %q", m.test.file, row.Word)
			}
			if text := row.Text + row.Remedy; len(row.Text) > 200 || len(row.Remedy) > 200 || said[row.Word] || said[text] && row.Text != "{masters}" {
				t.Errorf("%q is said twice, or has more than 200 characters", row.Word)
			}
			said[row.Word], said[row.Text+row.Remedy] = true, true
			by := m.test.name
			if i := slices.IndexFunc(onMasters, func(s shower) bool { return strings.Contains(s.source(t, tests), word) }); i >= 0 {
				by = onMasters[i].name
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s | `%s` |\n", row.Word, row.Text, row.Remedy, by)
		}
	}
	written(t, filepath.Join(root, "docs", "messages.md"), messagesBegin, messagesEnd, table.String()+"\n", "Messages")
}

// What the commands say in words of their own, and the tests that show it: those in whose source the message is named.
func TestSaid_table_asTheCode(t *testing.T) {
	commands := filepath.Join("..", "..", "cmd", "redlock")
	shown, err := shownBy(commands, filepath.Join(commands, "internal", "supervise"))
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("\n| message | what to do | shown by |\n| --- | --- | --- |\n")
	texts := map[string]bool{}
	for _, l := range said.All() {
		if shown[l.Name] == "" {
			t.Errorf("no test of cmd/redlock names said.%s", l.Name)
		}
		if len(l.Text) > 200 || len(l.Helps) > 200 || texts[l.Text] {
			t.Errorf("%q is said twice, or has more than 200 characters", l.Text)
		}
		texts[l.Text] = true
		fmt.Fprintf(&table, "| `%s` | %s | `%s` |\n", l.Text, l.Helps, shown[l.Name])
	}
	written(t, filepath.Join("..", "..", "docs", "messages.md"), saidBegin, saidEnd, table.String()+"\n", "Said")
}

// shownBy finds for each name of package said the first test of the folders that uses it, or whose table does.
func shownBy(folders ...string) (map[string]string, error) {
	var files []string
	for _, folder := range folders {
		more, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	shown, helper := map[string]string{}, map[string][]string{} // by name of the message; by variable
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range parsed.Decls {
			names, f := saidIn(decl), ""
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if !scan.IsTest(d) {
					continue
				}
				f = d.Name.Name
			case *ast.GenDecl:
				if v, ok := d.Specs[0].(*ast.ValueSpec); ok {
					helper[v.Names[0].Name] = names
				}
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					names = append(names, helper[id.Name]...)
				}
				return true
			})
			for _, name := range names {
				if shown[name] == "" {
					shown[name] = f
				}
			}
		}
	}
	return shown, nil
}

// saidIn are the names of package said that node uses.
func saidIn(node ast.Node) (names []string) {
	ast.Inspect(node, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "said" {
				names = append(names, s.Sel.Name)
			}
		}
		return true
	})
	return names
}

// The table of log lines in docs/observe.md. Each has a scene in the test that the page names.
func TestLogLines_table_asTheCode(t *testing.T) {
	var table strings.Builder
	table.WriteString("\n| level | message | attributes | what to do |\n| --- | --- | --- | --- |\n")
	texts := map[string]bool{}
	for _, l := range logline.All() {
		if len(l.Text) > 200 || texts[l.Text] {
			t.Errorf("%q is said twice, or has more than 200 characters", l.Text)
		}
		texts[l.Text] = true
		fmt.Fprintf(&table, "| %s | `%s` | %s | %s |\n", l.Level, l.Text, l.Attrs, l.Helps)
	}
	written(t, filepath.Join("..", "..", "docs", "observe.md"), logLinesBegin, logLinesEnd, table.String()+"\n", "LogLines")
}

// written holds what stands in file between begin and end against want, or writes it if the environment says so.
func written(t *testing.T, file, begin, end, want, tests string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q and %q", file, begin, end)
	}
	want = before + begin + want + end + after
	switch {
	case want == string(text):
	case os.Getenv("REDLOCK_WRITE") != "":
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the tables of %s are not those of the code: REDLOCK_WRITE=1 go test ./internal/gate -run %s", file, tests)
	}
}
