// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == spinWord { // flaky starts its own program
		spin()
	}
	goleak.VerifyTestMain(m)
}

// repository writes a small repository that stands for ours and makes it the working folder.
func repository(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module " + module + "\n\ngo 1.25\n"
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv(needs.TierVar, "")
}

// What tests a package of the root in a module of its own runs with the root; what depends on a server runs with the oldest libraries.
func TestStages_nestedModules_andOldestLibraries(t *testing.T) {
	repository(t, map[string]string{
		"a/a_test.go":              "package a\n\nimport \"testing\"\n\nfunc TestServer(t *testing.T) { needs.EveryServer(t) }\n",
		"a/internal/sql/go.mod":    "module sql\n",
		"a/internal/sql/s_test.go": "package sql\n\nimport \"testing\"\n\nfunc TestSQL(t *testing.T) {}\n",
		"own/go.mod":               "module own\n",
		"own/own_test.go":          "package own\n\nimport \"testing\"\n\nfunc TestOwn(t *testing.T) {}\n",
	})
	servers := t.TempDir()
	for _, name := range []string{"redis-6.2", "redis-8.0", "valkey-8.1"} {
		must(t, os.MkdirAll(filepath.Join(servers, name), 0o755))
		must(t, os.WriteFile(filepath.Join(servers, name, "redis-server"), []byte("#!/bin/sh\n"), 0o755))
	}
	t.Setenv(needs.ServersVar, servers)
	g, err := open(io.Discard)
	must(t, err)
	all := func(groups [][]stage) (commands []string) {
		for _, s := range slices.Concat(groups...) {
			for _, c := range s.commands {
				rel, _ := filepath.Rel(g.root, c.dir)
				commands = append(commands, s.name+": "+rel+" "+strings.Join(c.env, " ")+" "+strings.Join(c.args, " "))
			}
		}
		return commands
	}
	count := func(commands []string, parts ...string) (n int) {
		for _, c := range commands {
			if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(c, p) }) {
				n++
			}
		}
		return n
	}
	test := all(g.testStages())
	if count(test, "go test", "-race", "./a/internal/sql/...") != 1 || count(test, "own") != 0 {
		t.Errorf("make test: %s", strings.Join(test, "\n"))
	}
	groups, err := g.ciStages()
	must(t, err)
	ci := all(groups)
	if count(ci, "nested modules: own ", "go test") != 1 || count(ci, "a/internal/sql") != 0 {
		t.Errorf("nested modules of .ci/run: %s", strings.Join(ci, "\n"))
	}
	if count(ci, "go test", "./a", "GOWORK=off", "PATH="+servers) != 3 || count(ci, "go list", "GOWORK=off") != 1 {
		t.Errorf("servers of .ci/run: %s", strings.Join(ci, "\n"))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestGate_badCalls_exit2(t *testing.T) {
	repository(t, map[string]string{"a/a_test.go": "package a\n"})
	for _, test := range []struct{ args, err string }{
		{"", "want one of test, compile, ci"},
		{"fast", `"fast": want one of test, compile, ci`},
		{"flaky -tier fast", `REDLOCK_TIER="fast": no such tier`},
		{"flaky -tier soak", "soak is not a tier that runs as one"},
		{"flaky -n 0", "want at least 1"},
		{"test ./a", `"./a": want flags only after test`},
		{"hunt -budget tomorrow", "invalid value"},
		{"hunt -only nobody", "no random test has \"nobody\""},
	} {
		var out bytes.Buffer
		code, err := run(t.Context(), strings.Fields(test.args), &out)
		if code != 2 || err == nil || !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: code %d, %v, want %q", test.args, code, err, test.err)
		}
	}
}

func TestGate_badSeedList_exit2AndItsLine(t *testing.T) {
	repository(t, map[string]string{"a/a_test.go": "package a\n", "a/testdata/seeds": "TestA 1\nTestA one\n"})
	code, err := run(t.Context(), []string{"test"}, &bytes.Buffer{})
	if code != 2 || err == nil || !strings.Contains(err.Error(), `a: testdata/seeds:2: "one" is no seed of TestA`) {
		t.Errorf("code %d, %v", code, err)
	}
}

