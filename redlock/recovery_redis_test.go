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

func flush(d *redis.Client) error { return d.FlushAll(context.Background()).Err() }

// Open begins to recover masters without a record, in the background. Init must
// not stumble over a step that a recovery takes while it looks around.
func TestInit_recoveryUnderWay_votesAtOnce(t *testing.T) {
	t.Parallel()
	ms := startProxied(t, 3, localredis.Config{})
	c := ms.open(redlock.WithTTL(time.Second), redlock.WithMaxTTL(3*time.Second), redlock.WithNodeTimeout(5*time.Second))
	soon(t, "recovery has begun", func() bool { return ms.state(0) == node.Recovering && ms.state(1) == node.Recovering })
	// The first two take a step, every 380 ms, while Init still reads the third.
	slow := ms.proxies[2].SlowReply(named("hgetall"), 700*time.Millisecond)
	start := time.Now()
	noErr(t, c.Init(t.Context()))
	slow.Remove()
	for i := range ms.servers {
		if s := ms.state(i); s != node.Voting {
			t.Errorf("master %d is %c after Init", i, s)
		}
	}
	if d := time.Since(start); d > 2500*time.Millisecond {
		t.Errorf("Init took %v: it waited for the recovery", d)
	}
	noErr(t, locked(t, c.Mutex("first")).Unlock(t.Context()))
}

func TestInit_severalAtOnce_allSucceed(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	for range 5 {
		ms.each(ms.all(), flush)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				c := ms.open()
				if err := c.Init(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		soon(t, "all masters vote", func() bool {
			return ms.state(0) == node.Voting && ms.state(1) == node.Voting && ms.state(2) == node.Voting
		})
	}
}

func TestFirstUse_withoutInit_waitsAndSaysSo(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	start := time.Now()
	c := ms.open(quick...)
	var err error
	soon(t, "it is known that the masters are new", func() bool {
		_, err = c.Mutex("first").TryLock(t.Context())
		wantIs(t, err, redlock.ErrRecovering)
		return strings.Contains(err.Error(), "Client.Init")
	})
	wantText(t, err, "votes in about", ms.servers[0].Addr())
	l := locked(t, c.Mutex("first"))
	if d := time.Since(start); d < quickWait {
		t.Errorf("voted after %v, want %v at least", d, quickWait)
	}
	noErr(t, l.Unlock(t.Context()))

	// The whole wait of the default MaxTTL is told.
	noErr(t, c.Close()) // before the flush, or it writes its own epoch down again
	ms.each(ms.all(), flush)
	c = ms.open()
	_, err = c.Mutex("first").TryLock(t.Context())
	wantText(t, err, "votes in about 30.")
	// Init cuts it short, once and for all.
	noErr(t, c.Init(t.Context()))
	noErr(t, locked(t, c.Mutex("first")).Unlock(t.Context()))
	noErr(t, c.Init(t.Context()))
	noErr(t, locked(t, ms.open().Mutex("first")).Unlock(t.Context()))
}

func TestInit_someVoteAlready_doesNothing(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	ms.each([]int{1}, flush)
	noErr(t, c.Init(t.Context()))
	soon(t, "it recovers", func() bool {
		_ = c.Init(t.Context())
		_, _ = c.Mutex("other").TryLock(t.Context())
		return ms.state(1) == node.Recovering
	})
	noErr(t, c.Init(t.Context()))
	if s := ms.state(1); s != node.Recovering {
		t.Errorf("Init made a master that lost its data %c", s)
	}
	noErr(t, ms.servers[1].Kill())
	if err := ms.open().Init(t.Context()); err != nil { // it asks those that vote first
		wantText(t, err, ms.servers[1].Addr())
	}
}

// No master votes before the wait is over, however many clients time it, and
// however often they come and go.
func TestRecovery_manyClients_noneShortensTheWait(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin(quick...)
	for range 4 {
		ms.open(quick...)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if other, err := redlock.Open(ms.urls(), quick...); err != nil {
				t.Error(err)
			} else if err := other.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		ms.each([]int{0}, flush)
		flushed := time.Now()
		_, _ = c.Mutex("look").TryLock(t.Context())
		soon(t, "it votes again", func() bool { return ms.state(0) == node.Voting })
		if d := time.Since(flushed); d < quickWait {
			t.Errorf("voted %v after it was flushed", d)
		} else {
			t.Logf("voted %v after it was flushed", d)
		}
	}
	close(stop)
	wg.Wait()
}

func TestRestart_oneOrTwoOfFive_costNothing(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	// A lease is to outlive a machine that is busy; a pair takes no time.
	const ttl = time.Second
	c := ms.begin(redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl), redlock.WithNodeTimeout(time.Second))
	stop := make(chan struct{})
	count, wait := pairs(t, c, 2, stop) // any failure is one of the test
	for _, down := range [][]int{{0}, {1, 2}, {3, 4}} {
		before := count.Load()
		for _, i := range down {
			ms.restart(i)
		}
		restarted := time.Now()
		soon(t, "locks go on", func() bool { return count.Load() > before+10 })
		for _, i := range down {
			soon(t, "it votes again", func() bool { return ms.state(i) == node.Voting })
		}
		if d := time.Since(restarted); d < ttl {
			t.Errorf("masters that forgot their votes vote again after %v", d)
		}
	}
	close(stop)
	wait()
}

