// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// cluster is five masters in memory, in a bubble of synctest.
type cluster struct {
	t        *testing.T
	masters  simtest.Masters
	recovery bool // the clients' is on; they are to be begun by Init
}

// simulate runs test in a bubble with five masters.
func simulate(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	simulateWith(t, 5, test)
}

// simulateWith runs test in a bubble with n masters.
func simulateWith(t *testing.T, n int, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, masters: simtest.New(n)}
		test(t, c)
	})
}

// member is one client of the cluster with its ways to the masters.
type member struct{ *simtest.Client }

// init lets the masters begin, for clients with opts.
func (c *cluster) init(opts ...redlock.Option) {
	c.t.Helper()
	c.recovery = true
	if err := c.masters.Init(c.t.Context(), opts...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) client(opts ...redlock.Option) *member {
	c.t.Helper()
	if !c.recovery {
		opts = append(opts, redlock.WithUnsafeRecoveryOff())
	}
	m, err := c.masters.Open(c.t.Context(), nil, opts...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = m.Close() })
	return &member{m}
}

// faultOn makes every command called name suffer fault, on the nodes given.
func (m *member) faultOn(name string, fault nodetest.Fault, nodes ...int) {
	for _, i := range nodes {
		m.Ways[i].SetFault(func(cmd nodetest.Command) nodetest.Fault {
			if cmd.Name == name {
				return fault
			}
			return nodetest.Fault{}
		})
	}
}

func (m *member) heal() {
	for _, n := range m.Ways {
		n.SetFault(nil)
	}
}

// votes counts the masters that hold the lock for holder, "" for nobody, when all
// that can happen at this instant has happened.
func (c *cluster) votes(lock, holder string) int {
	synctest.Wait()
	n := 0
	for _, m := range c.masters {
		if m.Holder(lock) == holder {
			n++
		}
	}
	return n
}

func (c *cluster) wantVotes(lock, holder string, want int) {
	c.t.Helper()
	if got := c.votes(lock, holder); got != want {
		c.t.Fatalf("%d masters have %q for %q, want %d", got, lock, holder, want)
	}
}

var errNoKey = errors.New("NOPERM No permissions to access a key")

var errNoKill = errors.New("NOPERM this user has no permissions to run the 'client|kill' command")

// mustLock takes the lock, and returns when the masters that were not waited for
// have voted too.
func mustLock(t *testing.T, m redlock.Locker) *redlock.Lease {
	t.Helper()
	lease, err := m.TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return lease
}

// lostAfter waits for the lease to be lost, and returns how long that took.
func lostAfter(t *testing.T, lease *redlock.Lease) time.Duration {
	t.Helper()
	start := time.Now()
	select {
	case <-lease.Context().Done():
	case <-time.After(time.Hour):
		t.Fatal("still held after an hour")
	}
	wantErr(t, context.Cause(lease.Context()), redlock.ErrLost)
	wantErr(t, lease.Err(), redlock.ErrLost)
	return time.Since(start)
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func TestSim_lockExcludesAndUnlockFrees(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x"))
		c.wantVotes("x", lease.Holder(), 5)
		_, err := b.Mutex("x").TryLock(t.Context())
		wantErr(t, err, redlock.ErrHeld)
		var round *redlock.RoundError
		if !errors.As(err, &round) || round.Held != 5 || round.RetryAfter != redlock.DefaultTTL {
			t.Fatalf("%+v", round)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.wantVotes("x", "", 5)
		wantErr(t, context.Cause(lease.Context()), redlock.ErrReleased)
		mustLock(t, b.Mutex("x"))
	})
}

// The context of a lease ends before its validity. The validity ends before another caller can get
// the lock.
func TestSim_expiry_endsTheContextBeforeValidity(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x", redlock.WithoutRenewal()))
		until := lease.ValidUntil()
		lostAfter(t, lease)
		if left := time.Until(until); left <= 0 || left > 200*time.Millisecond {
			t.Fatalf("told %v before the end", left)
		}
		time.Sleep(time.Until(until))
		c.wantVotes("x", lease.Holder(), 5)
		next, err := b.Mutex("x").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.wantVotes("x", next.Holder(), 5)
		wantErr(t, lease.Unlock(t.Context()), redlock.ErrLost)
		c.wantVotes("x", next.Holder(), 5)
	})
}

func TestSim_renewal_keepsALeaseForAnHour(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		lease := mustLock(t, a.Mutex("x"))
		for range 60 {
			time.Sleep(time.Minute)
			if err := lease.Context().Err(); err != nil {
				t.Fatal(context.Cause(lease.Context()))
			}
			c.wantVotes("x", lease.Holder(), 5)
			if left := time.Until(lease.ValidUntil()); left < 6*time.Second {
				t.Fatalf("only %v valid", left)
			}
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.wantVotes("x", "", 5)
	})
}

