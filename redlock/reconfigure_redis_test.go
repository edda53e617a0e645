// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// quick are settings under which a wait lasts half a second.
var quick = []redlock.Option{
	redlock.WithTTL(400 * time.Millisecond), redlock.WithMaxTTL(400 * time.Millisecond), redlock.WithNodeTimeout(time.Second),
}

const quickWait = 400 * time.Millisecond // at least

// pick are the URLs of some masters.
func (ms *masters) pick(on ...int) []string {
	var urls []string
	for _, i := range on {
		urls = append(urls, ms.urls()[i])
	}
	return urls
}

// openAt opens a client of some masters that is closed with the test.
func openAt(t testing.TB, urls []string, opts ...redlock.Option) *redlock.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := redlock.Open(ctx, urls, append([]redlock.Option{patient}, opts...)...)
	noErr(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// grant is one lease as an observer saw it.
type grant struct {
	asked, given time.Time // before and after the call
	token        int64
}

// keepLocking takes and gives back the lock, client by client, until grants is called, which returns what was granted, or until the test
// ends: one that fails before must leave no goroutine.
func keepLocking(t testing.TB, name string, clients ...*redlock.Client) (grants func() []grant) {
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(end)
	var mu sync.Mutex
	var all []grant
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			m := c.Mutex(name)
			for {
				select {
				case <-stop:
					return
				default:
				}
				asked := time.Now()
				l, err := m.TryLock(context.Background())
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				mu.Lock()
				all = append(all, grant{asked, time.Now(), l.Token()})
				mu.Unlock()
				_ = l.Unlock(context.Background())
			}
		})
	}
	return func() []grant {
		end()
		wg.Wait()
		return all
	}
}

// reconfigure moves from one list to another.
func reconfigure(t testing.TB, from, to admin.List) {
	t.Helper()
	noErr(t, admin.Reconfigure(t.Context(), from, to, nil))
}

func TestReconfigure_otherMembers_noTwoMajoritiesAndTokensGrow(t *testing.T) {
	for name, to := range map[string][]int{"one stays": {2, 3, 4}, "none stays": {3, 4, 5}, "more": {0, 1, 2, 3, 4}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
				ms := startMasters(t, 6, localredis.Config{})
				initAt(t, ms.pick(0, 1, 2), quick...)
				from := openAt(t, ms.pick(0, 1, 2), quick...)
				old := openAt(t, ms.pick(0, 1, 2), quick...)
				held := locked(t, old.Mutex("held"))
				before := locked(t, from.Mutex("token"))
				noErr(t, before.Unlock(t.Context()))
				grants := keepLocking(t, "token", from, old)
				waiter := make(chan error, 1)
				go func() { // one that waits while the change begins
					_, err := old.Mutex("held").Lock(context.Background())
					waiter <- err
				}()
				start := time.Now()
				reconfigure(t, list(ms.pick(0, 1, 2), quick...), list(ms.pick(to...), quick...))
				c := openAt(t, ms.pick(to...), quick...)
				begun := time.Now()
				if d := begun.Sub(start); d < quickWait {
					t.Errorf("leases of the old epoch may live on: it took %v", d)
				}
				if held.Err() == nil {
					t.Error("a lease of the old epoch lives on")
				}
				after := locked(t, c.Mutex("token"))
				time.Sleep(2 * quickWait) // time for the old epoch to come back, should it
				newest := before.Token()
				for _, g := range grants() {
					newest = max(newest, g.token)
					if g.given.After(begun) {
						t.Errorf("granted in the old epoch %v after the new one began", g.given.Sub(begun))
					}
				}
				if after.Token() <= newest {
					t.Errorf("the first token is %d, the last of the old epoch %d", after.Token(), newest)
				}
				// Holders, waiters and new callers of the old list are all told what has happened.
				wantText(t, held.Err(), "changed")
				var epoch *redlock.EpochError
				err := <-waiter
				if !errors.As(err, &epoch) {
					t.Errorf("the waiter was told %v, which is no EpochError", err)
				}
				_, err = old.Mutex("token").Lock(t.Context())
				wantIs(t, err, redlock.ErrRefused)
				wantNotConfig(t, err)
				if !errors.As(err, &epoch) {
					t.Fatalf("%v is no EpochError", err)
				}
				wantText(t, err, "new list")
				if in := strings.Contains(err.Error(), ms.servers[to[len(to)-1]].Addr()); !in {
					t.Errorf("the new epoch is told as %v", err)
				}
				wantIs(t, admin.Init(t.Context(), list(ms.pick(0, 1, 2), quick...), nil), redlock.ErrConfig)
				noErr(t, after.Unlock(t.Context()))
			})
		})
	}
}

