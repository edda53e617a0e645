// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Assumptions is the checker assumptions: the history can be true. Every other checker relies on it. In particular
//   - operations are ordered by call, and none ends before it starts;
//   - a client has one operation in flight at a time;
//   - an operation that succeeded has returned;
//   - a grant names its holder and deadline, and no holder is granted twice;
//   - operations on a grant come after the grant, and no extension that was called after the grant was released succeeds;
//   - a claim lasts for the TTL of the header at most, counted from the return of the grant or of the extension.
func Assumptions() check.Checker {
	return &assumptions{known: history.Beginning, busy: map[string]int64{}, now: map[check.GrantID]tenure{}, past: map[uint64]bool{}, seed: maphash.MakeSeed()}
}

type assumptions struct {
	check.Found
	header history.Header
	began  bool
	known  int64 // what was called before is judged
	call   int64 // of the last operation
	ops    int
	busy   map[string]int64 // client -> return of its last operation
	now    map[check.GrantID]tenure
	past   map[uint64]bool // hashes of grants whose tenure is before known: it was released. That two are equal in a run of a day is less likely than 1 to a million
	seed   maphash.Seed
}

// tenure is when a grant returned, and when its first successful unlock did (Never: none has).
type tenure struct{ granted, released int64 }

// Add judges everything that is known, also what comes after the end of the chapter: the other checkers look at it too.
func (c *assumptions) Add(h *history.History) {
	if !c.began {
		c.began, c.header = true, h.Header
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
	for id, t := range c.now {
		if t.granted < known && (t.released < known || t.released == history.Never) {
			c.past[maphash.Comparable(c.seed, id)] = t.released < known
			delete(c.now, id)
		}
	}
}

// tenure returns the tenure of a grant, and whether there is such a grant.
func (c *assumptions) tenure(id check.GrantID) (tenure, bool) {
	if t, ok := c.now[id]; ok {
		return t, true
	}
	released, ok := c.past[maphash.Comparable(c.seed, id)]
	if released {
		return tenure{history.Beginning, history.Beginning}, true
	}
	return tenure{history.Beginning, history.Never}, ok
}

func (c *assumptions) bad(op history.Op, why string) {
	c.Report(check.Violation{Text: why + ": " + check.Name(op), Ops: []history.Op{op}, From: op.Call, To: op.Return})
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
	if t, ok := c.now[check.GrantID{Lock: op.Lock, Holder: op.Holder}]; ok && op.Kind == history.KindUnlock && op.Call < t.granted {
		c.bad(op, "called before its lock was granted")
	}
}

// succeeded returns what cannot be true of a successful operation, or "". It remembers grants and their releases.
func (c *assumptions) succeeded(op history.Op) string {
	id := check.GrantID{Lock: op.Lock, Holder: op.Holder}
	t, known := c.tenure(id)
	switch op.Kind {
	case history.KindLock:
		c.now[id] = tenure{op.Return, history.Never}
		if op.Holder == "" || op.Deadline <= 0 {
			return "granted without a holder or a deadline"
		}
		if known {
			return "its holder was granted before"
		}
	case history.KindExtend, history.KindUnlock:
		if !known || op.Call < t.granted {
			return "succeeded for a holder that was not granted yet"
		}
		if op.Kind == history.KindUnlock {
			c.now[id] = tenure{t.granted, min(t.released, op.Return)}
		} else if op.Deadline <= 0 {
			return "extended without a deadline"
		} else if t.released < op.Call {
			return "succeeded after the unlock of its lock had"
		}
	}
	if op.Return == history.Never {
		return "succeeded without returning"
	}
	return c.claimsTooLong(op, t)
}

// claimsTooLong returns what is wrong with the deadline of a grant or of an extension, or "". A hundredth of the TTL is allowed, because clocks may run
// apart. The simulation records all renewals of a lease as one extension at the return of its grant, and that one may last for longer.
func (c *assumptions) claimsTooLong(op history.Op, t tenure) string {
	longest, lasts := c.header.TTL, time.Duration(op.Deadline-op.Return)
	allRenewals := c.header.Driver == "sim" && op.Kind == history.KindExtend && op.Return == t.granted
	if op.Kind != history.KindLock && op.Kind != history.KindExtend || allRenewals || lasts <= longest+longest/100 {
		return ""
	}
	return fmt.Sprintf("claimed for %v after its return, and no client asks for more than %v", lasts, longest)
}

func (c *assumptions) addFaults(faults []history.Fault) {
	for _, f := range faults {
		if f.End < f.Start {
			c.Report(check.Violation{Text: fmt.Sprintf("ends before it starts: fault %s at %d", f.Nemesis, f.Start), From: f.End, To: f.Start})
		}
	}
}

func (c *assumptions) Result() check.Result {
	r := check.Result{ID: "assumptions", Question: "Can this history be true?", Violations: c.Violations, More: c.More}
	return r.Conclude(fmt.Sprintf("Yes: %d operations of %d clients, one at a time each.", c.ops, len(c.busy)))
}
