// SPDX-License-Identifier: Apache-2.0

package redsync_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/compat/redsync"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// Many of these are cases of redsync's own tests, on as many masters: 4 and 5; redsync has 8.

// on runs test on n masters, in a bubble of synctest.
func on(t *testing.T, n int, test func(t *testing.T, rs *redsync.Redsync, masters *redlocktest.Masters)) {
	t.Helper()
	t.Run(fmt.Sprint(n, " masters"), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, masters := redlocktest.NewN(t, n, redlock.WithNodeCount(n))
			test(t, redsync.New(client), masters)
		})
	})
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantIs fails unless err is each of targets.
func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got %v, want %v", err, target)
		}
	}
}

// done fails unless a call returned true.
func done(t *testing.T) func(ok bool, err error) {
	return func(ok bool, err error) {
		t.Helper()
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
}

// refused fails unless a call returned false and an error that is each of targets.
func refused(t *testing.T, targets ...error) func(ok bool, err error) {
	return func(ok bool, err error) {
		t.Helper()
		if ok {
			t.Error("true")
		}
		wantIs(t, err, targets...)
	}
}

// wantTaken fails unless err says that masters hold the lock for another.
func wantTaken(t *testing.T, err error) {
	t.Helper()
	var taken *redsync.ErrTaken
	if !errors.As(err, &taken) {
		t.Fatalf("got %v, want an ErrTaken", err)
	}
	if taken.Held < 2 { // the round may end when no quorum can be had any more
		t.Errorf("%d masters hold it", taken.Held)
	}
	wantIs(t, err, redsync.ErrFailed, redlock.ErrHeld)
}

func TestMutex_manyAtOnce_eachHasItAlone(t *testing.T) {
	on(t, 5, func(t *testing.T, rs *redsync.Redsync, _ *redlocktest.Masters) {
		var holders atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				m := rs.NewMutex("lock", redsync.WithTries(1000))
				if err := m.Lock(); err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d holders", n)
				}
				time.Sleep(time.Duration(i) * time.Millisecond)
				holders.Add(-1)
				done(t)(m.Unlock())
			})
		}
		wg.Wait()
	})
}

func TestMutex_tryLockOfEachOwnName_extends(t *testing.T) {
	on(t, 5, func(t *testing.T, rs *redsync.Redsync, _ *redlocktest.Masters) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				m := rs.NewMutex(fmt.Sprint("lock", i))
				if err := m.TryLockContext(t.Context()); err != nil {
					t.Error(err)
					return
				}
				done(t)(m.Extend())
				done(t)(m.Unlock())
			})
		}
		wg.Wait()
	})
}

func TestMutex_alreadyLocked_isTaken(t *testing.T) {
	on(t, 4, func(t *testing.T, rs *redsync.Redsync, _ *redlocktest.Masters) {
		first := rs.NewMutex("lock")
		noErr(t, first.Lock())
		err := rs.NewMutex("lock").TryLock()
		wantTaken(t, err)
		if !strings.Contains(err.Error(), `"lock"`) {
			t.Error(err)
		}
		var round *redlock.RoundError
		if !errors.As(err, &round) || round.Holder != first.Value() {
			t.Errorf("%v does not name the holder %s", err, first.Value())
		}
		wantTaken(t, first.TryLock()) // its own too
		done(t)(first.Unlock())       // and it still holds it
	})
}

