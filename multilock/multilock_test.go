// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/redlock"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // go-redis logs every dial that fails
	goleak.VerifyTestMain(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func lock(t testing.TB, l *multilock.Lock) *multilock.Lease {
	t.Helper()
	lease, err := l.Lock(t.Context())
	quorumtest.NoErr(t, err)
	return lease
}

func unlock(t testing.TB, lease interface{ Unlock(context.Context) error }) {
	t.Helper()
	quorumtest.NoErr(t, lease.Unlock(t.Context()))
}

// hold takes a single lock.
func hold(t *testing.T, m redlock.Locker) *redlock.Lease {
	t.Helper()
	lease, err := m.Lock(t.Context())
	quorumtest.NoErr(t, err)
	return lease
}

func TestNew_badMembers_refused(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c, same := masters.Open(), masters.Open()
	a, rw := c.Mutex("a"), c.RWMutex("rw")
	var noMutex *redlock.Mutex
	var noRW *redlock.RWMutex
	for name, members := range map[string][]redlock.Locker{
		"empty": {}, "nil": {nil}, "nil Mutex": {noMutex}, "nil RWMutex": {noRW}, "nil side": {noRW.RLocker()},
		"zero Mutex": {&redlock.Mutex{}}, "both sides, one of them as itself": {rw, rw.RLocker()}, "nil behind others": {a, nil},
		"twice": {a, c.Mutex("a")}, "twice, by another client": {a, same.Mutex("a")}, "twice, not in a row": {a, rw.RLocker(), c.Mutex("a")},
		"both sides":            {rw.RLocker(), rw.Locker()},
		"as a mutex and a side": {c.Mutex("rw"), rw.RLocker()},
		"bad name":              {a, c.Mutex("")}, "bad option": {a, c.Mutex("b", redlock.WithTTL(time.Microsecond))},
		"nil option": {c.Mutex("b", nil)}, "bad side": {c.RWMutex("rw", redlock.WithRenewal(-1)).Locker()},
	} {
		l := multilock.New(members...)
		for _, err := range []error{second(l.Lock(t.Context())), second(l.TryLock(t.Context()))} {
			if !errors.Is(err, redlock.ErrConfig) {
				t.Errorf("%s: %v, want ErrConfig", name, err)
			}
		}
	}
	var none context.Context
	for _, err := range []error{second(multilock.New(a).Lock(none)), second(multilock.New(a).TryLock(none))} {
		quorumtest.Is(t, err, redlock.ErrConfig)
	}
}

func second[T any](_ T, err error) error { return err }

// Members may belong to different clients, and may be sides of read-write locks.
// If one member cannot be taken, nothing is left of the others, and their holders notice nothing.
func TestTryLock_memberHeld_nothingIsKept(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	mine, other := masters.Open(), masters.Open()
	all := multilock.New(mine.Mutex("d"), mine.Mutex("b"), mine.RWMutex("r").RLocker(),
		other.Mutex("c"), other.RWMutex("w").Locker())
	for _, name := range []string{"b", "c", "d", "w"} {
		held := hold(t, other.Mutex(name))
		_, err := all.TryLock(t.Context())
		quorumtest.Is(t, err, redlock.ErrHeld)
		var round *redlock.RoundError
		if !errors.As(err, &round) || round.Name != name {
			t.Errorf("%s is held: %v", name, err)
		}
		unlock(t, held)
		masters.GivenBack("[bcdrw]", "*rwlock_timeout*")
	}
	reading := hold(t, other.RWMutex("r").RLocker()) // in nobody's way
	l, err := all.TryLock(t.Context())
	quorumtest.NoErr(t, err)
	var names []string
	for _, m := range l.Members() {
		names = append(names, m.Name())
		if m.Token() <= 0 {
			t.Errorf("%s has token %d", m.Name(), m.Token())
		}
	}
	if want := []string{"d", "b", "r", "c", "w"}; !slices.Equal(names, want) {
		t.Errorf("members are %v, want them as they were named: %v", names, want)
	}
	if held := redlock.Held(l); held.Name() != "d, b, r, c, w" || held.Token() != 0 {
		t.Errorf("%q has token %d", held.Name(), held.Token())
	}
	if none := (*multilock.Lease)(nil); none.Name() != "" || none.Token() != 0 {
		t.Error("a nil Lease has a name")
	}
	_, err = all.TryLock(t.Context())
	quorumtest.Is(t, err, redlock.ErrHeld)
	unlock(t, reading)
	unlock(t, l)
	masters.GivenBack("[bcdrw]", "*rwlock_timeout*")
}

// A Lock that gives up releases the members that it had. So does a Lock that finds a member for which
// waiting does not help.
// A member that was taken on the way, and not used, is free at once, although it has a minimum hold.
func TestTryLock_memberHeld_minimumHoldDoesNotCount(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c, other := masters.Open(), masters.Open()
	held := hold(t, other.Mutex("b"))
	both := multilock.New(c.Mutex("a", redlock.WithMinHold(time.Minute)), c.Mutex("b"))
	if _, err := both.TryLock(t.Context()); !errors.Is(err, redlock.ErrHeld) {
		t.Errorf("got %v", err)
	}
	if free, err := other.Mutex("a").TryLock(t.Context()); err != nil {
		t.Errorf("the other member: %v", err)
	} else {
		unlock(t, free)
	}
	unlock(t, held)
}

func TestLock_cannotBeHad_nothingIsKept(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	mine, other := masters.Open(), masters.Open()
	all := multilock.New(mine.Mutex("c"), mine.Mutex("b"), mine.Mutex("a"))

	held := hold(t, other.Mutex("b"))
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan error, 1)
	go func() { got <- second(all.Lock(ctx)) }()
	masters.Waits("b", 1)
	// While Lock waits for b, it holds a, which comes before b, and not c, which comes later.
	quorumtest.Soon(t, "it has a and not c", func() bool { return len(masters.Keys("a")) == 3 && len(masters.Keys("c")) == 0 })
	cancel(why)
	err := <-got
	quorumtest.Is(t, err, context.Canceled)
	quorumtest.Is(t, err, why)
	unlock(t, held)
	masters.GivenBack("[abc]", "redlock:queue:*")
	quorumtest.Is(t, second(all.Lock(ctx)), context.Canceled)

	for _, d := range masters.Direct {
		quorumtest.NoErr(t, d.Set(t.Context(), "b", "mine", 0).Err())
	}
	for _, err := range []error{second(all.Lock(t.Context())), second(all.TryLock(t.Context()))} {
		quorumtest.Is(t, err, redlock.ErrRefused)
	}
	masters.GivenBack("[ac]", "redlock:queue:*")

	quorumtest.NoErr(t, mine.Close())
	for _, err := range []error{second(all.Lock(t.Context())), second(all.TryLock(t.Context()))} {
		quorumtest.Is(t, err, redlock.ErrClosed)
	}
}

