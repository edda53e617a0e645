// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/checktest"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/history/historytest"
	"github.com/redlock-go/redlock/internal/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dumbOverlaps is the checker exclusion as its definition reads: every pair of claims on one lock, in O(n^2). It gives the claims that begin while
// another one stands that they may not overlap.
func dumbOverlaps(cs []check.Claim) map[string]bool {
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

func TestExclusion_randomHistories_agreesWithDumbVersion(t *testing.T) {
	replay.Each(t, exclusionAgrees)
}

func exclusionAgrees(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	illegal := 0
	for range 3000 {
		h := checktest.RandomLock(r, 1+r.IntN(12))
		want := dumbOverlaps(check.Claims(h)["L"])
		got := map[string]bool{}
		res := check.Whole(Exclusion(), h)
		for _, v := range res.Violations {
			got[v.Ops[1].Holder] = true
			a, b := v.Ops[0], v.Ops[1]
			if v.From >= v.To || a.Mode == history.Shared && b.Mode == history.Shared || a.Holder == b.Holder {
				t.Fatalf("not an overlap: %+v", v)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || (len(want) > 0) != (res.Verdict == check.Illegal) {
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

func benchmark[C check.Checker](b *testing.B, checker func() C) {
	h := big(b)
	for b.Loop() {
		if r := check.Whole(checker(), h); r.Verdict != check.Ok {
			b.Fatal(r.Summary)
		}
	}
	b.ReportMetric(float64(len(h.Ops)), "ops/history")
}

func BenchmarkExclusionMillion(b *testing.B)      { benchmark(b, Exclusion) }
func BenchmarkTokensMillion(b *testing.B)         { benchmark(b, Tokens) }
func BenchmarkFencedRegisterMillion(b *testing.B) { benchmark(b, FencedRegister) }
func BenchmarkLinearizableMillion(b *testing.B) {
	benchmark(b, func() check.Checker { return Linearizable(b.Context(), time.Minute) })
}
