// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/compat/redislock"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// Many of these are cases of bsm/redislock's own tests.

const (
	key = "lock"
	ttl = 10 * time.Second
)

// inBubble runs test on three masters, in a bubble of synctest.
func inBubble(t *testing.T, test func(t *testing.T, c *redlock.Client, masters *redlocktest.Masters)) {
	synctest.Test(t, func(t *testing.T) {
		client, masters := redlocktest.New(t)
		test(t, client, masters)
	})
}

func obtain(t *testing.T, c *redlock.Client, ttl time.Duration) *redislock.Lock {
	t.Helper()
	lock, err := redislock.Obtain(t.Context(), c, key, ttl, nil)
	noErr(t, err)
	return lock
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got %v, want %v", err, target)
		}
	}
}

// wantTTL fails unless the lock lasts for d, less the drift.
func wantTTL(t *testing.T, lock *redislock.Lock, d time.Duration) {
	t.Helper()
	if left, err := lock.TTL(t.Context()); err != nil || left > d || left < d*98/100-2*time.Millisecond {
		t.Errorf("TTL %v, %v, want %v less the drift", left, err, d)
	}
}

func TestObtain_untilReleased_nobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlock.Client, _ *redlocktest.Masters) {
		locker := redislock.New(c)
		lock, err := locker.Obtain(t.Context(), key, ttl, nil)
		noErr(t, err)
		wantTTL(t, lock, ttl)
		if lock.Key() != key || lock.Token() != lock.Lease().Holder() || lock.Token() == "" || lock.Lease().Token() < 1 {
			t.Errorf("%q held as %q with fencing token %d", lock.Key(), lock.Token(), lock.Lease().Token())
		}
		none, err := locker.Obtain(t.Context(), key, ttl, nil)
		wantIs(t, err, redislock.ErrNotObtained, redlock.ErrHeld)
		if none != nil {
			t.Error("a lock with an error")
		}
		wantIs(t, none.Release(t.Context()), redislock.ErrLockNotHeld)
		noErr(t, lock.Release(t.Context()))
		again, err := locker.Obtain(t.Context(), key, ttl, nil)
		noErr(t, err)
		if again.Token() == lock.Token() {
			t.Error("the same token twice")
		}
		noErr(t, again.Release(t.Context()))
	})
}

// Each strategy bounds the wait.
func TestObtain_retries_boundTheWait(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlock.Client, masters *redlocktest.Masters) {
		held := masters.Hold(key)
		for name, tc := range map[string]struct {
			retry redislock.RetryStrategy
			want  time.Duration
		}{
			"none":        {redislock.NoRetry(), 0},
			"limited":     {redislock.LimitRetry(redislock.LinearBackoff(20*time.Millisecond), 3), 60 * time.Millisecond},
			"of nothing":  {redislock.LimitRetry(nil, 3), 0},
			"exponential": {redislock.LimitRetry(redislock.ExponentialBackoff(10*time.Millisecond, 20*time.Millisecond), 4), 56 * time.Millisecond},
		} {
			began := time.Now()
			_, err := redislock.Obtain(t.Context(), c, key, ttl, &redislock.Options{RetryStrategy: tc.retry})
			wantIs(t, err, redislock.ErrNotObtained, redlock.ErrHeld)
			if d := time.Since(began); d < tc.want || d > tc.want+500*time.Millisecond {
				t.Errorf("%s: gave up after %v, want %v", name, d, tc.want)
			}
		}
		unlimited := &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)}
		began := time.Now()
		_, err := redislock.Obtain(t.Context(), c, key, time.Second, unlimited)
		wantIs(t, err, redislock.ErrNotObtained, context.DeadlineExceeded)
		if d := time.Since(began); d != time.Second {
			t.Errorf("without a deadline it gave up after %v, want the TTL", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began = time.Now()
		_, err = redislock.Obtain(ctx, c, key, time.Second, unlimited)
		wantIs(t, err, redislock.ErrNotObtained, context.DeadlineExceeded)
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("gave up after %v, want ctx's time", d)
		}
		got := make(chan error)
		go func() {
			lock, err := redislock.Obtain(t.Context(), c, key, ttl, unlimited)
			if err == nil {
				err = lock.Release(t.Context())
			}
			got <- err
		}()
		masters.AwaitWaiter(key)
		noErr(t, held.Unlock(t.Context()))
		noErr(t, <-got)
	})
}