// The path makes a round trip so long that the test can tell one from two.
func TestLock_allFree_oneRoundTrip(t *testing.T) {
	stall.Try(t, 50*time.Millisecond, func(t testing.TB) {
		const k, trip = 8, 100 * time.Millisecond
		masters := quorumtest.Start(t, 5)
		path := masters.Path()
		c := path.Open()
		var members []redlock.Locker
		for i := range k {
			members = append(members, c.Mutex(fmt.Sprint("lock", i)))
		}
		all := multilock.New(members...)
		unlock(t, lock(t, all)) // all connections are there
		path.Delay(trip)
		before, scripts := c.Stats(), masters.Calls(0, "evalsha")
		best := time.Hour // of a few, for the machine may be busy
		const times = 3
		for range times {
			start := time.Now()
			lease := lock(t, all)
			best = min(best, time.Since(start))
			unlock(t, lease)
		}
		after := c.Stats()
		t.Logf("Lock of %d took %v, a round trip is %v", k, best, trip)
		if best < trip || best >= 2*trip {
			t.Errorf("Lock took %v, want one round trip of %v", best, trip)
		}
		if got := after.Rounds - before.Rounds; got != times*k || after.SecondRounds != before.SecondRounds {
			t.Errorf("%d rounds for %d locks, %d of them needed a second round trip", got, times*k, after.SecondRounds-before.SecondRounds)
		}
		if got := masters.Calls(0, "evalsha") - scripts; got > 2*times*k {
			t.Errorf("a master ran %d scripts for %d pairs", got, times*k)
		}
		masters.GivenBack("lock*", "redlock:queue:*")
	})
}