// Thousands of leases are all renewed in time, by few goroutines, in batches.
func TestSim_renewal_crowd(t *testing.T) {
	leases, seconds := 3_000, 8
	if needs.InSoak(t) {
		leases, seconds = 100_000, 60
	}
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		extends := 0 // calls to master 0
		a.Ways[0].SetFault(func(cmd nodetest.Command) nodetest.Fault {
			if cmd.Name == "extend" {
				extends++
			}
			return nodetest.Fault{ReplyDelay: 100 * time.Microsecond}
		})
		synctest.Wait()
		goroutines := runtime.NumGoroutine()
		held := make([]*redlock.Lease, leases)
		for i := range held {
			held[i] = mustLock(t, a.Mutex(fmt.Sprint(i)))
			// Spread over two seconds, as those who come and go are.
			time.Sleep(2 * time.Second / time.Duration(leases))
		}
		least := redlock.DefaultTTL
		for range seconds {
			time.Sleep(time.Second)
			for _, l := range held {
				least = min(least, time.Until(l.ValidUntil()))
			}
		}
		synctest.Wait()
		stats := a.Stats()
		t.Logf("%d leases for %d s: %d extends in %d calls a master, %d goroutines before and %d now, never less than %v left",
			leases, seconds, stats.Extends, extends, goroutines, runtime.NumGoroutine(), least)
		if stats.Lost != 0 || stats.Held != leases || least < redlock.DefaultTTL/2 {
			t.Errorf("never less than %v left; %+v", least, stats)
		}
		if n := runtime.NumGoroutine(); n > goroutines+2 {
			t.Errorf("%d goroutines, %d before the leases", n, goroutines)
		}
		if int(stats.Extends) < leases*(seconds*3/10-1) || extends > int(stats.Extends)/8 {
			t.Errorf("%d extends in %d calls to a master", stats.Extends, extends)
		}
	})
}

// Three masters decide the acquire, and two answer later. One of the three dies. The extend right
// after Lock needs the two late votes.
func TestSim_extendRightAfterLock_countsLateVotes(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		a.faultOn("acquire", nodetest.Fault{ReplyDelay: 50 * time.Millisecond}, 3, 4)
		lease, err := a.Mutex("x").TryLock(t.Context())
		wantErr(t, err, nil)
		if n := redlock.CountedVotes(lease); n != 3 {
			t.Fatalf("%d votes counted, want 3", n)
		}
		c.masters[0].Crash()
		wantErr(t, lease.Extend(t.Context()), nil)
		synctest.Wait()
		if n := redlock.CountedVotes(lease); n != 5 {
			t.Fatalf("%d votes counted, want 5", n)
		}
		// A late answer that is a refusal does not count.
		a.heal()
		c.masters[0].Restart()
		time.Sleep(time.Second)
		b := c.client()
		other := mustLock(t, b.Mutex("y"))
		c.masters[0].Flush()
		c.masters[1].Flush()
		c.masters[2].Flush()
		a.faultOn("acquire", nodetest.Fault{ReplyDelay: 50 * time.Millisecond}, 3, 4)
		lease, err = a.Mutex("y").TryLock(t.Context())
		wantErr(t, err, nil)
		c.masters[0].Flush()
		wantErr(t, lease.Extend(t.Context()), redlock.ErrLost)
		c.wantVotes("y", other.Holder(), 2)
	})
}

// tooShort is a TTL with which masters hand the lock to nobody: they wake the head of the queue.
var tooShort = redlock.WithTTL(2 * time.Second)

// The waiter asks each master as soon as that master has woken it. The slow way to the first master
// does not have to wait for the message of the third.
func TestSim_handOff_asksEachMasterOnceItIsFree(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x", tooShort))
		got := make(chan *redlock.Lease, 1)
		ctx := t.Context()
		go func() {
			next, _ := b.Mutex("x", tooShort).Lock(ctx)
			got <- next
		}()
		time.Sleep(100 * time.Millisecond) // it looks again after subscribing
		// The first three masters grant after 1000, 200 + 800 and 400 + 600 us. If the waiter
		// asked all masters after the message of the third, the second would grant after
		// 400 + 800 us, and the last would be asked before it is free.
		for i, away := range []time.Duration{1000, 800, 600, 200, 200} {
			a.faultOn("release", nodetest.Fault{Delay: time.Duration(i) * 200 * time.Microsecond}, i)
			b.faultOn("acquire", nodetest.Fault{Delay: away * time.Microsecond}, i)
		}
		start := time.Now()
		wantErr(t, lease.Unlock(ctx), nil)
		lease = <-got
		if took := time.Since(start); lease == nil || took > 1010*time.Microsecond {
			t.Fatalf("%v after %v", lease, took)
		}
		b.heal()
		time.Sleep(100 * time.Millisecond)
		c.wantVotes("x", lease.Holder(), 5)
	})
}

