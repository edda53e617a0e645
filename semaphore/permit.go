// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/redlock"
)

// Permit is a permit that is held, until it is released or its validity ends: the lease of one slot.
// All methods are safe for concurrent use, from any goroutine. Those of a nil or zero Permit return
// what those of a nil redlock.Lease do.
type Permit struct {
	s     *Semaphore
	slot  int // from 0
	lease *redlock.Lease
	tidy  sync.WaitGroup // what the call that got the permit still gives back: the turn, further slots
}

var _ redlock.Held = (*Permit)(nil)

func (p *Permit) held() *redlock.Lease {
	if p == nil {
		return nil
	}
	return p.lease
}

// Slot is the number of the permit's slot, 1 to k. No other valid permit has the same. A nil or zero
// Permit returns 0.
func (p *Permit) Slot() int {
	if p.held() == nil {
		return 0
	}
	return p.slot + 1
}

// Name is the name of the slot's lock. It is the same for all permits of one slot, and so names the
// fence of that slot at a resource.
func (p *Permit) Name() string { return p.held().Name() }

// Token is the fencing token of the permit's slot: larger than that of every permit of the same slot
// that was granted before. Tokens of two slots say nothing about each other. A resource that refuses
// old holders keeps one fence for each slot, under [Permit.Name].
func (p *Permit) Token() int64 { return p.held().Token() }

// Holder is the id by which the masters know the permit.
func (p *Permit) Holder() string { return p.held().Holder() }

// ValidUntil is when the permit ends unless it is extended before, on this host's clock, as
// redlock.Lease.ValidUntil is.
func (p *Permit) ValidUntil() time.Time { return p.held().ValidUntil() }

// Err is nil while the permit is held, and says why it is not any more: redlock.ErrReleased,
// redlock.ErrLost or redlock.ErrClosed.
func (p *Permit) Err() error { return p.held().Err() }

// Context ends when the permit does, with the reason as its cause, before validity is over. It has
// the values of the context that the permit was acquired with, but neither its deadline nor its
// cancel. redlock.LeaseFrom finds the slot's lease in it.
func (p *Permit) Context() context.Context { return p.held().Context() }

// Bind returns parent, ended early by the end of the permit, as redlock.Lease.Bind does. Call stop
// when the work is done.
func (p *Permit) Bind(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	return p.held().Bind(parent)
}

// Extend gives the permit a full TTL from now, as redlock.Lease.Extend does. Renewal does it by
// itself, unless it was switched off.
func (p *Permit) Extend(ctx context.Context) error { return p.held().Extend(ctx) }

// Release gives the permit back, and so to the first waiter. It returns the errors of
// redlock.Lease.Unlock. The release goes out whatever the error, and even if ctx is done. The
// exception is redlock.ErrConfig: Release with a nil ctx does nothing.
func (p *Permit) Release(ctx context.Context) error {
	if p.held() == nil || ctx == nil {
		return p.held().Unlock(ctx)
	}
	err := p.lease.Unlock(ctx)
	if err == nil {
		p.s.wasFreed(p.slot)
	}
	awaitReleases(ctx, &p.tidy) // which is over long ago, unless the permit was held for a moment only
	return err
}

// do runs fn under the permit and gives it back. Of the errors of Release it returns ErrLost only, as
// redlock.Mutex.Do does.
func (p *Permit) do(ctx context.Context, fn func(ctx context.Context, permit *Permit) error) (err error) {
	defer func() {
		if gone := p.Release(ctx); errs.IsUntold(gone, err) {
			err = errors.Join(err, gone)
		}
	}()
	held, stop := p.Bind(ctx)
	defer stop()
	return fn(held, p)
}

// parting is for how long a caller whose time is over waits for masters to confirm what it gives back.
const parting = 25 * time.Millisecond

// givenBack calls each of the functions, which give something back, on a goroutine of its own, and waits as awaitReleases does.
func givenBack(ctx context.Context, backs ...func()) {
	var g sync.WaitGroup
	for _, back := range backs {
		g.Go(back)
	}
	awaitReleases(ctx, &g)
}

// awaitReleases waits for them while ctx lasts, and for a moment after that: masters that do not answer are not to keep the caller for a node timeout.
// The releases are on their way by then, and a Shutdown waits for that.
func awaitReleases(ctx context.Context, releases *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		releases.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-time.After(parting):
		}
	}
}
