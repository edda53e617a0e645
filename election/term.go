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

// giveBack gives the lock of a term back by end, and takes back what was announced for it, unless the term was silent. That is done behind the
// release, so that who is told of it finds the next leader, or none. Once a Shutdown has begun it is done ahead of the release, because
// the client is closed as soon as that is on its way.
func (e *Election) giveBack(ctx context.Context, lease *redlock.Lease, silent bool, end func(*redlock.Lease, context.Context) error) error {
	stays, done := inside.Stays(e.client)
	defer done()
	if !silent && !stays {
		inside.Retract(lease)
	}
	err := end(lease, ctx)
	if !silent && stays {
		inside.Retract(lease)
	}
	return err
}

// pause is the pause behind a term. It ends early with ctx, and when a Shutdown or a Close of the client begins: the Lock that comes next says so. It
// says whether ctx has not ended.
func (e *Election) pause(ctx context.Context) bool {
	pausing, stop := context.WithCancel(ctx)
	defer stop()
	unhook := context.AfterFunc(inside.Serving(e.client), stop)
	defer unhook()
	sleep(pausing, e.set.pause-e.jitter(e.set.pause/2))
	return ctx.Err() == nil
}
