// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

func drop(lock string) func(d *redis.Client) error {
	return func(d *redis.Client) error { return d.Del(context.Background(), lock).Err() }
}

type ctxKey struct{}

func TestLease_context_valuesOfTheParentButNotItsEnd(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	parent, cancel := context.WithTimeout(context.WithValue(t.Context(), ctxKey{}, "value"), time.Hour)
	defer cancel()
	for name, take := range map[string]func(context.Context) (*redlock.Lease, error){
		"Lock":    c.Mutex("a").Lock,
		"TryLock": c.Mutex("b").TryLock,
		"WithMaxWait": func(ctx context.Context) (*redlock.Lease, error) {
			return c.Mutex("c", redlock.WithMaxWait(5*time.Second)).Lock(ctx)
		},
	} {
		ctx, cancel := context.WithCancel(parent)
		l, err := take(ctx)
		noErr(t, err)
		if got := l.Context().Value(ctxKey{}); got != "value" {
			t.Errorf("%s: the parent's value is %v", name, got)
		}
		if d, ok := l.Context().Deadline(); ok {
			t.Errorf("%s: the context has the parent's deadline %v", name, d)
		}
		cancel()
		if err := l.Context().Err(); err != nil {
			t.Errorf("%s: the parent's cancel ended it: %v", name, err)
		}
		held := l.Context()
		noErr(t, l.Unlock(t.Context()))
		<-held.Done()
		wantIs(t, context.Cause(held), redlock.ErrReleased)
		wantIs(t, held.Err(), context.Canceled)
		wantIs(t, l.Err(), redlock.ErrReleased)
		// A context that is asked for only now is over too.
		wantIs(t, context.Cause(l.Context()), redlock.ErrReleased)
	}
}

func TestLease_notRenewed_lostWithCauseAndGivenBack(t *testing.T) {
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		c := ms.begin()
		const ttl = 600 * time.Millisecond
		before := time.Now()
		l, err := c.Mutex("fixed", redlock.WithTTL(ttl), redlock.WithoutRenewal()).Lock(t.Context())
		noErr(t, err)
		until := l.ValidUntil()
		if until.After(before.Add(ttl)) || until.Before(before.Add(ttl/2)) {
			t.Errorf("asked at %v, valid until %v", before, until)
		}
		settled(t, l, 3)
		// The votes outlive the lease, so that only Unlock can end them.
		ms.each(ms.all(), func(d *redis.Client) error { return d.PExpire(t.Context(), "fixed", time.Minute).Err() })
		ctx := l.Context()
		<-ctx.Done()
		wantIs(t, context.Cause(ctx), redlock.ErrLost)
		wantIs(t, l.Err(), redlock.ErrLost)
		wantIs(t, l.Extend(t.Context()), redlock.ErrLost)
		wantIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		ms.givenBack("fixed")
		wantIs(t, l.Unlock(t.Context()), redlock.ErrLost)
		if s := c.Stats(); s.Lost != 1 || s.Held != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestLease_extend_movesValidity(t *testing.T) {
	t.Parallel()
	stall.Try(t, 10*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		l, err := ms.begin().Mutex("fixed", redlock.WithTTL(2*time.Second), redlock.WithoutRenewal()).Lock(t.Context())
		noErr(t, err)
		for range 3 {
			before := l.ValidUntil()
			time.Sleep(20 * time.Millisecond)
			asked := time.Now()
			noErr(t, l.Extend(t.Context()))
			after := l.ValidUntil()
			if after.Sub(before) < 15*time.Millisecond || after.Before(asked.Add(1900*time.Millisecond)) || after.After(time.Now().Add(2*time.Second)) {
				t.Errorf("extend at %v moved the end from %v to %v", asked, before, after)
			}
		}
		token := l.Token()
		var wg sync.WaitGroup
		for range 20 { // calls at the same time share an outcome
			wg.Go(func() {
				if err := l.Extend(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if l.Token() != token {
			t.Errorf("extends changed the token from %d to %d", token, l.Token())
		}
		noErr(t, l.Unlock(t.Context()))
		wantIs(t, l.Extend(t.Context()), redlock.ErrReleased)
		ms.givenBack("fixed")
	})
}

// When a quorum of the votes is gone, Extend ends the lease at once, however much validity is left.
func TestLease_extendAfterVotesAreGone_lostAtOnce(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	l, err := ms.begin().Mutex("gone", redlock.WithoutRenewal()).Lock(t.Context())
	noErr(t, err)
	settled(t, l, 5)
	ctx := l.Context()
	ms.each([]int{0}, drop("gone"))
	ms.each([]int{1}, func(d *redis.Client) error { return d.Rename(t.Context(), "gone", "moved").Err() })
	noErr(t, l.Extend(t.Context()))
	// It returns at the quorum: what is missing may not have been noticed yet.
	soon(t, "votes are put back", func() bool { return ms.votes("gone", l.Holder()) == 5 })
	settled(t, l, 5)
	ms.each([]int{0, 1, 2}, drop("gone"))
	err = l.Extend(t.Context())
	wantIs(t, err, redlock.ErrLost)
	wantText(t, err, "quorum is 3")
	<-ctx.Done()
	wantIs(t, context.Cause(ctx), redlock.ErrLost)
	if n := ms.votes("gone", l.Holder()); n > 2 {
		t.Errorf("a lost lease has %d votes", n)
	}
	wantIs(t, l.Unlock(t.Context()), redlock.ErrLost) // it knows that before the last master has answered
	ms.givenBack("gone")
}

func TestLease_unlockTwice_secondSaysSo(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	m := ms.begin().Mutex("twice")
	l := locked(t, m)
	noErr(t, l.Unlock(t.Context()))
	next := locked(t, m)
	wantIs(t, l.Unlock(t.Context()), redlock.ErrReleased)
	wantText(t, l.Unlock(t.Context()), "unlocked before")
	if n := ms.votes("twice", next.Holder()); n < 2 {
		t.Errorf("the second Unlock took %d votes of the next holder", 3-n)
	}
	noErr(t, next.Unlock(t.Context()))
}

func TestLease_unlockManyAtOnce_oneReleases(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	l := locked(t, ms.begin().Mutex("many"))
	errs := make(chan error, 10)
	for range cap(errs) {
		go func() { errs <- l.Unlock(context.Background()) }()
	}
	released := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			released++
		} else if !errors.Is(err, redlock.ErrReleased) {
			t.Error(err)
		}
	}
	if released != 1 {
		t.Errorf("%d of the Unlocks released it", released)
	}
}

func TestUnlock_quorumSilent_unconfirmedThenSettled(t *testing.T) {
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		l, err := ms.begin(redlock.WithNodeTimeout(100 * time.Millisecond)).Mutex("owed").Lock(t.Context())
		noErr(t, err)
		settled(t, l, 5)
		for i := range 3 {
			noErr(t, ms.servers[i].Pause())
		}
		err = l.Unlock(t.Context())
		wantIs(t, err, redlock.ErrUnconfirmed)
		wantText(t, err, "2 of 5", "quorum is 3")
		ms.wantNoKeys("owed", 3, 4)
		for i := range 3 {
			noErr(t, ms.servers[i].Resume())
		}
		ms.givenBack("owed") // behind the resume
	})
}

