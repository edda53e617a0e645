// SPDX-License-Identifier: Apache-2.0

// Package checktest makes the histories that the tests of several packages of checkers share: small random ones, which are wrong as often as they
// are right, and changes of good ones. It is for tests only.
package checktest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Figure returns a figure of r by its name.
func Figure(t *testing.T, r check.Result, name string) float64 {
	t.Helper()
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	t.Fatalf("%s has no figure %q: %+v", r.ID, name, r.Figures)
	return 0
}

// RandomLock is n grants of one lock, one client each, in a short time: they overlap often, but not always.
func RandomLock(r *rand.Rand, n int) *history.History {
	h := &history.History{}
	modes := []history.Mode{history.Exclusive, history.Shared, history.Writing}[:1+r.IntN(3)]
	for i := range n {
		call := r.Int64N(int64(20*n)) + 1
		op := history.Op{
			Kind: history.KindLock, Client: fmt.Sprint("c", i), Call: call, Return: call + r.Int64N(3), Lock: "L", Mode: modes[r.IntN(len(modes))],
			Holder: fmt.Sprint("h", i), Outcome: history.OK, Deadline: call + r.Int64N(40),
		}
		h.Ops = append(h.Ops, op)
		switch at := op.Return + r.Int64N(30); r.IntN(4) {
		case 0:
			h.Ops = append(h.Ops, history.Op{Kind: history.KindUnlock, Client: op.Client, Call: at, Return: at + 1, Lock: "L", Holder: op.Holder, Outcome: history.Unknown})
		case 1:
			for i := range 1 + r.Int64N(2) { // the second may be under way at the same time, and be answered first
				at += r.Int64N(10) * i
				h.Ops = append(h.Ops, history.Op{
					Kind: history.KindExtend, Client: fmt.Sprint(op.Client, "+", i), Call: at, Return: at + 1 + r.Int64N(20), Lock: "L", Holder: op.Holder,
					Outcome: history.OK, Deadline: at + r.Int64N(60),
				})
			}
		}
	}
	slices.SortStableFunc(h.Ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
	return h
}

// RandomTurns is n grants that take turns, more or less.
func RandomTurns(r *rand.Rand, n int) *history.History {
	h := &history.History{}
	at := int64(100)
	for i := range n {
		mode := []history.Mode{history.Exclusive, history.Shared, history.Shared}[r.IntN(3)]
		g := history.Op{
			Kind: history.KindLock, Client: fmt.Sprint("c", i), Call: at - r.Int64N(40), Return: at + r.Int64N(3), Lock: "L", Mode: mode,
			Holder: fmt.Sprint("h", i), Token: int64(10*i+10) - r.Int64N(2)*r.Int64N(25), Outcome: history.OK,
		}
		g.Token = max(1, g.Token)
		g.Deadline = g.Return + 1 + r.Int64N(12)
		h.Ops = append(h.Ops, g)
		if r.IntN(3) > 0 {
			u := history.Op{Kind: history.KindUnlock, Client: g.Client, Call: g.Return + r.Int64N(12), Lock: "L", Holder: g.Holder, Outcome: history.OK}
			u.Return = u.Call + r.Int64N(8)
			h.Ops = append(h.Ops, u)
		}
		at += 6 + r.Int64N(8)
	}
	slices.SortStableFunc(h.Ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
	return h
}

// Granted reports whether op is a lock call that was granted.
func Granted(op history.Op) bool { return op.Kind == history.KindLock && op.Outcome == history.OK }

// OverlapNext lets a random grant of that mode return, with its call, inside the claim before it. Everything else stays, so
// that only the overlap is wrong: it is called early enough for its token to be in order.
func OverlapNext(r *rand.Rand, h *history.History, mode history.Mode) bool {
	claims := check.Claims(h)
	var places [][2]check.Claim
	for _, cs := range claims {
		for i := 1; i < len(cs); i++ {
			a, b := cs[i-1], cs[i]
			// Its client must have been idle, or in this very call, for long enough before.
			if b.Grant.Mode == mode && a.To-a.From > 10 && b.Grant.Call < a.From && a.Grant.Return < b.Grant.Return && a.To <= b.From {
				places = append(places, [2]check.Claim{a, b})
			}
		}
	}
	if len(places) == 0 {
		return false
	}
	slices.SortFunc(places, func(a, b [2]check.Claim) int { return cmp.Compare(a[0].From, b[0].From) }) // claims is a map: make the choice repeatable
	p := places[r.IntN(len(places))]
	p[1].Grant.Return = p[0].From + 1 + r.Int64N(p[0].To-p[0].From-1)
	return true
}

// Clone returns a copy of h, of which each record may be changed.
func Clone(h *history.History) *history.History {
	c := *h
	c.Ops, c.Faults, c.Keys, c.Counters = slices.Clone(h.Ops), slices.Clone(h.Faults), slices.Clone(h.Keys), slices.Clone(h.Counters)
	return &c
}
