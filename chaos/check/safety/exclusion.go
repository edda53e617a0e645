// SPDX-License-Identifier: Apache-2.0

// Package safety has the checkers of what the lock promises about holders and tokens, and the checker assumptions, on which all others rely.
//
// Exclusion and Tokens are exact, in O(n log n): their verdict is Ok if and only if the recorded operations contain no violation. Linearizable
// shares only the collecting of grants with them, and so tests them too. A checker cannot judge what no client recorded.
package safety

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Exclusion is the checker exclusion: no two claims on one lock overlap, unless both are readers'. Exact, O(n log n).
//
// Each claim that begins while another one lasts is one violation, shown with the claim that ends last of those. A claim that overlaps
// several others is one violation too. An overlap while exclusion is suspended (Suspension) is no violation: it is in Result.NotJudged. If
// all claims fall into that time, or if there is none, the verdict is Unknown.
func Exclusion() check.Checker { return &exclusion{} }

type exclusion struct {
	check.Found
	claims, judged int
	locks          map[string]bool
	suspended      check.Suspension
	notJudged      check.Found
	// What may last longer than the chapter that has its beginning knows, because that was cut all the same (Chapters). A later one decides it.
	open     map[claimID]bool // claims; true: it is judged, as far as is known
	overlaps map[claimID]check.Violation
}

// claimID names a claim, and the overlap with the one that it begins in.
type claimID struct {
	check.GrantID
	from int64
}

func (c *exclusion) Add(h *history.History) {
	claims, known := check.Claims(h), int64(history.Never)
	if h.Part != nil {
		known = h.Part.Known
	}
	if c.locks == nil {
		c.locks, c.suspended = map[string]bool{}, check.SuspendedExclusion(h)
		c.open, c.overlaps = map[claimID]bool{}, map[claimID]check.Violation{}
	}
	for _, lock := range slices.Sorted(maps.Keys(claims)) {
		for _, claim := range claims[lock] {
			id := claimID{check.GrantID{Lock: lock, Holder: claim.Grant.Holder}, claim.From}
			if _, again := c.open[id]; !again {
				if !h.Owns(claim.From) {
					continue
				}
				c.claims++
				c.locks[lock] = true
			}
			c.open[id] = !c.suspended.Covers(claim.From, claim.To)
			if claim.To < known {
				c.closeClaim(id)
			}
		}
		for _, v := range overlaps(claims[lock]) {
			id := claimID{check.GrantID{Lock: lock, Holder: v.Ops[1].Holder}, v.From}
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
	if v := c.overlaps[id]; c.suspended.Covers(v.From, v.To) {
		c.notJudged.Report(v)
	} else {
		c.Report(v)
	}
	delete(c.overlaps, id)
}

func (c *exclusion) Result() check.Result {
	for id := range c.open {
		c.closeClaim(id)
	}
	for id := range c.overlaps {
		c.closeOverlap(id)
	}
	r := c.notJudged.Into(check.Result{})
	r = check.Result{
		ID: "exclusion", Question: "Did two clients ever believe that they held the same lock at the same time?",
		Suspended: c.suspended, NotJudged: r.Violations, MoreNotJudged: r.More,
	}
	r = c.Into(r)
	r.Figures = []check.Figure{
		{Name: "claims", Value: float64(c.claims)}, {Name: "claims judged", Value: float64(c.judged)}, {Name: "overlaps", Value: float64(len(r.Violations) + r.More)},
		{Name: "overlaps not judged", Value: float64(len(r.NotJudged) + r.MoreNotJudged)}, {Name: "seconds in which exclusion was not judged", Value: c.suspended.Time.Seconds()},
	}
	return r.ConcludeJudged(fmt.Sprintf("No: %d claims on %d locks, none overlaps another.", c.judged, len(c.locks)), c.judged)
}

// overlaps are the violations among the claims on one lock, which are ordered by From.
func overlaps(cs []check.Claim) (vs []check.Violation) {
	check.Overlaps(cs, func(c *check.Claim) (int64, int64, bool) { return c.From, c.To, c.Grant.Mode == history.Shared }, func(with, c *check.Claim) {
		vs = append(vs, overlap(*with, *c))
	})
	return vs
}

// votesOf is " (votes of m1, m2, m3)" for the masters that voted for a grant; "" if the history does not say.
func votesOf(grant *history.Op) string {
	if grant.Voters == "" {
		return ""
	}
	return " (votes of " + grant.Voters + ")"
}

func overlap(a, b check.Claim) check.Violation {
	from, to := b.From, min(a.To, b.To)
	return check.Violation{
		Text: fmt.Sprintf("%s and %s both claim %q for %v: %s until %d%s, %s from %d%s",
			a.Grant.Holder, b.Grant.Holder, b.Grant.Lock, time.Duration(to-from),
			a.Grant.Holder, a.To, votesOf(a.Grant), b.Grant.Holder, b.From, votesOf(b.Grant)),
		Ops: []history.Op{*a.Grant, *b.Grant}, From: from, To: to,
	}
}