func TestUnlock_votesWereGone_lost(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	l := locked(t, ms.begin().Mutex("gone"))
	settled(t, l, 5)
	ms.each([]int{0, 1, 2}, drop("gone"))
	wantIs(t, l.Unlock(t.Context()), redlock.ErrLost) // it knows that before the last masters have answered
	ms.givenBack("gone")
}

func TestClose_leasesEndAndEverythingSaysSo(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	m := c.Mutex("closed")
	l := locked(t, m)
	other := locked(t, c.Mutex("other", redlock.WithTTL(20*time.Second)))
	settled(t, l, 3)
	ctx := l.Context()
	noErr(t, c.Close())
	noErr(t, c.Close())
	<-ctx.Done()
	wantIs(t, context.Cause(ctx), redlock.ErrClosed)
	for name, err := range map[string]error{
		"Err":    l.Err(),
		"Extend": l.Extend(t.Context()),
		"Unlock": l.Unlock(t.Context()),
		"again":  l.Unlock(t.Context()),
		"other":  other.Unlock(t.Context()),
		"Lock":   second(m.Lock(t.Context())),
		"Try":    second(m.TryLock(t.Context())),
		"For":    second(inside.LockFor(t.Context(), m, time.Second)),
		"again2": second(l.Reenter(t.Context())),
		"Do":     m.Do(t.Context(), func(context.Context, *redlock.Lease) error { t.Error("Do runs"); return nil }),
	} {
		if !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if n := ms.votes("closed", l.Holder()); n != 3 {
		t.Errorf("Close gave %d votes back; code under the lease may still run", 3-n)
	}
	if s := c.Stats(); s.Held != 0 {
		t.Errorf("stats: %+v", s)
	}
}

func second[T any](_ T, err error) error { return err }

func TestClose_whileCallersWait_theyReturn(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	locked(t, ms.begin().Mutex("busy"))
	c := ms.open()
	got := make(chan error, 5)
	for range cap(got) {
		go func() { got <- second(c.Mutex("busy").Lock(context.Background())) }()
	}
	soon(t, "one is queued", func() bool { return len(ms.keys("redlock:queue:*")) == 3 })
	noErr(t, c.Close())
	for range cap(got) {
		wantIs(t, <-got, redlock.ErrClosed)
	}
}

// While callers lock and unlock in a loop, the client is closed. Every caller returns.
func TestClose_whileCallersComeAndGo_theyReturn(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	noErr(t, ms.begin().Close())
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for i := range 10 {
		c := ms.open()
		m := c.Mutex(fmt.Sprint("turns", i)) // another each time: Close releases nothing
		var turns atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					l, err := m.Lock(ctx)
					if err != nil {
						wantIs(t, err, redlock.ErrClosed)
						return
					}
					turns.Add(1)
					_ = l.Unlock(ctx) // the client may be closed by now
				}
			})
		}
		soon(t, "turns are taken", func() bool { return turns.Load() > 10 })
		noErr(t, c.Close())
		wg.Wait()
	}
}

