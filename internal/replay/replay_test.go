// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
)

var failing = flag.Bool("failing", false, "TestFails fails with seed 11")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFails fails when TestCommand_failsAgain wants it to.
func TestFails(t *testing.T) {
	t.Run("with (a name)", func(t *testing.T) {
		Each(t, func(t *testing.T, seed uint64) {
			if *failing && seed != 7 {
				t.Errorf("seed %d, tier %q", seed, os.Getenv(needs.TierVar))
			}
		})
	})
}

// The printed command builds and runs the same test with the same seed, whatever the first command had.
func TestCommand_failsAgain(t *testing.T) {
	needs.Test(t)
	run := func(command string) (failure, again string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = "../.."
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, needs.TierVar+"=") }), SeedVar+"=")
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("%s passed: %s", command, out)
		}
		for line := range strings.Lines(string(out)) {
			if _, s, ok := strings.Cut(line, "replay: "); ok {
				again = strings.TrimSpace(s)
			}
			if _, s, ok := strings.Cut(line, ": seed "); ok {
				failure = s
			}
		}
		return failure, again
	}
	for _, first := range []string{
		"go test -run TestFails ./internal/replay -failing",
		needs.TierVar + "=soak go test -tags mutants,x -run TestFails ./internal/replay -failing",
	} {
		failure, again := run(first)
		failure2, again2 := run(again)
		if failure == "" || failure != failure2 || again != again2 {
			t.Errorf("%s\nfailed with %qand printed\n%s\nwhich failed with %qand printed\n%s", first, failure, again, failure2, again2)
		}
		if strings.Contains(first, "-tags") != strings.Contains(again, "-tags=mutants,x") || !strings.HasPrefix(again, SeedVar+"=11 ") {
			t.Errorf("%s became %s", first, again)
		}
	}
}

func TestParseList_table(t *testing.T) {
	for _, test := range []struct{ text, err string }{
		{"# nothing\n\nTestA 1\nTestA 18446744073709551615 a fault\nTestB 1\n", ""},
		{"TestA\n", `testdata/seeds:1: "TestA" is no seed`},
		{"\n17 TestA\n", `testdata/seeds:2: "17 TestA" is no seed`},
		{"TestA 1\nTestA -1\n", `testdata/seeds:2: "-1" is no seed of TestA`},
		{"TestA 18446744073709551616\n", `testdata/seeds:1: "18446744073709551616" is no seed of TestA`},
		{"TestA 1\nTestA 1 again\n", `testdata/seeds:2: seed 1 of TestA is there twice`},
	} {
		lines, err := ParseList(test.text)
		if test.err == "" && (err != nil || !slices.Equal(lines, []Line{{"TestA", 1, ""}, {"TestA", 1<<64 - 1, "a fault"}, {"TestB", 1, ""}})) {
			t.Errorf("%q: %v, %v", test.text, lines, err)
		}
		if test.err != "" && (err == nil || !strings.HasPrefix(err.Error(), test.err)) {
			t.Errorf("%q: %v, want %s", test.text, err, test.err)
		}
	}
}

// spy is a test that keeps what it says last.
type spy struct {
	testing.TB
	name, said string
	failed     bool
	cleanups   []func()
}

func (s *spy) Helper()                   {}
func (s *spy) Name() string              { return s.name }
func (s *spy) Failed() bool              { return s.failed }
func (s *spy) Cleanup(f func())          { s.cleanups = append(s.cleanups, f) }
func (s *spy) Logf(f string, a ...any)   { s.said = fmt.Sprintf(f, a...) }
func (s *spy) Fatal(a ...any)            { s.Fatalf("%s", fmt.Sprint(a...)) }
func (s *spy) Fatalf(f string, a ...any) { s.Logf(f, a...); s.failed = true; runtime.Goexit() }

// in runs f with s, as a test is run: a Fatal ends it, and then it cleans up.
func (s *spy) in(f func(*spy)) *spy {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, c := range s.cleanups {
				c()
			}
		}()
		f(s)
	}()
	<-done
	return s
}