// A master refuses the waiter a moment before the release arrives there, and then wakes the waiter.
// The waiter asks it again in the same round, because the masters that have not answered may be slow.
func TestSim_wokenInARound_asksAgain(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x", tooShort))
		got := make(chan *redlock.Lease, 1)
		ctx := t.Context()
		go func() {
			next, _ := b.Mutex("x", tooShort).Lock(ctx)
			got <- next
		}()
		time.Sleep(100 * time.Millisecond) // it looks again after subscribing
		a.faultOn("release", nodetest.Fault{Delay: 10 * time.Millisecond}, 2)
		b.faultOn("acquire", nodetest.Fault{Delay: 100 * time.Millisecond}, 3, 4)
		start := time.Now()
		rounds := b.Stats().Rounds
		wantErr(t, lease.Unlock(ctx), nil)
		lease = <-got
		if took := time.Since(start); lease == nil || took > 11*time.Millisecond {
			t.Fatalf("%v after %v", lease, took)
		}
		if n := b.Stats().Rounds - rounds; n != 1 {
			t.Errorf("%d rounds", n)
		}
		time.Sleep(200 * time.Millisecond)
		c.wantVotes("x", lease.Holder(), 5)
		wantErr(t, lease.Unlock(ctx), nil)
		c.wantVotes("x", "", 5)
	})
}

// A master wakes the waiter, and its refusal arrives when the round is over. The master is not asked
// again, because no caller would use or release that vote.
func TestSim_wokenInARound_overBeforeTheRefusal(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x", tooShort))
		got := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := b.Mutex("x", tooShort).Lock(ctx)
			got <- err
		}()
		time.Sleep(100 * time.Millisecond) // it looks again after subscribing
		a.faultOn("release", nodetest.Fault{Delay: 10 * time.Millisecond}, 2)
		b.faultOn("acquire", nodetest.Fault{ReplyDelay: 30 * time.Millisecond}, 2)
		b.faultOn("acquire", nodetest.Fault{Delay: 100 * time.Millisecond}, 3, 4)
		wantErr(t, lease.Unlock(t.Context()), nil)
		time.Sleep(20 * time.Millisecond)
		cancel()
		wantErr(t, <-got, context.Canceled)
		time.Sleep(200 * time.Millisecond)
		c.wantVotes("x", "", 5)
	})
}

// One master is down and one lacks the holder's vote, so the round is over before a quorum has put
// the waiter into its queue. The next rounds must present the same ticket. Another would put it
// behind waiters that came later.
func TestSim_placeInTooFewQueues_isKept(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b, d := c.client(), c.client(), c.client()
		c.masters[4].Crash()
		time.Sleep(10 * time.Second) // the clients know that it is down
		lease := mustLock(t, a.Mutex("x"))
		wantErr(t, c.masters[1].Do(func(db *nodetest.DB) { db.Del("x") }), nil)
		for i, way := range b.Ways {
			way.SetFault(func(cmd nodetest.Command) (f nodetest.Fault) {
				switch {
				case cmd.Name == "subscribe": // b asks again when it has subscribed, behind d
					f.Delay = 5 * time.Millisecond
				case cmd.Name == "acquire" && i == 3:
					f.ReplyDelay = 20 * time.Millisecond
				}
				return f
			})
		}
		ctx := t.Context()
		got := make(chan string, 2)
		var taking sync.WaitGroup
		defer taking.Wait() // ctx ends with the test
		take := func(who string, m *member) {
			next, err := m.Mutex("x").Lock(ctx)
			got <- who
			if err == nil {
				err = next.Unlock(context.WithoutCancel(ctx)) // the test ends when the second has the lock
			}
			if err != nil {
				t.Error(err)
			}
		}
		taking.Go(func() { take("b", b) })
		time.Sleep(2 * time.Millisecond)
		taking.Go(func() { take("d", d) })
		time.Sleep(100 * time.Millisecond)
		wantErr(t, lease.Unlock(ctx), nil)
		if first, second := <-got, <-got; first != "b" || second != "d" {
			t.Errorf("%s was served first", first)
		}
	})
}

// The token of another reader passes the token of this one before a quorum confirms it. The reader
// tries again, because no caller excludes it.
func TestSim_tryRLock_tokenOvertaken_triesAgain(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		a := c.client()
		counter := protocol.NewLock("x", protocol.Read).Counter
		raise := func(i int, by time.Duration) {
			wantErr(t, c.masters[i].Do(func(db *nodetest.DB) {
				db.HSet(protocol.RecordKey, counter, fmt.Sprint(time.Now().Add(by).UnixMicro()))
			}), nil)
		}
		raise(1, 10*time.Second) // this vote's token is the larger, and master 0 has to confirm it
		a.faultOn("acquire", nodetest.Fault{Delay: time.Second}, 2)
		confirms := 0
		a.Ways[0].SetFault(func(cmd nodetest.Command) nodetest.Fault {
			if cmd.Name == "confirm" {
				if confirms++; confirms == 1 {
					raise(0, 20*time.Second)
				}
			}
			return nodetest.Fault{}
		})
		lease, err := a.RWMutex("x").TryRLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if confirms != 1 || a.Stats().Rounds != 2 {
			t.Errorf("%d confirms on that master, %d rounds", confirms, a.Stats().Rounds)
		}
		wantErr(t, lease.Unlock(t.Context()), nil)
	})
}

