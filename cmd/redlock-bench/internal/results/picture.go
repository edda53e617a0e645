// SPDX-License-Identifier: Apache-2.0

package results

import (
	"math"
	"time"
)

// Bin is how many times fell between From and To, both in microseconds.
type Bin struct {
	From, To float64
	N        int64
}

// perDecade is how many bins there are from one power of ten to the next.
const perDecade = 20

// Bins counts times by their logarithm. An entry of at is a time in microseconds and how often it was seen, in the order of the times.
func Bins(at []Bin) (bins []Bin) {
	for _, b := range at {
		if b.N == 0 {
			continue
		}
		k := math.Floor(math.Log10(max(b.From, 1e-3)) * perDecade)
		from, to := math.Pow(10, k/perDecade), math.Pow(10, (k+1)/perDecade)
		if n := len(bins); n > 0 && bins[n-1].From == from {
			bins[n-1].N += b.N
		} else {
			bins = append(bins, Bin{From: from, To: to, N: b.N})
		}
	}
	return bins
}

// Picture is what a page draws of a contended lock, beyond the figures. Times count from the beginning of the run.
type Picture struct {
	Elapsed  time.Duration
	From, To time.Duration
	Holds    []Hold // those between From and To, in the order in which they began
	Waits    []Bin
	Shares   []float64 // of each waiter: 1 is even
}

// Hold is one time that a waiter had the lock.
type Hold struct {
	Waiter          int
	Asked, From, To time.Duration
	Read            bool
}
