// SPDX-License-Identifier: Apache-2.0

package redlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// spy is a t that notes its end instead of failing.
type spy struct {
	testing.TB
	fatal string
}

func (s *spy) Fatalf(format string, args ...any) {
	s.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// ended runs test with a t that it ends, and returns what that said.
func ended(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	s := &spy{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { test(s) })
	wg.Wait()
	return s.fatal
}

func wantIs(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func mustTry(t *testing.T, l redlock.Locker) *redlock.Lease {
	t.Helper()
	lease, err := l.TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func mustUnlock(t testing.TB, l *redlock.Lease) {
	t.Helper()
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What cannot work ends the test, and says what to do.
func TestMisuse_endsTheTest(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(t testing.TB)
		want string
	}{
		"no masters":        {func(t testing.TB) { redlocktest.NewN(t, 0) }, "0 masters: want 1 to 63"},
		"too many":          {func(t testing.TB) { redlocktest.NewN(t, 1<<30) }, "want 1 to 63"},
		"even":              {func(t testing.TB) { redlocktest.NewN(t, 4) }, "WithNodeCount(4)"},
		"bad option":        {func(t testing.TB) { redlocktest.New(t, redlock.WithTTL(time.Hour)) }, "above the maximum TTL"},
		"nil option":        {func(t testing.TB) { redlocktest.New(t, nil) }, "a nil option"},
		"other epoch":       {func(t testing.TB) { _, ms := redlocktest.New(t); ms.Client(redlock.WithMaxTTL(time.Minute)) }, "opening a client: "},
		"held twice":        {func(t testing.TB) { _, ms := redlocktest.New(t); ms.Hold("x"); ms.Hold("x") }, "held by another"},
		"no name":           {func(t testing.TB) { _, ms := redlocktest.New(t); ms.Hold("") }, "an empty lock name"},
		"nobody waits":      {func(t testing.TB) { _, ms := redlocktest.New(t); ms.AwaitWaiter("x") }, `not within 10s: somebody waits for "x"`},
		"nobody holds":      {func(t testing.TB) { _, ms := redlocktest.New(t); ms.Lose("x") }, `not within 10s: somebody holds "x"`},
		"outage of none":    {func(t testing.TB) { _, ms := redlocktest.New(t); ms.Outage(0) }, "Outage of 0 masters: want 1 to 3, or All"},
		"outage of 4":       {func(t testing.TB) { _, ms := redlocktest.New(t); ms.Outage(4) }, "Outage of 4 masters: want 1 to 3, or All"},
		"restart of -2":     {func(t testing.TB) { _, ms := redlocktest.New(t); ms.Restart(-2) }, "Restart of -2 masters: want 1 to 3, or All"},
		"restart out there": {func(t testing.TB) { _, ms := redlocktest.New(t); ms.Outage(2); ms.Restart(2) }, "call Heal before"},
		"no recovery": {func(t testing.TB) {
			_, ms := redlocktest.New(t, redlock.WithUnsafeRecoveryOff())
			ms.Restart(1)
		}, "with WithUnsafeRecoveryOff they do not"},
		"client in an outage": {func(t testing.TB) { _, ms := redlocktest.New(t); ms.Outage(2); ms.Client() }, "no quorum of masters answered"},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := ended(t, tc.do); !strings.Contains(got, tc.want) || !strings.HasPrefix(got, "redlocktest: ") {
				t.Errorf("%s: it says %q, want %q", name, got, tc.want)
			}
		})
	}
}

// One, two and five masters, and those of a fixed list, vote at once.
func TestNewN_counts_voteAtOnce(t *testing.T) {
	for n, opts := range map[int][]redlock.Option{1: {redlock.WithNodeCount(1)}, 2: {redlock.WithNodeCount(2)}, 5: nil, 7: {redlock.WithFixedMasters()}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			client, ms := redlocktest.NewN(t, n, opts...)
			mustUnlock(t, mustTry(t, client.Mutex("x")))
			ms.Outage(redlocktest.All)
			_, err := client.Mutex("x").TryLock(t.Context())
			wantIs(t, err, redlock.ErrUnreachable)
			ms.Heal()
			mustUnlock(t, mustTry(t, client.Mutex("x")))
			if took := time.Since(start); took > time.Second {
				t.Errorf("%d masters: all that took %v", n, took)
			}
		})
	}
}

// Until the holder knows that its lease is lost, nobody else has the lock.
func TestLose_nobodyElseBeforeTheHolderKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, ms := redlocktest.New(t)
		for name, of := range map[string]func(c *redlock.Client) redlock.Locker{
			"plain":  func(c *redlock.Client) redlock.Locker { return c.Mutex("plain") },
			"writer": func(c *redlock.Client) redlock.Locker { return c.RWMutex("writer") },
			"reader": func(c *redlock.Client) redlock.Locker { return c.RWMutex("reader").RLocker() },
		} {
			mine, other := of(client), ms.Client()
			taker := other.RWMutex(name).TryLock
			if name == "plain" {
				taker = other.Mutex(name).TryLock
			}
			lease := mustTry(t, mine)
			ms.Lose(name)
			start := time.Now()
			for lease.Context().Err() == nil {
				_, err := taker(t.Context())
				wantIs(t, err, redlock.ErrHeld)
				time.Sleep(100 * time.Millisecond)
			}
			wantIs(t, context.Cause(lease.Context()), redlock.ErrLost)
			if took := time.Since(start); took > redlock.DefaultTTL/3+200*time.Millisecond {
				t.Errorf("%s: lost after %v", name, took)
			}
			wantIs(t, lease.Unlock(t.Context()), redlock.ErrLost)
			time.Sleep(time.Millisecond)
			next, err := taker(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if next.Token() <= lease.Token() {
				t.Errorf("%s: token %d after %d", name, next.Token(), lease.Token())
			}
			time.Sleep(time.Minute) // Lose is over: the next holder keeps it
			mustUnlock(t, next)
		}
	})
}