func TestReconfigure_otherMaxTTL_oldClientsRefused(t *testing.T) {
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		from := ms.begin(quick...)
		l := locked(t, from.Mutex("ttl"))
		token := l.Token()
		noErr(t, l.Unlock(t.Context()))
		longer := []redlock.Option{redlock.WithMaxTTL(5 * time.Second), redlock.WithTTL(5 * time.Second)}
		reconfigure(t, list(ms.urls(), quick...), list(ms.urls(), longer...))
		c := openAt(t, ms.urls(), longer...)
		l = locked(t, c.Mutex("ttl"))
		if l.Token() <= token {
			t.Errorf("token %d after %d", l.Token(), token)
		}
		noErr(t, l.Unlock(t.Context()))
		soon(t, "the old client is told", func() bool {
			_, err := from.Mutex("ttl").TryLock(t.Context())
			if err == nil {
				t.Fatal("granted in the old epoch")
			}
			return strings.Contains(err.Error(), "maximum TTL 5s")
		})
		wantNotOpened(t, ms.urls(), redlock.ErrRefused, []string{"maximum TTL 5s"}, quick...)
		noErr(t, admin.Init(t.Context(), list(ms.urls(), longer...), nil))
	})
}

func TestReconfigure_interrupted_anotherProcessGoesOn(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		initAt(t, ms.pick(0, 1, 2), quick...)
		old := openAt(t, ms.pick(0, 1, 2), quick...)
		before := locked(t, old.Mutex("token"))
		noErr(t, before.Unlock(t.Context()))
		from, to := list(ms.pick(0, 1, 2), quick...), list(ms.pick(2, 3, 4), quick...)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), quickWait/2)
			err := admin.Reconfigure(ctx, from, to, nil)
			cancel()
			wantIs(t, err, context.DeadlineExceeded)
		}
		grants := keepLocking(t, "token", old)
		time.Sleep(3 * quickWait)
		if g := grants(); len(g) > 0 {
			t.Errorf("%d grants while the change is half done", len(g))
		}
		_, err := old.Mutex("token").Lock(t.Context()) // the wait is over, and nobody finishes the change
		wantIs(t, err, redlock.ErrRefused)
		if !errors.Is(err, redlock.ErrUnfinished) {
			t.Errorf("%v is no ErrUnfinished", err)
		}
		wantText(t, err, "being changed", "redlock reconfigure", ms.servers[4].Addr())
		s, err := admin.ReadStatus(t.Context(), from)
		noErr(t, err)
		if s.Standing != admin.Changing || s.Change == nil || s.Change.Who == "" || !strings.Contains(s.Change.To, ms.servers[4].Addr()) {
			t.Errorf("%v: %+v", s.Standing, s.Change)
		}
		// Another goal cannot take over, and it is too late to cancel.
		wantIs(t, admin.Reconfigure(t.Context(), from, list(ms.pick(0, 1, 4), quick...), nil), redlock.ErrUnfinished)
		wantIs(t, admin.Cancel(t.Context(), from), redlock.ErrUnfinished)
		wantIs(t, admin.Init(t.Context(), from, nil), redlock.ErrUnfinished)

		reconfigure(t, from, to)
		c := openAt(t, ms.pick(2, 3, 4), quick...)
		after := locked(t, c.Mutex("token"))
		if after.Token() <= before.Token() {
			t.Errorf("token %d after %d", after.Token(), before.Token())
		}
		noErr(t, after.Unlock(t.Context()))
		reconfigure(t, from, to) // once more does nothing
		noErr(t, locked(t, c.Mutex("token")).Unlock(t.Context()))
	})
}