// Only one master wakes the waiter. The waiter asks that master at once, and the others a little later,
// because they may be down. If the caller gives up before, they are not asked, and nothing is left on
// any master.
func TestSim_wokenByOneMaster(t *testing.T) {
	for _, tc := range []struct {
		name  string
		stays time.Duration
		want  []int64 // acquires by master
	}{
		{"gives up", time.Millisecond, []int64{1, 0, 0, 0, 0}},
		{"waits on", 10 * time.Millisecond, []int64{1, 1, 1, 1, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				a, b := c.client(), c.client()
				lease := mustLock(t, a.Mutex("x"))
				id := mustLock(t, b.Mutex("y")).Holder()[:36]
				ctx, cancel := context.WithCancel(t.Context())
				got := make(chan error, 1)
				go func() {
					_, err := b.Mutex("x").Lock(ctx)
					got <- err
				}()
				time.Sleep(100 * time.Millisecond) // it looks again after subscribing
				asked := make([]atomic.Int64, len(c.masters))
				for i, n := range b.Ways {
					n.SetFault(func(cmd nodetest.Command) nodetest.Fault {
						if cmd.Name == "acquire" {
							asked[i].Add(1)
						}
						return nodetest.Fault{}
					})
				}
				wantErr(t, c.masters[0].Do(func(db *nodetest.DB) {
					db.Del("x")
					db.Publish(protocol.Wake(id), "x")
				}), nil)
				time.Sleep(tc.stays)
				cancel()
				wantErr(t, <-got, context.Canceled)
				for i, want := range tc.want {
					if n := asked[i].Load(); n != want {
						t.Errorf("master %d was asked %d times, want %d", i, n, want)
					}
				}
				c.wantVotes("x", "", 1)
				c.wantVotes("x", lease.Holder(), 4)
				for _, m := range c.masters {
					if keys := m.Keys(); slices.Contains(keys, "redlock:queue:{x}") {
						t.Errorf("left on %s: %v", m.Name(), keys)
					}
				}
			})
		})
	}
}

// A round that is under way when the client is closed releases the votes that it was granted, and
// keeps no place in the queues.
func TestSim_closeInARound_leavesNoPlace(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		mustLock(t, a.Mutex("x"))
		id := mustLock(t, b.Mutex("y")).Holder()[:36]
		got := make(chan error, 1)
		go func() {
			_, err := b.Mutex("x").Lock(context.Background())
			got <- err
		}()
		time.Sleep(100 * time.Millisecond) // it looks again after subscribing
		b.faultOn("acquire", nodetest.Fault{Delay: 5 * time.Millisecond}, 0, 1, 2, 3, 4)
		for _, m := range c.masters[:2] {
			wantErr(t, m.Do(func(db *nodetest.DB) {
				db.Del("x")
				db.Publish(protocol.Wake(id), "x")
			}), nil)
		}
		time.Sleep(time.Millisecond)
		wantErr(t, b.Close(), nil)
		wantErr(t, <-got, redlock.ErrClosed)
		c.wantVotes("x", "", 2)
		for _, m := range c.masters {
			if keys := m.Keys(); slices.Contains(keys, "redlock:queue:{x}") {
				t.Errorf("left on %s: %v", m.Name(), keys)
			}
		}
	})
}

// Lock with a maximum wait returns in time whatever the masters do. The votes that its last round may have left are
// released afterwards.
func TestSim_tryLockFor_keepsItsBoundAndGivesBack(t *testing.T) {
	for _, silent := range []int{1, 3, 5} {
		for _, wait := range []time.Duration{3 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprint(silent, " silent for ", wait), func(t *testing.T) {
				simulate(t, func(t *testing.T, c *cluster) {
					a, b := c.client(), c.client()
					if silent == 1 { // else the lock is free
						mustLock(t, b.Mutex("x"))
					}
					for _, m := range c.masters[:silent] {
						m.Pause()
					}
					start := time.Now()
					_, err := a.Mutex("x", redlock.WithMaxWait(wait)).Lock(t.Context())
					if took := time.Since(start); took > wait+5*time.Millisecond {
						t.Errorf("returned after %v", took)
					}
					if silent == 1 {
						wantErr(t, err, redlock.ErrHeld)
					} else {
						wantErr(t, err, redlock.ErrUnreachable)
					}
					for _, m := range c.masters {
						m.Resume()
					}
					time.Sleep(time.Second)
					if silent > 1 {
						c.wantVotes("x", "", 5)
					}
				})
			})
		}
	}
}

func lost(nodetest.Command) nodetest.Fault { return nodetest.Fault{Lose: nodetest.LoseCommand} }

// tokenBefore lets a client take and release the lock x, and closes that client. The masters in unasked
// take no part: they have a counter, but not the token of x. b is a client whose clock is an hour
// behind, and recovers the masters. old is the data of the masters before x was locked.
func (c *cluster) tokenBefore(unasked ...int) (token int64, b *member, old []*nodetest.Data) {
	t := c.t
	t.Helper()
	c.init()
	a, b := c.client(), c.client(redlock.WithClock(wrong{clock.Monotonic(), -time.Hour}))
	wantErr(t, mustLock(t, a.Mutex("y")).Unlock(t.Context()), nil)
	synctest.Wait()
	for _, m := range c.masters {
		old = append(old, m.Snapshot())
	}
	for _, i := range unasked {
		a.Ways[i].SetFault(lost)
	}
	lease := mustLock(t, a.Mutex("x"))
	wantErr(t, lease.Unlock(t.Context()), nil)
	wantErr(t, a.Close(), nil)
	return lease.Token(), b, old
}

