// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/localredis"
	"github.com/redlock-go/redlock/redlock"
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
	c, err := redlock.Open(urls, opts...)
	noErr(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// grant is one lease as an observer saw it.
type grant struct {
	asked, given time.Time // before and after the call
	token        int64
}

// keepLocking takes and gives back the lock, client by client, until stop is
// closed, and returns what was granted.
func keepLocking(name string, stop <-chan struct{}, clients ...*redlock.Client) (grants func() []grant) {
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
		wg.Wait()
		return all
	}
}

func TestReconfigure_otherMembers_noTwoMajoritiesAndTokensGrow(t *testing.T) {
	for name, to := range map[string][]int{"one stays": {2, 3, 4}, "none stays": {3, 4, 5}, "more": {0, 1, 2, 3, 4}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ms := startMasters(t, 6, localredis.Config{})
			from := openAt(t, ms.pick(0, 1, 2), quick...)
			noErr(t, from.Init(t.Context()))
			old := openAt(t, ms.pick(0, 1, 2), quick...) // somebody who was not told
			held := locked(t, old.Mutex("held"))
			before := locked(t, from.Mutex("token"))
			noErr(t, before.Unlock(t.Context()))
			stop := make(chan struct{})
			grants := keepLocking("token", stop, from, old)
			start := time.Now()
			c, err := redlock.Reconfigure(t.Context(), from, ms.pick(to...), quick...)
			noErr(t, err)
			defer c.Close()
			begun := time.Now()
			if d := begun.Sub(start); d < quickWait {
				t.Errorf("leases of the old epoch may live on: it took %v", d)
			}
			if held.Err() == nil {
				t.Error("a lease of the old epoch lives on")
			}
			after := locked(t, c.Mutex("token"))
			time.Sleep(2 * quickWait) // time for the old epoch to come back, should it
			close(stop)
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
			_, err = old.Mutex("token").Lock(t.Context())
			wantIs(t, err, redlock.ErrRefused, redlock.ErrConfig)
			var epoch *redlock.EpochError
			if !errors.As(err, &epoch) {
				t.Fatalf("%v is no EpochError", err)
			}
			for i := range 6 {
				if in := strings.Contains(epoch.Theirs, ms.servers[i].Addr()); to[0] <= i && i <= to[len(to)-1] != in {
					t.Errorf("master %d: the new epoch is told as %s", i, epoch.Theirs)
				}
				if in := strings.Contains(epoch.Ours, ms.servers[i].Addr()); in != (i < 3) {
					t.Errorf("master %d: the old epoch is told as %s", i, epoch.Ours)
				}
			}
			wantIs(t, old.Init(t.Context()), redlock.ErrConfig)
			noErr(t, after.Unlock(t.Context()))
		})
	}
}

func TestReconfigure_otherMaxTTL_oldClientsRefused(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	from := ms.begin(quick...)
	l := locked(t, from.Mutex("ttl"))
	token := l.Token()
	noErr(t, l.Unlock(t.Context()))
	c, err := redlock.Reconfigure(t.Context(), from, ms.urls(), redlock.WithMaxTTL(5*time.Second), redlock.WithTTL(5*time.Second))
	noErr(t, err)
	defer c.Close()
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
		return strings.Contains(err.Error(), "maximum TTL 5s") && strings.Contains(err.Error(), "maximum TTL 400ms")
	})
	wantNotOpened(t, ms.urls(), redlock.ErrConfig, []string{"maximum TTL 5s", "maximum TTL 400ms"}, quick...)
	noErr(t, openAt(t, ms.urls(), redlock.WithMaxTTL(5*time.Second), redlock.WithTTL(time.Second)).Init(t.Context()))
}

