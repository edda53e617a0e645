// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Assumptions is the checker assumptions: the history can be true. Every other checker relies on it. In particular
//   - operations are ordered by call, and none ends before it starts;
//   - a client has one operation in flight at a time;
//   - an operation that succeeded has returned;
//   - a grant names its holder and deadline, and no holder is granted twice;
//   - operations on a grant come after the grant.
func Assumptions(h *history.History) Result {
	r := Result{ID: "assumptions", Question: "Can this history be true?"}
	bad := func(op history.Op, why string) {
		r.Violations = append(r.Violations, Violation{Text: why + ": " + name(op), Ops: []history.Op{op}, From: op.Call, To: op.Return})
	}
	busy := map[string]int64{} // client -> return of its last operation
	grants := map[grantID]int64{}
	call := int64(0)
	for _, op := range h.Ops {
		if op.Call < call {
			bad(op, "not ordered by call")
		}
		call = op.Call
		if op.Return < op.Call {
			bad(op, "ends before it starts")
		}
		if until, ok := busy[op.Client]; ok && until > op.Call {
			bad(op, "its client has another operation in flight")
		}
		busy[op.Client] = op.Return
		if op.Outcome == history.OK {
			if why := succeeded(op, grants); why != "" {
				bad(op, why)
			}
		}
		if granted, ok := grants[grantID{op.Lock, op.Holder}]; ok && op.Kind == history.KindUnlock && op.Call < granted {
			bad(op, "called before its lock was granted")
		}
	}
	for _, f := range h.Faults {
		if f.End < f.Start {
			r.Violations = append(r.Violations, Violation{Text: fmt.Sprintf("ends before it starts: fault %s at %d", f.Nemesis, f.Start), From: f.End, To: f.Start})
		}
	}
	return r.conclude(fmt.Sprintf("Yes: %d operations of %d clients, one at a time each.", len(h.Ops), len(busy)))
}