func TestRestart_threeOfFive_pausesThenComesBackByItself(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	c := ms.begin(quick...)
	before := locked(t, c.Mutex("pause"))
	noErr(t, before.Unlock(t.Context()))
	for i := range 3 {
		ms.restart(i)
	}
	restarted := time.Now()
	soon(t, "the error says so", func() bool {
		l, err := c.Mutex("pause").TryLock(t.Context())
		if err == nil {
			t.Fatalf("granted with token %d", l.Token())
		}
		return errors.Is(err, redlock.ErrRecovering) && strings.Contains(err.Error(), "votes in about")
	})
	got := make(chan *redlock.Lease, 2)
	for range cap(got) {
		c := ms.open(quick...)
		go func() {
			l, err := c.Mutex("pause").Lock(context.Background())
			if err != nil {
				t.Error(err)
			} else {
				_ = l.Unlock(context.Background())
			}
			got <- l
		}()
	}
	for range cap(got) {
		if l := <-got; l != nil && l.Token() <= before.Token() {
			t.Errorf("token %d after %d", l.Token(), before.Token())
		}
	}
	if d := time.Since(restarted); d < quickWait {
		t.Errorf("a majority without memory granted after %v", d)
	}
}

// go-redsync/redsync#186: a bare quorum, one of its masters wiped, a second client.
// By hand, so that the lease has no time to mend.
func TestBareQuorum_oneWiped_secondClientRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts    []redlock.Option
		granted bool
	}{
		"recovery on":  {nil, false},
		"recovery off": {[]redlock.Option{redlock.WithUnsafeRecoveryOff()}, true},
	} {
		for how, wipe := range map[string]func(ms *masters){
			"restarted": func(ms *masters) { ms.restart(2) },
			"flushed":   func(ms *masters) { ms.each([]int{2}, flush) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				ms := startMasters(t, 5, localredis.Config{})
				opts := append([]redlock.Option{redlock.WithoutRenewal(), redlock.WithTTL(5 * time.Second)}, tc.opts...)
				a, b := ms.begin(opts...), ms.open(opts...)
				for _, i := range []int{3, 4} {
					noErr(t, ms.servers[i].Pause())
				}
				l := locked(t, a.Mutex("186"))
				for _, i := range []int{3, 4} {
					noErr(t, ms.servers[i].Resume())
				}
				// Late grants strengthen a lease; the bare quorum of the schedule has none.
				settled(t, l, 5)
				ms.each([]int{3, 4}, drop("186"))
				wipe(ms)
				granted := within(time.Second, func() bool {
					_, err := b.Mutex("186").TryLock(t.Context())
					return err == nil
				})
				if granted != tc.granted {
					t.Errorf("a second holder while the first is valid for %v: %v, want %v", time.Until(l.ValidUntil()), granted, tc.granted)
				}
				if err := l.Err(); err != nil {
					t.Errorf("the first lease is over, which proves nothing: %v", err)
				}
			})
		}
	}
}

