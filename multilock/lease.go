// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lazyctx"
	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/redlock"
)

// do runs fn under the lease and unlocks the lease. Of the errors of Unlock it returns ErrLost only, as
// redlock.Mutex.Do does.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (err error) {
	defer func() {
		lost := l.end(func(m *redlock.Lease) error {
			if gone := m.Unlock(ctx); errs.IsUntold(gone, err) {
				return gone
			}
			return nil
		})
		if lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	held, stop := l.bound(ctx)
	defer stop(redlock.ErrReleased)
	return fn(held, l)
}

// Lease is the leases of all members of a [Lock]. It is valid while all of them are. Its methods
// are safe for concurrent use, from any goroutine.
type Lease struct {
	members []*redlock.Lease // in the order in which New got them
	ctx     context.Context
	cancel  context.CancelCauseFunc
	stops   []func() bool
}

var _ redlock.Held = (*Lease)(nil)

func newLease(ctx context.Context, held []*redlock.Lease) *Lease {
	l := &Lease{members: held}
	l.ctx, l.cancel = l.context(context.WithoutCancel(ctx))
	for _, h := range held {
		if mutants.MembersApart {
			break
		}
		member := h.Context()
		l.stops = append(l.stops, context.AfterFunc(member, func() { l.cancel(context.Cause(member)) }))
	}
	return l
}

// context returns parent with the leases of all members in it. It ends when its Err is called after
// one of them is over, or when the cancel is called.
func (l *Lease) context(parent context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(valueContext{parent, l})
	return &lazyctx.Context{Context: ctx, Over: l.Err, End: cancel}, cancel
}

// Err returns nil while every member is held. After that it returns the error of the first member,
// in the order in which New got them, that is not held. A nil or zero Lease returns a
// redlock.ErrConfig.
func (l *Lease) Err() error {
	if l.isZero() {
		return errZeroLease
	}
	for _, m := range l.members {
		if err := m.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lease) isZero() bool { return l == nil || len(l.members) == 0 }

// valueContext carries the multilock's lease, and the leases of all members, so that their locks
// can be re-entered. redlock.LeaseFrom finds no lease in it, because several leases are equally
// the innermost one. It hides the leases of outer contexts from redlock.LeaseFrom too.
type valueContext struct {
	context.Context
	lease *Lease
}

// leaseKey is the context key of the innermost multilock lease.
type leaseKey struct{}

func (c valueContext) Value(key any) any {
	switch key.(type) {
	case leaseKey:
		return c.lease
	case engine.LeaseKey:
		return nil
	}
	for _, l := range c.lease.members {
		if inside.Asked(l, key) { // and not the context of l, whose parent is c's: of multilocks in each other, each would ask all further out once a member
			return l
		}
	}
	return c.Context.Value(key)
}

// LeaseFrom returns the innermost multilock lease that ctx carries. Inside [Lock.Do] that is the
// lease that Do holds, and its Members have the fencing tokens. It returns nil if ctx is nil or
// carries none. Methods of a nil Lease do not panic.
func LeaseFrom(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// Context returns a context that ends when the lease of any member ends, with the same cause. It
// has the values of the context that the members were taken with, but neither its deadline nor
// its cancel. The context of a nil or zero Lease has ended.
func (l *Lease) Context() context.Context {
	if l.isZero() {
		return endedContext(context.Background(), errZeroLease)
	}
	return l.ctx
}

// Bind returns a context made from parent that ends when the lease of any member ends, as
// redlock.Lease.Bind does. Call stop when the work is done.
func (l *Lease) Bind(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	switch {
	case parent == nil:
		return endedContext(context.Background(), errNilContext), func() {}
	case l.isZero():
		return endedContext(parent, errZeroLease), func() {}
	}
	ctx, end := l.bound(parent)
	return ctx, func() { end(context.Canceled) }
}

// bound is Bind whose stop takes the cause. stop frees the context.
func (l *Lease) bound(parent context.Context) (ctx context.Context, stop context.CancelCauseFunc) {
	ctx, cancel := l.context(parent)
	unhook := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return ctx, func(cause error) {
		unhook()
		cancel(cause)
	}
}

// endedContext returns a context made from parent that has ended because of cause.
func endedContext(parent context.Context, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	cancel(cause)
	return ctx
}

// Members returns the leases of the members, in the order in which New got them. Each has the
// fencing token of its own lock. Do not unlock them: Unlock does. A nil or zero Lease has none.
func (l *Lease) Members() []*redlock.Lease {
	if l.isZero() {
		return nil
	}
	return slices.Clone(l.members)
}

// Name returns the names of the members, in the order in which New got them. A nil or zero Lease has none.
func (l *Lease) Name() string {
	if l.isZero() {
		return ""
	}
	names := make([]string, len(l.members))
	for i, m := range l.members {
		names[i] = m.Name()
	}
	return strings.Join(names, ", ")
}

// Token returns 0, which package fence refuses: each of the Members has the fencing token of its own lock.
func (l *Lease) Token() int64 { return 0 }

// ValidUntil returns the earliest ValidUntil of the members, on this host's clock. A nil or zero
// Lease returns the zero time.
func (l *Lease) ValidUntil() time.Time {
	if l.isZero() {
		return time.Time{}
	}
	first := l.members[0].ValidUntil()
	for _, m := range l.members[1:] {
		if t := m.ValidUntil(); t.Before(first) {
			first = t
		}
	}
	return first
}

// Extend extends every member, all at the same time, and returns their errors joined. If it fails
// for one member, the others are extended all the same.
func (l *Lease) Extend(ctx context.Context) error {
	switch {
	case l.isZero():
		return errZeroLease
	case ctx == nil:
		return errNilContext
	}
	return l.each(func(m *redlock.Lease) error { return m.Extend(ctx) })
}

// Unlock unlocks every member, all at the same time, and returns their errors joined. If it fails
// for one member, the others are unlocked all the same. The lease and its context end at once.
// ctx may be that context, or the context of a member.
func (l *Lease) Unlock(ctx context.Context) error {
	switch {
	case l.isZero():
		return errZeroLease
	case ctx == nil:
		return errNilContext
	}
	ctx, free := l.detached(ctx)
	defer free()
	return l.end(func(m *redlock.Lease) error { return m.Unlock(ctx) })
}

// detached is ctx for the release of all members. If ctx is the context of one of them, or was made from it, it is what that member makes of it: the
// release of that member cancels ctx, while the others wait for the masters.
func (l *Lease) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	for _, m := range l.members {
		if inside.Carries(ctx, m) {
			return inside.Detached(ctx, m)
		}
	}
	return ctx, func() {}
}

// end ends the lease and its context, and calls unlock for every member.
func (l *Lease) end(unlock func(*redlock.Lease) error) error {
	for _, stop := range l.stops {
		stop()
	}
	l.cancel(redlock.ErrReleased)
	return l.each(unlock)
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