func TestObtain_oneHundredAtOnce_oneHasIt(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlock.Client, _ *redlocktest.Masters) {
		var got atomic.Int32
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := redislock.Obtain(t.Context(), c, key, ttl, nil); err == nil {
					got.Add(1)
				} else if !errors.Is(err, redislock.ErrNotObtained) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got.Load() != 1 {
			t.Errorf("%d have it", got.Load())
		}
	})
}

// Masters that are down are no lock that is held.
func TestObtain_outage_isNotNotObtained(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlock.Client, masters *redlocktest.Masters) {
		lock := obtain(t, c, ttl)
		masters.Outage(redlocktest.All)
		_, err := redislock.Obtain(t.Context(), c, "other", ttl, &redislock.Options{RetryStrategy: redislock.LimitRetry(redislock.LinearBackoff(time.Second), 3)})
		wantIs(t, err, redlock.ErrUnreachable)
		if errors.Is(err, redislock.ErrNotObtained) {
			t.Error(err)
		}
		unlimited := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
		for what, obtain := range map[string]func() (*redislock.Lock, error){
			"until ctx ends": func() (*redislock.Lock, error) {
				brief, end := context.WithTimeout(t.Context(), time.Second)
				defer end()
				return redislock.Obtain(brief, c, "other", ttl, unlimited)
			},
			"until the TTL is over": func() (*redislock.Lock, error) {
				return redislock.Obtain(t.Context(), c, "other", time.Second, unlimited)
			},
		} {
			began := time.Now()
			_, err := obtain()
			wantIs(t, err, redlock.ErrUnreachable, context.DeadlineExceeded)
			if errors.Is(err, redislock.ErrNotObtained) || strings.Count(err.Error(), "did not answer") != 1 {
				t.Errorf("%s: %v", what, err)
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("%s: gave up after %v", what, d)
			}
		}
		wantIs(t, lock.Refresh(t.Context(), ttl, nil), redlock.ErrUnreachable)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		patient := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
		wantIs(t, lock.Refresh(ctx, ttl, patient), context.DeadlineExceeded)
		got := make(chan error)
		go func() { got <- lock.Refresh(t.Context(), ttl, patient) }()
		time.Sleep(time.Second)
		masters.Heal()
		noErr(t, <-got)
		masters.Outage(redlocktest.All)
		wantIs(t, lock.Refresh(t.Context(), ttl, patient), redislock.ErrNotObtained, redlock.ErrLost) // it ends with the lock
	})
}

func TestRefresh_sameTTLOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlock.Client, _ *redlocktest.Masters) {
		lock := obtain(t, c, ttl)
		time.Sleep(ttl / 2)
		noErr(t, lock.Refresh(t.Context(), ttl, nil))
		wantTTL(t, lock, ttl)
		time.Sleep(ttl / 2)
		err := lock.Refresh(t.Context(), time.Minute, nil)
		wantIs(t, err, redlock.ErrConfig)
		if !strings.Contains(err.Error(), "with TTL 1m0s: want 10s") {
			t.Error(err)
		}
		wantTTL(t, lock, ttl/2)
		noErr(t, lock.Release(t.Context()))
	})
}

// A lock that has ended cannot be refreshed or released, whoever has it now.
func TestLock_ended_neitherRefreshedNorReleased(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlock.Client, masters *redlocktest.Masters) {
		expired := obtain(t, c, 20*time.Millisecond)
		time.Sleep(25 * time.Millisecond)
		other := masters.Hold(key)
		wantTTL(t, expired, 0)
		wantIs(t, expired.Refresh(t.Context(), 20*time.Millisecond, nil), redislock.ErrNotObtained, redlock.ErrLost)
		wantIs(t, expired.Release(t.Context()), redislock.ErrLockNotHeld, redlock.ErrLost)
		noErr(t, other.Err())
		noErr(t, other.Unlock(t.Context()))

		released := obtain(t, c, ttl)
		noErr(t, released.Release(t.Context()))
		wantTTL(t, released, 0)
		wantIs(t, released.Refresh(t.Context(), ttl, nil), redislock.ErrNotObtained, redlock.ErrReleased)
		wantIs(t, released.Release(t.Context()), redislock.ErrLockNotHeld, redlock.ErrReleased)

		taken := obtain(t, c, ttl)
		masters.Lose(key)
		wantIs(t, taken.Refresh(t.Context(), ttl, nil), redislock.ErrNotObtained, redlock.ErrLost)
		wantIs(t, taken.Release(t.Context()), redislock.ErrLockNotHeld)

		out := obtain(t, c, ttl)
		masters.Outage(redlocktest.All)
		wantIs(t, out.Release(t.Context()), redlock.ErrUnconfirmed)
	})
}

