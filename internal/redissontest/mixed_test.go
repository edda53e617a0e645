// SPDX-License-Identifier: Apache-2.0

package redissontest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/redissontest"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/redlock"
)

// unlocker is a lease of any of our locks.
type unlocker interface {
	Unlock(ctx context.Context) error
}

// locker is any of our locks.
type locker func(ctx context.Context) (unlocker, error)

func mutex(m redlock.Locker) locker {
	return func(ctx context.Context) (unlocker, error) { return m.Lock(ctx) }
}

// multi is our lock of several names, in the order in which they are named.
func multi(t *testing.T, c *redlock.Client, names ...string) locker {
	t.Helper()
	var members []redlock.Locker
	for _, n := range names {
		members = append(members, c.Mutex(n))
	}
	m := multilock.New(members...)
	return func(ctx context.Context) (unlocker, error) { return m.Lock(ctx) }
}

// member is one contender of a mixed fleet.
type member struct {
	java, shared bool
	run          func() ([]redissontest.Interval, error)
}

// turns is how often each contender takes the lock, and how long it keeps it.
var turns = redissontest.Loop{Times: 25, Hold: 2 * time.Millisecond, Lease: 10 * time.Second}

func javas(t *testing.T, h redissontest.Handle, shared bool) member {
	t.Helper()
	// Once before, for Java takes its time to load what it needs and the others would be done by then.
	if _, err := h.Loop(t.Context(), redissontest.Loop{Times: 1, Lease: time.Second}); err != nil {
		t.Fatal(err)
	}
	return member{true, shared, func() ([]redissontest.Interval, error) { return h.Loop(t.Context(), turns) }}
}

func goes(t *testing.T, lock locker, shared bool) member {
	return member{false, shared, func() (held []redissontest.Interval, err error) {
		for range turns.Times {
			lease, err := lock(t.Context())
			if err != nil {
				return held, err
			}
			from := time.Now()
			time.Sleep(turns.Hold)
			held = append(held, redissontest.Interval{From: from, To: time.Now()})
			if err := lease.Unlock(t.Context()); err != nil {
				return held, err
			}
		}
		return held, nil
	}}
}

// handOffs are how long it took from one side's release to the other's hold, of neighbours in time.
type handOffs struct{ toGo, toJava []time.Duration }

func (h handOffs) String() string {
	return fmt.Sprintf("Java->Go %s, Go->Java %s", summary(h.toGo), summary(h.toJava))
}

// want checks that there were some, and that none waited for a TTL.
func (h handOffs) want(t *testing.T) {
	t.Helper()
	if len(h.toGo)+len(h.toJava) == 0 {
		t.Error("no hand-off between the sides")
	}
	for _, d := range append(h.toGo, h.toJava...) {
		if d > time.Second {
			t.Errorf("a hand-off took %v", d)
		}
	}
}

func summary(ds []time.Duration) string {
	if len(ds) == 0 {
		return "never"
	}
	slices.Sort(ds)
	return fmt.Sprintf("%d, median %v, max %v", len(ds), ds[len(ds)/2].Round(time.Microsecond), ds[len(ds)-1].Round(time.Microsecond))
}

// contend runs all members at once and checks that each had all its turns, and no exclusive one shared one. It returns
// how often a Java reader and one of ours held it together, and the hand-offs.
func contend(t *testing.T, members ...member) (shared int, between handOffs) {
	t.Helper()
	began := time.Now()
	held := make([][]redissontest.Interval, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() {
			var err error
			if held[i], err = m.run(); err != nil || len(held[i]) != turns.Times {
				t.Errorf("member %d (Java %v) held it %d times of %d: %v", i, m.java, len(held[i]), turns.Times, err)
			}
		})
	}
	wg.Wait()
	type span struct {
		redissontest.Interval
		java bool
	}
	var all []span
	for i, a := range members {
		for _, s := range held[i] {
			all = append(all, span{s, a.java})
		}
		for j, b := range members[:i] {
			n := redissontest.Overlaps(held[i], held[j])
			if a.shared && b.shared && a.java != b.java {
				shared += n
			}
			if n > 0 && !(a.shared && b.shared) {
				t.Errorf("members %d (Java %v) and %d (Java %v) held it together %d times", i, a.java, j, b.java, n)
			}
		}
	}
	slices.SortFunc(all, func(a, b span) int { return a.From.Compare(b.From) })
	for i, s := range all[1:] {
		if before := all[i]; before.java && !s.java {
			between.toGo = append(between.toGo, s.From.Sub(before.To))
		} else if !before.java && s.java {
			between.toJava = append(between.toJava, s.From.Sub(before.To))
		}
	}
	t.Logf("%d holds in %v; %v", len(all), time.Since(began).Round(time.Millisecond), between)
	return shared, between
}

