// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/membership"
)

const (
	messagesBegin = "<!-- messages: written by REDLOCK_WRITE=1 go test ./internal/gate -run Messages -->\n"
	messagesEnd   = "<!-- end of messages -->\n"
)

// The tables of docs/messages.md, and for each the test in whose source every word of it stands.
var messageTables = []struct {
	title, file, pkg, test string
	rows                   func() []cause.Cause
}{
	{"What the masters are in", "internal/membership/messages_test.go", "./internal/membership", "TestMessages_shortUniqueAndShown", func() (rows []cause.Cause) {
		for _, m := range membership.Messages() {
			rows = append(rows, cause.Cause(m))
		}
		return rows
	}},
	{"How many masters vote", "cmd/redlock/advice_test.go", "./cmd/redlock", "TestAdvice_isTrue", cause.Verdicts},
	{"Why one master does not vote", "internal/cause/cause_test.go", "./internal/cause", "TestOf_eachCause", cause.All},
}

// Each message of the commands stands in the tables of docs/messages.md, with its remedy and its test. None is long, and none is said twice.
func TestMessages_table_asTheCode(t *testing.T) {
	root := filepath.Join("..", "..")
	tests, err := scan(root)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	said := map[string]bool{}
	for _, m := range messageTables {
		if !slices.ContainsFunc(tests, func(f testFunc) bool { return f.pkg == m.pkg && f.name == m.test }) {
			t.Fatalf("%s has no %s", m.pkg, m.test)
		}
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&table, "\n### %s\n\nShown by `%s` in `%s`, for each row.\n\n| word | what it says | what to do |\n| --- | --- | --- |\n", m.title, m.test, m.pkg)
		for _, row := range m.rows() {
			if !strings.Contains(string(source), `"`+row.Word+`"`) {
				t.Errorf("%s has nothing for %q", m.file, row.Word)
			}
			if text := row.Text + row.Remedy; len(row.Text) > 200 || len(row.Remedy) > 200 || said[row.Word] || said[text] && row.Text != "{masters}" {
				t.Errorf("%q is said twice, or has more than 200 characters", row.Word)
			}
			said[row.Word], said[row.Text+row.Remedy] = true, true
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", row.Word, row.Text, row.Remedy)
		}
	}
	file := filepath.Join(root, "docs", "messages.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), messagesBegin)
	_, after, ok2 := strings.Cut(rest, messagesEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q and %q", file, messagesBegin, messagesEnd)
	}
	want := before + messagesBegin + table.String() + "\n" + messagesEnd + after
	switch {
	case want == string(text):
	case os.Getenv("REDLOCK_WRITE") != "":
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the tables are not those of the code: REDLOCK_WRITE=1 go test ./internal/gate -run Messages")
	}
}