// fallBack replaces the data of m by an older copy.
func fallBack(m *nodetest.Master, old *nodetest.Data) {
	m.Crash()
	m.Promote(old)
	m.Restart()
}

// One master lost its data. The two other masters that know the largest token are out of reach. The
// master must not take its counters from a clock, although it would complete a quorum: the clock of
// the client that recovers it is an hour behind.
func TestSim_amnesiaWhileOthersAreAway_waitsForTheirCounters(t *testing.T) {
	for how, forget := range map[string]func(m *nodetest.Master, old *nodetest.Data){
		"emptied":                            func(m *nodetest.Master, _ *nodetest.Data) { m.Flush() },
		"replaced by a copy that was behind": fallBack,
	} {
		t.Run(how, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				token, b, old := c.tokenBefore(1, 2)
				b.Ways[3].SetFault(lost)
				b.Ways[4].SetFault(lost)
				forget(c.masters[0], old[0])
				recoversWhenHealed(t, b, token)
			})
		})
	}
}

// recoversWhenHealed wants b to be refused for three maximum TTLs, and when its faults are gone a lease whose token is above token.
func recoversWhenHealed(t *testing.T, b *member, token int64) {
	t.Helper()
	_, _ = b.Mutex("x").TryLock(t.Context()) // it may have been cut off
	for range 3 {
		_, err := b.Mutex("x").TryLock(t.Context())
		wantErr(t, err, redlock.ErrRecovering)
		time.Sleep(redlock.DefaultMaxTTL)
	}
	b.heal()
	time.Sleep(redlock.DefaultMaxTTL)
	if next := mustLock(t, b.Mutex("x")); next.Token() <= token {
		t.Errorf("token %d after %d", next.Token(), token)
	}
}

// Two masters that are out of reach come back without their data. When both are back, no quorum has
// kept its counters. The master that lost its data then takes its counters from a clock.
func TestSim_amnesiaWhileOthersAreGone_waitsForNewOnes(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a := c.client()
		lease := mustLock(t, a.Mutex("x"))
		wantErr(t, lease.Unlock(t.Context()), nil)
		a.Ways[3].SetFault(lost)
		a.Ways[4].SetFault(lost)
		c.masters[0].Flush()
		for _, back := range []int{3, 4} {
			for range 3 {
				_, err := a.Mutex("x").TryLock(t.Context())
				wantErr(t, err, redlock.ErrRecovering)
				time.Sleep(redlock.DefaultMaxTTL)
			}
			c.masters[back].Flush()
			a.Ways[back].SetFault(nil)
		}
		time.Sleep(2 * redlock.DefaultMaxTTL)
		next := mustLock(t, a.Mutex("x"))
		if next.Token() <= lease.Token() {
			t.Errorf("token %d after %d", next.Token(), lease.Token())
		}
		c.wantVotes("x", next.Holder(), 5)
	})
}

// Masters 0, 1 and 4 know the token. Masters 0 and 1 are emptied, and a third master restarts. The
// counters that the restarted master still has are read during its wait too, and a master that is out
// of reach may have counters. The clock of the client that recovers them is an hour behind.
func TestSim_amnesiaAndRestart_whatIsLeftIsRead(t *testing.T) {
	for _, tc := range []struct {
		name           string
		restarted      int
		away, restless bool // master 4
	}{
		{"on one whose clock keeps it waiting", 4, false, true},
		{"on one that is away", 2, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				token, b, _ := c.tokenBefore(2, 3)
				c.masters[tc.restarted].Crash()
				c.masters[tc.restarted].Restart()
				c.masters[0].Flush()
				c.masters[1].Flush()
				if tc.away {
					b.Ways[4].SetFault(lost)
				}
				var next *redlock.Lease
				start := time.Now()
				for err := error(redlock.ErrRecovering); err != nil; {
					switch {
					case time.Since(start) > 4*redlock.DefaultMaxTTL:
						t.Fatalf("not granted: %v", err)
					case time.Since(start) > 2*redlock.DefaultMaxTTL:
						b.heal()
					}
					if tc.restless {
						c.masters[4].StepClock(20 * time.Second)
					}
					time.Sleep(time.Second)
					next, err = b.Mutex("x").TryLock(t.Context())
				}
				if next.Token() <= token {
					t.Errorf("token %d after %d", next.Token(), token)
				}
			})
		})
	}
}

// Two masters fell back to older data, the clock of a third one jumped, and the masters that know the
// token are out of reach. A master whose clock jumped lost nothing. So only two masters lost counters,
// a quorum may have kept them, and no clock may take their place.
func TestSim_amnesiaAndAJump_theJumpIsNoLoss(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		token, b, old := c.tokenBefore(2, 3)
		b.Ways[1].SetFault(lost)
		b.Ways[2].SetFault(lost)
		fallBack(c.masters[0], old[0])
		fallBack(c.masters[4], old[4])
		c.masters[3].StepClock(20 * time.Second)
		recoversWhenHealed(t, b, token)
	})
}

