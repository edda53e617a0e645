// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// openToCount opens a client whose extends reach each of five masters, or the count would be right on a quorum only: a master that is late by
// more than the node timeout, or by a fifth of the TTL, is left out of one. Nothing else sends the count.
func openToCount(masters *quorumtest.Masters) *redlock.Client {
	return masters.Open(redlock.WithoutRenewal(), redlock.WithReentry(), redlock.WithTTL(redlock.DefaultMaxTTL), redlock.WithNodeTimeout(redlock.DefaultMaxTTL/5))
}

// wantCount wants the hold count of the lock called name to be n on all masters,
// soon: those that did not make the quorum follow.
func wantCount(t testing.TB, masters *quorumtest.Masters, name string, n int) {
	t.Helper()
	var got []map[string]string
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) { // a busy machine: it says that the masters agree, not when. Shorter than the lease
		got = masters.Fields(name)
		right := 0
		for _, fields := range got {
			for _, v := range fields {
				if v == strconv.Itoa(n) && len(fields) == 1 {
					right++
				}
			}
			if n == 0 && len(fields) == 0 {
				right++
			}
		}
		if right == len(got) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("want a hold count of %d everywhere, have %v", n, got)
		}
	}
}

func TestReenter_countsOnTheMastersAndUnwindsInAnyOrder(t *testing.T) {
	replay.Each(t, reenterInAnyOrder)
}

func reenterInAnyOrder(t *testing.T, seed uint64) {
	masters := quorumtest.Start(t, 5)
	c, other := openToCount(masters), masters.Open()
	m := c.Mutex("lock")
	outer := lock(t, m)
	wantCount(t, masters, "lock", 1)
	// Somebody of the same process waits; what is held already is not waited for.
	waiting := waitFor(t.Context(), c.Mutex("lock"))
	masters.Waits("lock", 1)

	type key struct{}
	ways := map[string]func(ctx context.Context) (*redlock.Lease, error){
		"Lock":        m.Lock,
		"TryLock":     m.TryLock,
		"WithMaxWait": func(ctx context.Context) (*redlock.Lease, error) { return inside.LockFor(ctx, m, time.Minute) },
		"Reenter":     outer.Reenter,
	}
	leases := []*redlock.Lease{outer}
	ctx := context.WithValue(outer.Context(), key{}, "value")
	for name, enter := range ways {
		before := outer.ValidUntil()
		inner, err := enter(ctx)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if inner.Token() != outer.Token() || inner.Holder() != outer.Holder() || inner == outer {
			t.Errorf("%s: token %d and holder %s, want another lease on %d and %s", name,
				inner.Token(), inner.Holder(), outer.Token(), outer.Holder())
		}
		if !outer.ValidUntil().After(before) {
			t.Errorf("%s did not extend the lease", name)
		}
		if inner.Context().Value(key{}) != "value" {
			t.Errorf("%s: the context lost its values", name)
		}
		if _, bounded := inner.Context().Deadline(); bounded {
			t.Errorf("%s: the context has a deadline", name)
		}
		leases = append(leases, inner)
		wantCount(t, masters, "lock", len(leases))
		ctx = inner.Context() // the next one goes deeper
	}

	replay.RNG(seed).Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
	for len(leases) > 1 {
		unlock(t, leases[0])
		quorumtest.Is(t, leases[0].Err(), redlock.ErrReleased)
		quorumtest.Is(t, context.Cause(leases[0].Context()), redlock.ErrReleased)
		quorumtest.Is(t, leases[0].Unlock(t.Context()), redlock.ErrReleased)
		leases = leases[1:]
		wantCount(t, masters, "lock", len(leases))
		quorumtest.NoErr(t, leases[0].Err())
		_, err := other.Mutex("lock").TryLock(t.Context())
		quorumtest.Is(t, err, redlock.ErrHeld)
		select {
		case <-waiting:
			t.Fatal("the lock went on before the last Unlock")
		default:
		}
	}
	unlock(t, leases[0])
	unlock(t, inTime(t, waiting, then).lease)
	wantCount(t, masters, "lock", 0)
}