func TestNilContext_isAnError(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	l := locked(t, c.Mutex("held"))
	m := c.Mutex("free")
	var none context.Context
	for name, err := range map[string]error{
		"Lock":        second(m.Lock(none)),
		"TryLock":     second(m.TryLock(none)),
		"WithMaxWait": second(inside.LockFor(none, m, time.Second)),
		"Do":          m.Do(none, func(context.Context, *redlock.Lease) error { t.Error("Do runs"); return nil }),
		"Extend":      l.Extend(none),
		"Reenter":     second(l.Reenter(none)),
		"Unlock":      l.Unlock(none),
		"Init":        admin.Init(none, list(nil), nil),
		"Reconfigure": admin.Reconfigure(none, list(nil), list(nil), nil),
		"Cancel":      admin.Cancel(none, list(nil)),
		"ReadStatus":  second(admin.ReadStatus(none, list(nil))),
	} {
		if !errors.Is(err, redlock.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ms.wantNoKeys("free")
	noErr(t, l.Unlock(t.Context()))
}

func TestDo_eachEnding(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	m := ms.begin().Mutex("do")
	mine := errors.New("mine")
	err := m.Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
		if n := len(ms.keys("do")); n < 2 {
			t.Errorf("fn runs with %d votes", n)
		}
		return mine
	})
	wantIs(t, err, mine)
	ms.givenBack("do")

	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic was swallowed")
			}
		}()
		_ = m.Do(t.Context(), func(context.Context, *redlock.Lease) error { panic("boom") })
	}()
	ms.givenBack("do") // after the panic too

	lost := m.Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
		soon(t, "all votes", func() bool { return len(ms.keys("do")) == 3 })
		ms.each(ms.all(), drop("do"))
		return nil
	})
	wantIs(t, lost, redlock.ErrLost)
}

// Every lease of a crowd is renewed in time on real masters, by few goroutines, in
// batches. TestSim_renewal_crowd is the same where time is not real.
func TestRenewal_crowd_allInTimeInBatches(t *testing.T) {
	needs.Soak(t) // takes minutes and the whole machine
	const leases, ttl = 100_000, 30 * time.Second
	ms := startMasters(t, 5, localredis.Config{})
	c := ms.begin(redlock.WithTTL(ttl))
	goroutines := runtime.NumGoroutine()
	held := make([]*redlock.Lease, leases)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < leases; i = int(next.Add(1)) - 1 {
				var err error
				if held[i], err = c.Mutex(fmt.Sprintf("crowd-%d", i)).Lock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	before, calls, start := c.Stats().Extends, ms.calls(0, "evalsha"), time.Now()
	most, least := 0, ttl
	for time.Since(start) < time.Minute {
		time.Sleep(100 * time.Millisecond)
		most = max(most, runtime.NumGoroutine())
		for _, l := range held {
			least = min(least, time.Until(l.ValidUntil()))
		}
	}
	took := time.Since(start)
	extends, calls := c.Stats().Extends-before, ms.calls(0, "evalsha")-calls
	for _, l := range held {
		noErr(t, l.Err())
	}
	t.Logf("%d leases of %v for %v: %d extends in %d calls a master; goroutines %d before, %d at most; never less than %v left",
		leases, ttl, took.Round(time.Millisecond), extends, calls, goroutines, most, least.Round(time.Millisecond))
	if want := uint64(leases * (took/(ttl/3) - 1)); extends < want || c.Stats().Lost != 0 {
		t.Errorf("%d extends, want %d or more; stats %+v", extends, want, c.Stats())
	}
	if most > goroutines+5 {
		t.Errorf("%d goroutines, %d before the leases", most, goroutines)
	}
	if calls > int(extends)/32 {
		t.Errorf("%d extends took %d calls a master", extends, calls)
	}
	if least < ttl/3 {
		t.Errorf("a lease had only %v left", least)
	}
}
