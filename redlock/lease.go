// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/lazyctx"
	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/internal/lock/hold"
)

// Lease is a lock that is held, until it is unlocked or its validity ends. All
// methods are safe for concurrent use, from any goroutine.
//
// While ValidUntil lies ahead, no other holder can have been granted the lock,
// as long as clocks keep within the drift and masters do not forget votes
// (docs/safety.md). A holder that is stopped for longer than its validity and
// then goes on is not stopped by anything here: watch [Lease.Context], and let
// the resource check a fencing token.
type Lease struct {
	c     *Client
	share hold.Share // of the hold

	mu     sync.Mutex // before the hold's, where both are locked
	parent context.Context
	ctx    context.Context // made when it is asked for
}

// hold is the grant that the lease is of.
func (l *Lease) hold() *hold.Hold { return l.share.Hold() }

// rebase gives the lease the values of ctx, and drops those of the context that it was taken
// with.
func (l *Lease) rebase(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parent = ctx
}

// Name is the lock's name.
func (l *Lease) Name() string {
	if l.isZero() {
		return ""
	}
	return l.hold().Lock.Name
}

func (l *Lease) isZero() bool { return l == nil || l.c == nil }

// Holder is the id that the masters know this lease by, for logs and for
// finding it with a Redis client.
func (l *Lease) Holder() string {
	if l.isZero() {
		return ""
	}
	return l.hold().Holder
}

// Token is the fencing token: a number above 0 and below 2^53 that is unique among
// all leases of this lock, and larger than that of every lease that was granted
// before this one's Lock began. It does not change while the lease lasts. Present
// it to the resource before the first read there (package fence); tokens of
// different locks have nothing to do with each other.
//
// Tokens grow as long as a quorum of masters still has its counters. A master counts as having
// lost them when its data is gone, or when it restarted or was promoted, whatever is on its disk. A clock
// matters only for the wait of a master that lost its data (docs/safety.md, "Fencing tokens"
// and "Amnesia").
//
// A nil or zero Lease has token 0, which package fence refuses.
func (l *Lease) Token() int64 {
	if l.isZero() {
		return 0
	}
	return l.hold().Token
}

// ValidUntil is when the lease ends unless it is extended before, on this host's
// clock. It moves with every extend that a quorum confirmed, and is the same instant
// each time it is asked for in between, unless the host was suspended.
//
// A lease that another holder's Unlock handed to a waiting Lock is valid for 2 to 3 s at first,
// and for the TTL from its first renewal on, a second later at most. A lease that is not renewed
// ([WithoutRenewal]) has its whole TTL from the beginning.
//
// A nil or zero Lease returns the zero time.
func (l *Lease) ValidUntil() time.Time {
	if l.isZero() {
		return time.Time{}
	}
	return l.c.instants.At(l.hold().Until())
}

// Err is nil while the lease is held, and says why it is not any more:
// [ErrReleased], [ErrLost] or [ErrClosed]. A nil or zero Lease returns an [ErrConfig].
func (l *Lease) Err() error {
	if l.isZero() {
		return errZeroLease
	}
	return l.share.Err()
}

// Context ends when the lease does, with the reason as its cause: [ErrReleased],
// [ErrLost] (a hundredth of the TTL and 1 ms before validity is over, 31 ms if the lease was
// handed and not renewed yet, or as soon as a quorum of its votes is known to be gone) or [ErrClosed]. It has the values of the
// context that the lock was taken with, but neither its deadline nor its cancel:
// those bounded the waiting. [Lease.Bind] makes a context with both.
//
// It also carries the lease: [LeaseFrom] finds it, and a Lock of the same client and name
// that is called with it, or with a context made from it, fails or re-enters instead of
// waiting for its own caller (see [Mutex.Lock]).
//
// The context of a nil or zero Lease has ended.
func (l *Lease) Context() context.Context {
	if l.isZero() {
		return endedContext(context.Background(), errZeroLease)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		ctx, cancel := l.context(context.WithoutCancel(l.parent))
		l.ctx = ctx
		l.share.OnEnd(cancel)
	}
	return l.ctx
}

