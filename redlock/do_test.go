// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// lockers are all ways to hold a lock, by name. Those of one kind exclude each other.
func lockers(c *redlock.Client) map[string]redlock.Locker {
	rw := c.RWMutex("rw")
	return map[string]redlock.Locker{"Mutex": c.Mutex("lock"), "RWMutex": rw, "Locker": rw.Locker(), "RLocker": rw.RLocker()}
}

func TestDo_handsOutItsLease(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c := masters.Open()
	failed := errors.New("failed")
	for name, m := range lockers(c) {
		for what, do := range map[string]func(context.Context, func(context.Context, *redlock.Lease) error) error{"Do": m.Do, "TryDo": tried(m.TryDo)} {
			var lease *redlock.Lease
			var inside context.Context
			err := do(t.Context(), func(ctx context.Context, given *redlock.Lease) error {
				lease, inside = redlock.LeaseFrom(ctx), ctx
				if given != lease || lease.Token() <= 0 || lease.Err() != nil || lease.Name() != m.Name() {
					t.Errorf("%s.%s: token %d, %v, name %q", name, what, lease.Token(), lease.Err(), lease.Name())
				}
				if redlock.LeaseFrom(context.WithoutCancel(ctx)) != lease || redlock.LeaseFrom(lease.Context()) != lease {
					t.Errorf("%s.%s: another lease is found deeper", name, what)
				}
				return failed
			})
			quorumtest.Is(t, err, failed)
			quorumtest.Is(t, lease.Err(), redlock.ErrReleased)
			quorumtest.Is(t, context.Cause(inside), redlock.ErrReleased)
			quorumtest.Is(t, do(t.Context(), nil), redlock.ErrConfig)
		}
	}
	if l := redlock.LeaseFrom(t.Context()); l != nil {
		t.Errorf("a lease of nowhere: %v", l)
	}
}

// Inside a nested Do, LeaseFrom finds the inner lease. Outside of it, it finds the outer lease.
func TestLeaseFrom_nested_innermost(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c := masters.Open()
	err := c.Mutex("outer").Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
		outer := redlock.LeaseFrom(ctx)
		err := c.Mutex("inner").Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
			if l := redlock.LeaseFrom(ctx); l.Name() != "inner" || l == outer {
				t.Errorf("found the lease of %q", l.Name())
			}
			return nil
		})
		if redlock.LeaseFrom(ctx) != outer || outer.Name() != "outer" {
			t.Error("the outer lease is not found any more")
		}
		return err
	})
	quorumtest.NoErr(t, err)
}

// If the lock is held, TryDo does not wait and does not run the function.
func TestTryDo_held_doesNotRun(t *testing.T) {
	stall.Try(t, time.Second, func(t testing.TB) {
		masters := quorumtest.Start(t, 3)
		c, other := masters.Open(), masters.Open()
		lock(t, other.Mutex("lock"))
		lock(t, other.RWMutex("rw"))
		rw := c.RWMutex("rw")
		start := time.Now()
		for _, do := range []func(context.Context, func(context.Context, *redlock.Lease) error) (bool, error){c.Mutex("lock").TryDo, rw.TryDo, rw.TryRDo, rw.RLocker().TryDo} {
			if ran, err := do(t.Context(), func(context.Context, *redlock.Lease) error { t.Error("it ran"); return nil }); ran || err != nil {
				t.Errorf("ran: %v, %v", ran, err)
			}
		}
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("TryDo waited %v", d)
		}
	})
}

// Every method of an RWMutex takes the side that its name says.
func TestRWMutex_methods_takeTheirSide(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c, other := masters.Open(), masters.Open()
	rw, theirs := c.RWMutex("rw"), other.RWMutex("rw")
	do := func(do func(context.Context, func(context.Context, *redlock.Lease) error) error) func(context.Context) (*redlock.Lease, error) {
		return func(ctx context.Context) (*redlock.Lease, error) {
			held, done := make(chan *redlock.Lease), make(chan error, 1)
			go func() {
				done <- do(ctx, func(_ context.Context, l *redlock.Lease) error {
					held <- l
					<-l.Context().Done()
					return nil
				})
			}()
			select {
			case l := <-held:
				return l, nil
			case err := <-done:
				return nil, err
			}
		}
	}
	for name, tc := range map[string]struct {
		lock  func(context.Context) (*redlock.Lease, error)
		reads bool
	}{
		"Lock": {rw.Lock, false}, "TryLock": {rw.TryLock, false},
		"Do": {do(rw.Do), false}, "TryDo": {do(tried(rw.TryDo)), false},
		"RLock": {rw.RLock, true}, "TryRLock": {rw.TryRLock, true},
		"RDo": {do(rw.RDo), true}, "TryRDo": {do(tried(rw.TryRDo)), true},
		"Locker.Lock": {rw.Locker().Lock, false}, "Locker.TryLock": {rw.Locker().TryLock, false},
		"RLocker.Lock": {rw.RLocker().Lock, true}, "RLocker.TryLock": {rw.RLocker().TryLock, true},
		"RLocker.Do": {do(rw.RLocker().Do), true}, "RLocker.TryDo": {do(tried(rw.RLocker().TryDo)), true},
	} {
		lease, err := tc.lock(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		reading, err := theirs.TryRLock(t.Context())
		if tc.reads {
			quorumtest.NoErr(t, err)
			unlock(t, reading)
		} else if !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("%s: a reader beside it: %v", name, err)
		}
		_, err = theirs.TryLock(t.Context())
		if !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("%s: a writer beside it: %v", name, err)
		}
		quorumtest.NoErr(t, lease.Unlock(t.Context()))
	}
	if rw.Name() != "rw" || rw.RLocker().Name() != "rw" || rw.Locker().Name() != "rw" {
		t.Errorf("names %q, %q and %q", rw.Name(), rw.RLocker().Name(), rw.Locker().Name())
	}
}

// A context of Lease.Bind ends with the caller's context, with the lease, and with stop.
func TestBind_endsWithEither(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	m := masters.Open().Mutex("lock")
	type key struct{}
	lease := lock(t, m)
	gone := errors.New("caller gone")
	parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
	byCaller, stop := lease.Bind(parent)
	defer stop()
	byLease, stop := lease.Bind(t.Context())
	defer stop()
	byStop, stop := lease.Bind(t.Context())
	if byCaller.Value(key{}) != "value" || redlock.LeaseFrom(byCaller) != lease || byCaller.Err() != nil {
		t.Errorf("%v, %v, %v", byCaller.Value(key{}), redlock.LeaseFrom(byCaller), byCaller.Err())
	}
	cancel(gone)
	<-byCaller.Done()
	quorumtest.Is(t, context.Cause(byCaller), gone)
	stop()
	<-byStop.Done()
	quorumtest.Is(t, context.Cause(byStop), context.Canceled)
	quorumtest.NoErr(t, lease.Err())
	quorumtest.NoErr(t, byLease.Err())
	unlock(t, lease)
	<-byLease.Done()
	quorumtest.Is(t, context.Cause(byLease), redlock.ErrReleased)
	over, stop := lease.Bind(t.Context())
	defer stop()
	quorumtest.Is(t, over.Err(), context.Canceled)
}
