// SPDX-License-Identifier: Apache-2.0

package conduct

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

const (
	// arrival is how much earlier a call must have begun to count as the first: its requests, and those of the other, must have arrived.
	arrival = 20 * time.Millisecond
	// MayOvertake is how many later calls may pass one that waits, beside those that took the lock over from another call of their process. A round
	// whose votes were split is tried again, so a few may.
	MayOvertake = 5
	// MayTakeOver is how many callers of a process take the lock over from one another at most before the next process has its turn.
	MayTakeOver = 16
	// BriefHold is how long a hold may be after which a caller takes over.
	BriefHold = 500 * time.Microsecond
)

// QueueOrder is the checker queue-order: while nothing is wrong, no call that waits in the queue of a lock is overtaken by more than MayOvertake
// calls that came later and took their places later.
//
// The calls of one process for one lock line up behind each other, and the first of them has the process's place in the queue. So a call has its
// place once the earlier calls of its process have returned. A call takes its place after another if that happens arrival and twice the lag
// later. It takes the place with the ticket of its call (docs/internals/algorithm.md), so a call that came first passes by right, however late
// its turn comes. Where the lock is held briefly, callers of one process take it over from one another, and so pass by right too: see follow. Only
// fair, exclusive calls count: an unfair one may pass by intent, and readers are let in together.
//
// A call is judged if no fault was at work, and every look found a quorum voting, from a second before it took its place until it returned.
//
// A call is judged in the first chapter that knows every call until its return.
func QueueOrder() check.Checker { return &queueOrder{} }

type queueOrder struct {
	check.Found
	began         bool
	lags          *check.Lags
	disturbed     check.Spans
	calls         map[string][]queuedCall // lock -> the calls that are not judged, and those after them, by call
	returned      map[[2]string]int64     // process and lock -> when the calls so far have returned
	judged, worst int
}

func (c *queueOrder) Add(h *history.History) {
	if !c.began {
		c.begin(h)
	}
	for _, op := range h.Own() {
		c.place(op)
	}
	to := int64(history.Never)
	if h.Part != nil {
		to = h.Part.To
	}
	for lock, calls := range c.calls {
		follow(calls)
		waiting := 0
		for i := range calls {
			if !calls[i].judged && calls[i].op.Return < to {
				c.judge(calls[i], calls[i+1:])
				calls[i].judged = true
			}
		}
		for waiting < len(calls) && calls[waiting].judged {
			waiting++
		}
		c.calls[lock] = slices.Clone(calls[waiting:])
	}
}

// begin keeps what all chapters have.
func (c *queueOrder) begin(h *history.History) {
	c.began, c.lags, c.calls, c.returned = true, check.LagsOf(h), map[string][]queuedCall{}, map[[2]string]int64{}
	var faults []check.Span
	for _, f := range h.Faults {
		faults = append(faults, check.Span{From: f.Start, To: f.End})
	}
	c.disturbed = check.Union(append(faults, check.WithoutQuorum(h)...))
}

// place adds op if it is an exclusive call. An unfair one may be taken over from, and is not judged.
func (c *queueOrder) place(op history.Op) {
	if op.Kind == history.KindUnlock {
		c.ends(op)
		return
	}
	if op.Kind != history.KindLock || op.Mode != history.Exclusive || op.Return == history.Never {
		return
	}
	process := c.lags.Process(op.Client)
	if process == "" {
		return
	}
	key := [2]string{process, op.Lock}
	c.calls[op.Lock] = append(c.calls[op.Lock], queuedCall{op: op, process: process, placed: max(op.Call, c.returned[key]), judged: !op.Fair, held: math.MaxInt64})
	if op.Fair {
		c.returned[key] = max(c.returned[key], op.Return)
	}
}

// ends notes when a hold was given back.
func (c *queueOrder) ends(unlock history.Op) {
	calls := c.calls[unlock.Lock]
	for i := len(calls) - 1; i >= 0; i-- {
		if calls[i].op.Holder == unlock.Holder {
			calls[i].held = time.Duration(unlock.Call - calls[i].op.Return)
			return
		}
	}
}

// judge judges one call by those that were called after it.
func (c *queueOrder) judge(call queuedCall, later []queuedCall) {
	from, to := call.placed-int64(time.Second), call.op.Return
	if c.disturbed.Meets(from, to) {
		return
	}
	lag := max(c.lags.Worst(call.process, call.placed, to), c.lags.Worst("harness", call.placed, to))
	if lag == check.UnknownLag {
		return
	}
	c.judged++
	passed, tookOver := 0, 0
	for _, o := range later {
		if o.op.Call >= to {
			break
		}
		if o.process != call.process && o.op.Fair && o.op.Outcome == history.OK && o.op.Return < to && o.placed > call.placed+int64(arrival+2*lag) {
			passed++
			if o.tookOver {
				tookOver++
			}
		}
	}
	c.worst = max(c.worst, passed-tookOver)
	if passed-tookOver > MayOvertake {
		c.Report(check.Violation{
			Text: fmt.Sprintf("passed by %d calls that came later, of which %d may have taken the lock over within their process: %s", passed, tookOver, check.Name(call.op)),
			Ops:  []history.Op{call.op}, From: call.op.Call, To: to,
		})
	}
}

// follow notes which grants in the calls of a lock may be take-overs: each that follows one of its process, whose caller had called before that hold
// ended, if it was brief; and MayTakeOver in a row, until another process has the lock.
func follow(calls []queuedCall) {
	var grants []*queuedCall
	for i := range calls {
		if calls[i].op.Outcome == history.OK {
			grants = append(grants, &calls[i])
		}
	}
	slices.SortFunc(grants, func(a, b *queuedCall) int { return cmp.Compare(a.op.Return, b.op.Return) })
	for i, row := 1, 0; i < len(grants); i++ {
		before, g := grants[i-1], grants[i]
		if row++; before.process != g.process {
			row = 0
		}
		g.tookOver = 0 < row && row <= MayTakeOver && before.held < BriefHold && g.op.Call < before.op.Return+int64(BriefHold)
	}
}

func (c *queueOrder) Result() check.Result {
	r := c.Into(check.Result{ID: "queue-order", Question: "Was a call that waited in a queue passed by many that came later?"})
	r.Figures = []check.Figure{{Name: "calls in queues judged", Value: float64(c.judged)}, {Name: "most later calls that passed one", Value: float64(c.worst)}}
	return r.ConcludeFrom(fmt.Sprintf("No: %d calls judged, at most %d later ones passed one of them, beside those that took the lock over.", c.judged, c.worst), c.judged)
}

// queuedCall is a call that waits in the queue of a lock.
type queuedCall struct {
	op       history.Op
	process  string
	placed   int64 // when the earlier calls of its process had returned
	judged   bool
	held     time.Duration // until it was given back; forever if it was not
	tookOver bool          // it may have taken the lock over from the call before it
}
