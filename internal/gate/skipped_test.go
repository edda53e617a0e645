// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
)

// A hunt runs a test of .ci/run in the tier of that. It leaves out what is for a soak, and does not count a test that skipped.
func TestHunt_tiers_andWhatSkipped(t *testing.T) {
	needs.Test(t)
	repository(t, map[string]string{
		"internal/needs/needs.go": `package needs
import ("os"; "testing")
func CI(t *testing.T) { if os.Getenv("REDLOCK_TIER") != "ci" { t.Skip("runs in .ci/run") } }
func Soak(t *testing.T) { t.Skip("runs in make soak") }
`,
		"a/a_test.go": `package a
import ("testing"; "` + module + `/internal/needs")
func TestCI(t *testing.T) { needs.CI(t); t.Error("judged") }
func TestLong(t *testing.T) { needs.Soak(t) }
func TestPlain(t *testing.T) {}
func TestSkips(t *testing.T) { t.Skip("no such thing here") }
`,
		"a/testdata/seeds": "TestCI 1\nTestLong 1\nTestPlain 1\nTestSkips 1\n",
	})
	g, err := open(io.Discard)
	must(t, err)
	if green, err := g.hunt(t.Context(), options{budget: time.Nanosecond}); green || err != nil {
		t.Errorf("without time it is green: %t, %v", green, err)
	}
	var out bytes.Buffer
	g, err = open(&out)
	must(t, err)
	unjudged := map[string]string{}
	var names []string
	for _, f := range g.random("") {
		names = append(names, f.Name)
		fault, err := g.huntOnce(t.Context(), f, unjudged)
		must(t, err)
		if fault != (f.Name == "TestCI") {
			t.Errorf("%s: a fault: %v", f.Name, fault)
		}
	}
	if !slices.Equal(names, []string{"TestCI", "TestPlain", "TestSkips"}) || !strings.Contains(out.String(), "left out: TestLong of ./a is for a soak\n") {
		t.Errorf("hunted %q", names)
	}
	if len(unjudged) != 1 || unjudged["./a TestSkips"] != "no such thing here" {
		t.Errorf("not judged: %q", unjudged)
	}
	if !strings.Contains(out.String(), " REDLOCK_TIER=ci go test -count=1 -run '^TestCI$' ./a\n") {
		t.Errorf("said %s", &out)
	}
}

// A part of a soak that only skipped has shown nothing: it has not passed, and runs again the next time.
func TestSoakPart_onlySkips_hasNotPassed(t *testing.T) {
	needs.Test(t)
	repository(t, map[string]string{"a/a_test.go": mixed})
	g, err := open(io.Discard)
	must(t, err)
	dir := t.TempDir()
	for _, test := range []struct {
		name, says string
		passed     bool
	}{
		{"TestSkips", "skipped        TestSkips: nothing was judged (no such thing here)", false},
		{"TestGood", "passed         TestGood, ", true},
		{"TestAbsent", "skipped        TestAbsent: nothing was judged (no test ran)", false},
	} {
		note, err := g.soakPart(t.Context(), part{test.name, 1, goTest(needs.TierSoak, "-run", "^"+test.name+"$", "./a")}, time.Minute, options{dir: dir})
		must(t, err)
		if _, err := os.Stat(filepath.Join(dir, test.name+".passed")); !strings.HasPrefix(note, test.says) || (err == nil) != test.passed {
			t.Errorf("%q, and the mark of a part that passed: %v", note, err)
		}
	}
}
