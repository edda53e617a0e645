// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/clock"
)

// Config holds the limits of a node. The zero value of a field means its default.
type Config struct {
	// Clock is the clock on which the coordinator reads the start and the deadline of
	// each operation. Default clock.System().
	Clock clock.Clock
	// DialTimeout bounds connecting. Twice that bounds connecting and the handshake of TLS
	// together. Default 500 ms.
	DialTimeout time.Duration
	// IOTimeout is how long a pipeline may stay unanswered. After that the node closes
	// the connection, and the outcome of everything on it is unknown. IOTimeout is
	// longer than the deadline of any operation, because a master that only paused
	// answers on the same connection, in order. Default 2 s, or twice StallAfter if that
	// is longer; behind Sentinel or Cluster 2 s, because another server may be promoted meanwhile.
	IOTimeout time.Duration
	// StallAfter is how long a pipeline may stay unanswered before the node turns new
	// operations away. A master that hangs then costs its callers next to nothing. An answer that
	// is there, and that a process which was held up has not read, is one (not on Windows). Default
	// 150 ms, or three round trips to the master if that is longer, up to IOTimeout.
	StallAfter time.Duration
	// QueueLimit is how many operations of callers may wait; what keeps leases that are held finds room for as many again. Default 16384. A
	// master answers up to 512 operations a round trip, so most of a long queue is answered too late.
	QueueLimit int
	// Name is what the node is called, as ?name= in a URL, which goes before it. Default the address, and the database if that is not 0. Clients
	// that reach one master in different ways must all use one name. A client from redis.NewFailoverClient needs one: what it has for an
	// address is alike for all such clients.
	Name string
	// Tag is required for a Redis Cluster, and allowed for nothing else. The node is
	// then one slot of the cluster, that of the tag, and all locks are named {tag}:name.
	// [Open] takes it from the URL.
	Tag string
	// Rand is the source of the jitter of pauses. It must be safe for concurrent use.
	// Default math/rand/v2.Uint64. A simulation that must repeat sets it.
	Rand func() uint64
}

// ioTimeout is the default of Config.IOTimeout.
const ioTimeout = 2 * time.Second

// longest bounds the timeouts, so that no sum of them overflows.
const longest = 365 * 24 * time.Hour

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = 500 * time.Millisecond
	}
	c.DialTimeout, c.StallAfter = min(c.DialTimeout, longest), min(c.StallAfter, longest)
	if c.IOTimeout <= 0 {
		c.IOTimeout = max(ioTimeout, 2*c.StallAfter)
	}
	c.IOTimeout = min(c.IOTimeout, longest)
	if c.QueueLimit <= 0 {
		c.QueueLimit = 16384
	}
	if c.Rand == nil {
		c.Rand = rand.Uint64
	}
	return c
}

// jitter returns a random time in [0, d).
func (c *Config) jitter(d time.Duration) time.Duration {
	return time.Duration(c.Rand() % uint64(d))
}