func TestKill_byPersistence_whoWaits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		how   localredis.Persistence
		waits bool
	}{{localredis.None, true}, {localredis.EverySec, true}, {localredis.Always, false}} {
		t.Run("persistence "+string(tc.how), func(t *testing.T) {
			t.Parallel()
			ms := startMasters(t, 3, localredis.Config{Persistence: tc.how})
			c := ms.begin() // the wait is 30 s and more
			l := locked(t, c.Mutex("durable"))
			settled(t, l, 3)
			for i := range 3 {
				ms.restart(i)
			}
			if !tc.waits {
				if n := ms.votes("durable", l.Holder()); n != 3 {
					t.Errorf("%d of 3 votes survived, with an fsync before each reply", n)
				}
				soon(t, "a lock is had right away", func() bool {
					other, err := c.Mutex("other").TryLock(t.Context())
					if err == nil {
						err = other.Unlock(t.Context())
					}
					return err == nil
				})
				_, err := ms.open().Mutex("durable").TryLock(t.Context())
				wantIs(t, err, redlock.ErrHeld)
				soon(t, "the lease lives", func() bool { return l.Extend(t.Context()) == nil })
				return
			}
			for i := range 3 {
				soon(t, "it recovers", func() bool {
					if l, err := c.Mutex("other").TryLock(t.Context()); err == nil {
						t.Fatalf("granted: %v", l.Holder())
					}
					return ms.state(i) == node.Recovering
				})
			}
		})
	}
}

// A record that comes from disk is old: the votes after it are forgotten.
func TestRDB_rolledBack_waits(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	noErr(t, ms.direct[0].Save(t.Context()).Err())
	l := locked(t, c.Mutex("later"))
	settled(t, l, 3)
	ms.restart(0)
	if g := ms.gate(0); g == "" {
		t.Fatal("the record did not come back")
	}
	if n := ms.votes("later", l.Holder()); n != 2 {
		t.Fatalf("%d votes: nothing was rolled back", n)
	}
	soon(t, "it recovers", func() bool {
		_, _ = c.Mutex("other").TryLock(t.Context())
		return ms.state(0) == node.Recovering
	})
	ms.wantNoKeys("other", 0)
}

// The data set is replaced under an open connection, and its run_id stays.
func TestReplicaOf_thenNoOne_onOpenConnections_waitsAndVotesAgain(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]localredis.Config{"no persistence": {}, "durable": {Persistence: localredis.Always}} {
		for who, of := range map[string]int{"of another member": 1, "of an empty stranger": 3} {
			t.Run(name+", "+who, func(t *testing.T) {
				t.Parallel()
				ms := startMasters(t, 4, cfg)
				opts := append(quick, redlock.WithMaxTTL(time.Second))
				c := openAt(t, ms.pick(0, 1, 2), opts...)
				noErr(t, c.Init(t.Context()))
				noErr(t, locked(t, c.Mutex("before")).Unlock(t.Context()))
				source := ms.servers[of].Addr()
				host, port, _ := strings.Cut(source, ":")
				noErr(t, ms.direct[0].ReplicaOf(t.Context(), host, port).Err())
				soon(t, "synchronised", func() bool {
					info := ms.direct[0].Info(t.Context(), "replication").Val()
					return strings.Contains(info, "master_link_status:up")
				})
				noErr(t, ms.direct[0].ReplicaOf(t.Context(), "no", "one").Err())
				changed := time.Now()
				noErr(t, locked(t, c.Mutex("after")).Unlock(t.Context())) // two of three
				other := openAt(t, ms.pick(0, 1, 2), opts...)             // who greets it anew
				soon(t, "it votes again", func() bool {
					for _, c := range []*redlock.Client{c, other} {
						noErr(t, locked(t, c.Mutex("after")).Unlock(t.Context()))
					}
					return ms.state(0) == node.Voting && strings.Contains(ms.gate(0), ms.incarnation(0))
				})
				if d := time.Since(changed); d < time.Second {
					t.Errorf("it voted %v after its data was replaced", d)
				}
				// For both clients: each alone with it and one more.
				noErr(t, ms.servers[1].Kill())
				for _, c := range []*redlock.Client{c, other} {
					noErr(t, locked(t, c.Mutex("both")).Unlock(t.Context()))
				}
			})
		}
	}
}