// Lose takes the votes of the holder and of nobody else. An Extend learns it at once.
func TestLose_extend_atOnceAndNoOther(t *testing.T) {
	client, ms := redlocktest.New(t)
	lost, kept := mustTry(t, client.Mutex("lost")), mustTry(t, client.Mutex("kept"))
	ms.Lose("lost")
	wantIs(t, lost.Extend(t.Context()), redlock.ErrLost)
	if err := kept.Extend(t.Context()); err != nil {
		t.Error(err)
	}
	mustUnlock(t, kept)
}

// Whatever New got, somebody else has the lock until the test calls Unlock.
func TestHold_optionsThatEndLeases_staysHeld(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{
		"WithoutRenewal":                       {redlock.WithoutRenewal()},
		"WithMaxHold":                          {redlock.WithMaxHold(time.Second)},
		"WithRenewal, and then WithoutRenewal": {redlock.WithRenewal(time.Minute), redlock.WithoutRenewal()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, masters := redlocktest.New(t, opts...)
				held := masters.Hold("x")
				time.Sleep(time.Minute)
				wantIs(t, held.Err(), nil)
				_, err := client.Mutex("x").TryLock(t.Context())
				wantIs(t, err, redlock.ErrHeld)
				mustUnlock(t, held)
				mustUnlock(t, mustTry(t, client.Mutex("x")))
			})
		})
	}
}

// While masters refuse, leases go on and can be given back.
func TestRefuse_leasesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, ms := redlocktest.New(t)
		lease := mustTry(t, client.Mutex("x"))
		ms.Refuse()
		time.Sleep(time.Minute)
		_, err := client.Mutex("y").Lock(t.Context())
		wantIs(t, err, redlock.ErrRefused)
		mustUnlock(t, lease)
	})
}

// Right after an outage that clients noticed, slept through, or opened after, all of them can lock.
func TestHeal_everyClientLocksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, ms := redlocktest.NewN(t, 5)
		idle, closed := ms.Client(), ms.Client()
		lease := mustTry(t, client.Mutex("x"))
		ms.Outage(3)
		for range 20 {
			_, err := client.Mutex("y").TryLock(t.Context())
			wantIs(t, err, redlock.ErrUnreachable)
			time.Sleep(time.Second)
		}
		wantIs(t, lease.Err(), redlock.ErrLost)
		closed.Close()
		ms.Heal()
		for _, c := range []*redlock.Client{client, idle} {
			mustUnlock(t, mustTry(t, c.Mutex("x")))
		}
	})
}

// A restart is seen at once, also the second one, and by clients that are idle. A lease outlives it.
func TestRestart_againAndAgain_recoveringUntilTheWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, ms := redlocktest.New(t)
		idle := ms.Client()
		lease := mustTry(t, client.Mutex("x"))
		time.Sleep(time.Second)
		for _, n := range []int{redlocktest.All, 2, 3} {
			ms.Restart(n)
			for _, c := range []*redlock.Client{client, idle} {
				_, err := c.Mutex("y").TryLock(t.Context())
				wantIs(t, err, redlock.ErrRecovering)
			}
		}
		start := time.Now()
		mine, err := idle.Mutex("y").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < redlock.DefaultMaxTTL || took > 32*time.Second {
			t.Errorf("locked after %v", took)
		}
		mustUnlock(t, mine)
		mustUnlock(t, lease)
	})
}

// In real time, with short times.
func TestRestart_realTime_shortMaxTTL(t *testing.T) {
	const maxTTL = time.Second / 2
	stall.Try(t, maxTTL/4, func(t testing.TB) {
		client, ms := redlocktest.New(t, redlock.WithMaxTTL(maxTTL))
		ms.Restart(redlocktest.All)
		_, err := client.Mutex("x").TryLock(t.Context())
		wantIs(t, err, redlock.ErrRecovering)
		// A client that was held up for the maximum TTL before the restart does not vouch for the list: an operator has to.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		lease, err := client.Mutex("x").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, lease)
	})
}

// The handle looks where the clients' locks are.
func TestNew_namespace_handleFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, masters := redlocktest.New(t, redlock.WithNamespace("team-a"))
		held := masters.Hold("job")
		waits := make(chan *redlock.Lease, 1)
		go func() {
			lease, err := client.Mutex("job").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			waits <- lease
		}()
		masters.AwaitWaiter("job")
		if err := held.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		lease := <-waits
		masters.Lose("job")
		<-lease.Context().Done()
		if cause := context.Cause(lease.Context()); !errors.Is(cause, redlock.ErrLost) {
			t.Error(cause)
		}
	})
}