// Two Java processes with three threads and two Go clients with three goroutines want one lock. A hand-off that missed
// its message would take 5 s and more.
func TestMixed_exclusiveLocks_neverTwoHoldersAndAllTurns(t *testing.T) {
	needs.Java(t)
	addrs := redissontest.Masters(t, 3)
	a := redissontest.Need(t, redissontest.Config{Masters: addrs})
	b := redissontest.Need(t, redissontest.Config{Masters: addrs})
	one, two := ours(t, addrs[:1]), ours(t, addrs[:1])
	all, all2 := ours(t, addrs), ours(t, addrs)
	plain := func(c *redlock.Client) locker { return mutex(c.Mutex("plain")) }
	write := func(c *redlock.Client) locker { return mutex(c.RWMutex("write").Locker()) }
	red := func(c *redlock.Client) locker { return mutex(c.Mutex("red")) }
	redWrite := func(c *redlock.Client) locker { return mutex(c.RWMutex("redwrite").Locker()) }
	names := []string{"multi a", "multi b", "multi c"}
	several := func(c *redlock.Client) locker { return multi(t, c, names...) }
	for _, c := range []struct {
		kind  redissontest.Kind
		names []string
		ours  func(c *redlock.Client) locker
		x, y  *redlock.Client
	}{
		{redissontest.Plain, []string{"plain"}, plain, one, two},
		{redissontest.Write, []string{"write"}, write, one, two},
		{redissontest.Multi, names, several, one, two},
		{redissontest.Red, []string{"red"}, red, all, all2},
		{redissontest.RedWrite, []string{"redwrite"}, redWrite, all, all2},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			lock := redissontest.Lock{Kind: c.kind, Names: c.names}
			_, between := contend(t,
				javas(t, a.Handle("1", lock), false), javas(t, a.Handle("2", lock), false), javas(t, b.Handle("1", lock), false),
				goes(t, c.ours(c.x), false), goes(t, c.ours(c.x), false), goes(t, c.ours(c.y), false))
			between.want(t)
		})
	}
}

// Readers and writers of both languages, on one master and over three.
func TestMixed_readersAndWriters_readersShareWritersAlone(t *testing.T) {
	needs.Java(t)
	addrs := redissontest.Masters(t, 3)
	a := redissontest.Need(t, redissontest.Config{Masters: addrs})
	one, all := ours(t, addrs[:1]), ours(t, addrs)
	for _, c := range []struct {
		read, write redissontest.Kind
		client      *redlock.Client
	}{
		{redissontest.Read, redissontest.Write, one},
		{redissontest.RedRead, redissontest.RedWrite, all},
	} {
		t.Run(string(c.read), func(t *testing.T) {
			name := []string{"rw " + string(c.read)}
			read, write := redissontest.Lock{Kind: c.read, Names: name}, redissontest.Lock{Kind: c.write, Names: name}
			rw := c.client.RWMutex(name[0])
			shared, between := contend(t,
				javas(t, a.Handle("r", read), true), javas(t, a.Handle("r2", read), true), javas(t, a.Handle("w", write), false),
				goes(t, mutex(rw.RLocker()), true), goes(t, mutex(rw.RLocker()), true), goes(t, mutex(rw.Locker()), false))
			between.want(t)
			t.Logf("Java's readers and ours held it together %d times", shared) // left to chance here; see below
		})
	}
}

// try takes a lock once, in either language, and gives back how to unlock it.
type try func() (unlock func(), held bool)

func tryJava(t *testing.T, h redissontest.Handle) try {
	return func() (func(), bool) {
		held, _, err := h.TryLock(t.Context(), 0, 10*time.Second)
		if err != nil {
			t.Error(err)
		}
		return func() { h.Unlock(t.Context()) }, held
	}
}

func tryOurs(t *testing.T, m redlock.Locker) try {
	return func() (func(), bool) {
		lease, err := m.TryLock(t.Context())
		if err != nil && !errors.Is(err, redlock.ErrHeld) {
			t.Error(err)
		}
		return func() { lease.Unlock(t.Context()) }, err == nil
	}
}

// What one side holds, the other side may share or not, on one master and over three.
func TestMixed_tryLock_readersJoinOthersExcluded(t *testing.T) {
	needs.Java(t)
	addrs := redissontest.Masters(t, 3)
	peer := redissontest.Need(t, redissontest.Config{Masters: addrs})
	one, all := ours(t, addrs[:1]), ours(t, addrs)
	for _, c := range []struct {
		plain, read, write redissontest.Kind
		client             *redlock.Client
	}{
		{redissontest.Plain, redissontest.Read, redissontest.Write, one},
		{redissontest.Red, redissontest.RedRead, redissontest.RedWrite, all},
	} {
		name, rwName := "m "+string(c.plain), "rw "+string(c.plain)
		java := func(kind redissontest.Kind, name string) try {
			return tryJava(t, peer.Handle("s", redissontest.Lock{Kind: kind, Names: []string{name}}))
		}
		rw := c.client.RWMutex(rwName)
		jPlain, gPlain := java(c.plain, name), tryOurs(t, c.client.Mutex(name))
		jRead, gRead := java(c.read, rwName), tryOurs(t, rw.RLocker())
		jWrite, gWrite := java(c.write, rwName), tryOurs(t, rw.Locker())
		for _, pair := range []struct {
			what          string
			holder, other try
			want          bool
		}{
			{"Java's lock, ours", jPlain, gPlain, false}, {"our lock, Java's", gPlain, jPlain, false},
			{"Java's reader, our reader", jRead, gRead, true}, {"our reader, Java's reader", gRead, jRead, true},
			{"Java's reader, our writer", jRead, gWrite, false}, {"our reader, Java's writer", gRead, jWrite, false},
			{"Java's writer, our reader", jWrite, gRead, false}, {"our writer, Java's reader", gWrite, jRead, false},
			{"Java's writer, our writer", jWrite, gWrite, false}, {"our writer, Java's writer", gWrite, jWrite, false},
		} {
			unlock, held := pair.holder()
			if !held {
				t.Fatalf("%s, %s: the first was refused", c.plain, pair.what)
			}
			again, held := pair.other()
			if held != pair.want {
				t.Errorf("%s, %s: granted %v", c.plain, pair.what, held)
			}
			unlock() // first, so that a reader that leaves must leave the other's part
			if held {
				if third := java(c.write, rwName); pair.want {
					if _, held := third(); held {
						t.Errorf("%s, %s: a writer came in beside the one that was left", c.plain, pair.what)
					}
				}
				again()
			}
		}
	}
}