func TestReconfigure_interrupted_nothingLockedAndCalledAgainGoesOn(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	from := openAt(t, ms.pick(0, 1, 2), quick...)
	noErr(t, from.Init(t.Context()))
	old := openAt(t, ms.pick(0, 1, 2), quick...)
	before := locked(t, old.Mutex("token"))
	noErr(t, before.Unlock(t.Context()))
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), quickWait/2)
		_, err := redlock.Reconfigure(ctx, from, ms.pick(2, 3, 4), quick...)
		cancel()
		wantIs(t, err, context.DeadlineExceeded)
	}
	stop := make(chan struct{})
	grants := keepLocking("token", stop, old, from)
	time.Sleep(3 * quickWait)
	close(stop)
	if g := grants(); len(g) > 0 {
		t.Errorf("%d grants while the change is half done", len(g))
	}
	wantNotOpened(t, ms.pick(2, 3, 4), redlock.ErrConfig, []string{"the change is not finished"}, quick...)
	wantNotOpened(t, ms.pick(0, 1, 2), redlock.ErrConfig, []string{"the change is not finished"}, quick...)
	// Another goal cannot take over.
	_, err := redlock.Reconfigure(t.Context(), from, ms.pick(0, 1, 4), quick...)
	wantIs(t, err, redlock.ErrConfig)
	wantText(t, err, "not finished", ms.servers[3].Addr())

	c, err := redlock.Reconfigure(t.Context(), from, ms.pick(2, 3, 4), quick...)
	noErr(t, err)
	defer c.Close()
	after := locked(t, c.Mutex("token"))
	if after.Token() <= before.Token() {
		t.Errorf("token %d after %d", after.Token(), before.Token())
	}
	noErr(t, after.Unlock(t.Context()))
	// Once more is once too many.
	again, err := redlock.Reconfigure(t.Context(), from, ms.pick(2, 3, 4), quick...)
	noErr(t, err)
	noErr(t, again.Close())
}

// Called again when the new epoch has begun, as by each instance of a program that comes
// up: masters that forgot their votes meanwhile are not new.
func TestReconfigure_againAfterAmnesia_forgottenVotesCount(t *testing.T) {
	t.Parallel()
	for how, forget := range map[string]func(ms *masters, c *redlock.Client){
		"flushed": func(ms *masters, _ *redlock.Client) { ms.each([]int{1, 2}, flush) },
		"flushed, and found to be": func(ms *masters, c *redlock.Client) {
			ms.each([]int{1, 2}, flush)
			soon(ms.t, "both recover", func() bool {
				_, _ = c.Mutex("look").TryLock(context.Background())
				return ms.state(1) == node.Recovering && ms.state(2) == node.Recovering
			})
		},
		"back from before": func(ms *masters, _ *redlock.Client) {
			ms.restart(1)
			ms.restart(2)
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ms := startMasters(t, 3, localredis.Config{})
			from := ms.begin(quick...)
			before := locked(t, from.Mutex("token"))
			noErr(t, before.Unlock(t.Context()))
			ms.each(ms.all(), func(d *redis.Client) error { return d.Save(context.Background()).Err() })
			to := []redlock.Option{redlock.WithMaxTTL(5 * time.Second), redlock.WithTTL(5 * time.Second), redlock.WithoutRenewal()}
			c, err := redlock.Reconfigure(t.Context(), from, ms.urls(), to...)
			noErr(t, err)
			defer c.Close()
			l := locked(t, c.Mutex("token"))
			settled(t, l, 3)
			forget(ms, c)

			again, err := redlock.Reconfigure(t.Context(), from, ms.urls(), to...)
			noErr(t, err)
			defer again.Close()
			for time.Until(l.ValidUntil()) > 100*time.Millisecond {
				if _, err := again.Mutex("token").TryLock(t.Context()); err == nil {
					t.Fatalf("a second holder while the first is valid for %v", time.Until(l.ValidUntil()))
				}
				time.Sleep(10 * time.Millisecond)
			}
			next, err := again.Mutex("token").Lock(t.Context())
			noErr(t, err)
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
			noErr(t, next.Unlock(t.Context()))
		})
	}
}

