// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

func parse(t *testing.T, s string, p cluster.Persistence) []nemesis.Nemesis {
	t.Helper()
	ns, err := nemesis.Parse(s, func(n nemesis.Nemesis) string {
		return n.Lacks(nemesis.Have{Persistence: p, Other: true, Servers: true})
	})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// timed are the checkers that a machine can break that was held up: left-behind allows a release 300 ms, for one.
var timed = []string{"healed", "effort", "left-behind", "signals", "queue-order", "availability"}

// held does a run and fails on a violation. A run that the machine held up, and in which only timed checkers found something, is done again.
func held(t *testing.T, cfg Config) (res *Result) {
	t.Helper()
	stall.Try(t, 200*time.Millisecond, func(try testing.TB) {
		res = heldOnce(try, cfg)
		untimed(t, res)
	})
	return res
}

// untimed reports what no stall excuses.
func untimed(t *testing.T, res *Result) {
	t.Helper()
	for _, v := range res.Violations {
		if !slices.Contains(timed, v.Checker) {
			t.Errorf("%s: %s", v.Checker, v.Detail)
		}
	}
}

func heldOnce(t testing.TB, cfg Config) *Result {
	t.Helper()
	t.Logf("seed %d", cfg.Seed)
	ctx, cancel := context.WithTimeout(t.Context(), cfg.Duration+5*time.Minute)
	defer cancel()
	t.Setenv(EvidenceVar, cmp.Or(os.Getenv(EvidenceVar), os.TempDir()))
	t.Setenv("TMPDIR", t.TempDir())
	cfg.Out = t.Output()
	var out Outcome
	cfg.Report = func(o Outcome) error {
		out = o
		sameFromFile(t, o)
		if o.Result.Held() {
			return nil
		}
		evidence, err := EvidenceDir(cfg.Seed)
		if err != nil {
			return err
		}
		t.Logf("evidence: %s", evidence)
		return o.Keep(evidence)
	}
	res, err := Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	j, _ := json.Marshal(res)
	t.Logf("%s", j)
	for _, v := range res.Violations {
		t.Errorf("%s: %s", v.Checker, v.Detail)
	}
	if checks := out.Checks; len(checks) != 16 || res.Held() != judge.Passed(checks) {
		t.Errorf("%d checks, passed %v, and the result says held %v", len(checks), judge.Passed(checks), res.Held())
	}
	nothingLeft(t)
	return res
}

func nothingLeft(t testing.TB) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// What CI's runs against real masters must do together to mean something.
const (
	leastAcquisitions = 10_000 // while a fault was at work
	leastFaults       = 100
)

// Shorter than by default: more faults in the same time.
const ttl, maxTTL = 400 * time.Millisecond, 700 * time.Millisecond

// Every promise holds on real masters under faults, with the race detector too.
func TestRun_someNemeses_holds(t *testing.T) {
	needs.Redis(t)
	needs.Test(t)
	held(t, Config{Driver: cluster.Process, Persistence: cluster.EverySec, Duration: 4 * time.Second, Seed: 1, AtOnce: 3, TTL: ttl, MaxTTL: maxTTL,
		Nemeses: parse(t, "kill-minority,freeze-masters,freeze-client,kill-client,partition,reorder,cut-replies", cluster.EverySec)})
}

// Every nemesis strikes, in this run or that, and every promise holds.
func TestRun_everyNemesis_holds(t *testing.T) {
	needs.NoRace(t, "the race detector leaves a tenth of the speed: TestRun_someNemeses_holds has it")
	needs.Test(t) // three quarters of a minute
	needs.Redis(t)
	replay.Each(t, everyNemesisHolds)
}

func everyNemesisHolds(t *testing.T, seed uint64) {
	other, programs := otherBuild(t), twoPrograms(t)
	sum, faults := 0, 0
	var done []*Result
	tests := []struct {
		name, nemeses string
		cfg           Config
	}{
		{"docker", "kill-minority,kill-majority,wipe-minority,wipe-majority,freeze-masters,freeze-client,kill-client,partition,reorder,cut-replies,slow-replies,flush-data,fill-memory,change-policy,fail-over,administer,misconfigure,waiter-storm", Config{Driver: cluster.Docker, Duration: 12 * time.Second, Seed: seed + 1}},
		{"tokens", "step-clock,step-quorum,skew-clocks,delete-lock,three-at-once", Config{Driver: cluster.Process, Persistence: cluster.EverySec, Duration: 6 * time.Second, Seed: seed + 2}},
		{"process", "default", Config{Driver: cluster.Process, Persistence: cluster.EverySec, Duration: 12 * time.Second, Seed: seed}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.cfg.Driver == cluster.Docker {
				needs.Docker(t)
			}
			cfg := test.cfg
			cfg.AtOnce, cfg.TTL, cfg.MaxTTL, cfg.Other = 3, ttl, maxTTL, other
			if i == len(tests)-1 {
				cfg.Servers = programs
				if replay.Listed() && len(done) == i { // else the runs together need not mean something
					// How much is done in a time depends on the machine.
					cfg.LeastLocks, cfg.LeastFaults = leastAcquisitions-sum, leastFaults-faults
				}
			}
			cfg.Nemeses = parse(t, test.nemeses, cfg.Persistence)
			res := held(t, cfg)
			sum += res.UnderFaults
			for _, n := range res.Faults {
				faults += n
			}
			done = append(done, res)
		})
	}
	if len(done) == len(tests) && replay.Listed() {
		for _, what := range tooLittle(done, leastAcquisitions, leastFaults) {
			t.Errorf("the runs together mean nothing: %s", what)
		}
	}
}

