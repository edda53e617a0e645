// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/semaphore"
)

// What stands on locks, and what a lock can do besides, over a whole cluster as the quorum.
func (w *whole) hasEveryFeature(t *testing.T) {
	renewing := redlock.WithRenewal(clusterWait / 4)
	for _, scene := range []func(testing.TB, *redlock.Client, *redlock.Client){
		transferred, enteredAgain, restsForItsMinimum, everySoOften, twoPermits, severalLocks, oneLoads, oneLeads,
	} {
		stall.Try(t, clusterWait/4, func(t testing.TB) { // what a failed try leaves is waited for
			scene(t, w.mustOpen(t, renewing), w.mustOpen(t, renewing))
		})
	}
	soon(t, "nothing is left", func() bool {
		for i := range w.tags {
			if slices.ContainsFunc(w.Keys(i), func(k string) bool { return strings.Contains(k, "feature-") && !strings.HasPrefix(k, "redlock:") }) {
				return false
			}
		}
		return true
	})
}

func transferred(t testing.TB, a, b *redlock.Client) {
	held := locked(t, a.Mutex("feature-transfer"))
	voucher, err := held.Transfer(t.Context())
	noErr(t, err)
	saw, err := b.Inspect(t.Context(), "feature-transfer")
	noErr(t, err)
	if len(saw.Holders) != 1 {
		t.Errorf("while the voucher travels it looks like %v", saw)
	}
	adopted, err := b.Adopt(t.Context(), voucher)
	noErr(t, err)
	wantIs(t, held.Err(), redlock.ErrReleased)
	_, err = a.Mutex("feature-transfer").TryLock(t.Context())
	wantIs(t, err, redlock.ErrHeld)
	if adopted.Token() <= held.Token() {
		t.Errorf("token %d after %d", adopted.Token(), held.Token())
	}
	unlock(t, adopted)
	unlock(t, locked(t, a.Mutex("feature-transfer")))
}

func enteredAgain(t testing.TB, a, b *redlock.Client) {
	outer := locked(t, a.Mutex("feature-entered", redlock.WithReentry()))
	inner, err := a.Mutex("feature-entered", redlock.WithReentry()).Lock(outer.Context())
	noErr(t, err)
	unlock(t, outer)
	_, err = b.Mutex("feature-entered").TryLock(t.Context())
	wantIs(t, err, redlock.ErrHeld)
	unlock(t, inner)
	unlock(t, locked(t, b.Mutex("feature-entered")))
}

func restsForItsMinimum(t testing.TB, a, b *redlock.Client) {
	const least = 700 * time.Millisecond
	asked := time.Now()
	held := locked(t, a.Mutex("feature-rest", redlock.WithMinHold(least)))
	unlock(t, held)
	next := locked(t, b.Mutex("feature-rest"))
	if gap := time.Since(asked); gap < least {
		t.Errorf("it was taken again after %v", gap)
	}
	unlock(t, next)
}

func everySoOften(t testing.TB, a, b *redlock.Client) {
	const period = 1500 * time.Millisecond
	name := fmt.Sprint("feature-every-", time.Now().UnixNano()) // not the one that a failed try ran
	runs := func(c *redlock.Client) bool {
		ran, err := c.Every(name, period).Do(t.Context(), func(context.Context, *redlock.Lease) error { return nil })
		noErr(t, err)
		return ran
	}
	began := time.Now()
	if !runs(a) {
		t.Error("the first does not run")
	}
	soon(t, "it runs again", func() bool { return runs(b) || runs(a) })
	if gap := time.Since(began); gap < period {
		t.Errorf("it ran again after %v", gap)
	}
}

func twoPermits(t testing.TB, a, b *redlock.Client) {
	two := func(c *redlock.Client) *semaphore.Semaphore { return semaphore.New(c, "feature-permits", 2) }
	one, err := two(a).Acquire(t.Context())
	noErr(t, err)
	other, err := two(b).Acquire(t.Context())
	noErr(t, err)
	_, err = two(b).TryAcquire(t.Context())
	wantIs(t, err, redlock.ErrHeld)
	got := make(chan error, 1)
	go func() {
		third, err := two(b).Acquire(context.Background())
		if err == nil {
			err = third.Release(context.Background())
		}
		got <- err
	}()
	noErr(t, one.Release(t.Context()))
	noErr(t, <-got)
	noErr(t, other.Release(t.Context()))
}

func severalLocks(t testing.TB, a, b *redlock.Client) {
	both := func(c *redlock.Client) *multilock.Lock {
		return multilock.New(c.Mutex("feature-left"), c.Mutex("feature-right"))
	}
	held, err := both(a).Lock(t.Context())
	noErr(t, err)
	_, err = b.Mutex("feature-right").TryLock(t.Context())
	wantIs(t, err, redlock.ErrHeld)
	_, err = both(b).TryLock(t.Context())
	wantIs(t, err, redlock.ErrHeld)
	noErr(t, held.Unlock(t.Context()))
	held, err = both(b).Lock(t.Context())
	noErr(t, err)
	noErr(t, held.Unlock(t.Context()))
}

func oneLoads(t testing.TB, a, b *redlock.Client) {
	var store atomic.Pointer[string]
	var loads atomic.Int64
	read := func(context.Context) (string, bool, error) {
		if v := store.Load(); v != nil {
			return *v, true, nil
		}
		return "", false, nil
	}
	out := make(chan error)
	for i := range 8 {
		go func() {
			_, err := flight.Do(context.Background(), []*redlock.Client{a, b}[i%2], "feature-flight", read, func(context.Context) (string, error) {
				v := "value"
				loads.Add(1)
				store.Store(&v)
				return v, nil
			})
			out <- err
		}()
	}
	for range 8 {
		noErr(t, <-out)
	}
	if n := loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
}

func oneLeads(t testing.TB, a, b *redlock.Client) {
	done := errors.New("done")
	for i, c := range []*redlock.Client{a, b} {
		value := []string{"a", "b"}[i]
		err := election.New(c, "feature-election", election.WithValue(value)).Run(t.Context(), func(ctx context.Context, term *election.Term) error {
			says, err := election.New(a, "feature-election").Leader(ctx)
			if err != nil || says.Value != value || says.Token != term.Token() {
				t.Errorf("%v leads, %v; it is %s with token %d", says, err, value, term.Token())
			}
			_, err = b.Mutex("feature-election").TryLock(context.Background())
			if !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("it can be locked: %v", err)
			}
			return done
		})
		wantIs(t, err, done)
	}
}
