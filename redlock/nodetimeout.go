// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/logline"
	"github.com/redlock-go/redlock/internal/protocol"
)

// trip is the round trip that decides how fast a quorum answers; 0 if it is not known.
//
//go:noinline // what it needs would be on the stacks of the goroutines that wait in Lock
func (c *Client) trip() time.Duration {
	var all [64]time.Duration
	trips := all[:0]
	for _, t := range c.masters.Nodes {
		trips = append(trips, t.Trip())
	}
	return protocol.QuorumTrip(trips, c.masters.Need)
}

// shortestRound is the time that a round needs to hear the masters: its own trip, behind that of what is on its way already.
func (c *Client) shortestRound() time.Duration { return max(quorum.ShortestRound, 2*c.trip()) }

// timeout is how long the client waits for masters that do not answer: see WithNodeTimeout. A longer wait makes no lock unsafe whose
// leases all have one TTL, because validity counts from before the requests, and a grant takes two thirds of it at most (docs/safety.md A53).
func (c *Client) timeout() time.Duration {
	if c.nodeTimeoutSet {
		return c.nodeTimeout
	}
	near := 0 // masters so near that their trips change nothing, as most are
	for _, t := range c.masters.Nodes {
		if trip := t.Trip(); trip > 0 && protocol.TripsToWait*trip <= c.nodeTimeout {
			near++
		}
	}
	if near >= c.masters.Need {
		return c.nodeTimeout
	}
	return c.farTimeout()
}

func (c *Client) farTimeout() time.Duration {
	return protocol.NodeTimeout(c.trip(), c.nodeTimeout, c.lock.TTL/time.Duration(len(c.masters.Nodes)))
}

// logFar logs that the masters are too far away for the timeout.
func (c *Client) logFar(trip, timeout time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			c.logPanic("the handler of the logger", p)
		}
	}()
	logline.Far.To(context.Background(), c.logger,
		slog.Duration("trip", trip.Round(time.Millisecond)), slog.Duration("node_timeout", timeout), slog.Duration("ttl", c.lock.TTL),
		slog.String("remedy", "a longer TTL (WithTTL), a longer WithNodeTimeout if that is set, or masters that are nearer"))
}
