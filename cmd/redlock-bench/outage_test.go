// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/phases"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/termline"
)

const Mb = 1 << 20

// good is an outage in which everything holds.
func good() ([]*results.PhaseCell, *results.Outage) {
	row := func(phase string, heap uint64) *results.PhaseCell {
		return &results.PhaseCell{Phase: phase, Pairs: 1000, Median: 1000, Heap: heap, Goroutines: 78}
	}
	cells := []*results.PhaseCell{row(phases.Before, 100*Mb), row(phases.Killed, 108*Mb), row(phases.Returned, 109*Mb), row(phases.Frozen, 100*Mb), row(phases.After, 90*Mb)}
	for _, c := range cells[1:] {
		phases.RatioTo(c, cells[0])
	}
	voting, votes := 2.5, 4.0
	return cells, &results.Outage{Wait: 2.04, Voting: &voting, Votes: &votes, Owed: &results.Owed{}}
}

func TestJudge(t *testing.T) {
	late, never := 4.05, (*float64)(nil)
	for name, tc := range map[string]struct {
		spoil func(cells []*results.PhaseCell, res *results.Outage)
		want  []string
	}{
		"all well":            {func([]*results.PhaseCell, *results.Outage) {}, nil},
		"heap at the limit":   {func(c []*results.PhaseCell, _ *results.Outage) { c[1].Heap = 109 * Mb }, nil},
		"heap grows":          {func(c []*results.PhaseCell, _ *results.Outage) { c[1].Heap = 110 * Mb }, []string{"heap, killed: 110 MB; at most 109 are allowed"}},
		"heap stays":          {func(c []*results.PhaseCell, _ *results.Outage) { c[4].Heap = 1000 * Mb }, []string{"heap, after: 1,000 MB; at most 109"}},
		"two goroutines":      {func(c []*results.PhaseCell, _ *results.Outage) { c[3].Goroutines = 80 }, nil},
		"goroutines":          {func(c []*results.PhaseCell, _ *results.Outage) { c[3].Goroutines = 81 }, []string{"goroutines, frozen: 81; at most 80 are allowed"}},
		"many goroutines":     {func(c []*results.PhaseCell, _ *results.Outage) { c[0].Goroutines, c[3].Goroutines = 1000, 1010 }, nil},
		"slow":                {func(c []*results.PhaseCell, _ *results.Outage) { c[1].Median = 940; phases.RatioTo(c[1], c[0]) }, []string{"locks/s, killed: 0.94 of before; at least 0.95"}},
		"slow while frozen":   {func(c []*results.PhaseCell, _ *results.Outage) { c[3].Median = 0; phases.RatioTo(c[3], c[0]) }, []string{"locks/s, frozen: 0.00 of before"}},
		"slow while it waits": {func(c []*results.PhaseCell, _ *results.Outage) { c[2].Median = 500; phases.RatioTo(c[2], c[0]) }, nil},
		"votes late":          {func(_ []*results.PhaseCell, r *results.Outage) { r.Votes = &late }, []string{"votes counted after 4.0 s; 4.0 s are allowed, 2.0 s of them its wait"}},
		"no votes":            {func(_ []*results.PhaseCell, r *results.Outage) { r.Votes = never }, []string{"may vote and was asked for no vote"}},
		"does not vote":       {func(_ []*results.PhaseCell, r *results.Outage) { r.Voting, r.Votes = never, never }, []string{"did not begin to vote; 4.0 s after"}},
		"keys and scripts": {func(_ []*results.PhaseCell, r *results.Outage) {
			r.Owed = &results.Owed{Keys: 1, Scripts: 500, Releases: 2}
		},
			[]string{"1 key of locks that nobody holds", "keeps 2 releases", "500 scripts run in a second"}},
	} {
		cells, res := good()
		tc.spoil(cells, res)
		failed := phases.Judge(cells, res)
		if failed == nil || len(failed) != len(tc.want) {
			t.Errorf("%s: %q, want %q", name, failed, tc.want)
			continue
		}
		for i, want := range tc.want {
			if !strings.Contains(failed[i], want) {
				t.Errorf("%s: %q, want %q", name, failed[i], want)
			}
		}
	}
}

