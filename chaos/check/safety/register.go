// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"maps"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Each lock guards two registers, which begin at 0. A client that holds the lock reads a register and writes the value that it read plus
// one. So every update writes a number of its own. If two updates write the same number, both read the same value, and one of them is lost.

// FencedRegister is the checker fenced-register: the register that checks tokens accepted no stale write and lost no update. In particular
//   - after an operation with a token, no operation with a smaller token was accepted. This includes reads: a client shows its token before
//     its first read, because a fence that only writes raise loses updates (docs/safety.md, "Fencing tokens");
//   - no two accepted writes wrote the same number;
//   - no number was seen to fall;
//   - every number that was read can have been written. A write of unknown outcome may have been. This is not asked of a number that fell.
//
// The harness reads each register at the end, so the last write is kept too. If it did not, the verdict is Unknown.
//
// The order of tokens does not apply to operations without a token. Only reads may have none.
func FencedRegister() Register {
	c := &fencedRegister{registers: newRegisters(true), origin: map[origin]int64{}}
	c.values.landed = c.wasWritten
	return c
}

type fencedRegister struct {
	*registers
	check.Found
	shown, values, written rising[string, history.Op] // by register: tokens of the operations accepted, values of these, values written
	origin                 map[origin]int64           // call of the first write that may have written the value
	readAtEnd              bool                       // the harness reads the registers at the end
}

type origin struct {
	register string
	value    int64
}

func (c *fencedRegister) Add(h *history.History) {
	c.readAtEnd = h.Header.Expect != nil
	for _, op := range h.Own() {
		if !c.note(op) {
			continue
		}
		id := origin{op.Lock, op.Value}
		if _, ok := c.origin[id]; !ok && op.Kind == history.KindWrite {
			c.origin[id] = op.Call
		}
		if op.Outcome == history.OK {
			c.accepted(op)
		}
	}
	c.forget()
}

// forget drops the origins of values that are smaller than one that an operation that has returned saw. Whoever reads such a value from now on has
// seen the register fall, which is reported by itself.
func (c *fencedRegister) forget() {
	least := map[string]int64{}
	for lock, t := range c.values.tops {
		least[lock] = t.value
	}
	for _, w := range c.values.waiting {
		least[w.key] = min(least[w.key], w.value)
	}
	maps.DeleteFunc(c.origin, func(id origin, _ int64) bool { return id.value < least[id.register] })
}

func (c *fencedRegister) accepted(op history.Op) {
	if op.Token != 0 {
		if above, _ := c.shown.see(sighting[string, history.Op]{key: op.Lock, call: op.Call, ret: op.Return, value: op.Token, record: op}); above != nil {
			a := above.record
			c.Both(a, op, "stale token accepted: %s with token %d, after %s with token %d", check.Name(op), op.Token, check.Name(a), a.Token)
		}
	}
	value := sighting[string, history.Op]{key: op.Lock, call: op.Call, ret: op.Return, value: op.Value, record: op}
	if above, _ := c.values.see(value); above != nil {
		a := above.record
		c.Both(a, op, "value fell from %d to %d: %s, then %s", a.Value, op.Value, check.Name(a), check.Name(op))
	}
	if op.Kind != history.KindWrite {
		return
	}
	if _, same := c.written.see(value); same != nil {
		a := same.record
		c.Both(a, op, "update lost: %s and %s both wrote %d", check.Name(a), check.Name(op), op.Value)
	}
	if op.Token == 0 {
		c.Both(op, op, "a write without a token was accepted: %s", check.Name(op))
	}
}

// wasWritten reports a value that was read before anybody can have written it.
func (c *fencedRegister) wasWritten(s sighting[string, history.Op]) {
	op := s.record
	if op.Kind != history.KindRead || op.Value == 0 || s.fell {
		return
	}
	if call, ok := c.origin[origin{op.Lock, op.Value}]; !ok || call > op.Return {
		c.Both(op, op, "nobody had written %d: %s", op.Value, check.Name(op))
	}
}