// Many goroutines re-enter and unlock at the same time. The masters' count stays right.
func TestReenter_fromManyGoroutines_countsAll(t *testing.T) {
	masters := quorumtest.Start(t, 5)
	m := openToCount(masters).Mutex("lock")
	outer := lock(t, m)
	const n = 16
	for range quorumtest.Scale(5, 100) {
		leases := make([]*redlock.Lease, n)
		var wg sync.WaitGroup
		for i := range leases {
			wg.Go(func() {
				var err error
				if leases[i], err = m.Lock(outer.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		wantCount(t, masters, "lock", n+1)
		for _, l := range leases {
			wg.Go(func() {
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		wantCount(t, masters, "lock", 1)
	}
	unlock(t, outer)
}

func TestReenter_leaseIsOver_isRefused(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c := masters.Open(redlock.WithReentry())
	m := c.Mutex("lock", redlock.WithoutRenewal())
	refused := func(lease *redlock.Lease, why error) {
		t.Helper()
		for _, err := range []error{
			errOf(m.Lock(lease.Context())), errOf(m.TryLock(lease.Context())),
			errOf(inside.LockFor(lease.Context(), m, time.Minute)), errOf(lease.Reenter(t.Context())),
			m.Do(lease.Context(), func(context.Context, *redlock.Lease) error { t.Error("Do ran"); return nil }),
		} {
			quorumtest.Is(t, err, why)
		}
	}

	released := lock(t, m)
	unlock(t, released)
	refused(released, redlock.ErrReleased)

	// The outer one is over, the inner one is not: the lock is held.
	outer := lock(t, m)
	inner, err := outer.Reenter(t.Context())
	quorumtest.NoErr(t, err)
	unlock(t, outer)
	refused(outer, redlock.ErrReleased)
	again, err := m.Lock(inner.Context())
	quorumtest.NoErr(t, err)
	unlock(t, again)
	refused(again, redlock.ErrReleased)
	quorumtest.NoErr(t, inner.Err())
	unlock(t, inner)

	lost := lock(t, m)
	settled(t, lost, 3) // an acquire behind the DEL would set the key again
	for _, d := range masters.Direct {
		quorumtest.NoErr(t, d.Del(t.Context(), "lock").Err())
	}
	_, err = lost.Reenter(t.Context())
	quorumtest.Is(t, err, redlock.ErrLost)
	refused(lost, redlock.ErrLost)
	if keys := masters.Keys("lock"); len(keys) > 0 {
		t.Errorf("re-entering brought a lost lock back: %v", keys)
	}

	expired := lock(t, c.Mutex("lock", redlock.WithoutRenewal(), redlock.WithTTL(time.Second)))
	<-expired.Context().Done()
	refused(expired, redlock.ErrLost)

	// Nobody else's lease is taken for it.
	held := lock(t, m)
	other := masters.Open()
	_, err = other.Mutex("lock").TryLock(held.Context())
	quorumtest.Is(t, err, redlock.ErrHeld)
	free, err := c.Mutex("another").TryLock(held.Context())
	quorumtest.NoErr(t, err)
	unlock(t, free)
	unlock(t, held)
}

// A re-entry that finds no quorum changes nothing.
func TestReenter_noQuorum_changesNothing(t *testing.T) {
	stall.Try(t, 10*time.Millisecond, func(t testing.TB) {
		masters := quorumtest.Start(t, 3)
		c := masters.Open(redlock.WithoutRenewal(), redlock.WithNodeTimeout(100*time.Millisecond))
		lease := lock(t, c.Mutex("lock"))
		wantCount(t, masters, "lock", 1)
		for _, s := range masters.Servers[:2] {
			quorumtest.NoErr(t, s.Pause())
		}
		until := lease.ValidUntil()
		_, err := lease.Reenter(t.Context())
		quorumtest.Is(t, err, redlock.ErrUnreachable)
		quorumtest.NoErr(t, lease.Err())
		if moved := lease.ValidUntil().Sub(until); moved > 10*time.Millisecond {
			t.Errorf("validity moved by %v", moved)
		}
		for _, s := range masters.Servers[:2] {
			quorumtest.NoErr(t, s.Resume())
		}
		// A master that was paused may set the count of the failed re-entry when it wakes; any extend that reaches it puts that right.
		quorumtest.Soon(t, "it extends again, with a count of 1", func() bool {
			return lease.Extend(t.Context()) == nil && !slices.ContainsFunc(masters.Fields("lock"), func(f map[string]string) bool {
				return f[lease.Holder()] != "1"
			})
		})
		unlock(t, lease)
		wantCount(t, masters, "lock", 0)
	})
}

// When a master lost the vote, the top-up puts it back with its count of re-entries.
func TestReenter_voteLost_topUpKeepsTheCount(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	lease := lock(t, openToCount(masters).Mutex("lock"))
	inner, err := lease.Reenter(t.Context())
	quorumtest.NoErr(t, err)
	wantCount(t, masters, "lock", 2)
	quorumtest.NoErr(t, masters.Direct[0].Del(t.Context(), "lock").Err())
	quorumtest.NoErr(t, lease.Extend(t.Context()))
	wantCount(t, masters, "lock", 2)
	unlock(t, inner)
	wantCount(t, masters, "lock", 1)
	unlock(t, lease)
	wantCount(t, masters, "lock", 0)
}

func TestDo_nested_reenters(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c, other := masters.Open(redlock.WithReentry()), masters.Open()
	m := c.Mutex("lock")
	failed := errors.New("failed")
	tokens := make(map[int64]bool)
	var nest func(ctx context.Context, depth int) error
	nest = func(ctx context.Context, depth int) error {
		return m.Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
			wantCount(t, masters, "lock", depth)
			lease, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			tokens[lease.Token()] = true
			if err := lease.Unlock(ctx); err != nil {
				return err
			}
			if _, err := other.Mutex("lock").TryLock(ctx); !errors.Is(err, redlock.ErrHeld) {
				return fmt.Errorf("another client: %v", err)
			}
			if depth == 4 {
				return failed
			}
			return nest(ctx, depth+1)
		})
	}
	quorumtest.Is(t, nest(t.Context(), 1), failed)
	if len(tokens) != 1 {
		t.Errorf("%d tokens for one hold", len(tokens))
	}
	wantCount(t, masters, "lock", 0)
	unlock(t, lock(t, other.Mutex("lock")))
}

// Without WithReentry, a Lock with the context of a lease fails with ErrNotReentrant. No master is
// asked, and the lease stays as it is.
func TestLock_holdersContextWithoutReentrant_failsAtOnce(t *testing.T) {
	stall.Try(t, time.Second, func(t testing.TB) {
		masters := quorumtest.Start(t, 3)
		c, other := masters.Open(redlock.WithoutRenewal()), masters.Open()
		for name, m := range lockers(c) {
			outer := lock(t, m)
			inside, stop := outer.Bind(t.Context())
			before := c.Stats().Rounds
			start := time.Now()
			never := func(context.Context, *redlock.Lease) error { t.Errorf("%s: it ran", name); return nil }
			for _, ctx := range []context.Context{inside, outer.Context(), context.WithValue(outer.Context(), leasesKey{}, 1)} {
				for way, err := range map[string]error{
					"Lock": errOf(m.Lock(ctx)), "TryLock": errOf(m.TryLock(ctx)), "WithMaxWait": errOf(lockWithin(ctx, m, time.Hour)),
					"Do": m.Do(ctx, never), "TryDo": done(m.TryDo(ctx, never)),
				} {
					if !errors.Is(err, redlock.ErrNotReentrant) || errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrConfig) {
						t.Errorf("%s.%s: %v, want ErrNotReentrant", name, way, err)
					}
				}
			}
			if n := c.Stats().Rounds - before; n != 0 || time.Since(start) > 3*time.Second {
				t.Errorf("%s: %d rounds, %v", name, n, time.Since(start))
			}
			stop()
			quorumtest.NoErr(t, outer.Err())

			// To call Reenter is to ask for it, and another lock is another matter.
			again, err := outer.Reenter(t.Context())
			quorumtest.NoErr(t, err)
			unlock(t, again)
			unlock(t, lock(t, c.Mutex("another")))
			unlock(t, outer)
		}
		masters.GivenBack("lock", "rw")
		unlock(t, lock(t, other.Mutex("lock")))
		unlock(t, lock(t, other.RWMutex("rw")))
	})
}

type leasesKey struct{}

// The option of the Mutex that is called decides. The options that the lease was taken with do not
// matter.
func TestReentrant_isTheCalledLocks(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c := masters.Open()
	plain, reentrant := c.Mutex("lock"), c.Mutex("lock", redlock.WithReentry())
	for _, m := range []redlock.Locker{plain, reentrant} {
		outer := lock(t, m)
		_, err := plain.Lock(outer.Context())
		quorumtest.Is(t, err, redlock.ErrNotReentrant)
		inner, err := reentrant.Lock(outer.Context())
		quorumtest.NoErr(t, err)
		unlock(t, inner)
		unlock(t, outer)
	}
}
