// SPDX-License-Identifier: Apache-2.0

package sheet

import (
	"bytes"
	"errors"
	"flag"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/page/pagetest"
	"github.com/redlock-go/redlock/internal/testbed"
)

// keep leaves the pages that the tests make where somebody can look at them.
var keep = flag.String("keep", "", "directory for the pages made by the tests")

// render writes the page of r, checks what must be true of every page, and returns it.
func render(t *testing.T, name string, r *results.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	if *keep != "" {
		if err := os.WriteFile(filepath.Join(*keep, name+".html"), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pagetest.Check(t, b.String())
	return html.UnescapeString(b.String())
}

func has(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

func figures(p50 float64) results.Figures {
	masters := 2 * p50
	return results.Figures{
		PairsPerSecond: 1e6 / p50, P50: p50, P99: 3 * p50, P999: 5 * p50, Max: 40 * p50, CPU: p50 / 2, MastersCPU: &masters,
		Turns: []float64{1e6 / p50, 0, 0.9e6 / p50}, Bins: results.Bins([]results.Bin{{From: p50 / 2, N: 40}, {From: p50, N: 900}, {From: 3 * p50, N: 60}, {From: 40 * p50, N: 1}}),
	}
}

func latencyResult() *results.Result {
	floor := figures(50)
	return &results.Result{
		Command: "latency", Backend: "redis-server", Masters: 5, TTL: 10_000, Duration: 0.15, Hurt: "kill",
		Run:   &testbed.Run{At: time.Date(2026, 11, 24, 20, 0, 0, 0, time.UTC), Command: "redlock-bench latency --callers 1,16", Masters: "5 redis-server (8.0)", Machine: "a <machine>", Go: "go1.26"},
		Cells: []any{&results.LatencyCell{Callers: 1, Figures: figures(80), Floor: &floor, Ratio: &results.Ratio{PairsPerSecond: 0.63, Median: 0.64}}, &results.LatencyCell{Callers: 16, Figures: figures(300)}},
	}
}

func contentionCell(overlaps int) *results.ContentionCell {
	p := &results.Picture{Elapsed: 3 * time.Second, From: time.Second, Shares: []float64{0.5, 1, 1.5}, Waits: results.Bins([]results.Bin{{From: 900, N: 5}, {From: 2000, N: 80}})}
	for i := range 60 {
		from := time.Second + time.Duration(i)*2*time.Millisecond
		p.Holds = append(p.Holds, results.Hold{Waiter: i % 20, Asked: from - 30*time.Millisecond, From: from, To: from + time.Millisecond, Read: i%20 == 3})
		p.To = from + time.Millisecond
	}
	return &results.ContentionCell{
		Waiters: 3, Rate: 400, WaitP50: 2000, WaitP99: 9000, WaitMax: 40_000, Held: 1000, OfLimit: 0.91, Jain: 0.9, MinShare: 0.5, MaxShare: 1.5, Rounds: 1.02, Overlaps: overlaps,
		Turns: []float64{390, 410, 400}, Picture: p,
	}
}

func outageResult() *results.Result {
	up, voting, votes := 2.05, 2.1, 2.2
	r := &results.Result{Command: "outage", Backend: "redis-server", Masters: 5, TTL: 2000, Duration: 10,
		Outage: &results.Outage{Up: &up, Wait: 2.04, Voting: &voting, Votes: &votes, Owed: &results.Owed{}, Failed: []string{}}}
	at := 0.0
	for _, name := range []string{"before", "killed", "returned", "frozen", "after"} {
		c := &results.PhaseCell{Phase: name, At: at, Seconds: 1, Figures: figures(1000), Pairs: 1000, Median: 900, Heap: 100 << 20, Goroutines: 80}
		if at > 0 {
			c.Ratio = &results.PhaseRatio{Median: 0.97, P99: 1.1}
		}
		r.Cells, at = append(r.Cells, c), at+1.1
	}
	return r
}

func TestWrite_latency_everyCellBesideItsFloor(t *testing.T) {
	text := render(t, "latency", latencyResult())
	has(t, text, `class="verdict ok"`, "Half of all locks were taken and given back within 80 µs", "1 caller: 12,500 locks a second, half within 80 µs, 99 of 100 within 240 µs; 0.63 of the floor’s rate",
		"16 callers: 3,333 locks a second", "One master is", "killed", "redlock-bench latency --callers 1,16", "2026-11-24 20:00 UTC", `id="times"`, `id="pile0"`, `id="course1"`, "turn by turn: median 0.64")
}

func TestWrite_errors_toldAndNotOk(t *testing.T) {
	r := latencyResult()
	cell := r.Cells[1].(*results.LatencyCell)
	cell.Errors, cell.FirstErr = 7, errors.New("no quorum")
	has(t, render(t, "errors", r), `class="verdict unknown"`, "Some calls failed", "7 calls failed; the first: no quorum")
}

func TestWrite_contention_holdsWaitsShares(t *testing.T) {
	r := &results.Result{Command: "contention", Backend: "redis-server", Masters: 3, TTL: 10_000, Duration: 3, Cells: []any{contentionCell(0)}}
	text := render(t, "contention", r)
	has(t, text, `class="verdict ok"`, "No two waiters ever had the lock at once", "400 locks a second (0.91 of the limit)", `id="holds0" data-from="1" data-to="1.031"`, "waiter 16 had the lock for 1 ms",
		"waiter 4 had the lock to read for", "the first 16 that had it", "0.50 to 1.50; 1 is even")
}

// An overlap comes first, whatever else is on the page.
func TestWrite_overlap_illegal(t *testing.T) {
	r := latencyResult()
	r.Command, r.Interrupted, r.Cells = "tour", true, append(r.Cells, contentionCell(0), contentionCell(2))
	has(t, render(t, "overlap", r), `class="verdict illegal"`, "Two waiters had the lock at once", "2 overlaps: the lock was broken", "12,500 locks a second")
}

func TestWrite_outage_phasesAndTheMasterThatReturned(t *testing.T) {
	text := render(t, "outage", outageResult())
	has(t, text, `class="verdict ok"`, "killed: 900 locks a second, 0.97 of before", "the master that returned voted again after 2.2 s, 2.04 s of them its wait", "does not answer for 950 ms", "must not vote yet, for 2.1 s",
		"frozen: all but a quorum stopped", `id="faults-phases"`)
	r := outageResult()
	r.Outage.Voting, r.Outage.Votes, r.Outage.Failed = nil, nil, []string{"heap, killed: 110 MB"}
	has(t, render(t, "outage-failed", r), `class="verdict illegal"`, "Something does not hold that must", "heap, killed: 110 MB", "did not vote while it was watched")
}

// What is missing, zero or cut short makes a page all the same.
func TestWrite_littleMeasured_aPage(t *testing.T) {
	has(t, render(t, "nothing", &results.Result{Command: "latency", Masters: 3}), "Nothing was measured")
	cut := latencyResult()
	cut.Interrupted, cut.Run = true, nil
	has(t, render(t, "cut", cut), `class="verdict unknown"`, "Interrupted")
	broke := outageResult()
	broke.Broke, broke.Cells = "the master does not start", broke.Cells[:2]
	has(t, render(t, "broke", broke), `class="verdict unknown"`, "It broke off: what was measured up to then", "It broke off: the master does not start")
	broke.Outage = &results.Outage{Wait: 2.04, Failed: []string{}} // nobody saw the master come back, nor what was left
	text := render(t, "away", broke)
	for _, not := range []string{"the master that returned", "What was left"} {
		if strings.Contains(text, not) {
			t.Errorf("the page says %q of what was not measured", not)
		}
	}
	for name, cell := range map[string]any{
		"latency": &results.LatencyCell{Callers: 1}, "contention": &results.ContentionCell{Waiters: 1, Picture: &results.Picture{}}, "outage": &results.PhaseCell{Phase: "before"},
	} {
		render(t, "zero-"+name, &results.Result{Command: name, Backend: "embedded", Masters: 1, Cells: []any{cell}})
	}
}
