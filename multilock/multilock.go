// SPDX-License-Identifier: Apache-2.0

// Package multilock holds several locks as one, all or nothing.
//
// What it guarantees: a lease is given when every member is held, with the
// guarantees of each member's own lease and no others; on any failure every
// member that was taken is given back; and no set of callers deadlocks, in
// whatever order each of them names its members. The last holds because members
// are waited for in one order that all processes share (the order of
// [redlock.Mutex.Key]), and one that waits holds only members that come before
// the one it waits for.
package multilock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/redlock"
)

// Member is what a multilock is made of: a *redlock.Mutex, a side of a
// redlock.RWMutex, or another *Lock. Members may belong to different clients.
type Member interface {
	// Members are the locks that must all be held.
	Members() []*redlock.Mutex
}

var (
	_ Member = (*redlock.Mutex)(nil)
	_ Member = (*Lock)(nil)
)

// Lock is several locks to be held together. Like a Mutex it holds no state of a
// hold and may be used by many goroutines.
type Lock struct {
	named   []*redlock.Mutex // as the caller named them
	ordered []int            // indices into named, in the order of waiting
}

// New returns a lock of all members. No members, a nil one, one that is named
// twice (both sides of one RWMutex are the same lock) or whose name or options
// cannot work is a redlock.ErrConfig.
func New(members ...Member) (*Lock, error) {
	l := &Lock{}
	for i, m := range members {
		switch m := m.(type) {
		case nil:
			return nil, fmt.Errorf("%w: multilock member %d is nil", redlock.ErrConfig, i+1)
		case *redlock.Mutex:
			if m == nil {
				return nil, fmt.Errorf("%w: multilock member %d is a nil Mutex", redlock.ErrConfig, i+1)
			}
		case *Lock:
			if m == nil {
				return nil, fmt.Errorf("%w: multilock member %d is a nil Lock", redlock.ErrConfig, i+1)
			}
		}
		l.named = append(l.named, m.Members()...)
	}
	if len(l.named) == 0 {
		return nil, fmt.Errorf("%w: a multilock of no locks", redlock.ErrConfig)
	}
	for i, m := range l.named {
		if err := m.Check(); err != nil {
			return nil, fmt.Errorf("multilock member %d: %w", i+1, err)
		}
		l.ordered = append(l.ordered, i)
	}
	slices.SortFunc(l.ordered, func(a, b int) int {
		return strings.Compare(l.named[a].Key(), l.named[b].Key())
	})
	for k := range l.ordered[1:] {
		a, b := l.named[l.ordered[k]], l.named[l.ordered[k+1]]
		if a.Key() == b.Key() {
			return nil, fmt.Errorf("%w: lock %q is named twice in a multilock", redlock.ErrConfig, a.Name())
		}
	}
	return l, nil
}

// Members implements [Member].
func (l *Lock) Members() []*redlock.Mutex { return l.named }

// TryLock tries every member once, all at the same time: one round trip. The
// error is that of the first member, in the order of waiting, that could not be
// had, as redlock.Mutex.TryLock reports it; nothing is held then.
func (l *Lock) TryLock(ctx context.Context) (*Lease, error) {
	if ctx == nil {
		return nil, fmt.Errorf("%w: a nil context; use context.Background()", redlock.ErrConfig)
	}
	held := make([]*redlock.Lease, len(l.named))
	if _, err := l.try(ctx, held, 0); err != nil {
		l.giveBack(ctx, held, 0)
		return nil, err
	}
	return l.lease(ctx, held)
}

// Lock waits until it holds every member or ctx ends: one round trip when all are
// free. It never holds a member while it waits for one that comes before it.
// Errors are redlock.Mutex.Lock's; nothing is held then.
func (l *Lock) Lock(ctx context.Context) (*Lease, error) {
	if ctx == nil {
		return nil, fmt.Errorf("%w: a nil context; use context.Background()", redlock.ErrConfig)
	}
	for {
		held := make([]*redlock.Lease, len(l.named))
		err := l.waitAll(ctx, held)
		if err != nil {
			l.giveBack(ctx, held, 0)
			return nil, err
		}
		lease, err := l.lease(ctx, held)
		if err == nil || ctx.Err() != nil || !errors.Is(err, redlock.ErrLost) {
			return lease, err
		}
		// A member was lost while others were waited for. Begin again.
	}
}

