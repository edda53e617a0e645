// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
)

const stalls = `package a
import ("testing"; "os")
const again = "try 2 failed while it was held up for 9s, more than its margin of 1s` + stall.AloneText + `"
func held(t *testing.T) { if os.Getenv("` + stall.TriesVar + `") == "` + stall.FirstTries + `" { t.Fatal(again) } }
func TestHeld(t *testing.T) { t.Run("part", func(t *testing.T) { t.Run("seed=1", held) }); t.Run("fine", func(*testing.T) {}) }
func TestWhole(t *testing.T) { held(t) }
func TestBoth(t *testing.T) { t.Run("held", held); t.Run("wrong", func(t *testing.T) { if os.Getenv("GOOD") == "" { t.Error("no") } }) }
func TestStill(t *testing.T) { t.Run("x", func(t *testing.T) { if os.Getenv("GOOD") == "" { t.Fatal(again) } }) }
`

// What was held up runs again when all else has ended. A failure counts that was not held up, or that is there again.
func TestGate_heldUp_runsAgainAlone(t *testing.T) {
	needs.Test(t)
	for _, test := range []struct {
		good string
		reds []string
	}{{"1", nil}, {"", []string{"a TestBoth/wrong", "a TestStill/x"}}} {
		repository(t, map[string]string{"a/a_test.go": stalls})
		t.Setenv("GOOD", test.good)
		var out bytes.Buffer
		code, err := run(t.Context(), []string{"quick"}, &out)
		must(t, err)
		_, list, _ := strings.Cut(out.String(), "\nred:\n")
		for _, name := range []string{"TestHeld", "TestWhole"} {
			if !strings.Contains(out.String(), "tried again alone: a "+name+"\n") {
				t.Errorf("%s was not tried again", name)
			}
			if strings.Contains(list, name) {
				t.Errorf("%s is red", name)
			}
		}
		if again := strings.Contains(out.String(), "tried again alone: a TestBoth\n"); again != (test.good != "") {
			t.Errorf("TestBoth was tried again: %v", again)
		}
		for _, red := range test.reds {
			if !strings.Contains(list, "        "+red+"\n") {
				t.Errorf("%s is not red", red)
			}
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

func TestOnly_commands(t *testing.T) {
	for _, test := range []struct {
		c    command
		want string
	}{
		{goTest(needs.TierTest, "-race", "-p", "3", "-parallel", "4", "./redlock", "./..."), "-timeout 20m -race -parallel 1 -run ^TestA$ m/a"},
		{goTest(needs.TierTest, "-p", "1", "-tags", "mutants", "-run", "^(TestA|TestB)$", "./a", "./b").nice(), "-timeout 20m -tags mutants -parallel 1 -run ^TestA$ m/a"},
	} {
		got := test.c.only("m/a", "TestA")
		if text := strings.Join(got.args, " "); !strings.HasPrefix(text, "go test -json ") || !strings.HasSuffix(text, test.want) {
			t.Errorf("%s", text)
		}
		if !slices.Contains(got.env, stall.TriesVar+"="+stall.LastTry) {
			t.Errorf("%s", got.env)
		}
	}
}
