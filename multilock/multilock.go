// SPDX-License-Identifier: Apache-2.0

// Package multilock holds several locks as one, all or nothing.
//
// What it guarantees: a lease is given when every member is held, with the
// guarantees of each member's own lease and no others; on any failure every
// member that was taken is given back; and no set of callers deadlocks, in
// whatever order each of them names its members. The last holds because members
// are waited for in one order that all processes share (the order of
// masters and name), and one that waits holds only members that come before
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

	"github.com/redlock-go/redlock/internal/hook"
	"github.com/redlock-go/redlock/redlock"
)

// Member is what a multilock is made of: a redlock.Locker (a *redlock.Mutex, a
// *redlock.RWMutex for writing, or its RLocker), or another *Lock. New refuses any other
// type. Members may belong to different clients.
type Member interface {
	Do(ctx context.Context, fn func(ctx context.Context) error) error
	TryDo(ctx context.Context, fn func(ctx context.Context) error) error
}

var (
	_ Member = redlock.Locker(nil)
	_ Member = (*Lock)(nil)
)

// What only package redlock knows. See package hook.
var (
	tryAll = hook.TryAll.(func(context.Context, []redlock.Locker) ([]*redlock.Lease, []error))
	key    = hook.Key.(func(redlock.Locker) string)
	check  = hook.Check.(func(redlock.Locker) error)
)

// Lock is several locks to be held together. Like a Mutex it holds no state of a
// hold and may be used by many goroutines.
type Lock struct {
	named   []redlock.Locker // as the caller named them
	ordered []int            // indices into named, in the order of waiting
}

// New returns a lock of all members. No members, a nil one, one that is named
// twice (both sides of one RWMutex are the same lock) or whose name or options
// cannot work is a redlock.ErrConfig.
func New(members ...Member) (*Lock, error) {
	l := &Lock{}
	for i, m := range members {
		switch m := m.(type) {
		case redlock.Locker:
			if err := check(m); err != nil {
				return nil, fmt.Errorf("multilock member %d: %w", i+1, err)
			}
			l.named = append(l.named, m)
		case *Lock:
			if m.isZero() {
				return nil, fmt.Errorf("%w: multilock member %d is a nil or zero Lock; make it with New", redlock.ErrConfig, i+1)
			}
			l.named = append(l.named, m.named...)
		default:
			return nil, fmt.Errorf("%w: multilock member %d is a %T: want a redlock.Locker or a *multilock.Lock", redlock.ErrConfig, i+1, m)
		}
	}
	if len(l.named) == 0 {
		return nil, fmt.Errorf("%w: a multilock of no locks", redlock.ErrConfig)
	}
	for i := range l.named {
		l.ordered = append(l.ordered, i)
	}
	slices.SortFunc(l.ordered, func(a, b int) int {
		return strings.Compare(key(l.named[a]), key(l.named[b]))
	})
	for k := range l.ordered[1:] {
		a, b := l.named[l.ordered[k]], l.named[l.ordered[k+1]]
		if key(a) == key(b) {
			return nil, fmt.Errorf("%w: lock %q is named twice in a multilock", redlock.ErrConfig, a.Name())
		}
	}
	return l, nil
}

// check is what every call returns because of ctx, or because New did not make l.
func (l *Lock) check(ctx context.Context) error {
	switch {
	case l.isZero():
		return fmt.Errorf("%w: a nil or zero multilock; make it with New", redlock.ErrConfig)
	case ctx == nil:
		return errNilContext
	}
	return nil
}

func (l *Lock) isZero() bool { return l == nil || len(l.named) == 0 }

var (
	errNilContext = fmt.Errorf("%w: a nil context; use context.Background()", redlock.ErrConfig)
	errNilFunc    = fmt.Errorf("%w: a nil function", redlock.ErrConfig)
	errZeroLease  = fmt.Errorf("%w: a nil or zero multilock Lease; Lock returns them", redlock.ErrConfig)
)

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
	if err := l.check(ctx); err != nil {
		return nil, err
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
	if wait <= 0 {
		return l.TryLock(ctx)
	}
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	end := time.Now().Add(wait)
	return l.lockBy(ctx, func(m redlock.Locker) (*redlock.Lease, error) {
		return m.TryLockFor(ctx, time.Until(end))
	})
}

// Lock waits until it holds every member or ctx ends: one round trip when all are
// free. It never holds a member while it waits for one that comes before it.
// Errors are redlock.Mutex.Lock's; nothing is held then.
func (l *Lock) Lock(ctx context.Context) (*Lease, error) {
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	return l.lockBy(ctx, func(m redlock.Locker) (*redlock.Lease, error) { return m.Lock(ctx) })
}

// lockBy waits with wait for a member that is not free.
func (l *Lock) lockBy(ctx context.Context, wait func(redlock.Locker) (*redlock.Lease, error)) (*Lease, error) {
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
func (l *Lock) waitAll(ctx context.Context, held []*redlock.Lease, wait func(redlock.Locker) (*redlock.Lease, error)) error {
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
	members := make([]redlock.Locker, len(order))
	for k, i := range order {
		members[k] = l.named[i]
	}
	leases, errs := tryAll(ctx, members)
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

// Do runs fn while all members are held, as redlock.Mutex.Do does with one. [LeaseFrom]
// finds the lease in fn's context.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	lease, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// TryDo is Do that does not wait: if not all members are free, fn does not run, and TryDo
// returns TryLock's error.
func (l *Lock) TryDo(ctx context.Context, fn func(ctx context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	lease, err := l.TryLock(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}
