// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"

	"github.com/redlock-go/redlock/chaos/history"
)

// Claim is a time [From, To) during which a client believed that it held a lock.
//
// From is the return of Lock: before it the client claims nothing. To is the call of Unlock, or the deadline if that comes first: a
// careful client stops at either. The interval is half-open. If one client stops at t and the next starts at t, both are never inside; with
// closed intervals a clock tick that a release and the next grant share would be an overlap.
type Claim struct {
	Grant    *history.Op // the lock operation, in the history it was computed from
	From, To int64
}

// GrantID names one grant. A holder is granted at most once: the checker assumptions makes sure of it.
type GrantID struct{ Lock, Holder string }

// Claims returns the claims on each lock, ordered by From. It leaves out empty claims.
//
// A successful extension that returns within the claim moves its end to the new deadline. One that returns after the end
// is a new claim that begins at its return: in between the client claimed nothing. Of extensions that were under way at the same time
// the latest deadline counts. Failed and unknown extensions change nothing (docs/safety.md, A18).
func Claims(h *history.History) map[string][]Claim {
	claims := map[string][]Claim{}
	for _, l := range Lives(h) {
		claims[l.Grant.Lock] = append(claims[l.Grant.Lock], l.Claims()...)
	}
	for _, cs := range claims {
		slices.SortStableFunc(cs, func(a, b Claim) int { return cmp.Compare(a.From, b.From) })
	}
	return claims
}

// Life is one grant with the operations on it.
type Life struct {
	Grant   *history.Op
	extends []*history.Op // the successful ones, by time of return
	Unlock  *history.Op   // the first; nil if the client never called it
}

// Lives returns the grants in the order of their calls.
func Lives(h *history.History) []*Life {
	byID := make(map[GrantID]*Life, len(h.Ops)/4)
	ls := make([]*Life, 0, len(h.Ops)/4)
	// The history is ordered by calls, so a grant comes before every operation on it (checker assumptions) and one pass is enough.
	for i := range h.Ops {
		op := &h.Ops[i]
		switch {
		case op.Kind == history.KindLock && op.Outcome == history.OK:
			l := &Life{Grant: op}
			byID[GrantID{op.Lock, op.Holder}] = l
			ls = append(ls, l)
		case op.Kind == history.KindExtend && op.Outcome == history.OK:
			if l := byID[GrantID{op.Lock, op.Holder}]; l != nil {
				l.extends = append(l.extends, op)
			}
		case op.Kind == history.KindUnlock:
			if l := byID[GrantID{op.Lock, op.Holder}]; l != nil && l.Unlock == nil {
				l.Unlock = op
			}
		}
	}
	for _, l := range ls {
		slices.SortStableFunc(l.extends, func(a, b *history.Op) int { return cmp.Compare(a.Return, b.Return) })
	}
	return ls
}

// Claims returns the claims of the grant, in their order.
func (l *Life) Claims() []Claim {
	released := int64(history.Never)
	if l.Unlock != nil {
		released = l.Unlock.Call
	}
	var cs []Claim
	add := func(from, deadline int64) {
		to := min(deadline, released)
		if n := len(cs); n > 0 && from <= cs[n-1].To {
			cs[n-1].To = max(from, to) // until it returned, the old deadline stood
		} else if from < to {
			cs = append(cs, Claim{Grant: l.Grant, From: from, To: to})
		}
	}
	add(l.Grant.Return, l.Grant.Deadline)
	called := int64(history.Beginning)
	for i, e := range l.extends {
		called = max(called, e.Call)
		until := e.Deadline
		for j := i - 1; j >= 0 && l.extends[j].Return >= called; j-- { // an extension replaces those that returned before its call
			until = max(until, l.extends[j].Deadline)
		}
		add(e.Return, until)
	}
	return cs
}

// Deadline returns the instant at which the claim ends if the client does not unlock.
func (l *Life) Deadline() int64 {
	d := l.Grant.Deadline
	for _, e := range l.extends {
		d = max(d, e.Deadline)
	}
	return d
}

// End returns the instant at which the client stops claiming for good.
func (l *Life) End() int64 {
	if l.Unlock != nil {
		return min(l.Deadline(), l.Unlock.Call)
	}
	return l.Deadline()
}

// Lapse returns the instant at which the client first stops claiming.
func (l *Life) Lapse() int64 {
	if cs := l.Claims(); len(cs) > 0 && cs[0].From == l.Grant.Return {
		return cs[0].To
	}
	if l.Unlock != nil {
		return min(l.Grant.Deadline, l.Unlock.Call)
	}
	return l.Grant.Deadline
}

// Settled returns the instant from which the life can change only if it has no unlock and is extended late.
func (l *Life) Settled() int64 { return max(l.End(), l.Grant.Return) }

// Overlaps sweeps over the times in which one lock was held, which are ordered by their beginnings. It calls found for each that begins while
// another one lasts, with the one of those that ends last. Readers may hold the lock together. A time does not contain its end.
//
// Of all times seen so far only two matter for the next one: the reader's that ends last, and the other that ends last.
func Overlaps[T any](times []T, of func(*T) (from, to int64, reader bool), found func(with, t *T)) {
	var last [2]*T // the others', and the readers'
	var ends [2]int64
	for i := range times {
		t := &times[i]
		from, to, reader := of(t)
		with := 0
		if !reader && last[1] != nil && (last[0] == nil || ends[1] > ends[0]) {
			with = 1
		}
		if last[with] != nil && ends[with] > from {
			found(last[with], t)
		}
		own := 0
		if reader {
			own = 1
		}
		if last[own] == nil || to > ends[own] {
			last[own], ends[own] = t, to
		}
	}
}

// Clone returns a copy that does not keep the chapter in memory.
func (l *Life) Clone() *Life {
	g := *l.Grant
	c := &Life{Grant: &g}
	for _, e := range l.extends {
		x := *e
		c.extends = append(c.extends, &x)
	}
	if l.Unlock != nil {
		u := *l.Unlock
		c.Unlock = &u
	}
	return c
}
