// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/testbed"
)

// run is one run of latency: so many pairs a second, in turns of a little more and less.
func latencyRun(rate, p50 float64) *results.Result {
	return &results.Result{Command: "latency", Backend: "redis-server", Masters: 5, TTL: 10_000, Duration: 3, Run: &testbed.Run{Machine: "m"}, Cells: []any{
		&results.LatencyCell{Callers: 4, Figures: results.Figures{PairsPerSecond: rate, P50: p50, Turns: []float64{rate - 3, rate - 2, rate - 1, rate + 1, rate + 2, rate + 3}},
			Floor: &results.Figures{PairsPerSecond: 2000, Turns: []float64{2000, 2001, 2002, 0, 2003, 2004}}, Ratio: &results.Ratio{PairsPerSecond: rate / 2000}},
	}}
}

func runs(rates ...float64) (all []*results.Result) {
	for _, r := range rates {
		all = append(all, latencyRun(r, 80))
	}
	return all
}

func rowOf(t *testing.T, cells []Cell, cell, name string) Row {
	t.Helper()
	for _, c := range cells {
		for _, r := range c.Rows {
			if c.Name == cell && r.Name == name {
				return r
			}
		}
	}
	t.Fatalf("no row %s in cell %s of %+v", name, cell, cells)
	return Row{}
}

func noted(notes []string, what string) bool {
	return slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, what) })
}

func TestCompare_manyRuns_mediansIntervalsChange(t *testing.T) {
	before, after := runs(1000, 1010, 990, 1005, 995, 1002), runs(1100, 1110, 1090, 1105, 1095, 1102)
	cells, notes := Compare(before, after, 0.95)
	r := rowOf(t, cells, "latency, 4 callers", "locks/s")
	if r.Old != (Side{Median: 1001, Low: 990, High: 1010, Known: true, N: 6}) || r.New.Median != 1101 || !r.Differs() || r.Turns {
		t.Errorf("%+v", r)
	}
	if c := r.Change(); c < 0.0998 || c > 0.1 {
		t.Errorf("change %v", c)
	}
	if r := rowOf(t, cells, "latency, 4 callers", "p50 us"); r.P != 1 || r.Differs() || r.Change() != 0 {
		t.Errorf("what did not change: %+v", r)
	}
	if len(notes) != 0 {
		t.Errorf("%q", notes)
	}
}

func TestCompare_noise_noDifference(t *testing.T) {
	cells, _ := Compare(runs(1000, 1010, 990, 1005, 995, 1002), runs(1001, 1012, 991, 1006, 994, 1003), 0.95)
	if r := rowOf(t, cells, "latency, 4 callers", "locks/s"); r.Differs() || r.Change() == 0 {
		t.Errorf("%+v", r)
	}
}

// One run each: rates by their turns, everything else without a word on noise.
func TestCompare_oneRun_turns(t *testing.T) {
	cells, notes := Compare(runs(1000), runs(1100), 0.95)
	if r := rowOf(t, cells, "latency, 4 callers", "locks/s"); !r.Turns || r.Old.N != 6 || !r.Differs() || r.Old.Low != 997 {
		t.Errorf("%+v", r)
	}
	if r := rowOf(t, cells, "latency, 4 callers", "of floor"); !r.Turns || r.Old.N != 5 { // the floor did nothing in a turn
		t.Errorf("%+v", r)
	}
	if r := rowOf(t, cells, "latency, 4 callers", "p50 us"); r.Turns || r.Old.Known || r.Differs() {
		t.Errorf("%+v", r)
	}
	if !noted(notes, "one run each") {
		t.Errorf("%q", notes)
	}
}

func TestCompare_notTheSame_noted(t *testing.T) {
	before, after := runs(1, 2), runs(1, 2, 3)
	after[1].Masters, after[2].Run.Machine, after[0].Interrupted = 3, "n", true
	after[0].Cells = append(after[0].Cells, &results.ContentionCell{Waiters: 8, Clients: 4, Hold: 1, Readers: 2, Unfair: true, Processes: 4})
	before[0].Cells = append(before[0].Cells, &results.PhaseCell{Phase: "killed"})
	before[1].Hurt, before[0].Broke = "kill", "no quorum"
	for i, r := range slices.Concat(before, after) {
		r.Run.Command = []string{"bench latency", "bench latency", "bench latency --ttl 2s", "bench latency", "bench latency"}[i]
	}
	_, notes := Compare(before, after, 0.95)
	for _, want := range []string{
		"only the old results have outage, killed", "only the new results have contention, 8 waiters of 4 clients, held 1 ms, in processes, 2 read, unfair",
		"only the old results have latency, 4 callers, a master hurt (kill)", "masters: old 5; new 5 and 3", "machine: old m; new m and n",
		"command: old bench latency; new bench latency --ttl 2s and bench latency", "2 and 3 runs", "interrupted", "broke off",
	} {
		if !noted(notes, want) {
			t.Errorf("no note %q in %q", want, notes)
		}
	}
}

// Files with the results of two commands each, which were the same.
func TestCompare_twoCommandsEach_nothingToNote(t *testing.T) {
	both := []*results.Result{latencyRun(1, 80), {Command: "contention", Backend: "redis-server", Masters: 5, TTL: 10_000, Duration: 3, Run: &testbed.Run{Machine: "m", Command: "bench contention"}}}
	both[0].Run.Command = "bench latency"
	if _, notes := Compare(both, both, 0.95); noted(notes, "not the same") {
		t.Errorf("%q", notes)
	}
}

// A phase in which no lock could be taken has no times: 0 would be the best of all.
func TestCompare_phaseWithoutAPair_noTimes(t *testing.T) {
	r := &results.Result{Command: "outage", Cells: []any{&results.PhaseCell{Phase: "frozen", Heap: 1 << 20}, &results.PhaseCell{Phase: "after", Pairs: 9, Figures: results.Figures{P50: 80}}}}
	cells, _ := Compare([]*results.Result{r}, []*results.Result{r}, 0.95)
	for _, row := range cells[0].Rows {
		if row.Name != "locks/s" && row.Name != "heap MB" {
			t.Errorf("%s: %+v", cells[0].Name, row)
		}
	}
	if r := rowOf(t, cells, "outage, after", "p50 us"); r.Old.Median != 80 {
		t.Errorf("%+v", r)
	}
}

func TestCompare_outageAndContention_rows(t *testing.T) {
	votes, commands := 2.2, 12.5
	r := &results.Result{Command: "outage", Cells: []any{&results.PhaseCell{Phase: "killed", Median: 900, Heap: 3 << 20}, &results.ContentionCell{Waiters: 1, Clients: 1, Rate: 7, Commands: &commands}},
		Outage: &results.Outage{Votes: &votes}}
	cells, _ := Compare([]*results.Result{r}, []*results.Result{r}, 0.95)
	for cell, figures := range map[string]map[string]float64{
		"outage, killed": {"locks/s": 900, "heap MB": 3},
		"contention, 1 waiter of 1 client, held 0 ms": {"locks/s": 7, "commands": 12.5},
		"outage, the master that returned":            {"votes again s": 2.2},
	} {
		for name, want := range figures {
			if r := rowOf(t, cells, cell, name); r.Old.Median != want || r.New.Median != want || r.Differs() {
				t.Errorf("%s, %s: %+v", cell, name, r)
			}
		}
	}
}
