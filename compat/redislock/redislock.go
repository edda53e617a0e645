// SPDX-License-Identifier: Apache-2.0

// Package redislock has the shape of github.com/bsm/redislock, on a client of this library: a program
// changes the import and the client that it gives to New, and keeps the rest.
//
//	client, err := redlock.Open(ctx, urls) // a quorum of masters, instead of one
//	locker := redislock.New(client)
//	lock, err := locker.Obtain(ctx, "invoice/4711", 10*time.Second, nil)
//	if errors.Is(err, redislock.ErrNotObtained) { ... }
//	defer lock.Release(ctx)
//
// What this library cannot do in redislock's way is not here, so that a program that uses it does not
// compile. docs/adapters.md lists all of it, with what to write instead. Do not run programs with this
// package and programs with bsm/redislock itself for the same locks.
package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/compat/internal/retries"
	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/redlock"
)

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

// The errors of this package. They wrap the error of package redlock that is the reason. Ask for them
// with errors.Is: few errors are equal to one of these.
var (
	// ErrNotObtained says that another holder has the lock (it wraps redlock.ErrHeld then), that the
	// caller's time was over before the lock was free, or that Refresh found the lock lost.
	ErrNotObtained = errors.New("redislock: not obtained")
	// ErrLockNotHeld says that the lock had ended before it was released, or was released before.
	ErrLockNotHeld = errors.New("redislock: lock not held")
)

// Client obtains locks.
type Client struct{ client *redlock.Client }

// New returns a Client on client, which stays the caller's to close.
func New(client *redlock.Client) *Client { return &Client{client} }

// Options are settings of [Client.Obtain] and [Lock.Refresh]. A nil Options has the defaults.
type Options struct {
	// RetryStrategy bounds the wait for a lock that is held. Default: Obtain does not wait. Obtain does
	// not try again and again: it waits in the queue of the masters for as long as the backoffs last
	// together, and then tries once more.
	RetryStrategy RetryStrategy
	// LockOptions are options of package redlock, for Obtain. bsm/redislock has no such field. With
	// redlock.WithRenewal the lock is extended in the background. By default it is not, as in
	// bsm/redislock.
	LockOptions []redlock.LockOption
}

// next returns what package retries takes.
func (o *Options) next() func() (time.Duration, bool) {
	if o == nil || o.RetryStrategy == nil {
		return func() (time.Duration, bool) { return 0, false }
	}
	return func() (time.Duration, bool) {
		d := o.RetryStrategy.NextBackoff()
		return d, d > 0
	}
}

// Obtain is New(client).Obtain.
func Obtain(ctx context.Context, client *redlock.Client, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	return New(client).Obtain(ctx, key, ttl, opt)
}

// Obtain takes the lock called key. It lasts for ttl, less the drift, unless it is refreshed. The range
// of ttl is that of redlock.WithTTL: the most is the client's maximum TTL, 30 s by default. The lock
// outlives ctx.
//
// Give every Obtain of one key the same ttl, and a redlock.Mutex of that name too (redlock.WithTTL): the
// promise of one holder rests on it (docs/safety.md section 1, g).
//
// If the lock is held, Obtain waits for as long as opt's RetryStrategy says and ctx allows. If ctx has no
// deadline, it waits for ttl at most. Then it returns [ErrNotObtained], which wraps ctx's error if ctx or
// ttl ended the wait. Other errors are those of package redlock. If the masters are down it is
// redlock.ErrUnreachable, and not ErrNotObtained. It wraps ctx's error too if ctx or ttl ended the wait. A ctx
// that ends before the masters had the time to answer says nothing of them: that is ErrNotObtained.
func (c *Client) Obtain(ctx context.Context, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	opts := []redlock.LockOption{redlock.WithTTL(ttl), redlock.WithoutRenewal()}
	if opt != nil {
		opts = append(opts, opt.LockOptions...)
	}
	var client *redlock.Client
	if c != nil {
		client = c.client
	}
	if ctx != nil {
		if _, bounded := ctx.Deadline(); !bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, ttl)
			defer cancel()
		}
	}
	lease, err := retries.Lock(ctx, client, key, opts, opt.next())
	ended := ctx != nil && ctx.Err() != nil && errors.Is(err, ctx.Err())
	_, cut := inside.Hurried(err)
	var last *redlock.RoundError
	switch {
	case err == nil:
		return &Lock{lease, ttl}, nil
	case ended && !cut && errors.As(err, &last) && errors.Is(last, redlock.ErrUnavailable):
		return nil, &unavailableError{err, last}
	case ended, errors.Is(err, redlock.ErrHeld):
		return nil, fmt.Errorf("%w: %w", ErrNotObtained, err)
	}
	return nil, err
}