// incarnation is what master i says of itself now.
func (ms *masters) incarnation(i int) string {
	ms.t.Helper()
	find := func(section, field string) string {
		for line := range strings.Lines(ms.direct[i].Info(context.Background(), section).Val()) {
			if v, ok := strings.CutPrefix(line, field+":"); ok {
				return strings.TrimSpace(v)
			}
		}
		return ""
	}
	return node.Identity{RunID: find("server", "run_id"), ReplID: find("replication", "master_replid")}.Incarnation()
}

// Counters are learnt from masters that kept theirs, after the wait.
func TestRecovery_counters_learntFromTheIntact(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	c := ms.begin(quick...)
	// A token that no clock explains, on a bare quorum.
	ahead := time.Now().Add(40 * time.Second).UnixMicro()
	ms.setCounters(3, ahead)
	before := locked(t, c.Mutex("token"))
	noErr(t, before.Unlock(t.Context()))
	for _, i := range []int{0, 1} {
		ms.restart(i)
	}
	soon(t, "both vote again", func() bool {
		_, _ = c.Mutex("look").TryLock(t.Context())
		return ms.state(0) == node.Voting && ms.state(1) == node.Voting
	})
	// The one of the three that kept it goes: only what was learnt is left.
	noErr(t, ms.servers[2].Kill())
	for range 3 {
		after, err := openAt(t, ms.urls(), quick...).Mutex("token").Lock(t.Context())
		noErr(t, err)
		if after.Token() <= before.Token() {
			t.Errorf("token %d after %d", after.Token(), before.Token())
		}
		before = after
		noErr(t, after.Unlock(t.Context()))
	}
}

// Every master forgets everything, one after the other, under a lease that is held.
// Each gets the vote back before the next one goes.
func TestRestart_allInTurn_heldLeaseSurvives(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	opts := []redlock.Option{redlock.WithTTL(600 * time.Millisecond), redlock.WithMaxTTL(600 * time.Millisecond), redlock.WithNodeTimeout(time.Second)}
	c, other := ms.begin(opts...), ms.open(opts...)
	l := locked(t, c.Mutex("rolling"))
	settled(t, l, 5)
	for i := range 5 {
		ms.restart(i)
		soon(t, "it votes again, and has the vote", func() bool {
			if err := l.Err(); err != nil {
				t.Fatalf("restart of master %d: %v", i, err)
			}
			if got, err := other.Mutex("rolling").TryLock(t.Context()); err == nil {
				t.Fatalf("%s has it too", got.Holder())
			}
			return ms.state(i) == node.Voting && redlock.CountedVotes(l) == 5
		})
	}
	if n := ms.votes("rolling", l.Holder()); n != 5 {
		t.Errorf("%d votes: %v", n, ms.holders("rolling"))
	}
	noErr(t, l.Unlock(t.Context()))
	next, err := other.Mutex("rolling").Lock(t.Context())
	noErr(t, err)
	if next.Token() <= l.Token() {
		t.Errorf("token %d after %d", next.Token(), l.Token())
	}
}
