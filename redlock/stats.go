// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"sync/atomic"

	"github.com/redlock-go/redlock/redlock/event"
)

type stats struct {
	granted, panics atomic.Uint64
}

// Stats returns the client's counts. It does no I/O. The counts are read one after the other, so
// they may be of slightly different moments. A nil or zero Client returns zeros. After Close,
// Stats returns the counts that the client had.
func (c *Client) Stats() event.Stats {
	if c.isZero() {
		return event.Stats{}
	}
	s := event.Stats{
		Rounds:       c.tries.Rounds.Load(),
		Granted:      c.stats.granted.Load(),
		SecondRounds: c.tries.SecondRounds.Load(),
		Extends:      c.renewer.Extends.Load(),
		Lost:         c.renewer.Lost.Load(),
		Panics:       c.stats.panics.Load(),
		Held:         c.renewer.Held(),
		Recovering:   c.keeper.Recovering(),
		Down:         c.keeper.Board.Disconnected(),
	}
	for _, n := range c.masters.Nodes {
		if n, ok := n.(interface{ Unacknowledged() (int, uint64) }); ok {
			kept, dropped := n.Unacknowledged()
			s.Unacknowledged += kept
			s.Dropped += dropped
		}
	}
	return s
}