func TestSeeds_tableOfLists(t *testing.T) {
	for _, test := range []struct {
		name, list, one string // no list: ""
		want            []uint64
		err             string
	}{
		{"its lines", "TestA 7\nTestB 8\nTestA 9 a fault\n", "", []uint64{7, 9}, ""},
		{"one seed instead", "TestA 7\n", "3", []uint64{3}, ""},
		{"one seed and no list", "", "3", []uint64{3}, ""},
		{"one that is no seed", "TestA 7\n", "three", nil, `REDLOCK_SEED="three": want a number from 0 to 2^64-1`},
		{"no list", "", "", nil, "TestA is a random test and its package has no list of seeds: open testdata/seeds"},
		{"no line", "TestB 7\n", "", nil, "testdata/seeds has no line for TestA: add one, for example\nTestA "},
		{"a line that is no seed", "TestB 1\nTestA x\n", "", nil, `testdata/seeds:2: "x" is no seed of TestA`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv(SeedVar, test.one)
			if test.list != "" {
				if err := errors.Join(os.Mkdir("testdata", 0o755), os.WriteFile(List, []byte(test.list), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			var got []uint64
			s := (&spy{TB: t, name: "TestA/sub"}).in(func(s *spy) { got = Seeds(s) })
			if !slices.Equal(got, test.want) || !strings.HasPrefix(s.said, test.err) || s.failed != (test.err != "") {
				t.Errorf("%v, %q, want %v, %q", got, s.said, test.want, test.err)
			}
			if Listed() != (test.one == "") {
				t.Errorf("listed %v", Listed())
			}
		})
	}
}

func TestMany_listThenTheNext_reportsTheOneThatFailed(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(SeedVar, "")
	if err := errors.Join(os.Mkdir("testdata", 0o755), os.WriteFile(List, []byte("TestA 7\nTestA 100 a fault\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		n    int
		one  string
		fail uint64
		end  bool // by Goexit
		want []uint64
	}{
		{1, "", 0, false, []uint64{7, 100}},
		{4, "", 0, false, []uint64{7, 100, 8, 9}},
		{3, "18446744073709551615", 0, false, []uint64{1<<64 - 1, 0, 1}},
		{4, "", 8, false, []uint64{7, 100, 8}},
		{4, "", 100, true, []uint64{7, 100}},
	} {
		t.Setenv(SeedVar, test.one)
		var got []uint64
		s := (&spy{TB: t, name: "TestA/sub"}).in(func(s *spy) {
			for seed := range Many(s, test.n) {
				if got = append(got, seed); seed == test.fail && seed != 0 {
					if s.failed = true; test.end {
						s.Fatal("it ends")
					}
				}
			}
		})
		report := ""
		if test.fail != 0 {
			report = fmt.Sprintf("replay: %s=%d ", SeedVar, test.fail)
		}
		if !slices.Equal(got, test.want) || !strings.HasPrefix(s.said, report) || report == "" && s.said != "" {
			t.Errorf("%d from %q: %v, want %v; it said %q", test.n, test.one, got, test.want, s.said)
		}
	}
	for _, test := range []struct {
		one        string
		most, till int
		want       []uint64
	}{
		{"", 9, 1, []uint64{7, 100}},
		{"", 9, 4, []uint64{7, 100, 8, 9}},
		{"", 3, 4, []uint64{7, 100, 8}},
		{"5", 9, 4, []uint64{5}},
	} {
		t.Setenv(SeedVar, test.one)
		if got := slices.Collect(Until(&spy{TB: t, name: "TestA"}, test.most, func(runs int) bool { return runs >= test.till })); !slices.Equal(got, test.want) {
			t.Errorf("until %d of %d from %q: %v, want %v", test.till, test.most, test.one, got, test.want)
		}
	}
	t.Setenv(SeedVar, "")
	s := (&spy{TB: t, name: "TestA"}).in(func(s *spy) {
		for range Many(s, 4) {
		}
		s.failed = true // of all together
	})
	if s.said != "" {
		t.Errorf("blames a seed: %q", s.said)
	}
}
