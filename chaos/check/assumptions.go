// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"hash/maphash"

	"github.com/redlock-go/redlock/chaos/history"
)

// Assumptions is the checker assumptions: the history can be true. Every other checker relies on it. In particular
//   - operations are ordered by call, and none ends before it starts;
//   - a client has one operation in flight at a time;
//   - an operation that succeeded has returned;
//   - a grant names its holder and deadline, and no holder is granted twice;
//   - operations on a grant come after the grant.
func Assumptions(h *history.History) Result { return judge(newAssumptions(), h) }

type assumptions struct {
	found
	began bool
	known int64 // what was called before is judged
	call  int64 // of the last operation
	ops   int
	busy  map[string]int64    // client -> return of its last operation
	now   map[grantID]int64   // grants -> their returns
	past  map[uint64]struct{} // hashes of grants that returned before known. That two are equal in a run of a day is less likely than 1 to a million
	seed  maphash.Seed
}

func newAssumptions() *assumptions {
	return &assumptions{known: history.Beginning, busy: map[string]int64{}, now: map[grantID]int64{}, past: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
}

// add judges everything that is known, also what comes after the end of the chapter: the other checkers look at it too.
func (c *assumptions) add(h *history.History) {
	if !c.began {
		c.began = true
		c.addFaults(h.Faults)
	}
	known := int64(history.Never)
	if h.Part != nil {
		known = h.Part.Known
	}
	for _, op := range h.Ops {
		if op.Call >= c.known {
			c.addOp(op)
		}
	}
	c.known = known
	for id, ret := range c.now {
		if ret < known {
			c.past[maphash.Comparable(c.seed, id)] = struct{}{}
			delete(c.now, id)
		}
	}
}

func (c *assumptions) bad(op history.Op, why string) {
	c.report(Violation{Text: why + ": " + name(op), Ops: []history.Op{op}, From: op.Call, To: op.Return})
}

func (c *assumptions) addOp(op history.Op) {
	c.ops++
	if op.Call < c.call {
		c.bad(op, "not ordered by call")
	}
	c.call = op.Call
	if op.Return < op.Call {
		c.bad(op, "ends before it starts")
	}
	if until, ok := c.busy[op.Client]; ok && until > op.Call {
		c.bad(op, "its client has another operation in flight")
	}
	c.busy[op.Client] = op.Return
	if op.Outcome == history.OK {
		if why := c.succeeded(op); why != "" {
			c.bad(op, why)
		}
	}
	if granted, ok := c.now[grantID{op.Lock, op.Holder}]; ok && op.Kind == history.KindUnlock && op.Call < granted {
		c.bad(op, "called before its lock was granted")
	}
}

// succeeded returns what cannot be true of a successful operation, or "". It remembers grants.
func (c *assumptions) succeeded(op history.Op) string {
	id := grantID{op.Lock, op.Holder}
	granted, known := c.now[id]
	if !known {
		_, known = c.past[maphash.Comparable(c.seed, id)]
	}
	switch op.Kind {
	case history.KindLock:
		c.now[id] = op.Return
		if op.Holder == "" || op.Deadline <= 0 {
			return "granted without a holder or a deadline"
		}
		if known {
			return "its holder was granted before"
		}
	case history.KindExtend, history.KindUnlock:
		if !known || op.Call < granted {
			return "succeeded for a holder that was not granted yet"
		}
		if op.Kind == history.KindExtend && op.Deadline <= 0 {
			return "extended without a deadline"
		}
	}
	if op.Return == history.Never {
		return "succeeded without returning"
	}
	return ""
}

func (c *assumptions) addFaults(faults []history.Fault) {
	for _, f := range faults {
		if f.End < f.Start {
			c.report(Violation{Text: fmt.Sprintf("ends before it starts: fault %s at %d", f.Nemesis, f.Start), From: f.End, To: f.Start})
		}
	}
}

func (c *assumptions) result() Result {
	r := Result{ID: "assumptions", Question: "Can this history be true?", Violations: c.violations, More: c.more}
	return r.conclude(fmt.Sprintf("Yes: %d operations of %d clients, one at a time each.", c.ops, len(c.busy)))
}
