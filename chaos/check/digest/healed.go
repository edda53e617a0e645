// SPDX-License-Identifier: Apache-2.0

package digest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Healed is the checker healed. After the last fault every lock of the history can be taken, within bound after its first probe, and every
// key on a master ends. The verdict is Unknown if a lock was not probed after the last fault, or if a fault never ended.
//
// A key does not end in three cases: it has no TTL; its TTL is longer than any client asks for; or it is found more than TTL and bound after
// the last operation that can have set it, which means that something renews it although no client holds the lock.
func Healed(h *history.History, bound time.Duration) check.Result {
	r := check.Result{ID: "healed", Question: "Once the faults are over, can every lock be taken again, and does every key end?"}
	heal := healTime(h)
	probes := probesAfter(h, heal)
	unprobed, slowest := 0, time.Duration(0)
	for _, lock := range slices.Sorted(maps.Keys(probes)) {
		p := probes[lock]
		took := time.Duration(p.taken - p.asked)
		switch {
		case p.asked == history.Never:
			unprobed++
		case p.taken == history.Never:
			r.Violations = append(r.Violations, check.Violation{Text: fmt.Sprintf("%q could not be taken after the last fault", lock), Ops: p.ops, From: p.asked, To: p.asked + int64(bound)})
		case took > bound:
			r.Violations = append(r.Violations, check.Violation{Text: fmt.Sprintf("%q could be taken only after %v, more than %v", lock, took, bound), Ops: p.ops, From: p.asked, To: p.taken})
		default:
			slowest = max(slowest, took)
		}
	}
	keys := checkKeys(&r, h, heal, bound)
	r.Sort()
	r.Figures = []check.Figure{{Name: "locks probed after the last fault", Value: float64(len(probes) - unprobed)}, {Name: "slowest of them, seconds", Value: slowest.Seconds()}, {Name: "keys inspected", Value: float64(keys)}}
	r = r.Conclude(fmt.Sprintf("Yes: all of %d locks were taken within %v after the last fault; keys inspected: %d.", len(probes), slowest.Round(time.Microsecond), keys))
	if r.Verdict == check.Ok && (unprobed > 0 || len(probes) == 0) {
		r.Verdict, r.Summary = check.Unknown, fmt.Sprintf("%d of %d locks were not probed after the last fault.", unprobed, len(probes))
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
func checkKeys(r *check.Result, h *history.History, heal int64, bound time.Duration) (n int) {
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
			r.Violations = append(r.Violations, check.Violation{Text: fmt.Sprintf("the key of %q on %s %s", k.Lock, k.Node, why), From: k.At, To: k.At})
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
