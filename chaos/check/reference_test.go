// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/history/historytest"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// dumbOverlaps is the checker exclusion as its definition reads: every pair of claims on one lock, in O(n^2). It gives the claims that begin while
// another one stands that they may not overlap.
func dumbOverlaps(cs []Claim) map[string]bool {
	late := map[string]bool{}
	for i, a := range cs {
		for j, b := range cs {
			readers := a.Grant.Mode == history.Shared && b.Grant.Mode == history.Shared
			first := a.From < b.From || a.From == b.From && i < j
			if i != j && !readers && first && b.From < a.To {
				late[b.Grant.Holder] = true
			}
		}
	}
	return late
}

// randomLock is n grants of one lock, one client each, in a short time: they overlap often, but not always.
func randomLock(r *rand.Rand, n int) *history.History {
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

func TestExclusion_randomHistories_agreesWithDumbVersion(t *testing.T) {
	replay.Each(t, exclusionAgrees)
}

func exclusionAgrees(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	illegal := 0
	for range 3000 {
		h := randomLock(r, 1+r.IntN(12))
		want := dumbOverlaps(Claims(h)["L"])
		got := map[string]bool{}
		res := Exclusion(h)
		for _, v := range res.Violations {
			got[v.Ops[1].Holder] = true
			a, b := v.Ops[0], v.Ops[1]
			if v.From >= v.To || a.Mode == history.Shared && b.Mode == history.Shared || a.Holder == b.Holder {
				t.Fatalf("not an overlap: %+v", v)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || (len(want) > 0) != (res.Verdict == Illegal) {
			t.Fatalf("%s: fast %v, dumb %v in %+v", res.Verdict, got, want, h.Ops)
		}
		if len(want) > 0 {
			illegal++
		}
	}
	if illegal < 300 || illegal > 2700 {
		t.Errorf("%d of 3000 histories were illegal: too one-sided to prove anything", illegal)
	}
}

// The claims themselves, once more from the definition: at an instant a client claims a lock if its grant has returned, it has
// not called Unlock, and the deadline in force is still ahead.
func TestClaims_randomHistories_agreeWithDefinition(t *testing.T) {
	replay.Each(t, claimsAgree)
}

func claimsAgree(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	for range 1000 {
		h := randomLock(r, 1+r.IntN(3))
		claims := Claims(h)["L"]
		for at := range int64(150) {
			for _, g := range h.Ops {
				if !granted(g) {
					continue
				}
				got := slices.ContainsFunc(claims, func(c Claim) bool { return c.Grant.Holder == g.Holder && c.From <= at && at < c.To })
				if want := claimsAt(h, g, at); got != want {
					t.Fatalf("%s at %d: %v, want %v, in %+v", g.Holder, at, got, want, h.Ops)
				}
			}
		}
	}
}

// claimsAt relies on randomLock's giving a grant no unlock beside an extension.
func claimsAt(h *history.History, g history.Op, at int64) bool {
	var extends []history.Op
	for _, op := range h.Ops {
		switch {
		case op.Holder != g.Holder:
		case op.Kind == history.KindUnlock && op.Call <= at:
			return false
		case op.Kind == history.KindExtend && op.Return <= at:
			extends = append(extends, op)
		}
	}
	if len(extends) == 0 {
		return g.Return <= at && at < g.Deadline
	}
	return slices.ContainsFunc(extends, func(e history.Op) bool {
		replaced := slices.ContainsFunc(extends, func(later history.Op) bool { return later.Call > e.Return })
		return !replaced && at < e.Deadline
	})
}

// A lock with more grants than a piece is judged across the cuts too.
func TestLinearizable_longLock_cutIsExact(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	replay.Each(t, cutIsExact)
}

func cutIsExact(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	shape := historytest.Small()
	shape.Duration, shape.Locks, shape.ReadWrite, shape.Faults, shape.PauseOneIn = 2*time.Minute, 1, 0, false, 0
	shape.Think, shape.Hold = time.Millisecond, 5*time.Millisecond
	h := historytest.Generate(seed, shape)
	if n := len(pieces(lives(h), pieceGrants)); n < 3 {
		t.Fatalf("only %d pieces", n)
	}
	if res := Linearizable(h, time.Minute); res.Verdict != Ok {
		t.Fatalf("%s: %s", res.Verdict, res.Summary)
	}
	for range 3 {
		c := clone(h)
		if !overlapNext(r, c, history.Exclusive) {
			t.Fatal("no place to overlap")
		}
		if res := Linearizable(c, time.Minute); res.Verdict != Illegal {
			t.Errorf("overlap: %s: %s", res.Verdict, res.Summary)
		}
	}
	// Two grants that change places across a cut: each piece is fine by itself.
	ps := pieces(lives(h), pieceGrants)
	a, b := ps[0][len(ps[0])-1], ps[1][0]
	a.grant.Token, b.grant.Token = b.grant.Token, a.grant.Token
	if res := Linearizable(h, time.Minute); res.Verdict != Illegal {
		t.Errorf("swap across a cut: %s: %s", res.Verdict, res.Summary)
	}
}

// Ordering the grants by token and cutting must not change the verdict: here every grant is a piece of its own, if it may be, and
// porcupine is asked again with neither.
func TestLinearizable_randomHistories_agreesWithPlainSearch(t *testing.T) {
	replay.Each(t, linearizableAgrees)
}

func linearizableAgrees(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	illegal := 0
	for range 3000 {
		h := randomTurns(r, 2+r.IntN(6))
		ls := lives(h)
		want := porcupine.CheckOperationsTimeout(fencedMutex(0), operations(ls, 0, false), time.Minute)
		var res found
		if !new(mutex).check(&res, ls, 1, time.Now().Add(time.Minute)) || want == porcupine.Unknown {
			t.Fatal("not decided")
		}
		if (len(res.violations) == 0) != (want == porcupine.Ok) {
			t.Fatalf("plain search: %s, in pieces: %v, of %+v", want, res.violations, h.Ops)
		}
		if want == porcupine.Illegal {
			illegal++
		}
	}
	if illegal < 300 || illegal > 2700 {
		t.Errorf("%d of 3000 histories were illegal: too one-sided to prove anything", illegal)
	}
}

// randomTurns is n grants that take turns, more or less.
func randomTurns(r *rand.Rand, n int) *history.History {
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

// big is about a million operations.
func big(b *testing.B) *history.History {
	shape := historytest.Shape{
		Duration: 165 * time.Second, Clients: 64, Locks: 16, ReadWrite: 4, TTL: 2 * time.Second, Think: 20 * time.Millisecond, Hold: 5 * time.Millisecond,
		PauseOneIn: 5000,
	}
	h := historytest.Generate(1, shape)
	if len(h.Ops) < 1_000_000 {
		b.Fatalf("only %d operations", len(h.Ops))
	}
	return h
}

func benchmark(b *testing.B, check func(*history.History) Result) {
	h := big(b)
	for b.Loop() {
		if r := check(h); r.Verdict != Ok {
			b.Fatal(r.Summary)
		}
	}
	b.ReportMetric(float64(len(h.Ops)), "ops/history")
}

func BenchmarkExclusionMillion(b *testing.B)      { benchmark(b, Exclusion) }
func BenchmarkTokensMillion(b *testing.B)         { benchmark(b, Tokens) }
func BenchmarkFencedRegisterMillion(b *testing.B) { benchmark(b, FencedRegister) }
func BenchmarkLinearizableMillion(b *testing.B) {
	benchmark(b, func(h *history.History) Result { return Linearizable(h, time.Minute) })
}