// unavailableError is the error of a caller whose context ended, and wraps what the last round found too, which an error of package redlock
// does not then. Its text has that already.
type unavailableError struct {
	error
	last *redlock.RoundError
}

func (e *unavailableError) Unwrap() []error { return []error{e.error, e.last} }

// Lock is a lock that was obtained. Methods of a nil Lock return errors or nothing, and do not panic.
type Lock struct {
	lease *redlock.Lease
	ttl   time.Duration
}

// Lease returns the lease under the lock. Its Token is the fencing token, and its Context ends before the
// lock does. bsm/redislock has no such method.
func (l *Lock) Lease() *redlock.Lease {
	if l == nil {
		return nil
	}
	return l.lease
}

// Key is the name of the lock.
func (l *Lock) Key() string { return l.Lease().Name() }

// Token is the id that the masters know the holder by. The fencing token is that of [Lock.Lease].
func (l *Lock) Token() string { return l.Lease().Holder() }

// TTL returns how long the lock lasts unless it is refreshed, and 0 if it has ended. It asks no master,
// and the error is nil but for a nil Lock, of which it is [ErrLockNotHeld].
func (l *Lock) TTL(context.Context) (time.Duration, error) {
	switch {
	case l == nil:
		return 0, ErrLockNotHeld
	case l.lease.Err() != nil:
		return 0, nil
	}
	return max(0, time.Until(l.lease.ValidUntil())), nil
}

// Refresh gives the lock another full TTL from now. ttl must be the one that Obtain got. Another one is
// a redlock.ErrConfig, and the lock keeps its end. To hold a lock for longer, refresh it again, or let
// redlock.WithRenewal do so.
//
// Refresh returns [ErrNotObtained] if the lock has ended. If too few masters answer, it returns
// redlock.ErrUnreachable after the retries of opt's RetryStrategy.
func (l *Lock) Refresh(ctx context.Context, ttl time.Duration, opt *Options) error {
	switch {
	case l == nil:
		return ErrNotObtained
	case ttl != l.ttl:
		return fmt.Errorf("%w: refresh of %q with TTL %v: want %v, the TTL that it was obtained with", redlock.ErrConfig, l.Key(), ttl, l.ttl)
	}
	next := opt.next()
	for {
		err := l.lease.Extend(ctx)
		if errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrReleased) {
			return fmt.Errorf("%w: %w", ErrNotObtained, err)
		}
		if !errors.Is(err, redlock.ErrUnreachable) {
			return err
		}
		pause, more := next()
		if !more {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, ctx.Err())
		}
	}
}

// Release gives the lock back. It returns [ErrLockNotHeld] if the lock had ended or was released before.
// It returns redlock.ErrUnconfirmed if too few masters answered in time: they are sent the release
// again. A ctx that has ended does not keep Release from its work.
func (l *Lock) Release(ctx context.Context) error {
	if l == nil {
		return ErrLockNotHeld
	}
	err := l.lease.Unlock(ctx)
	if errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrReleased) {
		return fmt.Errorf("%w: %w", ErrLockNotHeld, err)
	}
	return err
}
