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
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/internal/lazyctx"
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

var errNilContext = fmt.Errorf("%w: a nil context; use context.Background()", redlock.ErrConfig)

// TryLock tries to take every member now: all at the same time, in one round trip, when
// all are free. It never waits for a holder. The error is that of the first member, in
// the order of waiting, that could not be had, as redlock.Mutex.TryLock reports it;
// nothing is held then.
//
// Callers that try at the same moment can take members from each other, so that none
// has them all. TryLock then takes the members one after the other, in the order of
// waiting: the caller that has the first member goes on to have them all. That takes up
// to [redlock.DefaultNodeTimeout] more.
func (l *Lock) TryLock(ctx context.Context) (*Lease, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	held := make([]*redlock.Lease, len(l.named))
	_, err := l.try(ctx, held, 0)
	if err != nil {
		l.giveBack(ctx, held, 0)
		if len(l.named) == 1 || !errors.Is(err, redlock.ErrHeld) || ctx.Err() != nil {
			return nil, err
		}
		if err := l.tryInOrder(ctx, held); err != nil {
			l.giveBack(ctx, held, 0)
			return nil, err
		}
	}
	return l.lease(ctx, held)
}

// tryInOrder tries one member after the other, in the order of waiting, until one is
// held by somebody that keeps it. Another TryLock under way gives its members back
// within a few round trips: a holder that is seen twice is none of those.
func (l *Lock) tryInOrder(ctx context.Context, held []*redlock.Lease) error {
	end := time.Now().Add(redlock.DefaultNodeTimeout)
	for _, i := range l.ordered {
		for seen := ""; ; {
			start := time.Now()
			lease, err := l.named[i].TryLock(ctx)
			if err == nil {
				held[i] = lease
				break
			}
			var round *redlock.RoundError
			if !errors.Is(err, redlock.ErrHeld) || !errors.As(err, &round) || round.Holder != "" && round.Holder == seen {
				return err
			}
			seen = round.Holder
			pause := 2*time.Since(start) + rand.N(pauseMax)
			if time.Now().Add(pause).After(end) {
				return err
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return err
			}
		}
	}
	return nil
}

// pauseMax bounds the random part of the pause before a member is looked at again.
const pauseMax = 4 * time.Millisecond

// TryLockFor is Lock that waits for at most wait, and then returns what the last round
// found of the member that could not be had, as redlock.Mutex.TryLockFor does.
func (l *Lock) TryLockFor(ctx context.Context, wait time.Duration) (*Lease, error) {
	if ctx == nil || wait <= 0 {
		return l.TryLock(ctx)
	}
	end := time.Now().Add(wait)
	return l.lockBy(ctx, func(m *redlock.Mutex) (*redlock.Lease, error) {
		return m.TryLockFor(ctx, time.Until(end))
	})
}

// Lock waits until it holds every member or ctx ends: one round trip when all are
// free. It never holds a member while it waits for one that comes before it.
// Errors are redlock.Mutex.Lock's; nothing is held then.
func (l *Lock) Lock(ctx context.Context) (*Lease, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	return l.lockBy(ctx, func(m *redlock.Mutex) (*redlock.Lease, error) { return m.Lock(ctx) })
}

// lockBy waits with wait for a member that is not free.
func (l *Lock) lockBy(ctx context.Context, wait func(*redlock.Mutex) (*redlock.Lease, error)) (*Lease, error) {
	for {
		held := make([]*redlock.Lease, len(l.named))
		err := l.waitAll(ctx, held, wait)
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
func (l *Lock) waitAll(ctx context.Context, held []*redlock.Lease, wait func(*redlock.Mutex) (*redlock.Lease, error)) error {
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
		if held[i], err = wait(l.named[i]); err != nil {
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
	held, cancel := lease.context(ctx)
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
	l.ctx, l.cancel = l.context(context.WithoutCancel(ctx))
	for _, h := range held {
		member := h.Context()
		l.stops = append(l.stops, context.AfterFunc(member, func() { l.cancel(context.Cause(member)) }))
	}
	return l
}

// context is parent with the leases of all members in it. It ends when one of them is
// over and Err is asked for, or when the cancel is called.
func (l *Lease) context(parent context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(valueContext{parent, l.members})
	return &lazyctx.Context{Context: ctx, Over: l.Err, End: cancel}, cancel
}

// Err is nil while every member is held, and says of the first that is not why.
func (l *Lease) Err() error {
	for _, m := range l.members {
		if err := m.Err(); err != nil {
			return err
		}
	}
	return nil
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