// Two masters whose clocks jump all the time do not vote, but the client knows whether they kept their
// counters. A third master that lost its counters reads theirs, or does not wait for them. The clock
// of the client that recovers it is an hour behind.
func TestSim_amnesiaWhileClocksNeverBehave_votesAgain(t *testing.T) {
	for _, tc := range []struct {
		name             string
		unasked, flushed []int
	}{
		{"they alone know the token", []int{1, 2}, []int{0}},
		{"they lost theirs too", nil, []int{0, 3, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				token, b, _ := c.tokenBefore(tc.unasked...)
				for _, i := range tc.flushed {
					c.masters[i].Flush()
				}
				start := time.Now()
				var next *redlock.Lease
				for err := error(redlock.ErrRecovering); err != nil; {
					if time.Since(start) > 2*redlock.DefaultMaxTTL {
						t.Fatalf("not granted: %v", err)
					}
					for _, m := range c.masters[3:] {
						m.StepClock(20 * time.Second)
					}
					time.Sleep(time.Second)
					next, err = b.Mutex("x").TryLock(t.Context())
				}
				if took := time.Since(start); took < redlock.DefaultMaxTTL {
					t.Errorf("granted after %v", took)
				}
				if next.Token() <= token {
					t.Errorf("token %d after %d", next.Token(), token)
				}
			})
		})
	}
}

// In a rolling restart without persistence, top-ups put the votes back in time.
func TestSim_renewal_outlivesARollingFlush(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		lease := mustLock(t, a.Mutex("x"))
		for _, m := range c.masters {
			m.Crash()
			m.Flush()
			time.Sleep(5 * time.Second)
			m.Restart()
			time.Sleep(5 * time.Second)
			c.wantVotes("x", lease.Holder(), 5)
		}
		if err := lease.Err(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSim_lostQuorum_isReportedByTheNextRenewal(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		lease := mustLock(t, a.Mutex("x"))
		for _, m := range c.masters[:3] {
			m.Flush()
		}
		if after := lostAfter(t, lease); after > redlock.DefaultTTL/3+10*time.Millisecond {
			t.Fatalf("reported only after %v", after)
		}
		c.wantVotes("x", "", 3)
	})
}

// Masters that do not answer may still have their votes. The lease is held until its validity ends, and
// goes on if the masters come back before.
func TestSim_silentQuorum(t *testing.T) {
	for _, tc := range []struct {
		name string
		out  time.Duration
		want error
	}{
		{"back in time", 6 * time.Second, nil},
		{"too long", 11 * time.Second, redlock.ErrLost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				a := c.client()
				lease := mustLock(t, a.Mutex("x"))
				for _, m := range c.masters[:3] {
					m.Pause()
				}
				time.Sleep(tc.out)
				for _, m := range c.masters[:3] {
					m.Resume()
				}
				time.Sleep(5 * time.Second)
				if err := lease.Err(); !errors.Is(err, tc.want) {
					t.Fatalf("%v, want %v", err, tc.want)
				}
			})
		})
	}
}

// docs/safety.md A13: an acquire is delayed in the network and arrives after its release. A node makes
// the master kill the old connection before it sends the release again. A master that refuses this
// keeps a vote that belongs to no lease, for one TTL.
func TestSim_zombieAcquire(t *testing.T) {
	for _, tc := range []struct {
		name    string
		kill    error
		zombies int
	}{
		{"killed", nil, 0},
		{"kill forbidden", errNoKill, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				a := c.client()
				for _, n := range a.Ways[:3] {
					n.SetFault(func(cmd nodetest.Command) nodetest.Fault {
						switch cmd.Name {
						case "acquire":
							return nodetest.Fault{Delay: 3 * time.Second, Cut: true}
						case "client kill":
							return nodetest.Fault{Refuse: tc.kill}
						}
						return nodetest.Fault{}
					})
				}
				_, err := a.Mutex("x").TryLock(t.Context())
				wantErr(t, err, redlock.ErrUnreachable)
				c.wantVotes("x", "", 5)
				time.Sleep(4 * time.Second)
				a.heal()
				c.wantVotes("x", "", 5-tc.zombies)
				lease, err := a.Mutex("x").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				c.wantVotes("x", lease.Holder(), 5)
			})
		})
	}
}

// docs/safety.md A17: an acquire is executed and its reply is lost. The client counts no vote, and
// releases it.
func TestSim_lostReplies(t *testing.T) {
	for lost, want := range map[int]error{2: nil, 3: redlock.ErrUnreachable} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				a := c.client()
				for _, n := range a.Ways[:lost] {
					n.SetFault(func(cmd nodetest.Command) nodetest.Fault {
						if cmd.Name == "acquire" {
							return nodetest.Fault{Lose: nodetest.LoseReply, Cut: true}
						}
						return nodetest.Fault{}
					})
				}
				lease, err := a.Mutex("x").TryLock(t.Context())
				wantErr(t, err, want)
				if err == nil {
					c.wantVotes("x", lease.Holder(), 5)
					err = lease.Unlock(t.Context())
					wantErr(t, err, nil)
				}
				time.Sleep(time.Second) // the debts
				c.wantVotes("x", "", 5)
			})
		})
	}
}

