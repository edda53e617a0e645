// SPDX-License-Identifier: Apache-2.0

package digest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

const (
	// leastPulses is how many Pulses of one process are enough to judge its heap: 30 s.
	leastPulses = 60
	// heapSlack is how much the heap may vary for other reasons than a leak.
	heapSlack = 8 << 20
)

// Resources is the checker resources: the heap of a client does not grow, and its goroutines end with it.
//   - The largest live heap in the last third of the life of a process is at most one and a half times that of its first third, plus heapSlack.
//     The first tenth does not count. A process with fewer than leastPulses is not judged.
//   - After a client has closed, it has no more goroutines than before it opened. A client that was killed is not judged.
//
// A piece of a history cannot be judged by itself: the largest heap of the first third of each process is needed, and its first Pulse.
func Resources(h *history.History) check.Result {
	r := check.Result{ID: "resources", Question: "Does the heap of any client grow, or does a goroutine outlive it?"}
	l := check.LagsOf(h)
	judged, largest := 0, uint64(0)
	for _, process := range slices.Sorted(maps.Keys(l.Pulses)) {
		ps := l.Pulses[process]
		for _, p := range ps {
			largest = max(largest, p.Heap)
		}
		first, last := ps[0], ps[len(ps)-1]
		if first.Idle && last.Idle && len(ps) > 1 {
			judged++
			if last.Goroutines > first.Goroutines {
				r.Violations = append(r.Violations, check.Violation{Text: fmt.Sprintf("%s had %d goroutines before it opened, and %d after it closed", process, first.Goroutines, last.Goroutines), From: last.At, To: last.At})
			}
		}
		if process == "harness" || len(ps) < leastPulses { // the harness is no client: it keeps what it records
			continue
		}
		judged++
		ps = ps[len(ps)/10:]
		third := len(ps) / 3
		before, after := mostHeap(ps[:third]), mostHeap(ps[len(ps)-third:])
		if after > before+before/2+heapSlack {
			r.Violations = append(r.Violations, check.Violation{Text: fmt.Sprintf("the heap of %s grew from %d to %d MiB", process, before>>20, after>>20), From: first.At, To: last.At})
		}
	}
	r.Figures = []check.Figure{{Name: "largest heap, MiB", Value: float64(largest >> 20)}}
	return r.ConcludeFrom(fmt.Sprintf("No: the largest heap was %d MiB, and every client that closed left no goroutine.", largest>>20), judged)
}

func mostHeap(ps []history.Pulse) (most uint64) {
	for _, p := range ps {
		most = max(most, p.Heap)
	}
	return most
}

// Harness is the checker harness: the harness itself found nothing wrong. It reports each history.Finding, for example a client that crashed
// or a fault that could not be ended, so that a judgement of the file fails as the run did. Those of the checker effort are left to that.
//
// It judges the digest of the run.
func Harness(h *history.History) check.Result {
	r := check.Result{ID: "harness", Question: "Did the run come to its end, and did nothing in it crash or hang?"}
	for _, f := range h.Findings {
		if f.Checker != "effort" {
			r.Violations = append(r.Violations, check.Violation{Text: f.Detail, From: f.At, To: f.At})
		}
	}
	r.Observed = 1 // a run that ended is an observation
	return r.Conclude("Yes.")
}