// waitAll fills held. What could be had at once beyond the first member that must
// be waited for is given back before waiting: it comes later in the order.
func (l *Lock) waitAll(ctx context.Context, held []*redlock.Lease) error {
	for from := 0; from < len(l.ordered); {
		failed, err := l.try(ctx, held, from)
		if err == nil {
			return nil
		}
		l.giveBack(ctx, held, failed+1)
		if !errors.Is(err, redlock.ErrHeld) && !errors.Is(err, redlock.ErrRecovering) && !errors.Is(err, redlock.ErrUnreachable) {
			return err
		}
		i := l.ordered[failed]
		if held[i], err = l.named[i].Lock(ctx); err != nil {
			return err
		}
		from = failed + 1
	}
	return nil
}

// try takes the members from the from-th on, in the order of waiting, all at
// once. It returns the first that could not be had and why.
func (l *Lock) try(ctx context.Context, held []*redlock.Lease, from int) (failed int, err error) {
	order := l.ordered[from:]
	members := make([]*redlock.Mutex, len(order))
	for k, i := range order {
		members[k] = l.named[i]
	}
	leases, errs := redlock.TryLockAll(ctx, members)
	for k, i := range order {
		held[i] = leases[k]
	}
	for k, err := range errs {
		if err != nil {
			return from + k, err
		}
	}
	return len(l.ordered), nil
}

// giveBack unlocks what is held from the from-th member on.
func (l *Lock) giveBack(ctx context.Context, held []*redlock.Lease, from int) {
	var g errgroup.Group
	for _, i := range l.ordered[min(from, len(l.ordered)):] {
		if h := held[i]; h != nil {
			held[i] = nil
			g.Go(func() error { return h.Unlock(ctx) })
		}
	}
	_ = g.Wait()
}

// lease makes one lease of all, unless one of them is over already.
func (l *Lock) lease(ctx context.Context, held []*redlock.Lease) (*Lease, error) {
	for _, h := range held {
		if err := h.Err(); err != nil {
			l.giveBack(ctx, held, 0)
			return nil, err
		}
	}
	return newLease(ctx, held), nil
}

// Do runs fn while all members are held, as redlock.Mutex.Do does with one.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	lease, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Unlock(ctx)) }()
	held, cancel := context.WithCancelCause(valueContext{ctx, lease.members})
	defer cancel(redlock.ErrReleased)
	stop := context.AfterFunc(lease.Context(), func() { cancel(context.Cause(lease.Context())) })
	defer stop()
	return fn(held)
}

// Lease is all members of a [Lock], held. Methods are safe for concurrent use.
type Lease struct {
	members []*redlock.Lease // as the caller named them
	ctx     context.Context
	cancel  context.CancelCauseFunc
	stops   []func() bool
}

func newLease(ctx context.Context, held []*redlock.Lease) *Lease {
	l := &Lease{members: held}
	l.ctx, l.cancel = context.WithCancelCause(valueContext{context.WithoutCancel(ctx), held})
	for _, h := range held {
		member := h.Context()
		l.stops = append(l.stops, context.AfterFunc(member, func() { l.cancel(context.Cause(member)) }))
	}
	return l
}

// valueContext finds the leases of all members, so that their locks can be
// re-entered with it.
type valueContext struct {
	context.Context
	leases []*redlock.Lease
}

func (c valueContext) Value(key any) any {
	for _, l := range c.leases {
		if v, ok := l.Context().Value(key).(*redlock.Lease); ok && v == l {
			return v
		}
	}
	return c.Context.Value(key)
}

// Context ends with the first member's lease, and with its cause.
func (l *Lease) Context() context.Context { return l.ctx }

// Members are the leases of the members, in the order in which they were named:
// each has the fencing token of its own lock. Do not unlock them.
func (l *Lease) Members() []*redlock.Lease { return slices.Clone(l.members) }

// ValidUntil is the earliest of the members'.
func (l *Lease) ValidUntil() time.Time {
	first := l.members[0].ValidUntil()
	for _, m := range l.members[1:] {
		if t := m.ValidUntil(); t.Before(first) {
			first = t
		}
	}
	return first
}

// Extend extends every member, all at the same time, and returns their errors
// joined. Members that could be extended stay so.
func (l *Lease) Extend(ctx context.Context) error {
	return l.each(func(m *redlock.Lease) error { return m.Extend(ctx) })
}

// Unlock gives every member back, all at the same time, and returns their errors
// joined. One that fails does not keep the others.
func (l *Lease) Unlock(ctx context.Context) error {
	for _, stop := range l.stops {
		stop()
	}
	l.cancel(redlock.ErrReleased)
	return l.each(func(m *redlock.Lease) error { return m.Unlock(ctx) })
}

func (l *Lease) each(fn func(*redlock.Lease) error) error {
	errs := make([]error, len(l.members))
	var g errgroup.Group
	for i, m := range l.members {
		g.Go(func() error {
			errs[i] = fn(m)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}