// A multilock's lease is valid for as long as its shortest member, ends with the first member that
// ends, and is re-entered as a whole.
func TestLease_isAllItsMembers(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	opts := []redlock.Option{redlock.WithoutRenewal(), redlock.WithReentry()}
	c, other := masters.Open(opts...), masters.Open(opts...)
	const short = 6 * time.Second // the default is 10 s
	all := multilock.New(c.Mutex("long"), c.Mutex("short", redlock.WithTTL(short)), other.RWMutex("rw").RLocker())
	type key struct{}
	outer, err := all.Lock(context.WithValue(t.Context(), key{}, "value"))
	quorumtest.NoErr(t, err)
	if left := time.Until(outer.ValidUntil()); left > short || left < short/2 {
		t.Errorf("valid for %v, the shortest TTL is %v", left, short)
	}
	if outer.Context().Value(key{}) != "value" {
		t.Error("the context lost its values")
	}
	before := outer.ValidUntil()
	quorumtest.NoErr(t, outer.Extend(t.Context()))
	if !outer.ValidUntil().After(before) {
		t.Error("Extend did not extend")
	}

	bounded, cancel := context.WithTimeout(outer.Context(), 10*time.Second) // or it would wait for itself
	defer cancel()
	inner, err := all.Lock(bounded)
	quorumtest.NoErr(t, err)
	one, err := c.Mutex("short").Lock(inner.Context())
	quorumtest.NoErr(t, err)
	for i, m := range inner.Members() {
		if o := outer.Members()[i]; m.Token() != o.Token() || m.Holder() != o.Holder() {
			t.Errorf("%s was not re-entered", m.Name())
		}
	}
	unlock(t, outer)
	quorumtest.Is(t, context.Cause(outer.Context()), redlock.ErrReleased)
	quorumtest.Is(t, outer.Unlock(t.Context()), redlock.ErrReleased)
	quorumtest.NoErr(t, inner.Context().Err())
	unlock(t, one)
	unlock(t, inner)
	masters.GivenBack("long", "short", "*rw*")

	err = all.Do(t.Context(), func(ctx context.Context, _ *multilock.Lease) error {
		inner, err := all.TryLock(ctx)
		if err != nil {
			return err
		}
		return inner.Unlock(ctx)
	})
	quorumtest.NoErr(t, err)
	failed := errors.New("failed")
	quorumtest.Is(t, all.Do(t.Context(), func(context.Context, *multilock.Lease) error { return failed }), failed)
	masters.GivenBack("long", "short", "*rw*")
}

// forget has two of three masters forget name until ctx, that of its lease, ends. Once is not enough: a vote that is late comes after the DEL, and a
// renewal between the two puts one back.
func forget(ctx context.Context, t testing.TB, masters *quorumtest.Masters, name string) {
	t.Helper()
	for began := time.Now(); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if time.Since(began) > 15*time.Second {
			t.Fatal("a member is lost and the context goes on")
		}
		for _, d := range masters.Direct[:2] {
			quorumtest.NoErr(t, d.Del(t.Context(), name).Err())
		}
	}
}

func TestLease_memberLost_contextEnds(t *testing.T) {
	stall.Try(t, 300*time.Millisecond, func(t testing.TB) {
		masters := quorumtest.Start(t, 3)
		renewed := redlock.WithTTL(1500 * time.Millisecond)
		c, other := masters.Open(renewed), masters.Open(renewed)
		all := multilock.New(c.Mutex("a"), other.Mutex("b", redlock.WithTTL(600*time.Millisecond), redlock.WithoutRenewal()), c.Mutex("c"))
		lost := func(lease *multilock.Lease, others string) {
			t.Helper()
			select {
			case <-lease.Context().Done():
			case <-time.After(15 * time.Second):
				t.Fatal("a member is lost and the context goes on")
			}
			quorumtest.Is(t, context.Cause(lease.Context()), redlock.ErrLost)
			quorumtest.Is(t, lease.Extend(t.Context()), redlock.ErrLost)
			quorumtest.Is(t, lease.Unlock(t.Context()), redlock.ErrLost)
			masters.GivenBack(others)
		}
		lost(lock(t, all), "[ac]") // by time, so the TTL ends b

		all = multilock.New(c.Mutex("a"), other.Mutex("b"), c.Mutex("c"))
		lease := lock(t, all)
		forget(lease.Context(), t, masters, "b")
		lost(lease, "[abc]") // by its votes, as renewal finds out

		ran := false
		err := all.Do(t.Context(), func(ctx context.Context, _ *multilock.Lease) error {
			forget(ctx, t, masters, "c")
			ran = true
			return context.Cause(ctx)
		})
		quorumtest.Is(t, err, redlock.ErrLost)
		if !ran {
			t.Error("fn was not told")
		}
		masters.GivenBack("[abc]")
	})
}

