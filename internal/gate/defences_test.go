// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/gate/scan"
)

// A kind of defences: where their names stand, and the test that takes each away and must notice.
var kinds = []struct {
	title, source string
	names         *regexp.Regexp // a name, and what is taken away where the source says it
	pkg, test     string
}{
	{"Switches of the lock", "internal/mutants/on.go", regexp.MustCompile(`(?m)^\t"([a-z-]+)": +&(\w+),$`), "./chaos/mutants", "TestRun_defenceRemoved_found"},
	{"Switches of what stands on the lock", "internal/mutants/features.go", regexp.MustCompile(`(?m)^\t"([a-z-]+)": +&(\w+),$`), "./redlock", "TestFeatures_defenceRemoved_found"},
	{"Rules of the membership machine", "internal/model/membershipmodel/variants_test.go", regexp.MustCompile(`(?m)^\t\{"([^"]+)", `), "./internal/model/membershipmodel", "TestCheck_variants_refuted"},
	{"Lines of the scripts", "internal/model/votesmodel/memory_test.go", regexp.MustCompile(`(?m)^\t\{"([^"]+)", `), "./internal/model/votesmodel", "TestScripts_broken_diverge"},
	{"Rules of the token", "internal/model/tokenmodel/check_test.go", regexp.MustCompile(`(?m)^\t\t\{"((?:S\d|late|acquire|amnesia|two amn)[^"]*)", `), "./internal/model/tokenmodel", "TestCheck_brokenModels_refuted"},
	{"Rules of the hand-off, time", "internal/model/handoffmodel/clocks_test.go", regexp.MustCompile(`(?m)^\t\t\{((?:H\d+|R4)\w*), .*(?:small|large)\},$`), "./internal/model/handoffmodel", "TestClocks_droppedRules_refuted"},
	{"Rules of the hand-off, tokens", "internal/model/tokenmodel/handed_test.go", regexp.MustCompile(`(?m)^\t\t\{((?:H\d+|R4)\w*), .*"is granted`), "./internal/model/tokenmodel", "TestTokens_droppedRules_refuted"},
	{"Edges of the waiter's machine", "internal/model/waiting/world_test.go", regexp.MustCompile(`(?m)^\t\w+ +Rule = "(\w+)" +// (.*)$`), "./internal/model/waiting", "TestMachine_defenceDropped_found"},
}

const (
	tableBegins = "<!-- defences: written by REDLOCK_WRITE=1 go test ./internal/gate -run Defences -->\n"
	tableEnds   = "<!-- end of defences -->\n"
)

// tierOf is the command that runs a test first.
func tierOf(f scan.Test) string {
	switch {
	case f.Calls("Soak"):
		return "make soak"
	case f.Calls("CI", "Java", "Server"):
		return ".ci/run"
	case f.Calls("Test", "Docker") || f.Tags != "":
		return "make test"
	}
	return "go test ./..."
}

// Each defence that can be taken away stands in the table of docs/internals/testing-this.md, with the first tier that notices and the test.
func TestDefences_table_asTheCode(t *testing.T) {
	root := filepath.Join("..", "..")
	tests, err := scan.Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, k := range kinds {
		i := slices.IndexFunc(tests, func(f scan.Test) bool { return f.Pkg == k.pkg && f.Name == k.test })
		if i < 0 {
			t.Fatalf("%s has no %s", k.pkg, k.test)
		}
		if tier := tierOf(tests[i]); tier == "make soak" {
			t.Errorf("%s of %s runs in the soak alone", k.test, k.pkg)
		}
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(k.source)))
		if err != nil {
			t.Fatal(err)
		}
		names := k.names.FindAllStringSubmatch(string(source), -1)
		if len(names) < 5 {
			t.Errorf("%s names only %d", k.source, len(names))
		}
		fmt.Fprintf(&table, "\n### %s\n\nNoticed by `%s`: `%s` in `%s`, a subtest for each of these.\n\n", k.title, tierOf(tests[i]), k.test, k.pkg)
		var seen []string
		for _, m := range names {
			if slices.Contains(seen, m[1]) {
				continue
			}
			seen = append(seen, m[1])
			fmt.Fprintf(&table, "- `%s`%s\n", m[1], meaning(string(source), m))
		}
	}
	file := filepath.Join(root, "docs", "internals", "testing-this.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q and %q", file, tableBegins, tableEnds)
	}
	want := before + tableBegins + table.String() + "\n" + tableEnds + after
	if want == string(text) {
		return
	}
	if os.Getenv("REDLOCK_WRITE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the table is not that of the code: REDLOCK_WRITE=1 go test ./internal/gate -run Defences")
}

// meaning is what the source says of a switch beside its variable.
func meaning(source string, name []string) string {
	if len(name) < 3 {
		return ""
	}
	m := regexp.MustCompile(`(?m)^\t` + name[2] + ` +bool // (.*)$`).FindStringSubmatch(source)
	if m == nil {
		return ""
	}
	return ": " + m[1]
}