// A change can be given up while a majority of the old masters still votes. Locks go on.
func TestCancel_beforeAMajorityStopped_locksGoOn(t *testing.T) {
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		initAt(t, ms.pick(0, 1, 2), quick...)
		old := openAt(t, ms.pick(0, 1, 2), quick...)
		from, to := list(ms.pick(0, 1, 2), quick...), list(ms.pick(2, 3, 4), quick...)
		noErr(t, admin.Cancel(t.Context(), from)) // nothing to cancel
		noErr(t, ms.servers[4].Kill())
		wantIs(t, admin.Reconfigure(t.Context(), from, to, nil), redlock.ErrUnreachable)
		noErr(t, admin.Cancel(t.Context(), from))
		noErr(t, locked(t, old.Mutex("x")).Unlock(t.Context()))
		noErr(t, ms.servers[4].Restart(t.Context()))
		reconfigure(t, from, to)
		noErr(t, locked(t, openAt(t, ms.pick(2, 3, 4), quick...).Mutex("x")).Unlock(t.Context()))
	})
}

// Issue 14, 1: the old masters are emptied and restarted after the change, and a client
// of the old list is still there. It must not claim them for its own epoch.
func TestReconfigure_oldMastersRestartedEmpty_oldClientGrantsNothing(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 6, localredis.Config{})
		initAt(t, ms.pick(0, 1, 2), quick...)
		o := openAt(t, ms.pick(0, 1, 2), quick...)
		noErr(t, locked(t, o.Mutex("x")).Unlock(t.Context()))
		reconfigure(t, list(ms.pick(0, 1, 2), quick...), list(ms.pick(3, 4, 5), quick...))
		c := openAt(t, ms.pick(3, 4, 5), quick...)
		held := locked(t, c.Mutex("x"))
		for i := range 3 {
			ms.restart(i)
		}
		for end := time.Now().Add(5 * quickWait); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if l, err := o.Mutex("x").TryLock(t.Context()); err == nil {
				t.Fatalf("held by %s on the new list, and by %s on the old one", held.Holder(), l.Holder())
			}
		}
		noErr(t, held.Err())
		noErr(t, held.Unlock(t.Context()))
		_, err := o.Mutex("x").TryLock(t.Context())
		wantIs(t, err, redlock.ErrRefused)
		wantNotOpened(t, ms.pick(0, 1, 2), redlock.ErrNeedsInit, []string{"redlock init"}, quick...)
	})
}

// The same as above, on the same masters with another maximum TTL. The wait of the old list is then
// too short.
func TestReconfigure_sameMastersRestartedEmpty_oldClientGrantsNothing(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		o := ms.begin(quick...)
		noErr(t, locked(t, o.Mutex("x")).Unlock(t.Context()))
		longer := []redlock.Option{redlock.WithMaxTTL(3 * time.Second), redlock.WithTTL(3 * time.Second)}
		reconfigure(t, list(ms.urls(), quick...), list(ms.urls(), longer...))
		c := openAt(t, ms.urls(), longer...)
		held := locked(t, c.Mutex("x", redlock.WithoutRenewal()))
		settled(t, held, 3)
		for i := range 3 {
			ms.restart(i)
		}
		for held.Err() == nil {
			if l, err := o.Mutex("x").TryLock(t.Context()); err == nil {
				t.Fatalf("held by %s under the new maximum TTL, and by %s under the old one", held.Holder(), l.Holder())
			}
			time.Sleep(5 * time.Millisecond)
		}
		next := locked(t, c.Mutex("x")) // its own clients saw it whole
		if next.Token() <= held.Token() {
			t.Errorf("token %d after %d", next.Token(), held.Token())
		}
		noErr(t, next.Unlock(t.Context()))
	})
}