// table is what several hold at the same time, and how it went on.
type table struct {
	t testing.TB

	mu      sync.Mutex
	holders map[string]int
	eaten   []int
	last    time.Time
	gap     time.Duration // the longest without anybody eating
}

func newTable(t testing.TB, guests int) *table {
	return &table{t: t, holders: make(map[string]int), eaten: make([]int, guests), last: time.Now()}
}

func (b *table) count(lease *multilock.Lease, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range lease.Members() {
		if b.holders[m.Name()] += by; b.holders[m.Name()] > 1 {
			b.t.Errorf("two hold %s", m.Name())
		}
	}
}

func (b *table) eat(guest int, lease *multilock.Lease) {
	b.count(lease, 1)
	b.mu.Lock()
	b.eaten[guest]++
	b.gap, b.last = max(b.gap, time.Since(b.last)), time.Now()
	b.mu.Unlock()
	time.Sleep(time.Millisecond)
	b.count(lease, -1)
}

// seat has each guest eat with the locks that want draws, for as long as d, and on a
// machine that is busy until everybody has eaten: 30s more at most. So that nobody starves is no
// matter of chance: in 30 s a fair queue has thousands of turns.
func (b *table) seat(d time.Duration, want func(guest int) *multilock.Lock) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(b.t.Context(), d+30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range b.eaten {
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := want(i).Lock(ctx)
				if ctx.Err() != nil && err != nil {
					return
				}
				if err != nil {
					b.t.Error(err)
					cancel()
					return
				}
				b.eat(i, lease)
				if err := lease.Unlock(context.WithoutCancel(ctx)); err != nil {
					b.t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		const beat = 10 * time.Millisecond
		for ctx.Err() == nil {
			time.Sleep(beat)
			b.mu.Lock()
			switch {
			case time.Since(b.last) > 15*time.Second:
				b.t.Error("nobody has eaten for 15s")
				cancel()
			case time.Since(began) >= d && slices.Min(b.eaten) > 0:
				cancel()
			}
			b.mu.Unlock()
		}
	})
	wg.Wait()
	b.gap = max(b.gap, time.Since(b.last))
	b.t.Logf("%v ate; %v at most without anybody eating", b.eaten, b.gap)
	if b.gap > time.Second {
		b.t.Errorf("nobody ate for %v", b.gap)
	}
	if slices.Min(b.eaten) == 0 {
		b.t.Error("somebody starved")
	}
}

// for a second, or as long as a soak wants it.
func seconds(soak time.Duration) time.Duration {
	if needs.Now() == needs.TierSoak {
		return soak
	}
	return 1500 * time.Millisecond
}

// Five philosophers sit at a round table. Each needs the forks on both sides, and names the left one
// first. All of them eat, because the order in which a caller names its members does not matter.
func TestLock_philosophers_allEat(t *testing.T) {
	stall.Try(t, time.Second, func(t testing.TB) {
		masters := quorumtest.Start(t, 3)
		var philosophers []*multilock.Lock
		for i := range 5 {
			c := masters.Open()
			philosophers = append(philosophers, multilock.New(c.Mutex(fmt.Sprint("fork", i)), c.Mutex(fmt.Sprint("fork", (i+1)%5))))
		}
		newTable(t, 5).seat(seconds(time.Minute), func(i int) *multilock.Lock { return philosophers[i] })
		masters.GivenBack("fork*")
	})
}

// Each of sixteen clients takes two to five of eight locks, in any order. There is no deadlock.
func TestLock_shuffledOrders_noDeadlock(t *testing.T) {
	needs.Test(t)
	replay.Each(t, func(t *testing.T, seed uint64) {
		stall.Try(t, time.Second, func(t testing.TB) { shuffledOrders(t, seed) })
	})
}

func shuffledOrders(t testing.TB, seed uint64) {
	const clients, forks = 16, 8
	rng := replay.RNG(seed)
	masters := quorumtest.Start(t, 3)
	var open []*redlock.Client
	var sources []*rand.Rand
	for range clients {
		open = append(open, masters.Open())
		sources = append(sources, rand.New(rand.NewPCG(rng.Uint64(), 0)))
	}
	newTable(t, clients).seat(seconds(10*time.Minute), func(i int) *multilock.Lock {
		rng := sources[i]
		var members []redlock.Locker
		for _, k := range rng.Perm(forks)[:2+rng.IntN(4)] {
			if name := fmt.Sprint("fork", k); k%2 == 0 {
				members = append(members, open[i].RWMutex(name).Locker())
			} else {
				members = append(members, open[i].Mutex(name))
			}
		}
		return multilock.New(members...)
	})
	masters.GivenBack("fork*")
	masters.NothingLeft()
}

