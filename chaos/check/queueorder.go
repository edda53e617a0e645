// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

const (
	// arrival is how much earlier a call must have begun to count as the first: its requests, and those of the other, must have arrived.
	arrival = 20 * time.Millisecond
	// mayOvertake is how many later calls may pass one that waits. A round whose votes were split is tried again, so a few may.
	mayOvertake = 5
)

// QueueOrder is the checker queue-order: while nothing is wrong, no call that waits in the queue of a lock is overtaken by more than mayOvertake
// calls that took their places after it.
//
// The calls of one process for one lock line up behind each other, and the first of them has the process's place in the queue. So a call has its
// place once the earlier calls of its process have returned. A call takes its place after another if that happens arrival and twice the lag
// later. Only fair, exclusive calls count: an unfair one may pass by intent, and readers are let in together.
//
// A call is judged if no fault was at work, and every look found a quorum voting, from a second before it took its place until it returned.
//
// To judge a piece of a history, the calls that had not returned at its beginning are needed, and the last fault.
func QueueOrder(h *history.History) Result {
	r := Result{ID: "queue-order", Question: "Was a call that waited in a queue passed by many that came later?"}
	l := lagsOf(h)
	var disturbed []span
	for _, f := range h.Faults {
		disturbed = append(disturbed, span{f.Start, f.End})
	}
	at := union(append(disturbed, withoutQuorum(h)...))
	judged, worst := 0, 0
	for _, calls := range queued(h, l) {
		for i, c := range calls {
			from, to := c.placed-int64(time.Second), c.op.Return
			if at.meets(from, to) {
				continue
			}
			lag := max(l.worst(c.process, c.placed, to), l.worst("harness", c.placed, to))
			if lag == unknownLag {
				continue
			}
			judged++
			passed := 0
			for j := i + 1; j < len(calls) && calls[j].op.Call < to; j++ {
				o := calls[j]
				if o.process != c.process && o.op.Outcome == history.OK && o.op.Return < to && o.placed > c.placed+int64(arrival+2*lag) {
					passed++
				}
			}
			worst = max(worst, passed)
			if passed > mayOvertake {
				r.Violations = append(r.Violations, Violation{
					Text: fmt.Sprintf("passed by %d calls that came later: %s", passed, name(c.op)), Ops: []history.Op{c.op}, From: c.op.Call, To: to,
				})
			}
		}
	}
	r.sort()
	r.Figures = []Figure{{"calls in queues judged", float64(judged)}, {"most later calls that passed one", float64(worst)}}
	return r.observed(fmt.Sprintf("No: %d calls judged, at most %d later ones passed one of them.", judged, worst), judged)
}

// queuedCall is a call that waits in the queue of a lock.
type queuedCall struct {
	op      history.Op
	process string
	placed  int64 // when the earlier calls of its process had returned
}

// queued returns the fair, exclusive calls for each lock, in the order of their calls.
func queued(h *history.History, l *lags) map[string][]queuedCall {
	byLock := map[string][]queuedCall{}
	returned := map[[2]string]int64{} // process and lock -> when the calls so far have returned
	for _, op := range h.Ops {
		if op.Kind != history.KindLock || !op.Fair || op.Mode != history.Exclusive || op.Return == history.Never {
			continue
		}
		process := l.process(op.Client)
		if process == "" {
			continue
		}
		key := [2]string{process, op.Lock}
		byLock[op.Lock] = append(byLock[op.Lock], queuedCall{op, process, max(op.Call, returned[key])})
		returned[key] = max(returned[key], op.Return)
	}
	return byLock
}
