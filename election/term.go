// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// Term is one turn of one leader. [Election.Run] gives it to the leader's function. It is a [redlock.Held]: it ends when the lease of the
// election's lock does. Its methods are safe for concurrent use, and a nil or zero Term has ended.
type Term struct {
	lease *redlock.Lease
	value string
	since time.Time
}

var _ redlock.Held = (*Term)(nil)

func (t *Term) held() *redlock.Lease {
	if t == nil {
		return nil
	}
	return t.lease
}

// Name is that of the election.
func (t *Term) Name() string { return t.held().Name() }

// Token is the fencing token: larger than that of every term before.
func (t *Term) Token() int64 { return t.held().Token() }

// Value is what the leader announces about itself: see [WithValue].
func (t *Term) Value() string {
	if t == nil {
		return ""
	}
	return t.value
}

// Since is when the term began, on this host's clock.
func (t *Term) Since() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.since
}

// Context ends when the term does: see redlock.Lease.Context. The context that Run gives to the leader's function ends also when the
// leader resigns or the context of Run ends.
func (t *Term) Context() context.Context { return t.held().Context() }

// ValidUntil is when the term ends unless it is extended before: see redlock.Lease.ValidUntil.
func (t *Term) ValidUntil() time.Time { return t.held().ValidUntil() }

// Err is nil while the term lasts, and says why it does not any more: see redlock.Lease.Err.
func (t *Term) Err() error { return t.held().Err() }

// Extend gives the term a full TTL from now: see redlock.Lease.Extend. Renewal does this by itself.
func (t *Term) Extend(ctx context.Context) error { return t.held().Extend(ctx) }
