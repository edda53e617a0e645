// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/redlock-go/redlock/chaos/history"
)

// Each lock guards two registers, which begin at 0. A client that holds the lock reads a register and writes the value that it read plus
// one. So every update writes a number of its own. If two updates write the same number, both read the same value, and one of them is lost.

// FencedRegister is the checker fenced-register: the register that checks tokens accepted no stale write and lost no update. In particular
//   - after an operation with a token, no operation with a smaller token was accepted. This includes reads: a client shows its token before
//     its first read, because a fence that only writes raise loses updates (docs/safety.md, "Fencing tokens");
//   - no two accepted writes wrote the same number;
//   - no number was seen to fall;
//   - every number that was read can have been written. A write of unknown outcome may have been.
//
// The harness reads each register at the end, so the last write is kept too. If it did not, the verdict is Unknown.
//
// The order of tokens does not apply to operations without a token. Only reads may have none.
func FencedRegister(h *history.History) Result {
	r := Result{ID: "fenced-register", Question: "Did the register that checks fencing tokens lose an update or accept a stale write?"}
	writes := 0
	refused := 0
	unread := false
	for _, reg := range registers(h, true) {
		r.checkFenced(h, reg)
		unread = unread || reg.endsWithWrite
		writes += len(reg.written)
		refused += reg.refused
	}
	r.sort()
	r.Figures = []Figure{{"fenced writes accepted", float64(writes)}, {"fenced operations refused", float64(refused)}}
	r = r.observed(fmt.Sprintf("No: all of %d accepted updates were kept, and %d late operations were refused.", writes, refused), writes)
	if unread && r.Verdict == Ok && h.Header.Expect != nil { // the harness of older histories did not read the registers at the end
		r.Verdict, r.Summary = Unknown, "The last write was not read again, so it may be lost."
	}
	return r
}

func (r *Result) checkFenced(h *history.History, reg *register) {
	for _, p := range fallen(reg.shown) {
		a, b := h.Ops[p[0]], h.Ops[p[1]]
		r.add(a, b, "stale token accepted: %s with token %d, after %s with token %d", name(b), b.Token, name(a), a.Token)
	}
	for _, p := range twice(reg.written) {
		a, b := h.Ops[p[0]], h.Ops[p[1]]
		r.add(a, b, "update lost: %s and %s both wrote %d", name(a), name(b), b.Value)
	}
	for _, p := range fallen(reg.values) {
		a, b := h.Ops[p[0]], h.Ops[p[1]]
		r.add(a, b, "value fell from %d to %d: %s, then %s", a.Value, b.Value, name(a), name(b))
	}
	for _, s := range reg.values {
		op := h.Ops[s.at]
		if call, ok := reg.origin[op.Value]; op.Kind == history.KindRead && op.Value != 0 && (!ok || call > op.Return) {
			r.add(op, op, "nobody had written %d: %s", op.Value, name(op))
		}
		if op.Kind == history.KindWrite && op.Token == 0 {
			r.add(op, op, "a write without a token was accepted: %s", name(op))
		}
	}
}

// UnfencedRegister is the checker unfenced-register: it counts the updates that the register without tokens lost. Its verdict is always Ok:
// if a holder pauses for longer than its lease, no lock can prevent the loss (docs/safety.md, A1). The number shows what tokens are for.
func UnfencedRegister(h *history.History) Result {
	r := Result{ID: "unfenced-register", Question: "How many updates does a resource lose that does not check fencing tokens?", Verdict: Ok}
	lost, writes := Lost(h, false)
	rate := 0.0
	if writes > 0 {
		rate = 100 * float64(lost) / float64(writes)
	}
	r.Summary = fmt.Sprintf("%d of %d acknowledged updates were lost (%.3g %%). This is counted, and fails no run.", lost, writes, rate)
	r.Figures = []Figure{{"unfenced writes acknowledged", float64(writes)}, {"unfenced updates lost", float64(lost)}, {"unfenced updates lost, percent", rate}}
	return r
}

// Lost returns how many updates the fenced or unfenced registers acknowledged, and how many of these they lost.
//
// Every update adds one, so updates lost = updates acknowledged - final value. A write of unknown outcome may have added one
// too, so the number of lost updates is a lower bound. The final value is the last one that was read or written.
func Lost(h *history.History, fenced bool) (lost, writes int64) {
	for _, reg := range registers(h, fenced) {
		writes += int64(len(reg.written))
		lost += max(0, int64(len(reg.written))-reg.final)
	}
	return lost, writes
}

// register collects the operations on one register.
type register struct {
	shown   []seen          // tokens of the operations accepted
	values  []seen          // values read or written
	written []seen          // values written
	origin  map[int64]int64 // value -> call of the first write that may have written it
	refused int
	final   int64 // the value seen by the last operation to return
	last    int64 // its return

	endsWithWrite bool // that operation wrote
}

func registers(h *history.History, fenced bool) []*register {
	byLock := map[string]*register{}
	for i, op := range h.Ops {
		if op.Fenced != fenced || op.Kind != history.KindRead && op.Kind != history.KindWrite {
			continue
		}
		reg := byLock[op.Lock]
		if reg == nil {
			reg = &register{origin: map[int64]int64{}}
			byLock[op.Lock] = reg
		}
		reg.note(op, i)
	}
	regs := make([]*register, 0, len(byLock))
	for _, lock := range sortedKeys(byLock) {
		regs = append(regs, byLock[lock])
	}
	return regs
}

func (reg *register) note(op history.Op, i int) {
	if op.Outcome == history.Failed {
		reg.refused++
		return
	}
	if _, ok := reg.origin[op.Value]; !ok && op.Kind == history.KindWrite {
		reg.origin[op.Value] = op.Call
	}
	if op.Outcome != history.OK {
		return
	}
	s := seen{op.Call, op.Return, op.Value, i}
	reg.values = append(reg.values, s)
	if op.Kind == history.KindWrite {
		reg.written = append(reg.written, s)
	}
	if op.Token != 0 {
		reg.shown = append(reg.shown, seen{op.Call, op.Return, op.Token, i})
	}
	if op.Return >= reg.last {
		reg.last, reg.final, reg.endsWithWrite = op.Return, op.Value, op.Kind == history.KindWrite
	}
}
