// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
)

const stalls = `package a
import ("testing"; "os")
const again = "try 2 failed while it was held up for 9s, more than its margin of 1s` + stall.AloneText + `"
var first, bad = os.Getenv("` + stall.TriesVar + `") == "` + stall.FirstTries + `", os.Getenv("GOOD") == ""
func held(t *testing.T) { if first { t.Skip(again) } }
func wrong(t *testing.T) { if bad && first { t.Error("exclusion") } }
func TestHeld(t *testing.T) { t.Run("part", func(t *testing.T) { t.Run("seed=1", held) }); t.Run("fine", func(*testing.T) {}) }
func TestWhole(t *testing.T) { held(t) }
func TestPart(t *testing.T) { t.Run("held", held); t.Run("wrong", wrong) }
func TestBefore(t *testing.T) { wrong(t); held(t) }
func TestAfter(t *testing.T) { t.Cleanup(func() { wrong(t) }); held(t) }
func TestAround(t *testing.T) { t.Run("held", held); wrong(t) }
func TestStill(t *testing.T) { t.Run("x", func(t *testing.T) { held(t); if bad { t.Fatal("no") } }) }
func TestAbsent(t *testing.T) {
	t.Run("skipped", func(t *testing.T) { held(t); if bad { t.Skip("gone meanwhile") } })
	name := "then"
	if bad && !first { name = "now" }
	t.Run(name, held)
}
`

// What was held up runs again when all else has ended, and of a test with parts no more than that. A failure counts that was not held up, beside the
// part that was, before it or after it; and one that is there again.
func TestGate_heldUp_runsAgainAlone(t *testing.T) {
	needs.Test(t)
	for _, test := range []struct {
		good string
		reds []string
	}{{"1", nil}, {"", []string{"c/a TestAbsent/skipped", "c/a TestAbsent/then", "c/a TestAfter", "c/a TestAround", "c/a TestBefore", "c/a TestPart/wrong", "c/a TestStill/x"}}} {
		repository(t, map[string]string{"c/a/a_test.go": stalls})
		t.Setenv("GOOD", test.good)
		var out bytes.Buffer
		code, err := run(t.Context(), []string{"quick"}, &out)
		must(t, err)
		for _, name := range []string{"TestHeld/part/seed=1", "TestWhole", "TestPart/held", "TestBefore", "TestAfter", "TestAround/held", "TestStill/x", "TestAbsent/skipped", "TestAbsent/then"} {
			again := strings.Contains(out.String(), "tried again alone: c/a "+name+"\n")
			wrong := slices.Contains([]string{"TestPart/held", "TestBefore", "TestAfter", "TestAround/held"}, name) && test.good == ""
			if again == wrong {
				t.Errorf("%s was tried again: %v", name, again)
			}
		}
		_, list, _ := strings.Cut(out.String(), "\nred:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		var reds []string
		for line := range strings.Lines(list) {
			reds = append(reds, strings.TrimSpace(line))
		}
		if !slices.Equal(reds, test.reds) {
			t.Errorf("red: %q, want %q", reds, test.reds)
		}
		if want := min(len(test.reds), 1); code != want {
			t.Errorf("code %d, want %d:\n%s", code, want, out.String())
		}
	}
}

// A machine that holds up everything judges nothing.
func TestGate_tooManyHeldUp_areRed(t *testing.T) {
	needs.Test(t)
	text := stalls
	for _, name := range "ABCDEFGH" {
		text += "func TestMore" + string(name) + "(t *testing.T) { held(t) }\n"
	}
	repository(t, map[string]string{"a/a_test.go": text})
	t.Setenv("GOOD", "1")
	var out bytes.Buffer
	code, err := run(t.Context(), []string{"quick"}, &out)
	must(t, err)
	if code != 1 || !strings.Contains(out.String(), "the machine is too busy to judge them") {
		t.Errorf("code %d:\n%s", code, out.String())
	}
}

// go test fails a test that is skipped and has a data race, and whatever else it failed for. That it was held up as well excuses nothing.
func TestResults_failedAndHeldUp_isRedAndNotTriedAgain(t *testing.T) {
	r := newResults(io.Discard)
	for _, e := range []event{
		{Action: "output", Test: "TestA", Output: "try 2 failed while it was held up for 9s" + stall.AloneText + "\n"},
		{Action: "output", Test: "TestA", Output: "    testing.go:1712: race detected during execution of test\n"},
		{Action: "fail", Test: "TestA"},
	} {
		e.Package = module + "/a"
		r.add("quick", e)
	}
	r.ran("quick", goTest(needs.TierQuick, "./..."))
	if again, reds := r.toRunAgain(), r.reds(); len(again) > 0 || !slices.Equal(reds, []string{"a TestA"}) {
		t.Errorf("to run again: %v; red: %q", again, reds)
	}
}

func TestOnly_commands(t *testing.T) {
	for _, test := range []struct {
		c    command
		want string
	}{
		{goTest(needs.TierTest, "-race", "-p", "3", "-parallel", "4", "./redlock", "./..."), "-timeout 20m -race -parallel 1 -run ^TestA$ m/a"},
		{nice([]command{goTest(needs.TierTest, "-p", "1", "-tags", "mutants", "-run", "^(TestA|TestB)$", "./a", "./b")})[0], "-timeout 20m -tags mutants -parallel 1 -run ^TestA$ m/a"},
	} {
		got := test.c.only("m/a", "TestA")
		if part := test.c.only("m/a", "TestA/1/a.b"); part.args[len(part.args)-2] != `^TestA$/^1$/^a\.b$` {
			t.Errorf("of a part: %s", part.args)
		}
		if text := strings.Join(got.args, " "); !strings.HasPrefix(text, "go test -json ") || !strings.HasSuffix(text, test.want) {
			t.Errorf("%s", text)
		}
		if !slices.Contains(got.env, stall.TriesVar+"="+stall.LastTry) {
			t.Errorf("%s", got.env)
		}
	}
}