// twoPrograms returns the redis-server in PATH, and a link to it, for upgrade-server. make ci has programs of several versions.
func twoPrograms(t *testing.T) []string {
	t.Helper()
	path, _, err := localredis.Find()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "redis-server")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	return []string{path, link}
}

// tooLittle says what runs did not do enough of, by locks granted under faults, faults, and nemeses that strike real masters.
func tooLittle(rs []*Result, acquisitions, faults int) (what []string) {
	sum, struck := 0, map[string]int{}
	total := 0
	for _, r := range rs {
		sum += r.UnderFaults
		for n, times := range r.Faults {
			struck[n] += times
			total += times
		}
	}
	if sum < acquisitions {
		what = append(what, fmt.Sprintf("%d locks granted under faults, want %d", sum, acquisitions))
	}
	if total < faults {
		what = append(what, fmt.Sprintf("%d faults, want %d", total, faults))
	}
	for _, n := range nemesis.Table() {
		if n.Elsewhere == "" && struck[n.Name] == 0 {
			what = append(what, n.Name+" never struck")
		}
	}
	return what
}

func TestTooLittle_saysWhatIsMissing(t *testing.T) {
	enough := func() []*Result {
		a, b := &Result{UnderFaults: 60, Faults: map[string]int{}}, &Result{UnderFaults: 40, Faults: map[string]int{"kill-minority": 10}}
		for _, n := range nemesis.Table() {
			if n.Elsewhere == "" {
				a.Faults[n.Name] = 1
			}
		}
		return []*Result{a, b}
	}
	if what := tooLittle(enough(), 100, 38); len(what) > 0 {
		t.Errorf("enough, and it says %q", what)
	}
	for want, change := range map[string]func([]*Result){
		"99 locks granted under faults, want 100": func(rs []*Result) { rs[0].UnderFaults--; rs[0].Acquisitions++ },
		"37 faults, want 38":                      func(rs []*Result) { rs[1].Faults["kill-minority"]-- },
		"freeze-masters never struck":             func(rs []*Result) { delete(rs[0].Faults, "freeze-masters"); rs[1].Faults["kill-minority"]++ },
	} {
		rs := enough()
		change(rs)
		if what := tooLittle(rs, 100, 38); !slices.Equal(what, []string{want}) {
			t.Errorf("it says %q, want %q", what, want)
		}
	}
	if what := tooLittle(nil, 1, 1); len(what) < 25 {
		t.Errorf("nothing was run, and it says %q", what)
	}
}