// With renewal, which bsm/redislock does not have, the lock lasts. A context that has ended does not keep Release from its work.
func TestLock_lockOptions_renewal(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlock.Client, masters *redlocktest.Masters) {
		ctx, cancel := context.WithCancel(t.Context())
		lock, err := redislock.Obtain(ctx, c, key, ttl, &redislock.Options{LockOptions: []redlock.LockOption{redlock.WithRenewal(ttl / 4)}})
		noErr(t, err)
		cancel()
		time.Sleep(time.Minute)
		noErr(t, lock.Lease().Err())
		noErr(t, lock.Release(ctx))
		noErr(t, masters.Hold(key).Unlock(t.Context()))
	})
}

func TestBadInput_saysWhatToDo(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlock.Client, _ *redlocktest.Masters) {
		lock := obtain(t, c, ttl)
		var noCtx context.Context
		for says, err := range map[string]error{
			"above the maximum TTL 30s": second(redislock.Obtain(t.Context(), c, "other", time.Hour, nil)),
			"TTL 0s: want 10ms":         second(redislock.Obtain(t.Context(), c, "other", 0, nil)),
			"an empty lock name":        second(redislock.Obtain(t.Context(), c, "", ttl, nil)),
			"make it with Open or New":  second(redislock.Obtain(t.Context(), nil, "other", ttl, nil)),
			"a nil or zero Client":      second((*redislock.Client)(nil).Obtain(t.Context(), "other", ttl, nil)),
			"use context.Background":    second(redislock.Obtain(noCtx, c, "other", ttl, nil)),
			"a nil context":             lock.Refresh(noCtx, ttl, nil),
			"a nil option":              second(redislock.Obtain(t.Context(), c, "other", ttl, &redislock.Options{LockOptions: []redlock.LockOption{nil}})),
		} {
			wantIs(t, err, redlock.ErrConfig)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v does not say %q", err, says)
			}
		}
		var none *redislock.Lock
		if _, err := none.TTL(t.Context()); none.Key() != "" || none.Token() != "" || none.Lease() != nil || !errors.Is(err, redislock.ErrLockNotHeld) {
			t.Errorf("a nil Lock: %q %q %v %v", none.Key(), none.Token(), none.Lease(), err)
		}
		wantIs(t, none.Refresh(t.Context(), ttl, nil), redislock.ErrNotObtained)
	})
}

func second(_ *redislock.Lock, err error) error { return err }

func TestRetryStrategies_pauses(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		s    redislock.RetryStrategy
		want []time.Duration
	}{
		"none":        {redislock.NoRetry(), []time.Duration{0, 0}},
		"linear":      {redislock.LinearBackoff(ms), []time.Duration{ms, ms, ms}},
		"limited":     {redislock.LimitRetry(redislock.LinearBackoff(ms), 2), []time.Duration{ms, ms, 0, 0}},
		"exponential": {redislock.ExponentialBackoff(0, 0), []time.Duration{4 * ms, 8 * ms, 16 * ms, 32 * ms}},
		"bounded":     {redislock.ExponentialBackoff(10*ms, 30*ms), []time.Duration{10 * ms, 10 * ms, 16 * ms, 30 * ms, 30 * ms}},
	} {
		for i, want := range tc.want {
			if got := tc.s.NextBackoff(); got != want {
				t.Errorf("%s, pause %d: %v, want %v", name, i, got, want)
			}
		}
	}
	s := redislock.ExponentialBackoff(0, 0)
	for range 100 {
		s.NextBackoff()
	}
	if got := s.NextBackoff(); got != ms<<26 {
		t.Errorf("at last %v", got)
	}
}
