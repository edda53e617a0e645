// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/pairs"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/text"
)

// newPhaseCell sums up a phase. Its heap and goroutines are not the side's to tell.
func newPhaseCell(name string, s *pairs.Side) *results.PhaseCell {
	cell := &results.PhaseCell{Phase: name, Seconds: s.Elapsed.Seconds(), Pairs: s.Pairs()}
	if cell.Pairs > 0 {
		cell.Figures = s.Figures()
	} else {
		cell.Errors, cell.FirstErr = s.Errors()
		cell.Turns = s.Turns()
	}
	if len(s.Rates) > 0 {
		sorted := slices.Sorted(slices.Values(s.Rates))
		cell.Median = sorted[len(sorted)/2]
	}
	return cell
}

// RatioTo fills in what a cell is of before.
func RatioTo(c, before *results.PhaseCell) {
	c.Ratio = &results.PhaseRatio{
		Median: pairs.Over(c.Median, before.Median), P50: pairs.Over(c.P50, before.P50), P99: pairs.Over(c.P99, before.P99),
		CPU: pairs.Over(c.CPU, before.CPU), Heap: pairs.Over(float64(c.Heap), float64(before.Heap)),
	}
}

// What --check asks for.
const (
	heapSlack       = 8 << 20 // bytes above before, and...
	slackShare      = 0.01    // ...this share of it; of goroutines too
	goroutineSlack  = 2
	leastThroughput = 0.95
	NotesLimit      = 50              // scripts a second that write clock notes, for each look at the masters
	votesLimit      = 2 * time.Second // after the wait a returned master's votes must count again
)

// Judge says in a line each what does not hold that must. The first cell is before.
func Judge(cells []*results.PhaseCell, res *results.Outage) []string {
	failed := []string{} // JSON has [], not null
	fail := func(format string, args ...any) { failed = append(failed, fmt.Sprintf(format, args...)) }
	before := cells[0]
	mostHeap := float64(before.Heap)*(1+slackShare) + heapSlack
	mostGoroutines := before.Goroutines + max(goroutineSlack, int(slackShare*float64(before.Goroutines)))
	for _, c := range cells[1:] {
		if float64(c.Heap) > mostHeap {
			fail("heap, %s: %s MB; at most %s are allowed", c.Phase, Megabytes(float64(c.Heap)), Megabytes(mostHeap))
		}
		if c.Goroutines > mostGoroutines {
			fail("goroutines, %s: %d; at most %d are allowed", c.Phase, c.Goroutines, mostGoroutines)
		}
		if (c.Phase == Killed || c.Phase == Frozen) && c.Ratio.Median < leastThroughput {
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
		fail("%s of locks that nobody holds: the client did not release them", text.Plural(res.Owed.Keys, "key"))
	}
	if res.Owed.Releases > 0 {
		fail("the client still keeps %s that no master has acknowledged", text.Plural(res.Owed.Releases, "release"))
	}
	if res.Owed.Scripts > NotesLimit {
		fail("%s run in a second for a client with nothing to do: it still pays for releases", text.Plural(res.Owed.Scripts, "script"))
	}
	return failed
}

// Megabytes is a text for bytes, in MB.
func Megabytes(bytes float64) string { return text.Number(bytes / (1 << 20)) }