// A run that was asked for more faults than it could inject has not done enough, and the file says so too.
func TestRun_leastFaultsMissed_effort(t *testing.T) {
	needs.Redis(t)
	needs.Test(t)
	t.Setenv("TMPDIR", t.TempDir())
	limit := graceTime
	graceTime = 0
	defer func() { graceTime = limit }()
	var again string
	res, err := Run(t.Context(), Config{
		Driver: cluster.Process, Masters: 3, Clients: 2, Duration: time.Second, Seed: 3, Nemeses: parse(t, "kill-client", cluster.None), LeastFaults: 1000,
		Report: func(o Outcome) error {
			var file bytes.Buffer
			if err := history.Copy(&file, o.History); err != nil {
				return err
			}
			h, err := history.Read("again", &file)
			if err == nil {
				again = judge.Effort(h, judge.Minimums{}).Summary
			}
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, v := range res.Violations {
		if v.Checker == "effort" {
			said += v.Detail
		}
		if v.Checker == "harness" {
			t.Errorf("the run did not come to its end: %s", v.Detail)
		}
	}
	for _, said := range []string{said, again} {
		if !strings.Contains(said, "faults that struck: ") || !strings.Contains(said, ", want at least 1000") {
			t.Errorf("it says %q", said)
		}
	}
}

// Whatever a run breaks off with, nothing may stay.
func TestRun_interrupted_leavesNothing(t *testing.T) {
	needs.Redis(t)
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	res, err := Run(ctx, Config{
		Driver: cluster.Process, Duration: time.Minute, Seed: 3, Nemeses: parse(t, "kill-minority,freeze-masters,freeze-client", cluster.None),
		Progress: func(Progress) {
			if seen++; seen == 5 {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) || res != nil {
		t.Errorf("got %v, %v, want no result and the context's error", res, err)
	}
	nothingLeft(t)
}

// A client that crashes ends the run. What was recorded until then is judged, and the logs are kept.
func TestRun_clientCrashes_judgesWhatIsThere(t *testing.T) {
	needs.Linux(t, "finds the client by /proc")
	needs.Redis(t)
	t.Setenv("TMPDIR", t.TempDir())
	var out Outcome
	seen := 0
	res, err := Run(t.Context(), Config{
		Driver: cluster.Process, Masters: 3, Clients: 2, Duration: time.Minute, Seed: 3, Nemeses: parse(t, "reorder", cluster.None),
		Progress: func(p Progress) {
			if seen++; p.Granted > 100 && seen > 5 {
				crashClient(t)
			}
		},
		Report: func(o Outcome) error { out = o; sameFromFile(t, o); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	why := ""
	for _, v := range res.Violations {
		if v.Checker == "harness" {
			why = v.Detail
		}
	}
	if res.Held() || !strings.Contains(why, "client c") || !strings.Contains(why, "killed") {
		t.Errorf("held %v, because of %q", res.Held(), why)
	}
	if res.Acquisitions < 100 || len(out.Checks) != 16 {
		t.Errorf("%d locks and %d checks", res.Acquisitions, len(out.Checks))
	}
	for _, name := range []string{"n1", "n2", "n3", "registers-n1"} {
		if !bytes.Contains(out.Logs[name], []byte("Ready to accept connections")) {
			t.Errorf("log of %s: %q", name, out.Logs[name])
		}
	}
	nothingLeft(t)
}

// crashClient kills one client of this process's runs, if one is left.
func crashClient(t *testing.T) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) < 2 || f[0] == "Z" || f[1] != strconv.Itoa(os.Getpid()) || !bytes.Contains(environ, []byte("REDLOCK_CHAOS_CLIENT=1")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Log(err)
		}
		return
	}
}

// A run that did too little is no success.
func TestRun_tooLittle_fails(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	stall.Try(t, 200*time.Millisecond, func(try testing.TB) {
		res, err := Run(t.Context(), Config{
			Driver: cluster.Process, Masters: 3, Clients: 2, Duration: time.Second, Seed: 4, Min: &judge.Minimums{Acquisitions: 1e6},
		})
		if err != nil {
			t.Fatal(err)
		}
		untimed(t, res)
		if len(res.Violations) != 1 || res.Violations[0].Checker != "effort" {
			try.Errorf("violations %v, want one of effort", res.Violations)
		}
	})
}
