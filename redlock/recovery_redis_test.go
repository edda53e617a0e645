// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

func flush(d *redis.Client) error { return d.FlushAll(context.Background()).Err() }

// Masters that were never used do not begin to vote by themselves, because masters that were emptied
// or replaced by another list look the same. An operator must call Init.
func TestFirstUse_listMayChange_refusedWithTheCommand(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	wantNotOpened(t, ms.urls(), redlock.ErrNeedsInit, []string{"redlock init", ms.servers[0].Addr()})
	start := time.Now()
	noErr(t, admin.Init(t.Context(), list(ms.urls(), quick...), nil))
	if d := time.Since(start); d < quickWait {
		t.Errorf("nobody said that nothing was ever locked, and Init took %v", d)
	}
	c := ms.open(quick...)
	noErr(t, locked(t, c.Mutex("first")).Unlock(t.Context()))
	noErr(t, admin.Init(t.Context(), list(ms.urls(), quick...), nil)) // does nothing
	noErr(t, locked(t, c.Mutex("first")).Unlock(t.Context()))
}

func TestInit_nothingWasEverLocked_votesAtOnce(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	start := time.Now()
	initAt(t, ms.urls()) // the wait would be 30 s
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("Init took %v", d)
	}
	noErr(t, locked(t, ms.open().Mutex("first")).Unlock(t.Context()))
}

// Masters of a list that is never changed begin by themselves after the wait, on first use
// and when all of them were emptied at once.
func TestFirstUse_fixedMasters_waitAndSaySo(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		opts := append(slices.Clone(quick), redlock.WithFixedMasters())
		for range 2 {
			start := time.Now()
			c := ms.open(opts...)
			_, err := c.Mutex("first").TryLock(t.Context())
			wantIs(t, err, redlock.ErrRecovering)
			wantText(t, err, "votes in about", ms.servers[0].Addr())
			noErr(t, locked(t, c.Mutex("first")).Unlock(t.Context()))
			if d := time.Since(start); d < quickWait {
				t.Errorf("voted after %v, want %v at least", d, quickWait)
			}
			noErr(t, c.Close())
			ms.each(ms.all(), flush)
		}
		// The whole wait of the default maximum TTL is told.
		_, err := ms.open(redlock.WithFixedMasters()).Mutex("first").TryLock(t.Context())
		wantText(t, err, "votes in about 30.")
	})
}

func TestInit_severalAtOnce_allSucceed(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	for range 5 {
		ms.each(ms.all(), flush)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := admin.Init(t.Context(), list(ms.urls()), nil, admin.NothingWasEverLocked); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		noErr(t, admin.Init(t.Context(), list(ms.urls()), nil))
		soon(t, "all masters vote", func() bool {
			_ = admin.Init(t.Context(), list(ms.urls()), nil)
			return ms.phase(0) == membership.Voting && ms.phase(1) == membership.Voting && ms.phase(2) == membership.Voting
		})
		noErr(t, locked(t, ms.open().Mutex("first")).Unlock(t.Context()))
	}
}

// Issue 14, 9: a lock is held, all masters are emptied, and an operator calls Init. Init waits until
// the lock may not be held any more, so there are never two holders.
func TestInit_afterAllWereEmptied_waitsForWhatMayBeHeld(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		opts := []redlock.Option{redlock.WithTTL(time.Second), redlock.WithMaxTTL(time.Second)}
		a := ms.begin(opts...)
		held := locked(t, a.Mutex("x", redlock.WithoutRenewal()))
		settled(t, held, 3)
		ms.each(ms.all(), flush)
		noErr(t, admin.Init(t.Context(), list(ms.urls(), opts...), nil))
		if err := held.Err(); err == nil {
			t.Errorf("Init let masters vote while a lease was valid for %v", time.Until(held.ValidUntil()))
		}
	})
}

func TestInit_quorumVotes_doesNothing(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	ms.each([]int{1}, flush)
	soon(t, "it recovers", func() bool {
		noErr(t, admin.Init(t.Context(), list(ms.urls()), nil, admin.NothingWasEverLocked))
		_, _ = c.Mutex("other").TryLock(t.Context())
		return ms.phase(1) == membership.Quarantined
	})
	noErr(t, admin.Init(t.Context(), list(ms.urls()), nil, admin.NothingWasEverLocked))
	if s := ms.phase(1); s != membership.Quarantined {
		t.Errorf("Init made a master that lost its data %c", s)
	}
	noErr(t, ms.servers[1].Kill())
	err := admin.Init(t.Context(), list(ms.urls()), nil, admin.NothingWasEverLocked)
	wantIs(t, err, redlock.ErrUnreachable)
	wantText(t, err, ms.servers[1].Addr())
}