// A cancel before the quorum's last reply ends the attempt. A cancel after it comes too late. In both
// cases the votes on the masters agree with what TryLock returned.
func TestSim_cancelRacesWin(t *testing.T) {
	const ms = time.Millisecond
	for cancelAt, want := range map[time.Duration]error{
		29 * ms: context.Canceled,
		31 * ms: nil,
	} {
		t.Run(cancelAt.String(), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) { cancelRace(t, c, cancelAt, want) })
		})
	}
	for i := range 20 { // either may win
		t.Run(fmt.Sprint("same instant ", i), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) { cancelRace(t, c, 30*ms, nil, context.Canceled) })
		})
	}
}

func cancelRace(t *testing.T, c *cluster, cancelAt time.Duration, want ...error) {
	a := c.client()
	for i := range a.Ways { // replies after 10, 20... 50 ms; the third decides
		a.faultOn("acquire", nodetest.Fault{ReplyDelay: time.Duration(i+1) * 10 * time.Millisecond}, i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(cancelAt, cancel).Stop()
	lease, err := a.Mutex("x").TryLock(ctx)
	ok := false
	for _, w := range want {
		ok = ok || errors.Is(err, w)
	}
	if !ok {
		t.Fatalf("error %v, want one of %v", err, want)
	}
	time.Sleep(time.Second)
	if err != nil {
		c.wantVotes("x", "", 5)
		return
	}
	c.wantVotes("x", lease.Holder(), 5)
	if err := lease.Context().Err(); err != nil {
		t.Fatal("the cancel of the waiting ended the lease:", err)
	}
}

// docs/safety.md A2: the client stops between the replies and the check.
func TestSim_pauseBeforeTheCheck_refusesTheLease(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		a.faultOn("acquire", nodetest.Fault{ReplyDelay: 10 * time.Millisecond}, 0, 1, 2, 3, 4)
		time.AfterFunc(9*time.Millisecond, func() { a.Clock.PauseNext(redlock.DefaultTTL) })
		_, err := a.Mutex("x").TryLock(t.Context())
		wantErr(t, err, redlock.ErrUnreachable)
		var round *redlock.RoundError
		if !errors.As(err, &round) || round.Granted < 3 || round.Elapsed < redlock.DefaultTTL {
			t.Fatalf("%+v", round)
		}
		c.wantVotes("x", "", 5)
	})
}

// If the client stops for a TTL after the grant, the next call of Err finds that the lease has ended,
// although no timer has fired.
func TestSim_pauseOfTheHolder_isSeenAtTheNextLook(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		lease := mustLock(t, a.Mutex("x"))
		a.Clock.Stop(redlock.DefaultTTL)
		if lease.Context().Err() == nil {
			t.Fatal("still held after a pause as long as the TTL")
		}
		wantErr(t, lease.Err(), redlock.ErrLost)
		wantErr(t, lease.Extend(t.Context()), redlock.ErrLost)
	})
}

// docs/safety.md A3, A4: a master's clock jumps, so its votes would end early or late. The client does
// not count its vote, and the master recovers. If the clocks of three of five masters jump, no lock
// is granted.
func TestSim_mastersClockJumps_voteDroppedAndItRecovers(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, -time.Minute, 200 * time.Millisecond} {
		t.Run(step.String(), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				a := c.client()
				time.Sleep(time.Second) // nothing was locked yet
				c.masters[0].StepClock(step)
				lease := mustLock(t, a.Mutex("x"))
				if n := redlock.CountedVotes(lease); n != 4 {
					t.Fatalf("%d votes counted, want 4", n)
				}
				if n := a.Stats().Recovering; n != 1 {
					t.Fatalf("%d masters recover, want 1", n)
				}
				time.Sleep(redlock.DefaultMaxTTL)
				wantErr(t, lease.Unlock(t.Context()), nil)
				synctest.Wait()
				lease = mustLock(t, a.Mutex("x"))
				c.wantVotes("x", lease.Holder(), 4) // it has waited for the maximum TTL, but not for the drift
				wantErr(t, lease.Unlock(t.Context()), nil)
				time.Sleep(5 * time.Second)
				lease = mustLock(t, a.Mutex("x"))
				c.wantVotes("x", lease.Holder(), 5)
				wantErr(t, lease.Unlock(t.Context()), nil)

				time.Sleep(10 * time.Millisecond)
				for _, m := range c.masters[:3] {
					m.StepClock(step)
				}
				_, err := a.Mutex("x").TryLock(t.Context())
				wantErr(t, err, redlock.ErrRecovering)
			})
		})
	}
}

