// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/text"
)

// newPhaseCell sums up a phase. Its heap and goroutines are not the side's to tell.
func newPhaseCell(name string, s *side) *results.PhaseCell {
	cell := &results.PhaseCell{Phase: name, Seconds: s.elapsed.Seconds(), Pairs: s.pairs()}
	if cell.Pairs > 0 {
		cell.Figures = s.figures()
	} else {
		cell.Errors, cell.FirstErr = s.errors()
		cell.Turns = s.turns()
	}
	if len(s.rates) > 0 {
		sorted := slices.Sorted(slices.Values(s.rates))
		cell.Median = sorted[len(sorted)/2]
	}
	return cell
}

// ratioTo fills in what a cell is of before.
func ratioTo(c, before *results.PhaseCell) {
	c.Ratio = &results.PhaseRatio{
		Median: over(c.Median, before.Median), P50: over(c.P50, before.P50), P99: over(c.P99, before.P99),
		CPU: over(c.CPU, before.CPU), Heap: over(float64(c.Heap), float64(before.Heap)),
	}
}

// What --check asks for.
const (
	heapSlack       = 8 << 20 // bytes above before, and...
	slackShare      = 0.01    // ...this share of it; of goroutines too
	goroutineSlack  = 2
	leastThroughput = 0.95
	notesLimit      = 50              // scripts a second that write clock notes, for each look at the masters
	votesLimit      = 2 * time.Second // after the wait a returned master's votes must count again
)

// judge says in a line each what does not hold that must. The first cell is before.
func judge(cells []*results.PhaseCell, res *results.Outage) []string {
	failed := []string{} // JSON has [], not null
	fail := func(format string, args ...any) { failed = append(failed, fmt.Sprintf(format, args...)) }
	before := cells[0]
	mostHeap := float64(before.Heap)*(1+slackShare) + heapSlack
	mostGoroutines := before.Goroutines + max(goroutineSlack, int(slackShare*float64(before.Goroutines)))
	for _, c := range cells[1:] {
		if float64(c.Heap) > mostHeap {
			fail("heap, %s: %s MB; at most %s are allowed", c.Phase, megabytes(float64(c.Heap)), megabytes(mostHeap))
		}
		if c.Goroutines > mostGoroutines {
			fail("goroutines, %s: %d; at most %d are allowed", c.Phase, c.Goroutines, mostGoroutines)
		}
		if (c.Phase == phaseKilled || c.Phase == phaseFrozen) && c.Ratio.Median < leastThroughput {
			fail("locks/s, %s: %.2f of before; at least %.2f are wanted", c.Phase, c.Ratio.Median, leastThroughput)
		}
	}
	switch limit := res.Wait + votesLimit.Seconds(); {
	case res.Votes == nil && res.Voting == nil:
		fail("the returned master did not begin to vote; %.1f s after it answered again its votes must count", limit)
	case res.Votes == nil:
		fail("the returned master may vote and was asked for no vote; %.1f s after it answered again its votes must count", limit)
	case *res.Votes > limit:
		fail("the returned master's votes counted after %.1f s; %.1f s are allowed, %.1f s of them its wait", *res.Votes, limit, res.Wait)
	}
	if res.Owed.Keys > 0 {
		fail("%s of locks that nobody holds: the client did not release them", plural(res.Owed.Keys, "key"))
	}
	if res.Owed.Releases > 0 {
		fail("the client still keeps %s that no master has acknowledged", plural(res.Owed.Releases, "release"))
	}
	if res.Owed.Scripts > notesLimit {
		fail("%s run in a second for a client with nothing to do: it still pays for releases", plural(res.Owed.Scripts, "script"))
	}
	return failed
}

func megabytes(bytes float64) string { return number(bytes / (1 << 20)) }

func (r *report) outageHead(b *backend, o *outage) {
	r.line("outage of %s: %s, TTL %v, maximum TTL %v", b.label(), plural(o.callers, "caller"), o.ttl, o.maxTTL)
	r.line("one is killed for %v, then all but %d are frozen for %v; ratio is to before", o.duration, b.n/2+1, o.frozen)
	r.line("")
	r.line(outageLine, "phase", "locks/s", "ratio", "p50", "p99", "ratio", "cpu", "ratio", "heap", "gorou-", "errors")
	r.line(outageLine, "", "", "", "ms", "ms", "", "us", "", "MB", "tines", "")
}

const outageLine = "%-9s%8s%6s%7s%7s%7s%8s%7s%6s%7s%7s"

func (r *report) outageRow(c *results.PhaseCell) {
	if len(r.result.Cells) > 0 {
		ratioTo(c, r.result.Cells[0].(*results.PhaseCell))
	}
	r.result.Cells = append(r.result.Cells, c)
	q := results.PhaseRatio{Median: 1, P99: 1, CPU: 1}
	if c.Ratio != nil {
		q = *c.Ratio
	}
	r.line(outageLine, c.Phase, number(c.Median), number(q.Median), number(c.P50/1e3), number(c.P99/1e3), number(q.P99), number(c.CPU), number(q.CPU),
		megabytes(float64(c.Heap)), fmt.Sprint(c.Goroutines), fmt.Sprint(c.Errors))
	r.firstError(c.FirstErr)
}

// outageTail says what is not of one phase.
func (r *report) outageTail(res *results.Outage, owedAfter time.Duration) {
	r.line("")
	switch {
	case res.Voting == nil:
		text.Paragraph(r.table, "returned", fmt.Sprintf("it had to wait %.2f s, and did not vote while it was watched", res.Wait))
	case res.Votes == nil:
		text.Paragraph(r.table, "returned", fmt.Sprintf("it could vote %.2f s after it answered again, of which %.2f s were its wait; no vote of it was seen",
			*res.Voting, res.Wait))
	default:
		text.Paragraph(r.table, "returned", fmt.Sprintf("it could vote %.2f s after it answered again, of which %.2f s were its wait; its votes counted after %.2f s",
			*res.Voting, res.Wait, *res.Votes))
	}
	if left := res.Owed; left.Keys == 0 && left.Releases == 0 && left.Scripts <= notesLimit {
		text.Paragraph(r.table, "owed", fmt.Sprintf("nothing %v after the last fault: no key is left, and a client with nothing to do runs %s a second, for its clock notes",
			owedAfter, plural(left.Scripts, "script")))
	} else {
		text.Paragraph(r.table, "owed", fmt.Sprintf("%s left of locks that nobody holds; %v after the last fault the client keeps %s, and the masters ran %s in a second for a client with nothing to do",
			plural(res.Owed.Keys, "key"), owedAfter, plural(res.Owed.Releases, "release"), plural(res.Owed.Scripts, "script")))
	}
	for _, what := range res.Failed {
		text.Paragraph(r.table, "FAILED", what)
	}
}