// Bind returns parent, ended early by the end of the lease, with the reason as its cause:
// a context for work that ends with the lease and with the caller. It carries the lease as
// [Lease.Context] does. stop frees it and ends it; the lease stays. Call stop when the work
// is done, as with context.WithCancel.
//
// If parent is nil, or the Lease is nil or zero, the context that it returns has ended,
// with an [ErrConfig] as its cause.
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

// endedContext is parent, ended because of cause.
func endedContext(parent context.Context, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	cancel(cause)
	return ctx
}

// LeaseFrom returns the innermost lease that ctx carries: inside [Mutex.Do] the lease that
// Do holds, with its fencing token. The contexts of [Lease.Context] and [Lease.Bind], and
// all contexts made from them, carry it too. Do gives its lease back by itself: fn must not
// Unlock it.
//
// It returns nil when ctx is nil or carries none, and inside multilock's Do, where
// multilock.LeaseFrom finds all leases. Methods of a nil Lease do not panic; its token is
// 0.
func LeaseFrom(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	l, _ := ctx.Value(engine.LeaseKey{}).(*Lease)
	return l
}

// context is parent with the lease in it. It ends when the lease is over and Err is
// asked for, or when the cancel is called.
func (l *Lease) context(parent context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(&leaseContext{parent, l})
	return &lazyctx.Context{Context: ctx, Over: l.Err, End: cancel}, cancel
}

// leaseContext carries a lease: as the innermost one, and as that of its lock.
type leaseContext struct {
	context.Context
	l *Lease
}

func (c *leaseContext) Value(key any) any {
	if c.l.asked(key) {
		return c.l
	}
	return c.Context.Value(key)
}

// asked says whether a context that carries l is asked for it by that key: as the innermost lease, as that of its lock, or as one of its hold.
func (l *Lease) asked(key any) bool {
	switch k := key.(type) {
	case engine.LeaseKey:
		return true
	case leaseKey:
		return k == l.key()
	case holdKey:
		return k.Hold == l.hold()
	}
	return false
}

// bound is parent, ended early by the end of the lease. stop frees it, and ends it for the
// cause given.
func (l *Lease) bound(parent context.Context) (ctx context.Context, stop context.CancelCauseFunc) {
	ctx, cancel := l.context(parent)
	held := l.Context()
	unhook := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return ctx, func(cause error) {
		unhook()
		cancel(cause)
	}
}

// detached is ctx for the release of the hold. If ctx was made from a context of one of the hold's leases, it
// is without the cancel, because the end of the lease cancels it. If ctx is cancelled already,
// it is without the cancel too, because Unlock is called from defers. The deadline stays.
func (l *Lease) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil && !l.carriedBy(ctx) {
		return ctx, func() {}
	}
	free := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil {
		return context.WithDeadline(free, deadline)
	}
	return free, func() {}
}

// holdKey finds a lease of a hold in a context, also behind a read lease that was taken with the context of a write lease.
type holdKey struct{ *hold.Hold }

// carriedBy says whether ctx is the context of a lease of l's hold, or one made of it.
func (l *Lease) carriedBy(ctx context.Context) bool { return ctx.Value(holdKey{l.hold()}) != nil }

// leaseKey finds a lease in a context.
type leaseKey struct {
	c    *Client
	name string
}

func (l *Lease) key() leaseKey { return leaseKey{l.c, l.Name()} }

// Extend gives the lease a full TTL from now. It returns nil when a quorum of the
// masters still had its vote without a break; ValidUntil has moved then. On any
// error the old deadline stands:
//
//	ErrUnreachable  too few masters answered; trying again may help
//	ErrLost, ErrReleased, ErrClosed
//	ctx.Err()       the caller gave up; the extend may still succeed
//
// Renewal does this by itself unless it was switched off. One extend is in flight
// at a time: a call during another one waits for it and sends the next, which all
// such calls share. So nil says what a quorum answered after the call.
func (l *Lease) Extend(ctx context.Context) error {
	switch {
	case l.isZero():
		return errZeroLease
	case ctx == nil:
		return errNilContext
	}
	if err := l.Err(); err != nil {
		return l.already(err)
	}
	return l.whyOver(ctx, l.hold().Extend(ctx))
}