// A Lock waits for as long as the delays last together, and gets the lock when it is free.
func TestMutex_tries_boundTheWait(t *testing.T) {
	on(t, 3, func(t *testing.T, rs *redsync.Redsync, masters *redlocktest.Masters) {
		held := masters.Hold("lock")
		growing := func(tries int) time.Duration { return time.Duration(tries) * time.Second }
		for name, tc := range map[string]struct {
			opts        []redsync.Option
			least, most time.Duration
		}{
			"default":    {nil, 31 * 50 * time.Millisecond, 31 * 250 * time.Millisecond},
			"once":       {[]redsync.Option{redsync.WithTries(1)}, 0, 0},
			"three":      {[]redsync.Option{redsync.WithTries(3), redsync.WithRetryDelay(time.Minute)}, 2 * time.Minute, 2 * time.Minute},
			"growing":    {[]redsync.Option{redsync.WithTries(4), redsync.WithRetryDelayFunc(growing)}, 6 * time.Second, 6 * time.Second},
			"no delay":   {[]redsync.Option{redsync.WithTries(9), redsync.WithRetryDelay(0)}, 0, 0},
			"below zero": {[]redsync.Option{redsync.WithTries(9), redsync.WithRetryDelay(-1)}, 0, 0},
		} {
			began := time.Now()
			wantTaken(t, rs.NewMutex("lock", tc.opts...).Lock())
			if d := time.Since(began); d < tc.least || d > tc.most+2*time.Second { // a pause among split votes
				t.Errorf("%s: %v, want %v to %v", name, d, tc.least, tc.most)
			}
		}
		got := make(chan error)
		go func() { got <- rs.NewMutex("lock", redsync.WithTries(math.MaxInt)).Lock() }()
		masters.AwaitWaiter("lock")
		time.Sleep(time.Minute)
		noErr(t, held.Unlock(t.Context()))
		noErr(t, <-got)
	})
}

// A delay of the program's own panics, or ends its goroutine, while Lock waits, or when Lock has the lock already. The caller can catch it,
// and holds nothing.
func TestMutex_delayPanics_callerCatchesItAndHoldsNothing(t *testing.T) {
	broken := errors.New("no delay")
	for _, won := range []bool{false, true} {
		for _, tc := range []struct {
			throw func()
			want  any
		}{{func() { panic(broken) }, broken}, {runtime.Goexit, nil}} {
			on(t, 3, func(t *testing.T, rs *redsync.Redsync, masters *redlocktest.Masters) {
				held := masters.Hold("lock")
				m := rs.NewMutex("lock", redsync.WithRetryDelayFunc(func(try int) time.Duration {
					if try == 1 {
						return time.Second
					}
					if won {
						if err := held.Unlock(context.Background()); err != nil {
							t.Error(err)
						}
						time.Sleep(time.Second)
					}
					tc.throw()
					return 0
				}))
				caught := make(chan any, 1)
				go func() {
					defer func() { caught <- recover() }()
					err := m.LockContext(t.Context())
					t.Errorf("Lock returned %v", err)
				}()
				select {
				case got := <-caught:
					if got != tc.want {
						t.Errorf("caught %v, want %v", got, tc.want)
					}
				case <-time.After(time.Minute):
					t.Fatal("Lock goes on")
				}
				if !won {
					noErr(t, held.Unlock(t.Context()))
				}
				synctest.Wait()
				if m.Lease() != nil {
					t.Error("the Mutex has a lease")
				}
				noErr(t, masters.Hold("lock").Unlock(t.Context()))
			})
		}
	}
}

// An outage does not end the wait before the tries do, and does not outlast them.
func TestMutex_outage_waitedOutForAllTries(t *testing.T) {
	on(t, 4, func(t *testing.T, rs *redsync.Redsync, masters *redlocktest.Masters) {
		masters.Outage(redlocktest.All)
		m := rs.NewMutex("lock", redsync.WithTries(11), redsync.WithRetryDelay(time.Second))
		began := time.Now()
		wantIs(t, m.Lock(), redsync.ErrFailed, redlock.ErrUnreachable)
		if d := time.Since(began); d < 10*time.Second || d > 15*time.Second {
			t.Errorf("gave up after %v", d)
		}
		wantIs(t, m.TryLock(), redsync.ErrFailed, redlock.ErrUnreachable)
		got := make(chan error)
		go func() { got <- m.Lock() }()
		time.Sleep(5 * time.Second)
		masters.Heal()
		noErr(t, <-got)
	})
}