func TestReconfigure_membersDown(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	from := openAt(t, ms.pick(0, 1, 2), quick...)
	noErr(t, from.Init(t.Context()))

	// A new one: nothing has happened yet.
	noErr(t, ms.servers[4].Kill())
	_, err := redlock.Reconfigure(t.Context(), from, ms.pick(2, 3, 4), quick...)
	if err == nil {
		t.Fatal("a new master is down")
	}
	wantText(t, err, ms.servers[4].Addr())
	noErr(t, locked(t, from.Mutex("still")).Unlock(t.Context()))
	noErr(t, ms.servers[4].Restart(t.Context()))

	// A minority of the old ones may be.
	noErr(t, ms.servers[0].Kill())
	c, err := redlock.Reconfigure(t.Context(), from, ms.pick(2, 3, 4), quick...)
	noErr(t, err)
	defer c.Close()
	noErr(t, locked(t, c.Mutex("still")).Unlock(t.Context()))

	// When it comes back it is alone with its old epoch.
	noErr(t, ms.servers[0].Restart(t.Context()))
	time.Sleep(2 * quickWait)
	if _, err := from.Mutex("still").TryLock(t.Context()); err == nil {
		t.Error("granted in the old epoch")
	}
}

func TestReconfigure_newClient_recoversItsMasters(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	from := ms.begin(quick...)
	c, err := redlock.Reconfigure(t.Context(), from, ms.urls(), redlock.WithTTL(300*time.Millisecond), redlock.WithMaxTTL(300*time.Millisecond))
	noErr(t, err)
	defer c.Close()
	noErr(t, from.Close())
	for _, i := range []int{0, 1} {
		ms.restart(i)
	}
	noErr(t, locked(t, c.Mutex("again")).Unlock(t.Context()))
	soon(t, "both vote", func() bool { return ms.state(0) == node.Voting && ms.state(1) == node.Voting })
}

// A majority of the old masters has lost its counters: the largest token is on
// one that cannot be asked.
func TestReconfigure_countersLost_tokensGrowAllTheSame(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	from := ms.begin(quick...)
	// Tokens that ran ahead of the clock, as far as scripts let them.
	ahead := time.Now().Add(50 * time.Second).UnixMicro()
	ms.setCounters(3, ahead)
	for _, i := range []int{3, 4} { // they never hear of the token
		noErr(t, ms.servers[i].Pause())
	}
	before := locked(t, from.Mutex("token"))
	noErr(t, before.Unlock(t.Context()))
	for _, i := range []int{3, 4} {
		noErr(t, ms.servers[i].Resume())
	}
	if before.Token() <= ahead {
		t.Fatalf("token %d, want more than %d", before.Token(), ahead)
	}
	noErr(t, ms.servers[0].Kill())
	ms.restart(1)
	ms.restart(2)
	var c *redlock.Client
	soon(t, "broken connections are noticed", func() (ok bool) {
		var err error
		c, err = redlock.Reconfigure(t.Context(), from, ms.pick(2, 3, 4), quick...)
		return err == nil
	})
	defer c.Close()
	after := locked(t, c.Mutex("token"))
	if after.Token() <= before.Token() {
		t.Errorf("token %d after %d", after.Token(), before.Token())
	}
	noErr(t, after.Unlock(t.Context()))
}

func TestReconfigure_senseless_refused(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	unsafe := ms.open(redlock.WithUnsafeRecoveryOff())
	_, err := redlock.Reconfigure(t.Context(), unsafe, ms.urls())
	wantIs(t, err, redlock.ErrConfig)
	c := ms.begin()
	_, err = redlock.Reconfigure(t.Context(), c, ms.urls())
	wantIs(t, err, redlock.ErrConfig)
	wantText(t, err, "both epochs")
	_, err = redlock.Reconfigure(t.Context(), c, ms.urls(), redlock.WithUnsafeRecoveryOff())
	wantIs(t, err, redlock.ErrConfig)
	_, err = redlock.Reconfigure(t.Context(), c, nil)
	wantIs(t, err, redlock.ErrConfig)
	noErr(t, locked(t, c.Mutex("still")).Unlock(t.Context()))
	noErr(t, c.Close())
	_, err = redlock.Reconfigure(t.Context(), c, ms.urls(), redlock.WithMaxTTL(time.Minute))
	wantIs(t, err, redlock.ErrClosed)
	noErr(t, openAt(t, ms.urls()).Init(t.Context()))
}
