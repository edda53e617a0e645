// SPDX-License-Identifier: Apache-2.0

package redlock

import "sync/atomic"

// Stats is what a client has counted since it was opened. All but the gauges only
// grow.
type Stats struct {
	Rounds       uint64 // acquire rounds begun
	Granted      uint64 // ...that gave a lease
	SecondRounds uint64 // ...that needed a second round trip for the token
	Extends      uint64 // extends decided, one a lease
	Lost         uint64 // leases that ended before their Unlock

	Held       int // leases held now
	Recovering int // masters this client knows to be recovering now
	// Unacknowledged is how many releases and dequeues masters have not acknowledged,
	// summed over the masters: they are sent again until their votes are over.
	Unacknowledged int
	// Dropped is how many of those were given up because a master had too many. Their
	// votes ended with their TTL.
	Dropped uint64

	_ struct{}
}

type stats struct {
	rounds, granted, secondRounds, extends, lost atomic.Uint64
}

// Stats returns the client's counts. It is cheap. A nil or zero Client returns zeros, and a
// closed one what it counted.
func (c *Client) Stats() Stats {
	if c.isZero() {
		return Stats{}
	}
	s := Stats{
		Rounds:       c.stats.rounds.Load(),
		Granted:      c.stats.granted.Load(),
		SecondRounds: c.stats.secondRounds.Load(),
		Extends:      c.stats.extends.Load(),
		Lost:         c.stats.lost.Load(),
		Held:         c.renewer.held(),
		Recovering:   c.keeper.recovering(),
	}
	for _, n := range c.nodes {
		if n, ok := n.(interface{ Unacknowledged() (int, uint64) }); ok {
			kept, dropped := n.Unacknowledged()
			s.Unacknowledged += kept
			s.Dropped += dropped
		}
	}
	return s
}
