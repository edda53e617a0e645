// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"
)

// Held is what all have in common that hold something for a while: a [Lease], a permit of package semaphore, a term of package election, and
// the lease of a multilock. Write a function of your program for a Held, and it works under each of them.
type Held interface {
	// Name is that of the lock, of the permit's slot or of the election; the names of all members, for a multilock.
	Name() string
	// Token is the fencing token: see [Lease.Token]. It is 0 for a multilock, whose members have tokens of their own.
	Token() int64
	// Context ends when it is not held any more, with the reason as its cause.
	Context() context.Context
	// ValidUntil is when it ends unless it is extended before, on this host's clock.
	ValidUntil() time.Time
	// Err is nil while it is held, and then the reason.
	Err() error
	// Extend gives it a full TTL from now: see [Lease.Extend].
	Extend(ctx context.Context) error
}

var _ Held = (*Lease)(nil)
