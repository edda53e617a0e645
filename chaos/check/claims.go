// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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

// grantID names one grant. A holder is granted at most once: the checker assumptions makes sure of it.
type grantID struct{ lock, holder string }

// Claims returns the claims on each lock, ordered by From. It leaves out empty claims.
//
// A successful extension that returns within the claim moves its end to the new deadline. One that returns after the end
// is a new claim that begins at its return: in between the client claimed nothing. Of extensions that were under way at the same time
// the latest deadline counts. Failed and unknown extensions change nothing (docs/safety.md, A18).
func Claims(h *history.History) map[string][]Claim {
	claims := map[string][]Claim{}
	for _, l := range lives(h) {
		claims[l.grant.Lock] = append(claims[l.grant.Lock], l.claims()...)
	}
	for _, cs := range claims {
		slices.SortStableFunc(cs, func(a, b Claim) int { return cmp.Compare(a.From, b.From) })
	}
	return claims
}

// life is one grant with the operations on it.
type life struct {
	grant   *history.Op
	extends []*history.Op // the successful ones, by time of return
	unlock  *history.Op   // the first; nil if the client never called it
}

// lives returns the grants in the order of their calls.
func lives(h *history.History) []*life {
	byID := make(map[grantID]*life, len(h.Ops)/4)
	ls := make([]*life, 0, len(h.Ops)/4)
	// The history is ordered by calls, so a grant comes before every operation on it (checker assumptions) and one pass is enough.
	for i := range h.Ops {
		op := &h.Ops[i]
		switch {
		case op.Kind == history.KindLock && op.Outcome == history.OK:
			l := &life{grant: op}
			byID[grantID{op.Lock, op.Holder}] = l
			ls = append(ls, l)
		case op.Kind == history.KindExtend && op.Outcome == history.OK:
			if l := byID[grantID{op.Lock, op.Holder}]; l != nil {
				l.extends = append(l.extends, op)
			}
		case op.Kind == history.KindUnlock:
			if l := byID[grantID{op.Lock, op.Holder}]; l != nil && l.unlock == nil {
				l.unlock = op
			}
		}
	}
	for _, l := range ls {
		slices.SortStableFunc(l.extends, func(a, b *history.Op) int { return cmp.Compare(a.Return, b.Return) })
	}
	return ls
}

