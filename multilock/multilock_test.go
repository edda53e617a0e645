// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/node/localredis"
	"github.com/redlock-go/redlock/redlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// masters starts three real masters and returns how to open a client of them.
func masters(t *testing.T) func() *redlock.Client {
	t.Helper()
	servers, err := localredis.StartN(t.Context(), 3, localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, s := range servers {
		t.Cleanup(func() { s.Close() })
		urls = append(urls, s.URL())
	}
	return func() *redlock.Client {
		t.Helper()
		c, err := redlock.Open(urls, redlock.WithUnsafeRecoveryOff())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

func mustNew(t *testing.T, members ...multilock.Member) *multilock.Lock {
	t.Helper()
	l, err := multilock.New(members...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestNew_badMembers_refused(t *testing.T) {
	c := masters(t)()
	a := c.Mutex("a")
	rw := c.RWMutex("rw")
	var none *redlock.Mutex
	for name, members := range map[string][]multilock.Member{
		"empty": {}, "nil": {nil}, "nil Mutex": {none}, "twice": {a, c.Mutex("a")},
		"twice, nested": {a, mustNew(t, c.Mutex("b"), c.Mutex("a"))}, "both sides": {rw.Reader(), rw.Writer()},
		"bad name": {c.Mutex("")},
	} {
		if _, err := multilock.New(members...); !errors.Is(err, redlock.ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
}

func TestLock_memberHeld_nothingIsKept(t *testing.T) {
	open := masters(t)
	mine, other := open(), open()
	ctx := t.Context()
	held, err := other.Mutex("b").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	all := mustNew(t, mine.Mutex("a"), mustNew(t, mine.Mutex("b"), mine.RWMutex("rw").Reader()), other.Mutex("c"))
	if _, err := all.TryLock(ctx); !errors.Is(err, redlock.ErrHeld) {
		t.Fatalf("TryLock: %v, want ErrHeld", err)
	}
	for _, name := range []string{"a", "c"} {
		l, err := other.Mutex(name).TryLock(ctx)
		if err != nil {
			t.Fatalf("%s was kept: %v", name, err)
		}
		if err := l.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := held.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	l, err := all.TryLock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(l.Members()); n != 4 {
		t.Errorf("%d members, want 4", n)
	}
	for _, m := range l.Members() {
		if m.Token() <= 0 || l.ValidUntil().After(m.ValidUntil().Add(time.Millisecond)) {
			t.Errorf("%s: token %d, valid until %v of %v", m.Name(), m.Token(), m.ValidUntil(), l.ValidUntil())
		}
	}
	inner, err := mine.Mutex("a").Lock(l.Context())
	if err != nil {
		t.Fatalf("re-entry through the multilock's context: %v", err)
	}
	if err := errors.Join(inner.Unlock(ctx), l.Extend(ctx), l.Unlock(ctx)); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(context.Cause(l.Context()), redlock.ErrReleased) {
		t.Errorf("cause %v, want ErrReleased", context.Cause(l.Context()))
	}
}

func TestLease_memberLost_contextEnds(t *testing.T) {
	c := masters(t)()
	l, err := mustNew(t, c.Mutex("a"), c.Mutex("b", redlock.WithTTL(100*time.Millisecond), redlock.WithoutRenewal())).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-l.Context().Done()
	if err := context.Cause(l.Context()); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("cause %v, want ErrLost", err)
	}
	if err := l.Unlock(t.Context()); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("Unlock: %v, want ErrLost", err)
	}
}

// Philosophers: each of 16 clients names three of five locks in an order of its
// own. Nobody may deadlock, and nobody may hold a lock that another holds.
func TestLock_shuffledOrders_noDeadlock(t *testing.T) {
	open := masters(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	holders := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 16 {
		c := open()
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for range 6 {
				var members []multilock.Member
				for _, k := range rng.Perm(5)[:3] {
					members = append(members, c.Mutex(fmt.Sprint("fork", k)))
				}
				l, err := multilock.New(members...)
				if err != nil {
					t.Error(err)
					return
				}
				lease, err := l.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				count := func(by int) {
					mu.Lock()
					defer mu.Unlock()
					for _, m := range lease.Members() {
						if holders[m.Name()] += by; holders[m.Name()] > 1 {
							t.Errorf("two hold %s", m.Name())
						}
					}
				}
				count(1)
				count(-1)
				if err := lease.Unlock(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