// A Java reader that re-entered has a timeout key a hold. When that of the first is over, our reader that leaves must
// not take it for dead.
func TestMixed_javaReaderReentered_livesByItsLongestLease(t *testing.T) {
	needs.Java(t)
	addrs := redissontest.Masters(t, 1)
	java := redissontest.Need(t, redissontest.Config{Masters: addrs}).Handle("s", redissontest.Lock{Kind: redissontest.Read, Names: []string{"L"}})
	rw, master := ours(t, addrs).RWMutex("L"), redissontest.Client(t, addrs[0])
	for _, lease := range []time.Duration{200 * time.Millisecond, 20 * time.Second} {
		if _, err := java.Lock(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	redissontest.Eventually(t, "the first lease is over", func() bool {
		return len(master.Keys(t.Context(), "*rwlock_timeout*").Val()) == 1
	})
	reader, err := rw.RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := rw.TryLock(t.Context()); !errors.Is(err, redlock.ErrHeld) {
		t.Errorf("our writer beside Java's reader: %v", err)
	}
}

// One side holds it for long, the other sleeps for it and is woken, there and back again. The TTLs are 30 s, the timer
// behind our waiters' wakes 5 s.
func TestMixed_handOff_wokenByPush(t *testing.T) {
	needs.Java(t)
	addrs := redissontest.Masters(t, 3)
	peer := redissontest.Need(t, redissontest.Config{Masters: addrs})
	ttl := redlock.WithTTL(30 * time.Second)
	one, all := ours(t, addrs[:1], ttl), ours(t, addrs, ttl)
	names := []string{"multi a", "multi b"}
	const rwChannel, channel = "redisson_rwlock:{%s}", "redisson_lock__channel:{%s}"
	for _, c := range []struct {
		kind    redissontest.Kind
		names   []string
		ours    locker
		channel string
	}{
		{redissontest.Plain, []string{"plain"}, mutex(one.Mutex("plain")), channel},
		{redissontest.Write, []string{"ww"}, mutex(one.RWMutex("ww").Locker()), rwChannel},
		{redissontest.Read, []string{"rw"}, mutex(one.RWMutex("rw").Locker()), rwChannel},
		{redissontest.Write, []string{"wr"}, mutex(one.RWMutex("wr").RLocker()), rwChannel},
		{redissontest.Multi, names, multi(t, one, names...), channel},
		{redissontest.Red, []string{"red"}, mutex(all.Mutex("red")), channel},
		{redissontest.RedWrite, []string{"redwr"}, mutex(all.RWMutex("redwr").RLocker()), rwChannel},
	} {
		t.Run(string(c.kind)+" "+c.names[0], func(t *testing.T) {
			h := peer.Handle("s", redissontest.Lock{Kind: c.kind, Names: c.names})
			heard, master := fmt.Sprintf(c.channel, c.names[0]), redissontest.Client(t, addrs[0])
			var between handOffs
			if _, err := h.Lock(t.Context(), 30*time.Second); err != nil {
				t.Fatal(err)
			}
			for range 8 {
				type hold struct {
					unlocker
					at time.Time
				}
				got := make(chan hold, 1)
				go func() {
					lease, err := c.ours(t.Context())
					if err != nil {
						t.Error(err)
					}
					got <- hold{lease, time.Now()}
				}()
				redissontest.Eventually(t, "we wait", func() bool {
					return master.PubSubNumSub(t.Context(), heard).Val()[heard] > 0
				})
				settled(t, master)
				freed, err := h.Unlock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				mine := <-got
				between.toGo = append(between.toGo, mine.at.Sub(freed.Began))

				next := redissontest.LockLater(t, h, redissontest.RefusedTwice(t, addrs[0]))
				began := time.Now()
				if err := mine.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				between.toJava = append(between.toJava, redissontest.Receive(t, next).Ended.Sub(began))
			}
			if _, err := h.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			t.Log(between)
			between.want(t)
		})
	}
}