func (l *life) claims() []Claim {
	released := int64(history.Never)
	if l.unlock != nil {
		released = l.unlock.Call
	}
	var cs []Claim
	add := func(from, deadline int64) {
		to := min(deadline, released)
		if n := len(cs); n > 0 && from <= cs[n-1].To {
			cs[n-1].To = max(from, to) // until it returned, the old deadline stood
		} else if from < to {
			cs = append(cs, Claim{Grant: l.grant, From: from, To: to})
		}
	}
	add(l.grant.Return, l.grant.Deadline)
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

// deadline returns the instant at which the claim ends if the client does not unlock.
func (l *life) deadline() int64 {
	d := l.grant.Deadline
	for _, e := range l.extends {
		d = max(d, e.Deadline)
	}
	return d
}

// end returns the instant at which the client stops claiming for good.
func (l *life) end() int64 {
	if l.unlock != nil {
		return min(l.deadline(), l.unlock.Call)
	}
	return l.deadline()
}

// lapse returns the instant at which the client first stops claiming.
func (l *life) lapse() int64 {
	if cs := l.claims(); len(cs) > 0 && cs[0].From == l.grant.Return {
		return cs[0].To
	}
	if l.unlock != nil {
		return min(l.grant.Deadline, l.unlock.Call)
	}
	return l.grant.Deadline
}

// settled returns the instant from which the life can change only if it has no unlock and is extended late.
func (l *life) settled() int64 { return max(l.end(), l.grant.Return) }

// Exclusion is the checker exclusion: no two claims on one lock overlap, unless both are readers'. Exact, O(n log n).
//
// Each claim that begins while another one lasts is one violation, shown with the claim that ends last of those. A claim that overlaps
// several others is one violation too. An overlap while exclusion is suspended (Suspension) is no violation: it is in Result.NotJudged. If
// all claims fall into that time, or if there is none, the verdict is Unknown.
func Exclusion(h *history.History) Result { return judge(&exclusion{}, h) }

type exclusion struct {
	found
	claims, judged int
	locks          map[string]bool
	suspended      Suspension
	notJudged      found
	// What may last longer than the chapter that has its beginning knows, because that was cut all the same (Chapters). A later one decides it.
	open     map[claimID]bool // claims; true: it is judged, as far as is known
	overlaps map[claimID]Violation
}

// claimID names a claim, and the overlap with the one that it begins in.
type claimID struct {
	grantID
	from int64
}

func (c *exclusion) add(h *history.History) {
	claims, known := Claims(h), int64(history.Never)
	if h.Part != nil {
		known = h.Part.Known
	}
	if c.locks == nil {
		c.locks, c.suspended = map[string]bool{}, SuspendedExclusion(h)
		c.open, c.overlaps = map[claimID]bool{}, map[claimID]Violation{}
	}
	for _, lock := range sortedKeys(claims) {
		for _, claim := range claims[lock] {
			id := claimID{grantID{lock, claim.Grant.Holder}, claim.From}
			if _, again := c.open[id]; !again {
				if !h.Owns(claim.From) {
					continue
				}
				c.claims++
				c.locks[lock] = true
			}
			c.open[id] = !c.suspended.spans.covers(claim.From, claim.To)
			if claim.To < known {
				c.closeClaim(id)
			}
		}
		for _, v := range overlaps(claims[lock]) {
			id := claimID{grantID{lock, v.Ops[1].Holder}, v.From}
			if _, again := c.overlaps[id]; !again && !h.Owns(v.From) {
				continue
			}
			c.overlaps[id] = v
			if v.To < known {
				c.closeOverlap(id)
			}
		}
	}
}

func (c *exclusion) closeClaim(id claimID) {
	if c.open[id] {
		c.judged++
	}
	delete(c.open, id)
}

func (c *exclusion) closeOverlap(id claimID) {
	if v := c.overlaps[id]; c.suspended.spans.covers(v.From, v.To) {
		c.notJudged.report(v)
	} else {
		c.report(v)
	}
	delete(c.overlaps, id)
}

func (c *exclusion) result() Result {
	for id := range c.open {
		c.closeClaim(id)
	}
	for id := range c.overlaps {
		c.closeOverlap(id)
	}
	r := c.notJudged.into(Result{})
	r = Result{
		ID: "exclusion", Question: "Did two clients ever believe that they held the same lock at the same time?",
		Suspended: c.suspended, NotJudged: r.Violations, MoreNotJudged: r.More,
	}
	r = c.into(r)
	r.Figures = []Figure{
		{"claims", float64(c.claims)}, {"claims judged", float64(c.judged)}, {"overlaps", float64(len(r.Violations) + r.More)},
		{"overlaps not judged", float64(len(r.NotJudged) + r.MoreNotJudged)}, {"seconds in which exclusion was not judged", c.suspended.Time.Seconds()},
	}
	return r.concludeJudged(fmt.Sprintf("No: %d claims on %d locks, none overlaps another.", c.judged, len(c.locks)), c.judged)
}

// overlaps are the violations among the claims on one lock, which are ordered by From.
func overlaps(cs []Claim) (vs []Violation) {
	Overlaps(cs, func(c *Claim) (int64, int64, bool) { return c.From, c.To, c.Grant.Mode == history.Shared }, func(with, c *Claim) {
		vs = append(vs, overlap(*with, *c))
	})
	return vs
}

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

// votesOf is " (votes of m1, m2, m3)" for the masters that voted for a grant; "" if the history does not say.
func votesOf(grant *history.Op) string {
	if grant.Voters == "" {
		return ""
	}
	return " (votes of " + grant.Voters + ")"
}

func overlap(a, b Claim) Violation {
	from, to := b.From, min(a.To, b.To)
	return Violation{
		Text: fmt.Sprintf("%s and %s both claim %q for %v: %s until %d%s, %s from %d%s",
			a.Grant.Holder, b.Grant.Holder, b.Grant.Lock, time.Duration(to-from),
			a.Grant.Holder, a.To, votesOf(a.Grant), b.Grant.Holder, b.From, votesOf(b.Grant)),
		Ops: []history.Op{*a.Grant, *b.Grant}, From: from, To: to,
	}
}
