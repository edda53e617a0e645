// SPDX-License-Identifier: Apache-2.0

// Package locate finds the server to connect to, in each of the ways in which a master can
// be named: by its address, by sentinels, or as one slot of a Redis Cluster.
//
// It knows which server to dial next, what a failed attempt says about the others, and how
// long a connection may be idle before the search must start again. It opens no
// connection. It imports nothing of this module. Package node uses [Locator] and the
// three types that implement it: [Address], [Sentinels] and [Slot].
package locate

import (
	"errors"
	"math"
	"time"
)

// maxIdleBehindFailover is how long a connection to a master behind Sentinel or Cluster
// may be idle. After that the lane searches for the master again before it sends anything,
// because a master that was frozen meanwhile may not know yet that it was replaced. It is
// longer than the pauses of a client that waits for a lock.
const maxIdleBehindFailover = 1500 * time.Millisecond

// Locator finds the server that a lane connects to.
type Locator interface {
	// Search starts a new search, because the lane needs a new connection.
	Search()
	// Addr returns the address to dial next.
	Addr() string
	// Redirect records err, with which the attempt at the last Addr failed. It reports
	// whether to try the next Addr at once. tries is how many attempts this search has
	// made.
	Redirect(err error, tries int) bool
	// Several reports whether one search may dial several servers.
	Several() bool
	// CheckMode returns why a server cannot be the one that the node wants, or nil.
	// cluster says whether the server is part of a Redis Cluster.
	CheckMode(cluster bool) error
	// MaxIdle is how long a connection may be idle before the lane must search again.
	MaxIdle() time.Duration
	// BehindFailover reports whether another server can become the master.
	BehindFailover() bool
}

// Address is a master that is named by its address.
type Address string

// Search does nothing: there is one address.
func (Address) Search() {}

// Addr implements [Locator].
func (a Address) Addr() string { return string(a) }

// Redirect implements [Locator]: there is no other server to try.
func (Address) Redirect(error, int) bool { return false }

// Several implements [Locator].
func (Address) Several() bool { return false }

// CheckMode implements [Locator].
func (Address) CheckMode(cluster bool) error {
	if cluster {
		return errors.New("node: a server of a Redis Cluster, of which one slot can be a master: use redis-cluster://host:port/?tag=locks, and name locks {locks}:name")
	}
	return nil
}

// MaxIdle implements [Locator]: without limit.
func (Address) MaxIdle() time.Duration { return math.MaxInt64 }

// BehindFailover implements [Locator].
func (Address) BehindFailover() bool { return false }

// Sentinels is a master that sentinels name. The dialer of package node asks them and ignores the
// address.
type Sentinels struct{ Address }

// MaxIdle implements [Locator].
func (Sentinels) MaxIdle() time.Duration { return maxIdleBehindFailover }

// BehindFailover implements [Locator].
func (Sentinels) BehindFailover() bool { return true }