// What is printed fits a terminal also when much has gone wrong, and --check alone makes the exit code.
func TestOutage_verdict_tableAndExitCode(t *testing.T) {
	cells, res := good()
	cells[3].Figures = results.Figures{P50: 3468689, P99: 60e6, CPU: 27333, Errors: 100000, FirstErr: errors.New(strings.Repeat("no quorum ", 20))}
	cells[3].Median, cells[3].Heap, cells[3].Goroutines = 0.2, 9000*Mb, 10000
	res.Voting, res.Votes, res.Owed = nil, nil, &results.Owed{Keys: 320, Scripts: 181746}
	for _, strict := range []bool{false, true} {
		var table bytes.Buffer
		o := &outage{callers: 64, frozen: time.Second, strict: strict, pace: phases.UsualPace, setup: setup{ttl: time.Second, duration: time.Second}}
		r := &report{table: &table, progress: &termline.Line{}, result: results.Result{Outage: res}}
		r.outageHead(masters.New(masters.OwnServers, 5), o)
		for _, c := range cells {
			r.outageRow(c)
		}
		if code := exitCode(o.verdict(r, cells)); code != map[bool]int{false: exitOK, true: exitViolation}[strict] {
			t.Errorf("--check %v: exit code %d", strict, code)
		}
		tidy(t, table.String())
		for _, want := range []string{"all but 3 are frozen", "FAILED   heap, frozen: 9,000 MB", "320 keys left", "181746 scripts", "did not vote", "first error: no quorum"} {
			if !strings.Contains(table.String(), want) {
				t.Errorf("no %q in\n%s", want, &table)
			}
		}
		if _, err := json.Marshal(r.result); err != nil {
			t.Error(err)
		}
	}
}

// All of it, on three masters and in a hurry.
func TestOutage_ownMasters_JSONAndTable(t *testing.T) {
	needs.Redis(t)
	needs.Test(t)
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		file := filepath.Join(t.TempDir(), "result.json")
		o := &outage{}
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		o.define(fs)
		must(t, parse(o, fs, strings.Fields("--masters 3 --callers 4 --ttl 400ms --max-ttl 400ms --duration 500ms --frozen 300ms --json "+file+" --html "+file+".html")))
		o.pace = phases.Pace{Calm: 300 * time.Millisecond, Owed: time.Second, Look: 200 * time.Millisecond}
		var table bytes.Buffer
		must(t, o.run(t.Context(), output{&table, io.Discard}))
		tidy(t, table.String())
		isPage(t, file+".html", "must not vote yet, for", `id="phases"`)
		text, err := os.ReadFile(file)
		must(t, err)
		m := decode(t, text)
		for i, c := range cells(t, m, 5) {
			if want := []string{phases.Before, phases.Killed, phases.Returned, phases.Frozen, phases.After}[i]; c["phase"] != want {
				t.Errorf("phase %d is %v, want %s", i, c["phase"], want)
			}
			has(t, c, 1, "pairs", "pairs_per_second", "pairs_per_second_p50", "p50_us", "p99_us", "cpu_us_per_pair", "heap_bytes", "goroutines")
			if i > 0 {
				has(t, c["ratio"].(map[string]any), 0.01, "pairs_per_second_p50", "p50", "p99", "cpu", "heap")
			}
		}
		res, _ := m["outage"].(map[string]any)
		has(t, res, 0.3, "answered_at_s", "wait_s", "voting_after_s", "votes_after_s", "max_ttl_ms")
		if res["voting_after_s"].(float64) < res["wait_s"].(float64) {
			t.Errorf("it voted before its wait was over: %v", res)
		}
		// A clock note may fall into the moment that is watched. A client that pays for releases runs hundreds of scripts.
		if owed := res["owed"].(map[string]any); owed["keys"] != 0.0 || owed["scripts"].(float64) > phases.NotesLimit {
			t.Errorf("owed %v", owed)
		}
	})
}

func TestOutage_noRedisServer_exit3(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if code, _, stderr := bench(t, "outage"); code != exitMasters || !strings.Contains(stderr, "needs redis-server") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
