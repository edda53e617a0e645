// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Healed is the checker healed. After the last fault every lock of the history can be taken, within bound after its first probe, and every
// key on a master ends. The verdict is Unknown if a lock was not probed after the last fault, or if a fault never ended.
//
// A key does not end in three cases: it has no TTL; its TTL is longer than any client asks for; or it is found more than TTL and bound after
// the last operation that can have set it, which means that something renews it although no client holds the lock.
func Healed(h *history.History, bound time.Duration) Result {
	r := Result{ID: "healed", Question: "Once the faults are over, can every lock be taken again, and does every key end?"}
	heal := healTime(h)
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
	keys := r.checkKeys(h, heal, bound)
	r.sort()
	r.Figures = []Figure{{"locks probed after the last fault", float64(len(probes) - unprobed)}, {"slowest of them, seconds", slowest.Seconds()}, {"keys inspected", float64(keys)}}
	r = r.conclude(fmt.Sprintf("Yes: all of %d locks were taken within %v after the last fault; keys inspected: %d.", len(probes), slowest.Round(time.Microsecond), keys))
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

// checkKeys returns how many keys it inspected.
func (r *Result) checkKeys(h *history.History, heal int64, bound time.Duration) (n int) {
	touched := map[string]int64{} // lock -> last instant at which a client was at it
	for _, op := range h.Ops {
		if t, ok := touches(op); ok {
			touched[op.Lock] = max(touched[op.Lock], t)
		}
	}
	for _, k := range h.Keys {
		if !mayStay(k, heal) {
			continue
		}
		n++
		why, ahead := "", aheadOn(h, k)
		switch stale := k.At - touched[k.Lock] - int64(h.Header.TTL+bound); {
		case k.TTL < 0:
			why = "has no expiry"
		case k.What != history.KeyVotes: // the checker left-behind judges those
		case k.TTL > h.Header.TTL+ahead && (heal == 0 || k.At-heal >= int64(h.Header.TTL)): // just after a fault it may be of a clock that was ahead by a little
			why = fmt.Sprintf("has %v left, and no client asks for more than %v", k.TTL, h.Header.TTL)
		case stale > int64(ahead):
			why = fmt.Sprintf("is still there %v after any client can have set it", h.Header.TTL+bound+time.Duration(stale))
		}
		if why != "" {
			r.Violations = append(r.Violations, Violation{Text: fmt.Sprintf("the key of %q on %s %s", k.Lock, k.Node, why), From: k.At, To: k.At})
		}
	}
	return n
}

// aheadOn is how much longer a key may last because a clock of its master was ahead when it was given its TTL.
func aheadOn(h *history.History, k history.Key) (longest time.Duration) {
	for _, f := range h.Faults {
		if f.Error == "" && (len(f.Targets) == 0 || slices.Contains(f.Targets, k.Node)) {
			longest = max(longest, f.Ahead-time.Duration(k.At-f.End))
		}
	}
	return longest
}

// touches returns the last instant at which the client of op may have set the key of the lock.
func touches(op history.Op) (t int64, ok bool) {
	switch {
	case op.Kind == history.KindRead || op.Kind == history.KindWrite:
		return 0, false
	case op.Return == history.Never:
		return op.Call, true
	}
	return op.Return, true
}

// mayStay reports whether a key is inspected: if it has no expiry, or if it was found after the last fault. Before that, a stepped clock may show
// any time left.
func mayStay(k history.Key, heal int64) bool { return k.TTL < 0 || k.At >= heal }

// healTime returns the end of the last fault that was applied.
func healTime(h *history.History) (heal int64) {
	for _, f := range h.Faults {
		if f.Error == "" {
			heal = max(heal, f.End)
		}
	}
	return heal
}

// Minimums is what a run must have done to mean something. A field that is zero is not checked.
type Minimums = history.Minimums

// Effort is the checker effort: the run did enough for the other verdicts to mean something. A periodic robustness job of etcd once ran
// nothing for two weeks and stayed green (etcd#21033).
func Effort(h *history.History, least Minimums) Result { return judge(&effort{least: least}, h) }

type effort struct {
	least                                           Minimums
	acquired, tokens, readers, disturbed, contended int
	faults                                          []history.Fault
	findings                                        []history.Finding
}

func (c *effort) add(h *history.History) {
	for _, op := range h.Own() {
		if op.Kind == history.KindLock && op.Outcome == history.OK {
			c.acquired++
			if op.Token != 0 {
				c.tokens++
			}
			if op.Mode == history.Shared {
				c.readers++
			}
		}
	}
	c.disturbed += GrantsUnderFaults(h)
	c.contended += contended(h)
	c.faults, c.findings = h.Faults, h.Findings
}

func (c *effort) result() Result {
	r := Result{ID: "effort", Question: "Did the run do enough for its other answers to mean something?"}
	applied, faults := map[string]int{}, 0
	for _, f := range c.faults {
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
	enough("locks granted", c.acquired, c.least.Acquisitions)
	enough("locks granted while a fault was at work", c.disturbed, c.least.UnderFaults)
	enough("locks granted to readers", c.readers, c.least.Readers)
	enough("lock calls while another client held the lock", c.contended, c.least.Contended)
	enough("tokens issued", c.tokens, c.wantTokens())
	for _, n := range sortedKeys(c.least.Faults) {
		enough("faults applied by "+n, applied[n], c.least.Faults[n])
	}
	for _, f := range c.findings {
		if f.Checker == "effort" {
			r.Violations = append(r.Violations, Violation{Text: f.Detail})
		}
	}
	r.Figures = []Figure{{"locks granted", float64(c.acquired)}, {"locks granted under faults", float64(c.disturbed)}, {"contended lock calls", float64(c.contended)}, {"faults applied", float64(faults)}}
	return r.conclude(fmt.Sprintf("Yes: %d locks granted, %d of them under faults, %d lock calls met another holder, %d faults were applied.", c.acquired, c.disturbed, c.contended, faults))
}

// wantTokens returns how many tokens there must be. The minimums of a run are far below what it does, so if they ask for a token for each lock, they
// ask for one for each lock that was granted, and not for as many tokens as locks in the least run.
func (c *effort) wantTokens() int {
	if c.least.Tokens > 0 && c.least.Tokens >= c.least.Acquisitions {
		return max(c.least.Tokens, c.acquired)
	}
	return c.least.Tokens
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
	for _, op := range h.Own() {
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
	for _, op := range h.Own() {
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