// Do hands out the multilock's lease. A member's token is not that of the multilock, so
// redlock.LeaseFrom finds no lease there, nor one further out.
func TestDo_handsOutItsLease(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c := masters.Open()
	all := multilock.New(c.Mutex("a"), c.RWMutex("b").RLocker())
	for name, do := range map[string]func(context.Context, func(context.Context, *multilock.Lease) error) error{"Do": all.Do, "TryDo": func(ctx context.Context, fn func(context.Context, *multilock.Lease) error) error {
		return second(all.TryDo(ctx, fn))
	}} {
		var lease *multilock.Lease
		outer := c.Mutex("outer")
		quorumtest.NoErr(t, outer.Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			return do(ctx, func(ctx context.Context, given *multilock.Lease) error {
				lease = multilock.LeaseFrom(ctx)
				if given != lease || lease.Err() != nil || len(lease.Members()) != 2 || multilock.LeaseFrom(lease.Context()) != lease {
					t.Errorf("%s: %v, %d members", name, lease.Err(), len(lease.Members()))
				}
				if l := redlock.LeaseFrom(ctx); l != nil {
					t.Errorf("%s: the lease of %q is found", name, l.Name())
				}
				return c.Mutex("inner").Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
					if multilock.LeaseFrom(ctx) != lease || redlock.LeaseFrom(ctx).Name() != "inner" {
						t.Errorf("%s: further in, %q", name, redlock.LeaseFrom(ctx).Name())
					}
					return nil
				})
			})
		}))
		quorumtest.Is(t, lease.Err(), redlock.ErrReleased)
		quorumtest.Is(t, do(t.Context(), nil), redlock.ErrConfig)
	}
	if multilock.LeaseFrom(t.Context()) != nil {
		t.Error("a lease of nowhere")
	}
	held, err := c.Mutex("a").Lock(t.Context())
	quorumtest.NoErr(t, err)
	if ran, err := all.TryDo(t.Context(), func(context.Context, *multilock.Lease) error { t.Error("it ran"); return nil }); ran || err != nil {
		t.Errorf("ran: %v, %v", ran, err)
	}
	quorumtest.NoErr(t, held.Unlock(t.Context()))
}

func TestBind_endsWithEither(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c := masters.Open()
	lease, err := multilock.New(c.Mutex("a"), c.Mutex("b")).Lock(t.Context())
	quorumtest.NoErr(t, err)
	parent, cancel := context.WithCancel(t.Context())
	byCaller, stop := lease.Bind(parent)
	defer stop()
	byLease, stop := lease.Bind(t.Context())
	defer stop()
	cancel()
	<-byCaller.Done()
	quorumtest.NoErr(t, byLease.Err())
	if multilock.LeaseFrom(byLease) != lease {
		t.Error("the lease is not found")
	}
	quorumtest.NoErr(t, lease.Unlock(t.Context()))
	<-byLease.Done()
	quorumtest.Is(t, context.Cause(byLease), redlock.ErrReleased)
}

// A multilock re-enters members that have WithReentry. If a member that the caller holds is not
// WithReentry, the call fails and takes nothing.
func TestLock_memberHeldByCaller_needsReentrant(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	c := masters.Open()
	held, err := c.Mutex("b").Lock(t.Context())
	quorumtest.NoErr(t, err)
	all := multilock.New(c.Mutex("a"), c.Mutex("b"), c.Mutex("c"))
	for _, err := range []error{second(all.Lock(held.Context())), second(all.TryLock(held.Context()))} {
		quorumtest.Is(t, err, redlock.ErrNotReentrant)
	}
	masters.GivenBack("a", "c")
	inner, err := multilock.New(c.Mutex("a"), c.Mutex("b", redlock.WithReentry())).Lock(held.Context())
	quorumtest.NoErr(t, err)
	quorumtest.NoErr(t, inner.Unlock(t.Context()))
	quorumtest.NoErr(t, held.Err())
	quorumtest.NoErr(t, held.Unlock(t.Context()))
}
