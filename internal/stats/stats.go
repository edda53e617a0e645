// SPDX-License-Identifier: Apache-2.0

// Package stats compares two samples without assuming how they are distributed, as benchstat does: medians, their intervals by order statistics,
// and the Mann-Whitney U test. Pure.
package stats

import (
	"math"
	"slices"
)

// Sample is measured values, sorted.
type Sample []float64

// New makes a sample of values in any order.
func New(values []float64) Sample { return slices.Sorted(slices.Values(values)) }

// Median is the value in the middle, or the mean of the two that are; 0 of none.
func (s Sample) Median() float64 {
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// Interval is where the median of all values that could be measured lies, with at least the confidence given. The sample is too small if ok is
// false: for 0.95 it needs six values.
//
// How many of n values are below that median is a matter of n throws of a coin. So the interval from the r-th smallest value to the r-th largest
// misses it with twice the probability of fewer than r heads.
func (s Sample) Interval(confidence float64) (low, high float64, ok bool) {
	n := len(s)
	below := 0.0 // the probability of at most r-1 heads
	for r := 1; r <= n/2; r++ {
		below += coin(n, r-1)
		if 1-2*below < confidence {
			break
		}
		low, high, ok = s[r-1], s[n-r], true
	}
	return low, high, ok
}

// coin is the probability of k heads in n throws.
func coin(n, k int) float64 {
	return math.Exp(logFactorial(n) - logFactorial(k) - logFactorial(n-k) - float64(n)*math.Ln2)
}

func logFactorial(n int) float64 {
	v, _ := math.Lgamma(float64(n + 1))
	return v
}

// exactMost is up to how many values in both samples together p is counted out, and not approximated.
const exactMost = 50

// Differ is the probability that two samples of one distribution differ at least so much as these: the two-sided p of the Mann-Whitney U test.
// It is 1 if one of them is empty.
func Differ(a, b Sample) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	ranks, ties := ranks(a, b)
	sum := 0
	for _, r := range ranks[:len(a)] {
		sum += r
	}
	n := len(a) + len(b)
	off := abs(sum - len(a)*(n+1)) // ranks are doubled, so that their mean is n+1
	if n <= exactMost {
		return counted(ranks, len(a), off)
	}
	return approximated(len(a), len(b), ties, off)
}

// ranks are twice the ranks of the values, those of a first; equal values share the mean of their ranks. ties is the sum of t^3-t over the groups of
// t equal values.
func ranks(a, b Sample) (all []int, ties float64) {
	n := len(a) + len(b)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	value := func(i int) float64 {
		if i < len(a) {
			return a[i]
		}
		return b[i-len(a)]
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case value(i) < value(j):
			return -1
		case value(i) > value(j):
			return 1
		}
		return 0
	})
	all = make([]int, n)
	for from := 0; from < n; {
		to := from
		for to < n && value(order[to]) == value(order[from]) {
			to++
		}
		for _, i := range order[from:to] {
			all[i] = from + 1 + to // twice the mean of from+1 to to
		}
		t := float64(to - from)
		ties, from = ties+t*t*t-t, to
	}
	return all, ties
}

// counted is the share of all ways to choose m of the ranks whose sum is at least off away from its mean.
func counted(ranks []int, m, off int) float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([][]float64, m+1) // ways[k][s]: to choose k ranks with the sum s
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := m; k > 0; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	all, far, mean := 0.0, 0.0, m*(len(ranks)+1)
	for s, w := range ways[m] {
		all += w
		if abs(s-mean) >= off {
			far += w
		}
	}
	return far / all
}

// approximated is p by the normal distribution, corrected for ties and for that sums of ranks are whole.
func approximated(m, n int, ties float64, off int) float64 {
	size := float64(m + n)
	variance := float64(m) * float64(n) / 12 * (size + 1 - ties/(size*(size-1)))
	if variance <= 0 {
		return 1 // all values are equal
	}
	z := max(0, float64(off)/2-0.5) / math.Sqrt(variance)
	return min(1, math.Erfc(z/math.Sqrt2))
}

func abs(n int) int { return max(n, -n) }