// A client whose own clock jumped sees all masters jump the other way. It must not put those masters
// into quarantine. Only its own leases end.
func TestSim_clientsClockJumps_itAloneSuffers(t *testing.T) {
	for name, jump := range map[string]func(*simtest.Clock){
		"ahead":       func(c *simtest.Clock) { c.Stop(5 * time.Second) },
		"stood still": func(c *simtest.Clock) { c.StandStill(2 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				a := c.client()
				b := c.client()
				wantErr(t, mustLock(t, a.Mutex("x")).Unlock(t.Context()), nil)
				lease := mustLock(t, b.Mutex("y", redlock.WithoutRenewal()))
				time.Sleep(time.Second)
				jump(b.Clock)
				if l, err := b.Mutex("x").TryLock(t.Context()); err == nil {
					t.Errorf("granted, valid for %v", time.Until(l.ValidUntil()))
				}
				time.Sleep(10 * time.Millisecond)
				wantErr(t, lease.Err(), redlock.ErrLost)
				wantErr(t, mustLock(t, a.Mutex("x")).Unlock(t.Context()), nil)
				synctest.Wait()
				start := time.Now()
				next, err := b.Mutex("x").Lock(t.Context())
				wantErr(t, err, nil)
				if d := time.Since(start); d > time.Second {
					t.Errorf("it had the lock again after %v", d)
				}
				c.wantVotes("x", next.Holder(), 5)
			})
		})
	}
}

// fastClock runs at a rate of its own, as one does that is slewed.
type fastClock struct {
	clock.Clock
	rate float64
}

func (c fastClock) Elapsed() time.Duration { return time.Duration(float64(c.Clock.Elapsed()) * c.rate) }

// fast is a client whose clock runs at such a rate, at the end of a network with jitter.
func (c *cluster) fast(rate float64, seed uint64) *redlock.Client {
	c.t.Helper()
	rng := replay.RNG(seed)
	slewed := fastClock{clock.Monotonic(), rate}
	var nodes []node.Node
	for _, m := range c.masters {
		n := m.Node(node.Config{Clock: slewed})
		var mu sync.Mutex // a lane has two connections
		own := replay.RNG(rng.Uint64())
		jitter := func() time.Duration { return time.Duration(own.Int64N(int64(time.Millisecond))) }
		n.SetFault(func(nodetest.Command) nodetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			return nodetest.Fault{Delay: jitter(), ReplyDelay: jitter()}
		})
		nodes = append(nodes, n)
	}
	b, err := redlock.New(c.t.Context(), nodes, redlock.WithClock(slewed))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = b.Close() })
	return b
}

// The same for a client whose clock runs too fast or too slow. The client does not see this at all
// masters at the same moment.
func TestSim_clientsClockRunsWrong_itAloneSuffers(t *testing.T) {
	needs.NoRace(t, "a large simulation")
	replay.Each(t, clockRunsWrong)
}

func clockRunsWrong(t *testing.T, seed uint64) {
	for _, rate := range []float64{1.02, 1.083, 0.95} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				a := c.client()
				b := c.fast(rate, seed)
				refused := 0
				for start := time.Now(); time.Since(start) < 2*time.Second; {
					if l, err := b.Mutex("y").TryLock(t.Context()); err == nil {
						_ = l.Unlock(t.Context())
					} else {
						refused++
					}
					l, err := a.Mutex("x").TryLock(t.Context())
					wantErr(t, err, nil)
					wantErr(t, l.Unlock(t.Context()), nil)
					time.Sleep(7 * time.Millisecond)
				}
				if refused == 0 {
					t.Error("it was not seen")
				}
			})
		})
	}
}

func TestSim_maxHold_endsRenewal(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		lease := mustLock(t, a.Mutex("x", redlock.WithMaxHold(time.Minute)))
		if held := lostAfter(t, lease); held < time.Minute || held > time.Minute+redlock.DefaultTTL {
			t.Fatalf("held for %v", held)
		}
	})
}

// With the largest Duration as its maximum, a hold has no limit: no sum overflows.
func TestSim_maxHold_forEver(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		time.Sleep(time.Second)
		lease := mustLock(t, c.client().Mutex("x", redlock.WithMaxHold(math.MaxInt64)))
		time.Sleep(time.Hour)
		wantErr(t, lease.Err(), nil)
	})
}

func TestSim_minValidity_refusesASlowWin(t *testing.T) {
	for reply, want := range map[time.Duration]error{
		50 * time.Millisecond:  nil, // 1 s - 50 ms - 12 ms of drift
		120 * time.Millisecond: redlock.ErrUnreachable,
	} {
		t.Run(reply.String(), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				a := c.client()
				a.faultOn("acquire", nodetest.Fault{ReplyDelay: reply}, 0, 1, 2, 3, 4)
				_, err := a.Mutex("x", redlock.WithTTL(time.Second), redlock.WithMinValidity(900*time.Millisecond)).TryLock(t.Context())
				wantErr(t, err, want)
				if err != nil {
					c.wantVotes("x", "", 5)
					var round *redlock.RoundError
					if !errors.As(err, &round) || round.Elapsed < reply || round.Granted < 3 || !strings.Contains(err.Error(), "too late") {
						t.Errorf("%+v: %v", round, err)
					}
				}
			})
		})
	}
}