func (c *fencedRegister) Result() check.Result {
	c.values.pass(history.Never)
	r := c.Into(check.Result{ID: "fenced-register", Question: "Did the register that checks fencing tokens lose an update or accept a stale write?"})
	writes := int(c.Updates().Written)
	r.Figures = []check.Figure{{Name: "fenced writes accepted", Value: float64(writes)}, {Name: "fenced operations refused", Value: float64(c.refused)}}
	r = r.ConcludeFrom(fmt.Sprintf("No: all of %d accepted updates were kept, and %d late operations were refused.", writes, c.refused), writes)
	if c.readAtEnd && r.Verdict == check.Ok && c.endsWithWrite() {
		r.Verdict, r.Summary = check.Unknown, "The last write was not read again, so it may be lost."
	}
	return r
}

// UnfencedRegister is the checker unfenced-register: it counts the updates that the register without tokens lost. Its verdict is always Ok:
// if a holder pauses for longer than its lease, no lock can prevent the loss (docs/safety.md, A1). The number shows what tokens are for.
func UnfencedRegister() Register { return &unfencedRegister{newRegisters(false)} }

type unfencedRegister struct{ *registers }

func (c *unfencedRegister) Add(h *history.History) {
	for _, op := range h.Own() {
		c.note(op)
	}
}

func (c *unfencedRegister) Result() check.Result {
	r := check.Result{ID: "unfenced-register", Question: "How many updates does a resource lose that does not check fencing tokens?", Verdict: check.Ok}
	u := c.Updates()
	rate := 0.0
	if u.Written > 0 {
		rate = 100 * float64(u.Lost) / float64(u.Written)
	}
	r.Summary = fmt.Sprintf("%d of %d acknowledged updates were lost (%.3g %%). This is counted, and fails no run.", u.Lost, u.Written, rate)
	r.Figures = []check.Figure{{Name: "unfenced writes acknowledged", Value: float64(u.Written)}, {Name: "unfenced updates lost", Value: float64(u.Lost)}, {Name: "unfenced updates lost, percent", Value: rate}}
	return r
}

// Updates counts the updates of registers that were acknowledged, and how many of these were lost.
type Updates struct{ Lost, Written int64 }

// Register is a checker of the registers that has also counted their updates.
type Register interface {
	check.Checker
	Updates() Updates
}

// registers counts the operations on the fenced or on the unfenced registers.
type registers struct {
	fenced  bool
	byLock  map[string]*register
	refused int
}

type register struct {
	written int64
	final   int64 // the value seen by the last operation to return
	last    int64 // its return

	endsWithWrite bool // that operation wrote
}

func newRegisters(fenced bool) *registers {
	return &registers{fenced: fenced, byLock: map[string]*register{}}
}

// note counts op, and reports whether it is an operation on one of these registers that was not refused.
func (rs *registers) note(op history.Op) bool {
	if op.Fenced != rs.fenced || op.Kind != history.KindRead && op.Kind != history.KindWrite {
		return false
	}
	reg := rs.byLock[op.Lock]
	if reg == nil {
		reg = &register{}
		rs.byLock[op.Lock] = reg
	}
	switch op.Outcome {
	case history.Failed:
		rs.refused++
		return false
	case history.OK:
		if op.Kind == history.KindWrite {
			reg.written++
		}
		if op.Return >= reg.last {
			reg.last, reg.final, reg.endsWithWrite = op.Return, op.Value, op.Kind == history.KindWrite
		}
	}
	return true
}

// endsWithWrite reports whether nobody read one of the registers after its last write.
func (rs *registers) endsWithWrite() bool {
	for _, reg := range rs.byLock {
		if reg.endsWithWrite {
			return true
		}
	}
	return false
}

// Updates returns how many updates the registers acknowledged, and how many of these they lost.
//
// Every update adds one, so updates lost = updates acknowledged - final value. A write of unknown outcome may have added one
// too, so the number of lost updates is a lower bound. The final value is the last one that was read or written.
func (rs *registers) Updates() (u Updates) {
	for _, reg := range rs.byLock {
		u.Written += reg.written
		u.Lost += max(0, reg.written-reg.final)
	}
	return u
}