func TestMutex_contextEnds_failed(t *testing.T) {
	on(t, 4, func(t *testing.T, rs *redsync.Redsync, masters *redlocktest.Masters) {
		held := masters.Hold("lock")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m := rs.NewMutex("lock")
		err := m.LockContext(ctx)
		wantIs(t, err, redsync.ErrFailed, context.DeadlineExceeded)
		noErr(t, held.Unlock(t.Context()))

		ctx, cancel = context.WithCancel(t.Context())
		noErr(t, m.LockContext(ctx))
		cancel()
		time.Sleep(time.Second)
		done(t)(m.ExtendContext(t.Context())) // the lock outlives ctx
		done(t)(m.UnlockContext(ctx))         // and a ctx that has ended does not keep it
		var noCtx context.Context
		noErr(t, m.LockContext(noCtx)) // redsync takes nil too
		done(t)(m.UnlockContext(noCtx))
	})
}

func TestMutex_extend_fullExpiryFromNow(t *testing.T) {
	on(t, 5, func(t *testing.T, rs *redsync.Redsync, _ *redlocktest.Masters) {
		m := rs.NewMutex("lock")
		noErr(t, m.Lock())
		first := m.Until()
		if d := time.Until(first); d > 8*time.Second || d < 7*time.Second {
			t.Errorf("valid for %v, want 8s by default", d)
		}
		time.Sleep(time.Second)
		done(t)(m.Extend())
		if d := m.Until().Sub(first); d < 999*time.Millisecond || d > 1001*time.Millisecond {
			t.Errorf("extended by %v", d)
		}
		done(t)(m.Unlock())
	})
}

// Without an extend the lock ends with its expiry. It is neither extended nor unlocked then, and never
// acquired again by an extend, as redsync does WithSetNXOnExtend.
func TestMutex_expired_neitherExtendedNorUnlocked(t *testing.T) {
	on(t, 5, func(t *testing.T, rs *redsync.Redsync, masters *redlocktest.Masters) {
		m := rs.NewMutex("lock", redsync.WithExpiry(500*time.Millisecond))
		noErr(t, m.Lock())
		time.Sleep(time.Second)
		refused(t, redsync.ErrExtendFailed, redlock.ErrLost)(m.Extend())
		refused(t, redsync.ErrLockAlreadyExpired, redlock.ErrLost)(m.Unlock())
		noErr(t, masters.Hold("lock").Unlock(t.Context()))

		noErr(t, m.Lock())
		time.Sleep(time.Second)
		other := masters.Hold("lock")
		refused(t, redsync.ErrExtendFailed)(m.Extend())
		refused(t, redsync.ErrLockAlreadyExpired)(m.Unlock())
		noErr(t, other.Unlock(t.Context())) // which nobody took away
	})
}

// Each set of masters that is down: the lock is granted exactly if a quorum is left.
func TestMutex_someMastersDown_quorumDecides(t *testing.T) {
	on(t, 4, func(t *testing.T, rs *redsync.Redsync, masters *redlocktest.Masters) {
		for down := range 4 {
			if down > 0 {
				masters.Outage(down)
			}
			m := rs.NewMutex(fmt.Sprint("lock", down), redsync.WithTries(1))
			if err := m.Lock(); down <= 1 {
				noErr(t, err)
			} else {
				wantIs(t, err, redsync.ErrFailed, redlock.ErrUnreachable)
			}
			masters.Heal()
			_, _ = m.Unlock()
		}
	})
}