// No master votes before its wait is over, however many clients time the wait, and however often
// clients come and go.
func TestRecovery_manyClients_noneShortensTheWait(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
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
				if other, err := redlock.Open(t.Context(), ms.urls(), quick...); err != nil {
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
			soon(t, "it votes again", func() bool { return ms.phase(0) == membership.Voting })
			if d := time.Since(flushed); d < quickWait {
				t.Errorf("voted %v after it was flushed", d)
			} else {
				t.Logf("voted %v after it was flushed", d)
			}
		}
		close(stop)
		wg.Wait()
	})
}

func TestRestart_oneOrTwoOfFive_costNothing(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 500*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		// A lease is to outlive a machine that is busy; a pair takes no time. An Unlock is to outlive one that
		// stands still for a second: it waits as long as the node timeout.
		const ttl = time.Second
		c := ms.begin(redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl), redlock.WithNodeTimeout(5*time.Second))
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
				soon(t, "it votes again", func() bool { return ms.phase(i) == membership.Voting })
			}
			if d := time.Since(restarted); d < ttl {
				t.Errorf("masters that forgot their votes vote again after %v", d)
			}
		}
		close(stop)
		wait()
	})
}

func TestRestart_threeOfFive_pausesThenComesBackByItself(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		c := ms.begin(quick...)
		before := locked(t, c.Mutex("pause"))
		noErr(t, before.Unlock(t.Context()))
		restarted := time.Now() // one of them completes a quorum: the first that was seen again
		for i := range 3 {
			ms.restart(i)
		}
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
	})
}

// go-redsync/redsync#186: a lease has the votes of a bare quorum, one of those masters is wiped, and a
// second client tries the lock. The test makes the bare quorum itself, because a lease would get more
// votes.
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
				stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
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
			})
		}
	}
}

// A restarted master waits, whatever its persistence is: a client cannot know whether the disk has
// every vote, or was restored from a backup.
func TestKill_byPersistence_allWait(t *testing.T) {
	t.Parallel()
	for _, how := range []localredis.Persistence{localredis.None, localredis.EverySec, localredis.Always} {
		t.Run("persistence "+string(how), func(t *testing.T) {
			t.Parallel()
			stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
				ms := startMasters(t, 3, localredis.Config{Persistence: how})
				c := ms.begin() // the wait is 30 s and more
				l := locked(t, c.Mutex("durable"))
				settled(t, l, 3)
				for i := range 3 {
					ms.restart(i)
				}
				for i := range 3 {
					soon(t, "it recovers", func() bool {
						if l, err := c.Mutex("other").TryLock(t.Context()); err == nil {
							t.Fatalf("granted: %v", l.Holder())
						}
						return ms.phase(i) == membership.Quarantined
					})
				}
				if how != localredis.Always {
					return
				}
				if n := ms.votes("durable", l.Holder()); n != 3 {
					t.Errorf("%d of 3 votes survived, with an fsync before each reply", n)
				}
				soon(t, "the lease lives on while they wait", func() bool { return l.Extend(t.Context()) == nil })
			})
		})
	}
}

// A master that loads an old RDB file lost the votes that came later. It has a record, and waits all
// the same.
func TestRDB_rolledBack_waits(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	noErr(t, ms.direct[0].Save(t.Context()).Err())
	l := locked(t, c.Mutex("later"))
	settled(t, l, 3)
	ms.restart(0)
	if state := ms.recordState(0); state == "" {
		t.Fatal("the record did not come back")
	}
	if n := ms.votes("later", l.Holder()); n != 2 {
		t.Fatalf("%d votes: nothing was rolled back", n)
	}
	soon(t, "it recovers", func() bool {
		_, _ = c.Mutex("other").TryLock(t.Context())
		return ms.phase(0) == membership.Quarantined
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
				stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
					ms := startMasters(t, 4, cfg)
					opts := append(quick, redlock.WithMaxTTL(time.Second))
					initAt(t, ms.pick(0, 1, 2), opts...)
					c := openAt(t, ms.pick(0, 1, 2), opts...)
					noErr(t, locked(t, c.Mutex("before")).Unlock(t.Context()))
					source := ms.servers[of].Addr()
					host, port, _ := strings.Cut(source, ":")
					noErr(t, ms.direct[0].Do(t.Context(), "REPLICAOF", host, port).Err())
					soon(t, "synchronised", func() bool {
						info := ms.direct[0].Info(t.Context(), "replication").Val()
						return strings.Contains(info, "master_link_status:up")
					})
					noErr(t, ms.direct[0].Do(t.Context(), "REPLICAOF", "no", "one").Err())
					changed := time.Now()
					noErr(t, locked(t, c.Mutex("after")).Unlock(t.Context())) // two of three
					other := openAt(t, ms.pick(0, 1, 2), opts...)             // who greets it anew
					soon(t, "it votes again", func() bool {
						for _, c := range []*redlock.Client{c, other} {
							noErr(t, locked(t, c.Mutex("after")).Unlock(t.Context()))
						}
						return ms.phase(0) == membership.Voting && strings.Contains(ms.recordState(0), ms.incarnation(0))
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
			})
		}
	}
}

