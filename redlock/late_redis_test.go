// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
)

// cut breaks what connections there are to the masters in on.
func (ms *masters) cut(on ...int) {
	for _, i := range on {
		ms.proxies[i].Cut()
	}
}

// reached waits until c gets the votes of all n masters again.
func reached(t testing.TB, c *redlock.Client, n int) {
	t.Helper()
	soon(t, "all masters are reached", func() bool {
		l, err := c.Mutex("look").TryLock(t.Context())
		if err != nil {
			return false
		}
		ok := within(100*time.Millisecond, func() bool { return redlock.CountedVotes(l) == n })
		_ = l.Unlock(t.Context())
		return ok
	})
}

// docs/safety.md A13: an acquire is delayed in the network and arrives after its release. The vote
// that it leaves gives no caller the lock, and lets no second holder in. It blocks its masters for
// one TTL at most.
func TestLate_acquireAfterItsRelease_blocksForItsTTLAtMost(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, time.Second, func(t testing.TB) {
		const ttl = 2 * time.Second
		ms := startProxied(t, 5, localredis.Config{})
		opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithNodeTimeout(300 * time.Millisecond)}
		a, b := ms.begin(opts...), ms.open(opts...)
		before := locked(t, a.Mutex("x"))
		settled(t, before, 5)
		noErr(t, before.Unlock(t.Context()))
		// Lock and Unlock return at the quorum: no lane may have anything left to do.
		ms.givenBack("x")
		var held []*faultproxy.Held
		for i := range 3 {
			held = append(held, ms.proxies[i].Hold(acquires(t)))
		}
		_, err := a.Mutex("x").TryLock(t.Context())
		wantIs(t, err, redlock.ErrUnreachable)
		for _, h := range held {
			noErr(t, h.Wait(t.Context()))
		}
		ms.wantNoKeys("x", 3, 4)
		// The releases go out on new connections.
		ms.cut(0, 1, 2)
		reached(t, a, 5)
		reached(t, b, 5)
		ms.givenBack("x")
		for _, h := range held {
			_, err := h.Deliver(t.Context())
			noErr(t, err)
		}
		delivered := time.Now()
		zombies := ms.keys("x")
		if len(zombies) != 3 {
			t.Fatalf("the late acquires have %v, want the lock on three masters", zombies)
		}
		for _, c := range []*redlock.Client{a, b} { // it is not a's own either
			_, err := c.Mutex("x").TryLock(t.Context())
			wantIs(t, err, redlock.ErrHeld)
		}
		l := locked(t, b.Mutex("x"))
		if d := time.Since(delivered); d < ttl*9/10 || d > 3*ttl {
			t.Errorf("had after %v, want the TTL, %v", d, ttl)
		}
		if l.Token() <= before.Token() {
			t.Errorf("token %d after %d", l.Token(), before.Token())
		}
		noErr(t, l.Unlock(t.Context()))
	})
}

// docs/safety.md A14: the release of a failed attempt is delayed, and arrives when the client's next
// attempt has won. It does not release the votes of the next attempt.
func TestLate_releaseAfterTheNextWin_winStands(t *testing.T) {
	t.Parallel()
	stall.Try(t, 300*time.Millisecond, releaseAfterTheNextWin)
}

func releaseAfterTheNextWin(t testing.TB) {
	ms := startProxied(t, 5, localredis.Config{})
	a, b := ms.begin(redlock.WithNodeTimeout(300*time.Millisecond)), ms.open()
	// A first attempt has votes on two masters, which it must give back.
	other := locked(t, b.Mutex("x"))
	settled(t, other, 5)
	ms.each([]int{3, 4}, drop("x"))
	var held []*faultproxy.Held
	for _, i := range []int{3, 4} {
		held = append(held, ms.proxies[i].Hold(releases(t)))
	}
	_, err := a.Mutex("x").TryLock(t.Context())
	wantIs(t, err, redlock.ErrHeld)
	for _, h := range held {
		noErr(t, h.Wait(t.Context()))
	}
	ms.cut(3, 4) // the releases are sent again, on new connections
	if err := other.Unlock(t.Context()); err != nil && !errors.Is(err, redlock.ErrUnconfirmed) {
		t.Fatal(err)
	}
	ms.givenBack("x")
	reached(t, a, 5)
	reached(t, b, 5)
	lease := locked(t, a.Mutex("x"))
	settled(t, lease, 5)
	for range 2 { // and a duplicate
		for _, h := range held {
			_, err := h.Deliver(t.Context())
			noErr(t, err)
		}
	}
	if n := ms.votes("x", lease.Holder()); n != 5 {
		t.Errorf("%d votes are left of 5: %v", n, ms.holders("x"))
	}
	_, err = b.Mutex("x").TryLock(t.Context())
	wantIs(t, err, redlock.ErrHeld)
	noErr(t, lease.Extend(t.Context()))
	noErr(t, lease.Unlock(t.Context()))
}

// docs/safety.md A17: scripts are executed and their replies are lost. The client counts no vote, no
// extend and no release. It releases the votes that the scripts left.
func TestLate_repliesLost_notCountedAndGivenBack(t *testing.T) {
	t.Parallel()
	stall.Try(t, 300*time.Millisecond, repliesLost)
}

func repliesLost(t testing.TB) {
	ms := startProxied(t, 5, localredis.Config{})
	c := ms.begin(redlock.WithNodeTimeout(300 * time.Millisecond))
	losing := func(match faultproxy.Match, on ...int) (stop func()) {
		var rules []*faultproxy.Rule
		for _, i := range on {
			rules = append(rules, ms.proxies[i].CutBeforeReply(match))
		}
		return func() {
			for _, r := range rules {
				soon(t, "a reply is lost", func() bool { return r.Hits() > 0 }) // not all were waited for
				r.Remove()
			}
			reached(t, c, 5)
		}
	}

	stop := losing(acquires(t), 0, 1)
	l := locked(t, c.Mutex("x"))
	if n := redlock.CountedVotes(l); n != 3 {
		t.Errorf("%d votes counted, want those that answered", n)
	}
	noErr(t, l.Unlock(t.Context()))
	stop()
	ms.givenBack("x")

	stop = losing(acquires(t), 0, 1, 2)
	_, err := c.Mutex("x").TryLock(t.Context())
	wantIs(t, err, redlock.ErrUnreachable)
	stop()
	ms.givenBack("x")

	l = locked(t, c.Mutex("x", redlock.WithoutRenewal()))
	settled(t, l, 5)
	until := l.ValidUntil()
	stop = losing(runs(t, "extend"), 0, 1, 2)
	wantIs(t, l.Extend(t.Context()), redlock.ErrUnreachable)
	if d := l.ValidUntil().Sub(until).Abs(); d > time.Millisecond {
		t.Errorf("validity moved by %v without a quorum of answers", d)
	}
	stop()
	noErr(t, l.Extend(t.Context()))

	stop = losing(releases(t), 0, 1, 2)
	wantIs(t, l.Unlock(t.Context()), redlock.ErrUnconfirmed)
	stop()
	ms.givenBack("x")
}