// What a Mutex says of itself before, while and after it holds the lock.
func TestMutex_beforeAndAfter_holdsNothing(t *testing.T) {
	on(t, 4, func(t *testing.T, rs *redsync.Redsync, masters *redlocktest.Masters) {
		m := rs.NewMutex("lock")
		holdsNot := func(when string) {
			t.Helper()
			if ok, err := m.Valid(); ok || err != nil || !m.Until().IsZero() {
				t.Errorf("%s: valid %v %v until %v", when, ok, err, m.Until())
			}
		}
		holdsNot("new")
		if m.Name() != "lock" || m.Value() != "" || m.Lease() != nil {
			t.Errorf("%q has value %q, lease %v", m.Name(), m.Value(), m.Lease())
		}
		refused(t, redsync.ErrExtendFailed)(m.Extend())
		refused(t, redsync.ErrLockAlreadyExpired)(m.Unlock())

		noErr(t, m.Lock())
		value, token := m.Value(), m.Lease().Token()
		if ok, err := m.Valid(); !ok || err != nil || value == "" || token < 1 {
			t.Errorf("valid %v %v, value %q, token %d", ok, err, value, token)
		}
		done(t)(m.Unlock())
		holdsNot("unlocked")
		refused(t, redsync.ErrLockAlreadyExpired, redlock.ErrReleased)(m.Unlock())
		refused(t, redsync.ErrExtendFailed, redlock.ErrReleased)(m.Extend())

		noErr(t, m.Lock())
		if m.Value() == value || m.Lease().Token() <= token {
			t.Errorf("again %s with token %d, after %s with %d", m.Value(), m.Lease().Token(), value, token)
		}
		masters.Lose("lock")
		refused(t, redsync.ErrExtendFailed, redlock.ErrLost)(m.Extend())
		holdsNot("lost")
		refused(t, redsync.ErrLockAlreadyExpired, redlock.ErrLost)(m.Unlock())

		noErr(t, m.Lock())
		masters.Outage(redlocktest.All)
		refused(t, redlock.ErrUnconfirmed)(m.Unlock())
		holdsNot("not confirmed")
	})
}

// With renewal, which redsync does not have, the lock lasts.
func TestMutex_lockOptions_renewal(t *testing.T) {
	on(t, 3, func(t *testing.T, rs *redsync.Redsync, _ *redlocktest.Masters) {
		m := rs.NewMutex("lock", redsync.WithLockOptions(redlock.WithRenewal(time.Second)))
		noErr(t, m.Lock())
		time.Sleep(time.Minute)
		if ok, _ := m.Valid(); !ok {
			t.Error("lost")
		}
		done(t)(m.Unlock())
	})
}

// What cannot work says so.
func TestMutex_badInput_saysWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := redlocktest.New(t)
		rs := redsync.New(client)
		var none *redsync.Redsync
		for says, m := range map[string]*redsync.Mutex{
			"above the maximum TTL 30s":  rs.NewMutex("lock", redsync.WithExpiry(time.Hour)),
			"0 tries: want 1 or more":    rs.NewMutex("lock", redsync.WithTries(0)),
			"a nil DelayFunc":            rs.NewMutex("lock", redsync.WithRetryDelayFunc(nil)),
			"a nil option":               rs.NewMutex("lock", nil),
			"bad configuration: a nil o": rs.NewMutex("lock", redsync.OptionFunc(nil)),
			"an empty lock name":         rs.NewMutex(""),
			"a nil or zero Client":       none.NewMutex("lock"),
			"make it with Open or New":   redsync.New(nil).NewMutex("lock"),
			"a nil or zero Mutex":        {},
			"make it with NewMutex":      nil,
		} {
			err := m.Lock()
			wantIs(t, err, redsync.ErrFailed, redlock.ErrConfig)
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%v does not say %q", err, says)
			}
			refused(t, redsync.ErrLockAlreadyExpired)(m.Unlock())
			refused(t, redsync.ErrExtendFailed)(m.Extend())
			if m.Name() != "" && m.Name() != "lock" || m.Value() != "" || !m.Until().IsZero() {
				t.Errorf("%q is held by %q until %v", m.Name(), m.Value(), m.Until())
			}
		}
	})
	for _, err := range []error{redsync.ErrTaken{}, &redsync.ErrTaken{}} {
		wantIs(t, err, redsync.ErrFailed, redlock.ErrHeld)
		if err.Error() == "" {
			t.Error("no text")
		}
	}
}