// incarnation is what master i says of itself now.
func (ms *masters) incarnation(i int) string {
	ms.t.Helper()
	info := ms.direct[i].Info(context.Background()).Val()
	return protocol.ReadIdentity(info, ms.recordState(i)).Incarnation()
}

// An operator adds the first replica of each master, or removes all replicas. Clients that start
// afterwards and clients that ran before agree on the locks.
func TestReplicas_addedAndTakenAway_newClientsAgreeWithOldOnes(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 500*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 6, localredis.Config{})
		opts := append(quick, redlock.WithMaxTTL(time.Second))
		initAt(t, ms.pick(0, 1, 2), opts...)
		agree := func(what string, old *redlock.Client) {
			t.Helper()
			start := time.Now()
			c := openAt(t, ms.pick(0, 1, 2), opts...)
			l := locked(t, c.Mutex("replicas"))
			_, err := old.Mutex("replicas").TryLock(t.Context())
			wantIs(t, err, redlock.ErrHeld)
			noErr(t, l.Unlock(t.Context()))
			if d := time.Since(start); d > 900*time.Millisecond {
				t.Errorf("%s: a new client had to wait %v", what, d)
			}
		}
		old := openAt(t, ms.pick(0, 1, 2), opts...)
		noErr(t, locked(t, old.Mutex("replicas")).Unlock(t.Context()))
		for i := range 3 {
			noErr(t, ms.direct[i].ConfigSet(t.Context(), "repl-backlog-ttl", "1").Err())
			host, port, _ := strings.Cut(ms.servers[i].Addr(), ":")
			noErr(t, ms.direct[i+3].Do(t.Context(), "REPLICAOF", host, port).Err())
			soon(t, "synchronised", func() bool {
				return strings.Contains(ms.direct[i+3].Info(t.Context(), "replication").Val(), "master_link_status:up")
			})
		}
		agree("with replicas", old)
		// The masters restart from disk as what they were, and have a data set from elsewhere then.
		for i := range 3 {
			soon(t, "saved", func() bool { // not while it saves for its replica
				return ms.direct[i].Save(t.Context()).Err() == nil
			})
			ms.restart(i)
			noErr(t, ms.direct[i].ConfigSet(t.Context(), "repl-backlog-ttl", "1").Err())
			soon(t, "it votes again", func() bool {
				_ = locked(t, old.Mutex("replicas")).Unlock(t.Context()) // for the look; a master may be at its start
				return strings.HasSuffix(ms.recordState(i), ms.incarnation(i)+"|V")
			})
		}
		for i := range 3 {
			noErr(t, ms.direct[i+3].Do(t.Context(), "REPLICAOF", "no", "one").Err())
		}
		named := strings.Join([]string{ms.recordState(0), ms.recordState(1), ms.recordState(2)}, " ")
		soon(t, "all have forgotten where their data came from", func() bool {
			for i := range 3 {
				if !strings.Contains(ms.direct[i].Info(t.Context(), "replication").Val(), "master_replid2:0000000000000000000000000000000000000000") {
					return false
				}
			}
			return true
		})
		agree("without replicas", old)
		if now := strings.Join([]string{ms.recordState(0), ms.recordState(1), ms.recordState(2)}, " "); now != named {
			t.Errorf("the records were %s, and are %s", named, now)
		}
	})
}

// After its wait, a master learns its counters from masters that kept theirs.
func TestRecovery_counters_learntFromTheIntact(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
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
			return ms.phase(0) == membership.Voting && ms.phase(1) == membership.Voting
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
	})
}

// A lease is held while every master loses its data, one after the other. Each master gets the vote
// back before the next one loses its data.
func TestRestart_allInTurn_heldLeaseSurvives(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
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
				return ms.phase(i) == membership.Voting && redlock.CountedVotes(l) == 5
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
	})
}
