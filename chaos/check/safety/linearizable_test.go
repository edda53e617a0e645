// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/checktest"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/history/historytest"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
)

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
	if n := len(pieces(check.Lives(h), pieceGrants)); n < 3 {
		t.Fatalf("only %d pieces", n)
	}
	if res := check.Whole(Linearizable(t.Context(), time.Minute), h); res.Verdict != check.Ok {
		t.Fatalf("%s: %s", res.Verdict, res.Summary)
	}
	for range 3 {
		c := checktest.Clone(h)
		if !checktest.OverlapNext(r, c, history.Exclusive) {
			t.Fatal("no place to overlap")
		}
		if res := check.Whole(Linearizable(t.Context(), time.Minute), c); res.Verdict != check.Illegal {
			t.Errorf("overlap: %s: %s", res.Verdict, res.Summary)
		}
	}
	// Two grants that change places across a cut: each piece is fine by itself.
	ps := pieces(check.Lives(h), pieceGrants)
	a, b := ps[0][len(ps[0])-1], ps[1][0]
	a.Grant.Token, b.Grant.Token = b.Grant.Token, a.Grant.Token
	if res := check.Whole(Linearizable(t.Context(), time.Minute), h); res.Verdict != check.Illegal {
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
		h := checktest.RandomTurns(r, 2+r.IntN(6))
		ls := check.Lives(h)
		want := porcupine.CheckOperationsTimeout(fencedMutex(0), operations(ls, 0, false), time.Minute)
		var res check.Found
		if !new(mutex).check(&res, ls, 1, time.Now().Add(time.Minute)) || want == porcupine.Unknown {
			t.Fatal("not decided")
		}
		if (len(res.Violations) == 0) != (want == porcupine.Ok) {
			t.Fatalf("plain search: %s, in pieces: %v, of %+v", want, res.Violations, h.Ops)
		}
		if want == porcupine.Illegal {
			illegal++
		}
	}
	if illegal < 300 || illegal > 2700 {
		t.Errorf("%d of 3000 histories were illegal: too one-sided to prove anything", illegal)
	}
}

// crowd is n grants of one lock, all of them asked for at once; turn says the rest of the i-th.
func crowd(n int, turn func(i int, op *history.Op)) *history.History {
	h := &history.History{}
	for i := range n {
		op := history.Op{
			Kind: history.KindLock, Client: fmt.Sprint("c", i), Call: 1, Return: 1000, Lock: "L", Mode: history.Exclusive, Holder: fmt.Sprint("h", i), Outcome: history.OK,
		}
		turn(i, &op)
		h.Ops = append(h.Ops, op)
	}
	return h
}

// Porcupine's time and memory are bounded: it runs out of the one, and is not asked where the other would not do.
func TestLinearizable_tooHard_unknown(t *testing.T) {
	for name, h := range map[string]*history.History{
		"forty without tokens, two of them until the end": crowd(40, func(i int, op *history.Op) {
			if op.Deadline = int64(40 - i); i < 2 {
				op.Deadline = 2000
			}
		}),
		"more than can be kept, in order": crowd(pieceMax+1, func(i int, op *history.Op) {
			op.Call, op.Return, op.Deadline = int64(10*i+1), int64(10*i+2), int64(10*i+8)
		}),
	} {
		stall.Try(t, 4*time.Second, func(try testing.TB) {
			began := time.Now()
			if r := check.Whole(Linearizable(t.Context(), 500*time.Millisecond), h); r.Verdict != check.Unknown || checktest.Figure(t, r, "locks undecided") != 1 {
				t.Errorf("%s: %s: %s", name, r.Verdict, r.Summary)
			}
			if took := time.Since(began); took > 5*time.Second {
				try.Errorf("%s: took %v", name, took)
			}
		})
	}
}

// Without the order of tokens this one takes for ever.
func TestLinearizable_manyReadersAtOnce_decided(t *testing.T) {
	h := crowd(40, func(i int, op *history.Op) { op.Mode, op.Token, op.Deadline = history.Shared, int64(40-i), 2000 })
	if r := check.Whole(Linearizable(t.Context(), 20*time.Second), h); r.Verdict != check.Ok {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
}
