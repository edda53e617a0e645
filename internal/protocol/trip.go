// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"time"
)

// DefaultNodeTimeout is how long a master may be silent if trips to the masters are short.
const DefaultNodeTimeout = 150 * time.Millisecond

// TripsToWait is how many round trips a master may be silent. An op may have to wait for the pipeline ahead of it, which is one, and
// takes one itself. The third is for what comes between.
const TripsToWait = 3

// maxTrips bounds a list of trips: it is the most masters that there can be.
const maxTrips = 64

// NextTrip is the estimate of a master's round trip after one that took seen. It falls at once, and no more than doubles: a
// master that hung for a moment does not look far away, and a way that became longer is known after some answers.
func NextTrip(trip, seen time.Duration) time.Duration {
	if seen <= trip || trip == 0 {
		return max(seen, 1) // 0 is a trip that is not known
	}
	return min(seen, 2*trip+10*time.Millisecond)
}

// QuorumTrip is the round trip to the need-th nearest master, of those that can be reached. If they are fewer, it is that of the farthest.
// A master that cannot be reached has the trip 0. The minority that is farther does not count: nobody waits for it.
func QuorumTrip(trips []time.Duration, need int) time.Duration {
	var sorted [maxTrips]time.Duration
	known := sorted[:0]
	for _, t := range trips {
		if t > 0 {
			known = append(known, t)
		}
	}
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[min(max(need, 1), len(known))-1]
}

// NodeTimeout is how long to wait for masters with this round trip: TripsToWait trips, but least or longer, and most or shorter. If most is
// below least, it is least.
func NodeTimeout(trip, least, most time.Duration) time.Duration {
	return max(least, min(TripsToWait*trip, most))
}