// succeeded returns what cannot be true of a successful operation, or "". It remembers grants.
func succeeded(op history.Op, grants map[grantID]int64) string {
	id := grantID{op.Lock, op.Holder}
	granted, known := grants[id]
	switch op.Kind {
	case history.KindLock:
		grants[id] = op.Return
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

// Healed is the checker healed. After the last fault every lock of the history can be taken, within bound after its first probe, and every
// key on a master ends. The verdict is Unknown if a lock was not probed after the last fault, or if a fault never ended.
//
// A key does not end in three cases: it has no TTL; its TTL is longer than any client asks for; or it is found more than TTL and bound after
// the last operation that can have set it, which means that something renews it although no client holds the lock.
func Healed(h *history.History, bound time.Duration) Result {
	r := Result{ID: "healed", Question: "Once the faults are over, can every lock be taken again, and does every key end?"}
	heal := int64(0)
	for _, f := range h.Faults {
		if f.Error == "" {
			heal = max(heal, f.End)
		}
	}
	probes := probesAfter(h, heal)
	unprobed, slowest := 0, time.Duration(0)
	for _, lock := range sortedKeys(probes) {
		p := probes[lock]
		took := time.Duration(p.taken - p.asked)
		switch {
		case p.asked == history.Never:
			unprobed++
		case p.taken == history.Never:
			r.Violations = append(r.Violations, Violation{Text: fmt.Sprintf("%q could not be taken after the last fault", lock), Ops: p.ops, From: p.asked, To: p.asked + int64(bound)})
		case took > bound:
			r.Violations = append(r.Violations, Violation{Text: fmt.Sprintf("%q could be taken only after %v, more than %v", lock, took, bound), Ops: p.ops, From: p.asked, To: p.taken})
		default:
			slowest = max(slowest, took)
		}
	}
	r.checkKeys(h, heal, bound)
	r.sort()
	r.Figures = []Figure{{"locks probed after the last fault", float64(len(probes) - unprobed)}, {"slowest of them, seconds", slowest.Seconds()}, {"keys inspected", float64(len(h.Keys))}}
	r = r.conclude(fmt.Sprintf("Yes: all of %d locks were taken within %v after the last fault; keys inspected: %d.", len(probes), slowest.Round(time.Microsecond), len(h.Keys)))
	if r.Verdict == Ok && (unprobed > 0 || len(probes) == 0) {
		r.Verdict, r.Summary = Unknown, fmt.Sprintf("%d of %d locks were not probed after the last fault.", unprobed, len(probes))
	}
	return r
}

// recovery says when one lock was first probed after the last fault, and when it was first taken.
type recovery struct {
	asked, taken int64 // Never: not at all
	ops          []history.Op
}

func probesAfter(h *history.History, heal int64) map[string]*recovery {
	byLock := map[string]*recovery{}
	for _, op := range h.Ops {
		if op.Kind != history.KindLock && op.Kind != history.KindProbe {
			continue
		}
		p := byLock[op.Lock]
		if p == nil {
			p = &recovery{asked: history.Never, taken: history.Never}
			byLock[op.Lock] = p
		}
		if op.Kind != history.KindProbe || op.Call < heal || p.taken != history.Never {
			continue
		}
		p.asked = min(p.asked, op.Call)
		p.ops = append(p.ops, op)
		if op.Outcome == history.OK {
			p.taken = op.Return
		}
	}
	return byLock
}

func (r *Result) checkKeys(h *history.History, heal int64, bound time.Duration) {
	touched := map[string]int64{} // lock -> last instant at which a client was at it
	for _, op := range h.Ops {
		switch {
		case op.Kind == history.KindRead || op.Kind == history.KindWrite:
		case op.Return == history.Never:
			touched[op.Lock] = max(touched[op.Lock], op.Call)
		default:
			touched[op.Lock] = max(touched[op.Lock], op.Return)
		}
	}
	for _, k := range h.Keys {
		why := ""
		switch stale := k.At - touched[k.Lock] - int64(h.Header.TTL+bound); {
		case k.TTL < 0:
			why = "has no expiry"
		case k.What != history.KeyVotes: // the checker left-behind judges those
		case k.At < heal: // a stepped clock may show any time left
		case k.TTL > h.Header.TTL:
			why = fmt.Sprintf("has %v left, and no client asks for more than %v", k.TTL, h.Header.TTL)
		case stale > 0:
			why = fmt.Sprintf("is still there %v after any client can have set it", h.Header.TTL+bound+time.Duration(stale))
		}
		if why != "" {
			r.Violations = append(r.Violations, Violation{Text: fmt.Sprintf("the key of %q on %s %s", k.Lock, k.Node, why), From: k.At, To: k.At})
		}
	}
}

// Minimums is what a run must have done to mean something. A field that is zero is not checked.
type Minimums = history.Minimums

// Effort is the checker effort: the run did enough for the other verdicts to mean something. A periodic robustness job of etcd once ran
// nothing for two weeks and stayed green (etcd#21033).
func Effort(h *history.History, least Minimums) Result {
	r := Result{ID: "effort", Question: "Did the run do enough for its other answers to mean something?"}
	var acquired, tokens, readers int
	for _, op := range h.Ops {
		if op.Kind == history.KindLock && op.Outcome == history.OK {
			acquired++
			if op.Token != 0 {
				tokens++
			}
			if op.Mode == history.Shared {
				readers++
			}
		}
	}
	disturbed := GrantsUnderFaults(h)
	applied, faults := map[string]int{}, 0
	for _, f := range h.Faults {
		if f.Error == "" {
			applied[f.Nemesis]++
			faults++
		}
	}
	enough := func(what string, got, want int) {
		if got < want {
			r.Violations = append(r.Violations, Violation{Text: fmt.Sprintf("%s: %d, want at least %d", what, got, want)})
		}
	}
	waited := contended(h)
	enough("locks granted", acquired, least.Acquisitions)
	enough("locks granted while a fault was at work", disturbed, least.UnderFaults)
	enough("locks granted to readers", readers, least.Readers)
	enough("lock calls while another client held the lock", waited, least.Contended)
	enough("tokens issued", tokens, least.Tokens)
	for _, n := range sortedKeys(least.Faults) {
		enough("faults applied by "+n, applied[n], least.Faults[n])
	}
	r.Figures = []Figure{{"locks granted", float64(acquired)}, {"locks granted under faults", float64(disturbed)}, {"contended lock calls", float64(waited)}, {"faults applied", float64(faults)}}
	return r.conclude(fmt.Sprintf("Yes: %d locks granted, %d of them under faults, %d lock calls met another holder, %d faults were applied.", acquired, disturbed, waited, faults))
}

// GrantsUnderFaults counts the locks that were granted while a fault was at work. A lock that is granted when all is quiet says nothing about
// faults. Probes do not count.
func GrantsUnderFaults(h *history.History) (n int) {
	var faults []span
	for _, f := range h.Faults {
		if f.Error == "" {
			faults = append(faults, span{f.Start, f.End})
		}
	}
	at := union(faults)
	for _, op := range h.Ops {
		if op.Kind == history.KindLock && op.Outcome == history.OK && at.meets(op.Return, op.Return) {
			n++
		}
	}
	return n
}

// contended counts the lock calls that were made during another client's claim on the lock.
func contended(h *history.History) int {
	claims := Claims(h)
	next := map[string]int{}
	until := map[string]int64{} // lock -> end of the last claim that began by now
	n := 0
	for _, op := range h.Ops {
		if op.Kind != history.KindLock {
			continue
		}
		cs := claims[op.Lock]
		i := next[op.Lock]
		for ; i < len(cs) && cs[i].From <= op.Call; i++ {
			until[op.Lock] = max(until[op.Lock], cs[i].To)
		}
		next[op.Lock] = i
		if until[op.Lock] > op.Call {
			n++
		}
	}
	return n
}
