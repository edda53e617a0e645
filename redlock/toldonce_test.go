// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// ends are the ends of calls for a lock that an Observer was told of.
type ends struct {
	mu   sync.Mutex
	told []event.Acquire
}

func (s *ends) observer() *event.Observer {
	return &event.Observer{Acquired: func(_ context.Context, e event.Acquire) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = append(s.told, e)
	}}
}

// of calls lock once, and fails unless n ends were told meanwhile, each with an error if the call returned one. It gives the lock
// back, and returns the last end.
func (s *ends) of(t *testing.T, what string, n int, ctx context.Context, lock func(context.Context) (*redlock.Lease, error)) (last event.Acquire, err error) {
	t.Helper()
	lease, err := lock(ctx)
	s.mu.Lock()
	told := s.told
	s.told = nil
	s.mu.Unlock()
	if len(told) != n {
		t.Errorf("%s returned %v; told %+v, want %d", what, err, told, n)
	}
	for _, last = range told {
		for _, kind := range []error{nil, redlock.ErrHeld, redlock.ErrUnreachable, redlock.ErrClosed, context.DeadlineExceeded, context.Canceled} {
			if n == 1 && errors.Is(last.Err, kind) != errors.Is(err, kind) {
				t.Errorf("%s returned %v; told %+v", what, err, last)
			}
		}
	}
	if lease != nil {
		wantErr(t, lease.Unlock(t.Context()), nil)
	}
	return last, err
}

// A maximum wait is over before the caller could ask the masters. Lock asks them all the same, and that is one call.
func TestAcquired_maxWaitOverAtOnce_toldOnce(t *testing.T) {
	t.Parallel()
	masters := quorumtest.Start(t, 3)
	var told ends
	c := masters.Open(redlock.WithObserver(told.observer()))
	for range 10 {
		e, err := told.of(t, "Lock", 1, t.Context(), c.Mutex("free", redlock.WithMaxWait(1)).Lock)
		quorumtest.NoErr(t, err)
		if e.Rounds != 1 || e.Waited || e.Token == 0 {
			t.Errorf("told %+v", e)
		}
	}
}

// A caller stands behind another one of its process until its maximum wait is over, before the masters have said anything: they are slower
// than they were. Its wait and the round that follows are one call, whether it has the lock then or not.
func TestAcquired_maxWaitOverInTheLine_toldOnce(t *testing.T) {
	const short = 5 * time.Millisecond
	lock := func(c *member, opts ...redlock.LockOption) redlock.Locker { return c.Mutex("x", opts...) }
	read := func(c *member, opts ...redlock.LockOption) redlock.Locker { return c.RWMutex("x", opts...).RLocker() }
	for what, tc := range map[string]struct {
		first  func(*member, ...redlock.LockOption) redlock.Locker
		second func(context.Context, *member) (*redlock.Lease, error)
		want   error
	}{
		"Lock": {lock, func(ctx context.Context, c *member) (*redlock.Lease, error) {
			return lock(c, redlock.WithMaxWait(short)).Lock(ctx)
		}, redlock.ErrHeld},
		"RLock": {read, func(ctx context.Context, c *member) (*redlock.Lease, error) {
			return read(c, redlock.WithMaxWait(short)).Lock(ctx)
		}, nil},
		"member of a multilock": {lock, func(ctx context.Context, c *member) (*redlock.Lease, error) {
			return lockWithin(ctx, lock(c), short)
		}, redlock.ErrHeld},
	} {
		simulate(t, func(t *testing.T, c *cluster) {
			var told ends
			var books simtest.Balance
			a := c.client(redlock.WithObserver(told.observer()), redlock.WithObserver(books.Observer()))
			for _, way := range a.Ways {
				way.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Delay: 20 * time.Millisecond} })
			}
			var ahead *redlock.Lease
			got := make(chan error)
			go func() {
				lease, err := tc.first(a).Lock(t.Context())
				ahead = lease
				got <- err
			}()
			synctest.Wait()
			lease, err := tc.second(t.Context(), a)
			if !errors.Is(err, tc.want) {
				t.Errorf("%s: %v", what, err)
			}
			wantErr(t, <-got, nil)
			var waited []event.Acquire
			for _, e := range told.told {
				if e.Waited {
					waited = append(waited, e)
				}
			}
			if n := len(told.told); n != 2 || len(waited) != 1 || waited[0].Rounds == 0 || waited[0].Took <= 20*time.Millisecond || !errors.Is(waited[0].Err, tc.want) {
				t.Errorf("%s: %v; told %+v", what, err, told.told)
			}
			wantErr(t, ahead.Unlock(t.Context()), nil)
			if lease != nil {
				wantErr(t, lease.Unlock(t.Context()), nil)
			}
			_ = a.Close()
			wantErr(t, books.Err(), nil)
		})
	}
}

// Each call for a lock is told once: also one that finds its context ended, or the client closed. Such a call asked no master, and made no round.
func TestAcquired_everyCall_toldOnce(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		var told ends
		giver, a := c.client(), c.client(redlock.WithObserver(told.observer()))
		ticket, err := mustLock(t, giver.Mutex("given")).Transfer(t.Context())
		wantErr(t, err, nil)
		mustLock(t, giver.Mutex("taken"))
		rw := a.RWMutex("rw")
		both := multilock.New(a.Mutex("a"), a.Mutex("b"))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		each := func(when string, ctx context.Context) {
			refused := ctx.Err() != nil || a.Ready() != nil
			for what, lock := range map[string]func(context.Context) (*redlock.Lease, error){
				"Lock": a.Mutex("x").Lock, "TryLock": a.Mutex("x").TryLock, "RWMutex.Lock": rw.Lock, "RLock": rw.RLock, "TryRLock": rw.TryRLock,
				"WithMaxWait": a.Mutex("x", redlock.WithMaxWait(time.Second)).Lock, "no time": a.Mutex("x", redlock.WithMaxWait(1)).Lock,
				"WithMaxWait, taken": a.Mutex("taken", redlock.WithMaxWait(time.Second)).Lock,
				"Adopt":              func(ctx context.Context) (*redlock.Lease, error) { return a.Adopt(ctx, ticket) },
			} {
				if e, _ := told.of(t, what+" "+when, 1, ctx, lock); refused && e.Rounds != 0 {
					t.Errorf("%s %s: told of %d rounds", what, when, e.Rounds)
				}
			}
			for what, lock := range map[string]func(context.Context) (*multilock.Lease, error){"multilock.Lock": both.Lock, "multilock.TryLock": both.TryLock} {
				told.of(t, what+" "+when, 2, ctx, func(ctx context.Context) (*redlock.Lease, error) {
					lease, err := lock(ctx)
					if err == nil {
						wantErr(t, lease.Unlock(t.Context()), nil)
					}
					return nil, err
				})
			}
		}
		each("when the context has ended", over)
		each("of a lock that is free", t.Context())
		_ = a.Close()
		each("when the client is closed", t.Context())
	})
}