func TestGate_serverMissingButRequired_exit2(t *testing.T) {
	repository(t, map[string]string{"a/a_test.go": "package a\n"})
	t.Setenv(needs.RequireVar, "servers")
	t.Setenv(needs.ServersVar, t.TempDir())
	code, err := run(t.Context(), []string{"ci"}, &bytes.Buffer{})
	if code != 2 || err == nil || !strings.Contains(err.Error(), "server redis-6.2 is missing") || !strings.Contains(err.Error(), ".ci/servers") {
		t.Errorf("code %d, %v", code, err)
	}
}

const mixed = `package a
import ("testing"; "os")
func TestGood(t *testing.T) { t.Run("seed=7", func(t *testing.T) {}) }
func TestSkips(t *testing.T) { t.Skip("no such thing here") }
func TestBad(t *testing.T) { t.Run("part", func(t *testing.T) { if os.Getenv("GOOD") == "" { t.Error("this is why") } }) }
`

// A run with a failed test, a package that does not build and one that breaks off is red, and says each.
func TestGate_quick_countsAndSays(t *testing.T) {
	needs.Test(t)
	repository(t, map[string]string{
		"a/a_test.go": mixed,
		"b/b_test.go": "package b\n\nvar x int = \"no number\"\n",
		"c/c_test.go": "package c\n\nimport (\"os\"; \"testing\")\n\nfunc TestEnds(t *testing.T) { os.Exit(3) }\n",
	})
	var out bytes.Buffer
	code, err := run(t.Context(), []string{"quick"}, &out)
	if code != 1 || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
	for _, want := range []string{"this is why", "no number", "no such thing here", "a TestBad/part\n", "quick: RED", "\n1 passed, "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
	t.Setenv("GOOD", "1")
	for _, name := range []string{"b", "c"} {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
	out.Reset()
	if code, err := run(t.Context(), []string{"quick"}, &out); code != 0 || err != nil || !strings.Contains(out.String(), "\n2 passed, 0 failed, 1 skipped\n") {
		t.Errorf("code %d, %v: %s", code, err, &out)
	}
}

// A test that is red in one run of three is listed with the log of that run.
func TestFlaky_listsWhatWasEverRed(t *testing.T) {
	needs.Test(t)
	repository(t, map[string]string{"a/a_test.go": `package a
import ("testing"; "os")
func TestSometimes(t *testing.T) {
	runs, _ := os.ReadFile("runs")
	_ = os.WriteFile("runs", append(runs, '.'), 0o644)
	if len(runs) == 1 { t.Error("red") }
}
`})
	var out bytes.Buffer
	code, err := run(t.Context(), strings.Fields("flaky -n 3 -load 1 -tier quick"), &out)
	if code != 1 || err != nil || !strings.Contains(out.String(), "red 1 of 3  a TestSometimes") || !strings.Contains(out.String(), "run-02.log") {
		t.Errorf("code %d, %v: %s", code, err, &out)
	}
	log, err := os.ReadFile(filepath.Join("flaky", "run-02.log"))
	if err != nil || !strings.Contains(string(log), "quick: RED") {
		t.Errorf("%v: %s", err, log)
	}
}

// A limit is a context whose deadline comes once a text was written to it.
type limit struct {
	context.Context
	bytes.Buffer
	until string
	over  chan struct{}
	end   func() // closes over
}

func limitedBy(ctx context.Context, until string) *limit {
	l := &limit{Context: ctx, until: until, over: make(chan struct{})}
	l.end = sync.OnceFunc(func() { close(l.over) })
	return l
}

func (l *limit) Write(b []byte) (int, error) {
	n, err := l.Buffer.Write(b)
	if bytes.Contains(l.Bytes(), []byte(l.until)) {
		l.end()
	}
	return n, err
}

func (l *limit) Done() <-chan struct{} { return l.over }

func (l *limit) Err() error {
	select {
	case <-l.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A hunt prints the seed that failed, its command and the line for the list.
func TestHunt_saysWhichSeedFailed(t *testing.T) {
	needs.Test(t)
	repository(t, map[string]string{
		"a/a_test.go":      "package a\n\nimport (\"os\"; \"testing\")\n\nfunc TestRandom(t *testing.T) { t.Error(os.Getenv(\"REDLOCK_SEED\")) }\n\nfunc TestOther(t *testing.T) {}\n",
		"a/testdata/seeds": "TestRandom 1\n",
	})
	out := limitedBy(t.Context(), "name the fault here")
	g, err := open(out)
	if err != nil {
		t.Fatal(err)
	}
	green, err := g.hunt(out, options{budget: 5 * time.Minute}) // time for a seed that fails, compiler and all
	if green || err != nil {
		t.Errorf("green %v, %v", green, err)
	}
	_, after, ok := strings.Cut(out.String(), "\nseed ")
	seed, _, _ := strings.Cut(after, ":")
	if !ok || !strings.Contains(after, "REDLOCK_SEED="+seed+" REDLOCK_TIER=test go test -count=1 -run '^TestRandom$' ./a") ||
		!strings.Contains(after, "TestRandom "+seed+" name the fault") {
		t.Errorf("said %s", out.String())
	}
}

// A package breaks off in one test after another has failed: both are shown, and the package is red beside the test.
func TestResults_packageBreaksOff_showsWhatHadNotEnded(t *testing.T) {
	var out bytes.Buffer
	r := newResults(&out)
	for _, e := range []event{
		{Action: "output", Test: "TestRed", Output: "red: it failed\n"}, {Action: "fail", Test: "TestRed"},
		{Action: "output", Test: "TestHangs", Output: "hangs: its goroutines\n"}, {Action: "fail"},
	} {
		e.Package = module + "/a"
		r.add("stage", e)
	}
	if got := r.reds(); !slices.Equal(got, []string{"a", "a TestRed"}) || !strings.Contains(out.String(), "hangs: its goroutines") {
		t.Errorf("red %q: %s", got, &out)
	}
}

// A test of many short runs fails at a seed after the one that was drawn, and names it.
func TestHunt_culprit_isTheSeedThatTheTestNames(t *testing.T) {
	r := newResults(io.Discard)
	if got := r.culprit(7); got != 7 {
		t.Errorf("nothing is red: %d", got)
	}
	r.red["a TestA"] = "--- FAIL: TestA\n    replay.go:130: replay: REDLOCK_SEED=18446744073709551615 go test -count=1 -run '^TestA$' ./a # go1.26.8\n"
	if got := r.culprit(7); got != 1<<64-1 {
		t.Errorf("the test names its seed: %d", got)
	}
	r.red["a TestA"] = "--- FAIL: TestA\n    replay: REDLOCK_SEED=99999999999999999999 go test\n"
	if got := r.culprit(7); got != 7 {
		t.Errorf("a seed that is no number of 64 bits: %d", got)
	}
}

func TestRunsIn_whatReplaySays(t *testing.T) {
	const said = "    replay.go:158: 45 runs\n    minhold_test.go:206: 7 runs\n    month_sim_test.go:80: 23h10m5.5s of 720h0m0s\n    replay.go:158: 1 runs\n"
	if got := runsIn(said); got != ", 45 runs, 23h10m5.5s of 720h0m0s, 1 runs" {
		t.Errorf("%q", got)
	}
}

// A soak that has no time says what it did not reach.
func TestSoak_saysWhatItDidNotReach(t *testing.T) {
	repository(t, map[string]string{"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestLong(t *testing.T) { needs.InSoak(t) }\n"})
	var out bytes.Buffer
	if _, err := run(t.Context(), strings.Fields("soak -budget 1s"), &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("soak", "report.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not reached    chaos-default-none", "not reached    a-Long", "not reached    mutation", "not reached    hunt"} {
		if !strings.Contains(string(text), want) || !strings.Contains(out.String(), want) {
			t.Errorf("does not say %q: %s", want, text)
		}
	}
}
