// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func changes(found []mutant) (all []string) {
	for i := range found {
		_, change, _ := strings.Cut(found[i].String(), ": ")
		all = append(all, change)
	}
	return all
}

func wantChanges(t *testing.T, found []mutant, want ...string) {
	t.Helper()
	got := changes(found)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestGoMutants_eachKindOfChange(t *testing.T) {
	const head = "package p\n\nfunc f() {\n"
	for name, tc := range map[string]struct {
		body string
		want []string
	}{
		"a comparison":               {"ok := a < b", []string{"a < b -> a <= b"}},
		"two conditions":             {"ok := a && b", []string{"a && b -> a || b"}},
		"a condition of one word":    {"if ok {\n}", []string{"ok -> !(ok)"}},
		"a negated condition":        {"if !ok {\n}", []string{"!ok -> ok"}},
		"a sum":                      {"x := a + b", []string{"a + b -> a - b"}},
		"a set without another":      {"x := a &^ b", []string{"a &^ b -> a & b"}},
		"a step":                     {"n++", []string{"n++ -> n--"}},
		"a constant":                 {"x = 10", []string{"10 -> 5"}},
		"0 and 1":                    {"x, y = 0, 1", []string{"0 -> 1", "1 -> 0"}},
		"the smaller of two":         {"x := min(a, b)", []string{"min -> max"}},
		"a field is set":             {"q.x = y", []string{"q.x = y -> (deleted)"}},
		"a set in a field":           {"q.x |= y", []string{"q.x |= y -> (deleted)", "q.x |= y -> q.x &= y"}},
		"a call":                     {"q.done()", []string{"q.done() -> (deleted)"}},
		"an error is returned":       {"return 5, err", []string{"5 -> 2", "err -> nil"}},
		"yes or no is returned":      {"return true", []string{"true -> false"}},
		"a guard against data races": {"q.mu.Lock()", nil},
		"the text of an error":       {`return fmt.Errorf("%d", 5+n)`, nil},
		"false but in mutants":       {"return a < b || mutants.NoDrift && a < 5", []string{"a < b -> a <= b", "a < b || mutants.NoDrift && a < 5 -> a < b && mutants.NoDrift && a < 5"}},
		"what only mutants build":    {"if mutants.NoDrift && a < b {\n\treturn 5\n}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			source := []byte(head + tc.body + "\n}\n")
			found, err := goMutants("p/p.go", source)
			if err != nil {
				t.Fatal(err)
			}
			wantChanges(t, found, tc.want...)
			for i := range found {
				if m := &found[i]; m.line != 4 || !strings.Contains(string(m.apply(source)), m.after) || bytes.Equal(m.apply(source), source) {
					t.Errorf("line %d becomes\n%s", m.line, m.apply(source))
				}
			}
		})
	}
}

func TestLuaMutants_eachKindOfChange(t *testing.T) {
	for line, want := range map[string][]string{
		"  if a == b and not c then":   {"if a == b and not c then -> if a ~= b and not c then", "if a == b and not c then -> if a == b or not c then", "if a == b and not c then -> if a == b and c then"},
		"  local left = ttl + 1":       {"local left = ttl + 1 -> local left = ttl - 1"},
		"  call('hset', lock, 1)":      {"call('hset', lock, 1) -> (deleted)"},
		"  answer = token":             {"answer = token -> (deleted)"},
		"  local done = false":         {"local done = false -> local done = true"},
		"  -- a and b, or a == b":      nil,
		"  local x, y = f(), g()":      nil,
		"  if found.err then -- a < b": nil,
	} {
		source := []byte("-- first\n" + line + "\n")
		found := luaMutants("x.lua", source)
		wantChanges(t, found, want...)
		for i := range found {
			if m := &found[i]; m.line != 2 || bytes.Equal(m.apply(source), source) || !bytes.HasPrefix(m.apply(source), []byte("-- first\n")) {
				t.Errorf("line %d becomes\n%s", m.line, m.apply(source))
			}
		}
	}
}

// Every file that a lock rests on has mutants and suites, and every line of equivalent.txt is of one mutant that exists.
func TestMutants_ofThisModule(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	root, err := moduleRoot("go")
	if err != nil {
		t.Fatal(err)
	}
	all, err := listed(root)
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]int)
	for i := range all {
		keys[all[i].key()]++
		if len(suitesOf(all[i].file)) == 0 {
			t.Errorf("%s: no test judges it", all[i].file)
		}
	}
	for key, reason := range equivalents() {
		if keys[key] != 1 || len(reason) < 20 {
			t.Errorf("equivalent.txt: %d such mutants, and the reason %q: %s", keys[key], reason, key)
		}
	}
	rest, err := mutantsOf(root)
	if err != nil {
		t.Fatal(err)
	}
	if left := len(all) - len(rest); left < len(equivalents()) || len(rest) < 1000 {
		t.Errorf("%d mutants, %d left out for %d lines of equivalent.txt", len(rest), left, len(equivalents()))
	}
}

// A trial tells a test that fails from source that does not compile, from a test that hangs, and from tests that pass.
func TestTrial_eachVerdict(t *testing.T) {
	needs.Test(t)
	module := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const source = "package p\n\nfunc Add(a, b int) int { return a + b }\n"
	write("go.mod", "module p\n\ngo 1.26\n")
	write("p.go", source)
	write("p_test.go", "package p\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 1) != 3 {\n\t\tt.Fail()\n\t}\n}\n")
	for name, tc := range map[string]struct {
		body string
		want verdict
		by   string
	}{
		"as it is":   {"return a + b", "", ""},
		"wrong":      {"return a - b", killed, "TestAdd"},
		"no program": {"return a +", notCompiled, "the compiler"},
		"hangs":      {"select {}", killed, "a time-out"},
	} {
		tr := &trial{gocmd: "go", module: module, scratch: t.TempDir(), timeout: 2 * time.Second}
		overlay, err := tr.overlay("p.go", []byte(strings.Replace(source, "return a + b", tc.body, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if v, by := tr.fails(t.Context(), suite{"."}, "-overlay", overlay); v != tc.want || by != tc.by {
			t.Errorf("%s: %q by %q, want %q by %q", name, v, by, tc.want, tc.by)
		}
	}
	if now, err := os.ReadFile(filepath.Join(module, "p.go")); err != nil || string(now) != source {
		t.Errorf("the tree was changed: %s, %v", now, err)
	}
}