// whyOver is err, that of a call with ctx, or why the lease is over: if ctx is the lease's own context, it ended with the lease, and the caller
// did not give up.
func (l *Lease) whyOver(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		if over := l.Err(); over != nil {
			return l.already(over)
		}
	}
	return err
}

// Reenter returns a second lease on the same hold, without waiting: same token,
// same validity, one more on the masters' hold count. Each lease is given back by
// its own Unlock, in any order; the lock is free after the last. It is what Lock
// of a lock with [WithReentry] does with a context of this lease. Reenter itself needs no option:
// to call it is to ask for it.
//
// Its errors are those of [Lease.Extend], for it is one. On an error nothing has
// changed.
func (l *Lease) Reenter(ctx context.Context) (*Lease, error) {
	switch {
	case l.isZero():
		return nil, errZeroLease
	case ctx == nil:
		return nil, errNilContext
	}
	if ctx.Err() != nil && l.Err() == nil { // in this order: it may be the lease's own context
		return nil, gaveUp(ctx, l.hold().Lock, nil)
	}
	inner := &Lease{c: l.c, parent: ctx}
	if err := l.share.Enter(ctx, &inner.share); err != nil {
		return nil, l.whyOver(ctx, err)
	}
	return inner, nil
}

// Unlock gives the lock back, on every master that may have a vote, and ends the
// lease and its context at once. It returns when a quorum has confirmed:
//
//	nil             a quorum had the vote and dropped it
//	ErrLost         the lease had ended before, or its quorum was gone
//	ErrReleased     it was unlocked before
//	ErrUnconfirmed  too few masters answered within the node timeout, or ctx ended
//	ErrClosed       the client was closed; the TTL frees the lock. It is ErrLost too if the
//	                validity was over before Unlock was called, or Shutdown has released the lock
//
// The releases go out whatever the error. The exception is [ErrConfig]: Unlock with a nil ctx does nothing. A master that does not answer is sent its
// release again until it acknowledges it, or what it gives back is over for sure: for twice the
// TTL (the maximum TTL of a read-write lock), or a minute if the holder had waited. A ctx that is done
// already does not keep Unlock from doing its work, for Unlock is called from defers; nor
// does the lease's own context, or one made from it, which Unlock ends.
//
// A lock with a minimum hold ([WithMinHold]) stays taken after Unlock until that is over.
//
// Of a lease that was re-entered, Unlock only takes its own part back: the lock
// stays held until the last lease on it is unlocked.
func (l *Lease) Unlock(ctx context.Context) error {
	switch {
	case l.isZero():
		return errZeroLease
	case ctx == nil:
		return errNilContext
	}
	h := l.hold()
	ctx, free := l.detached(ctx)
	defer free()
	now := l.c.clock.Elapsed()
	was, last := l.share.Leave(now)
	switch {
	case errors.Is(was, ErrReleased):
		return l.already(was)
	case last:
		return h.Release(ctx, was, now)
	case was != nil:
		return was
	}
	// The count on the masters follows; that it does not, on some, hurts nobody:
	// the last Unlock drops the whole vote. But it may find that the votes are gone.
	if err := h.Extend(ctx); errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// abandon is Unlock of a lease that was never used: it lifts the rest of a lock with a minimum hold, unless the lease is one of several on
// its hold.
func (l *Lease) abandon(ctx context.Context) error {
	l.share.Abandon()
	return l.Unlock(ctx)
}

func (l *Lease) already(was error) error {
	if errors.Is(was, ErrReleased) {
		return fmt.Errorf("%w: %q was unlocked before", ErrReleased, l.Name())
	}
	return was
}
