// SPDX-License-Identifier: Apache-2.0

package redlock

import "sync/atomic"

// Stats is what a client has counted since it was opened. The uint64 fields are counters, which
// only grow. The int fields are gauges. Leases on the same hold ([Lease.Reenter]) count as one.
type Stats struct {
	Rounds       uint64 // acquire rounds that the client began
	Granted      uint64 // acquire rounds that gave a lease
	SecondRounds uint64 // acquire rounds that needed a second round trip for the token
	Extends      uint64 // extends that were decided, won or not, counted once for each lease
	Lost         uint64 // leases that ended with ErrLost before their Unlock

	Held       int // leases that are held now
	Recovering int // masters that may not vote now, as far as the client knows
	Down       int // masters that the client has no connection to
	// Unacknowledged is how many releases, of votes and of places in queues, the masters have
	// not acknowledged, summed over the masters. The client sends each again until the master
	// acknowledges it or the vote is over.
	Unacknowledged int
	// Dropped is how many releases the client gave up because too many waited for one master.
	// A vote whose release was dropped ends with its TTL. A place dies with the client's sign of life.
	Dropped uint64
	// Panics is how many Observers were switched off because a function of theirs panicked.
	Panics uint64

	_ struct{}
}

type stats struct {
	rounds, granted, secondRounds, extends, lost, panics atomic.Uint64
}

// Stats returns the client's counts. It does no I/O. The counts are read one after the other, so
// they may be of slightly different moments. A nil or zero Client returns zeros. After Close,
// Stats returns the counts that the client had.
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
		Panics:       c.stats.panics.Load(),
		Held:         c.renewer.held(),
		Recovering:   c.keeper.recovering(),
		Down:         c.board.isDown(),
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
