// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

func near(a, b, share float64) bool { return math.Abs(a-b) <= share*math.Abs(b) }

func seq(from, to int) (s Sample) {
	for i := from; i <= to; i++ {
		s = append(s, float64(i))
	}
	return s
}

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{5, 1, 100}, 5}, {[]float64{4, 3, 2, 1}, 2.5}} {
		if got := New(tc.values).Median(); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.values, got, tc.want)
		}
	}
}

// The tables of order statistics: six values are the least for 95 %, and of ten the second and the ninth are it.
func TestInterval_asTheTables(t *testing.T) {
	for _, tc := range []struct {
		n          int
		confidence float64
		low, high  float64
	}{{5, 0.95, 0, 0}, {6, 0.95, 1, 6}, {8, 0.95, 1, 8}, {9, 0.95, 2, 8}, {10, 0.95, 2, 9}, {20, 0.95, 6, 15}, {100, 0.95, 40, 61}, {7, 0.99, 0, 0}, {8, 0.99, 1, 8}} {
		low, high, ok := seq(1, tc.n).Interval(tc.confidence)
		if low != tc.low || high != tc.high || ok != (tc.low > 0) {
			t.Errorf("%d values, %v: %v to %v, %v; want %v to %v", tc.n, tc.confidence, low, high, ok, tc.low, tc.high)
		}
	}
}

// So often as it promises, and not much more often than the next narrower one would, the interval has the true median. 4000 draws: the standard
// error of the share is 0.35 %, and the bounds are five of it away from the exact 97.85 %.
func TestInterval_coversTheMedian(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for range 4000 {
		values := make([]float64, 10)
		for i := range values {
			values[i] = rng.ExpFloat64()
		}
		if low, high, _ := New(values).Interval(0.95); low <= math.Ln2 && math.Ln2 <= high {
			hits++
		}
	}
	if share := float64(hits) / 4000; share < 0.966 || share > 0.991 {
		t.Errorf("%v of the intervals have the median, want 0.9785", share)
	}
}

// Samples that do not overlap: of all ways to choose m of m+n, two differ so much.
func TestDiffer_apart(t *testing.T) {
	for _, tc := range []struct {
		m, n int
		want float64
	}{{1, 1, 1}, {3, 3, 0.1}, {4, 4, 2.0 / 70}, {5, 5, 2.0 / 252}, {10, 10, 2.0 / 184756}, {6, 8, 2.0 / 3003}} {
		if got := Differ(seq(1, tc.m), seq(100, 99+tc.n)); !near(got, tc.want, 1e-9) {
			t.Errorf("%d and %d: p %v, want %v", tc.m, tc.n, got, tc.want)
		}
	}
	if got := Differ(seq(1, 5), nil); got != 1 {
		t.Errorf("none: p %v", got)
	}
}

// Against all ways written out, with and without ties.
func TestDiffer_asEnumerated(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		a, b := make([]float64, 1+rng.IntN(5)), make([]float64, 1+rng.IntN(5))
		for _, s := range [][]float64{a, b} {
			for i := range s {
				s[i] = float64(rng.IntN(3 + round%8))
			}
		}
		if got, want := Differ(New(a), New(b)), enumerated(a, b); !near(got, want, 1e-9) {
			t.Errorf("%v and %v: p %v, want %v", a, b, got, want)
		}
	}
}

// enumerated is p by its definition: over all ways to deal the values out, U is at least so far from its mean.
func enumerated(a, b []float64) float64 {
	all := append(append([]float64{}, a...), b...)
	u := func(set int) (sum float64) {
		for i, x := range all {
			for j, y := range all {
				switch in, other := set>>i&1 == 1, set>>j&1 == 1; {
				case !in || other:
				case x > y:
					sum++
				case x == y:
					sum += 0.5
				}
			}
		}
		return sum - float64(len(a)*len(b))/2
	}
	ours := math.Abs(u(1<<len(a) - 1))
	ways, far := 0, 0
	for set := range 1 << len(all) {
		bits := 0
		for i := range all {
			bits += set >> i & 1
		}
		if bits != len(a) {
			continue
		}
		ways++
		if math.Abs(u(set)) >= ours-1e-9 {
			far++
		}
	}
	return float64(far) / float64(ways)
}

// Where both can be had, the approximation is near what is counted.
func TestDiffer_approximationNearTheCount(t *testing.T) {
	needs.NoRace(t, "one goroutine that only computes")
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		a, b := make([]float64, 25), make([]float64, 25)
		for i := range a {
			a[i], b[i] = math.Round(rng.NormFloat64()*8), math.Round(rng.NormFloat64()*8+4)
		}
		x, y := New(a), New(b)
		r, ties := ranks(x, y)
		sum := 0
		for _, v := range r[:25] {
			sum += v
		}
		off := abs(sum - 25*51)
		if p, q := counted(r, 25, off), approximated(25, 25, ties, off); math.Abs(p-q) > 0.012 {
			t.Errorf("counted %v, approximated %v", p, q)
		}
	}
	equal := New(make([]float64, 40))
	if p := Differ(equal, equal); p != 1 {
		t.Errorf("all equal: p %v", p)
	}
}

// Of samples of one distribution, one in twenty looks different at 0.05, or fewer. 3000 draws: bounds five standard errors away.
func TestDiffer_sameDistribution_oneInTwenty(t *testing.T) {
	needs.NoRace(t, "one goroutine that only computes")
	rng := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{6, 40} {
		seen := 0
		for range 3000 {
			a, b := make([]float64, n), make([]float64, n)
			for i := range n {
				a[i], b[i] = rng.ExpFloat64(), rng.ExpFloat64()
			}
			if Differ(New(a), New(b)) < 0.05 {
				seen++
			}
		}
		if share := float64(seen) / 3000; share < 0.02 || share > 0.07 {
			t.Errorf("%d each: %v look different, want 0.05 or a little less", n, share)
		}
	}
}