// Issue 14, 8: a client that is started with the new list early claims nothing.
func TestReconfigure_newClientsEarly_grantNothing(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		initAt(t, ms.pick(0, 1, 2), quick...)
		old := openAt(t, ms.pick(0, 1, 2), quick...)
		held := locked(t, old.Mutex("x"))
		wantNotOpened(t, ms.pick(2, 3, 4), redlock.ErrRefused, nil, quick...)
		time.Sleep(3 * quickWait)
		for i := 3; i < 5; i++ {
			if state := ms.recordState(i); state != "" {
				t.Errorf("master %d was claimed: %s", i, state)
			}
		}
		noErr(t, held.Unlock(t.Context()))
		reconfigure(t, list(ms.pick(0, 1, 2), quick...), list(ms.pick(2, 3, 4), quick...))
		noErr(t, locked(t, openAt(t, ms.pick(2, 3, 4), quick...).Mutex("x")).Unlock(t.Context()))
	})
}

func TestReconfigure_membersDown(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		initAt(t, ms.pick(0, 1, 2), quick...)
		from := openAt(t, ms.pick(0, 1, 2), quick...)
		lists := func() (from, to admin.List) {
			return list(ms.pick(0, 1, 2), quick...), list(ms.pick(2, 3, 4), quick...)
		}

		// A new one: nothing has happened yet.
		noErr(t, ms.servers[4].Kill())
		a, b := lists()
		err := admin.Reconfigure(t.Context(), a, b, nil)
		wantIs(t, err, redlock.ErrUnreachable)
		wantText(t, err, ms.servers[4].Addr())
		noErr(t, locked(t, from.Mutex("still")).Unlock(t.Context()))
		noErr(t, ms.servers[4].Restart(t.Context()))

		// A minority of the old ones may be.
		noErr(t, ms.servers[0].Kill())
		reconfigure(t, a, b)
		c := openAt(t, ms.pick(2, 3, 4), quick...)
		noErr(t, locked(t, c.Mutex("still")).Unlock(t.Context()))

		// When it comes back it is alone with its old epoch.
		noErr(t, ms.servers[0].Restart(t.Context()))
		time.Sleep(2 * quickWait)
		if _, err := from.Mutex("still").TryLock(t.Context()); err == nil {
			t.Error("granted in the old epoch")
		}
	})
}

func TestReconfigure_newClient_recoversItsMasters(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		from := ms.begin(quick...)
		other := []redlock.Option{redlock.WithTTL(300 * time.Millisecond), redlock.WithMaxTTL(300 * time.Millisecond)}
		reconfigure(t, list(ms.urls(), quick...), list(ms.urls(), other...))
		c := openAt(t, ms.urls(), other...)
		noErr(t, from.Close())
		for _, i := range []int{0, 1} {
			ms.restart(i)
		}
		noErr(t, locked(t, c.Mutex("again")).Unlock(t.Context()))
		soon(t, "both vote", func() bool { return ms.phase(0) == membership.Voting && ms.phase(1) == membership.Voting })
	})
}

// If a majority of the old masters lost its records, no master can tell what they granted.
// Reconfigure refuses, and says that they must be recovered first.
func TestReconfigure_majorityLost_refusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	initAt(t, ms.pick(0, 1, 2), quick...)
	ms.each([]int{1, 2}, flush)
	err := admin.Reconfigure(t.Context(), list(ms.pick(0, 1, 2), quick...), list(ms.pick(2, 3, 4), quick...), nil)
	wantIs(t, err, redlock.ErrUnreachable)
	wantText(t, err, "status --wait", ms.servers[1].Addr())
}

func TestReconfigure_senseless_refused(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	from := list(ms.urls())
	unsafe := list(ms.urls(), redlock.WithUnsafeRecoveryOff())
	wantIs(t, admin.Reconfigure(t.Context(), unsafe, from, nil), redlock.ErrConfig)
	c := ms.begin()
	err := admin.Reconfigure(t.Context(), from, from, nil)
	wantIs(t, err, redlock.ErrConfig)
	wantText(t, err, "nothing to change")
	wantIs(t, admin.Reconfigure(t.Context(), from, unsafe, nil), redlock.ErrConfig)
	wantIs(t, admin.Reconfigure(t.Context(), from, list(nil), nil), redlock.ErrConfig)
	wantIs(t, admin.Reconfigure(t.Context(), from, list(ms.urls(), redlock.WithFixedMasters()), nil), redlock.ErrConfig)
	noErr(t, locked(t, c.Mutex("still")).Unlock(t.Context()))
}
