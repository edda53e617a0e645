// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// list is some of the masters as a list for an operator's function.
func (c *cluster) list(masters ...int) (l admin.List, done func()) {
	return c.listBy(clock.Monotonic(), masters...)
}

// listBy is a list for a function that has this clock.
func (c *cluster) listBy(clk clock.Clock, masters ...int) (l admin.List, done func()) {
	for _, i := range masters {
		l.Nodes = append(l.Nodes, c.masters[i].Node(node.Config{Clock: clk}))
	}
	l.Options = []redlock.Option{redlock.WithClock(clk)}
	if len(masters) == 1 {
		l.Options = append(l.Options, redlock.WithNodeCount(1))
	}
	return l, func() {
		for _, n := range l.Nodes {
			_ = n.Close()
		}
	}
}

// reconfigure changes the masters.
func (c *cluster) reconfigure(from, to []int) {
	c.t.Helper()
	old, doneOld := c.list(from...)
	defer doneOld()
	next, doneNext := c.list(to...)
	defer doneNext()
	noErr(c.t, admin.Reconfigure(c.t.Context(), old, next, nil))
}

// on is a client of some of the masters.
func (c *cluster) on(masters ...int) *redlock.Client {
	c.t.Helper()
	l, _ := c.list(masters...)
	client, err := redlock.New(c.t.Context(), l.Nodes, l.Options...)
	noErr(c.t, err)
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// A change of masters ends minimum holds, and tickets with them, also when a second change leads back.
func TestMinHold_changesOfMasters_endItAndItsTickets(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		first, second := []int{0, 1, 2}, []int{2, 3, 4}
		c.recovery = true
		l, done := c.list(first...)
		noErr(t, admin.Init(t.Context(), l, nil, admin.NothingWasEverLocked))
		done()
		giver := c.on(first...)
		ticket := handedOff(t, locked(t, giver.Mutex("x", redlock.WithMinHold(time.Hour))))
		noErr(t, locked(t, giver.Mutex("y", redlock.WithMinHold(time.Hour))).Unlock(t.Context()))

		c.reconfigure(first, second)
		between := c.on(second...)
		took := mustLock(t, between.Mutex("x"))
		if n := c.votes("y", ""); n != 5 {
			t.Errorf("%d masters have no vote for y", n)
		}
		y := mustLock(t, between.Mutex("y"))
		for i := 2; i <= 4; i++ { // the kept master votes too: an old rest costs the new list nothing
			if c.masters[i].Holder("y") != y.Holder() {
				t.Errorf("master %d has %q", i, c.masters[i].Holder("y"))
			}
		}
		noErr(t, took.Unlock(t.Context()))
		noErr(t, y.Unlock(t.Context()))

		c.reconfigure(second, first)
		back := c.on(first...)
		if l, err := back.Adopt(t.Context(), ticket); err == nil {
			t.Errorf("adopted with token %d after %d", l.Token(), took.Token())
		}
		noErr(t, mustLock(t, back.Mutex("x")).Unlock(t.Context()))
	})
}

// The masters do what the run's last request before fn says, and its host hears nothing and is cut off for a while. fn did not run,
// so the period must be free once the host is back.
func TestEvery_repliesLostThenCutOff_periodIsFreeAgain(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		one, other := c.client(), c.client()
		// Each way is cut behind its own first extend or confirm.
		for _, way := range one.Ways {
			var gone atomic.Bool
			way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
				switch {
				case gone.Load():
					return nodetest.Fault{Lose: nodetest.LoseCommand}
				case cmd.Name == "extend" || cmd.Name == "confirm":
					gone.Store(true)
					return nodetest.Fault{Lose: nodetest.LoseReply}
				}
				return nodetest.Fault{}
			})
		}
		_, err := one.Every("job", 12*time.Hour).Do(t.Context(), func(context.Context, *redlock.Lease) error { t.Error("runs"); return nil })
		wantIs(t, err, redlock.ErrUnreachable)
		time.Sleep(30 * time.Second)
		one.heal()
		time.Sleep(10 * time.Second)
		if ran, err := other.Every("job", 12*time.Hour).Do(t.Context(), func(context.Context, *redlock.Lease) error { return nil }); err != nil || !ran {
			t.Errorf("nobody runs the job: %v", err)
		}
	})
}

// The host dies in the middle of a run, or right before. Nothing may depend on what it would have sent.
func TestEvery_killedInTheRun_periodHolds(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		one, other := c.client(), c.client()
		begun := time.Now()
		_, _ = one.Every("job", 10*time.Minute).Do(t.Context(), func(context.Context, *redlock.Lease) error {
			for _, way := range one.Ways {
				way.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Lose: nodetest.LoseCommand} })
			}
			_ = one.Close()
			return nil
		})
		for {
			if ran, _ := other.Every("job", 10*time.Minute).Do(t.Context(), func(context.Context, *redlock.Lease) error { return nil }); ran {
				break
			}
			time.Sleep(time.Second)
		}
		if gap := time.Since(begun); gap < 10*time.Minute || gap > 10*time.Minute+2*time.Second {
			t.Errorf("the next run is after %v", gap)
		}
	})
}

// Unlock's messages to two of three masters are lost with their connections. The lock is free when the minimum hold is over, and not
// when a TTL is.
func TestMinHold_connectionsBreakAtUnlock_freeInTime(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		one, other := c.client(), c.client()
		l := locked(t, one.Mutex("x", redlock.WithMinHold(time.Second), redlock.WithTTL(30*time.Second)))
		synctest.Wait()
		begun := time.Now()
		for i := range 2 {
			one.Ways[i].SetFault(func(cmd nodetest.Command) nodetest.Fault {
				return nodetest.Fault{Lose: nodetest.LoseCommand, Cut: cmd.Name != "dial"}
			})
		}
		_ = l.Unlock(t.Context())
		time.Sleep(time.Second / 2)
		one.heal()
		noErr(t, locked(t, other.Mutex("x")).Unlock(t.Context()))
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("free after %v", took)
		}
	})
}

// Leases with a minimum hold are renewed together, as others are.
func TestMinHold_manyLeases_renewedInBatches(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		extends := func(name string, opts ...redlock.LockOption) int64 {
			one := c.client()
			for i := range 30 {
				locked(t, one.Mutex(fmt.Sprint(name, i), opts...))
				time.Sleep(37 * time.Millisecond)
			}
			time.Sleep(10 * time.Second)
			var extends atomic.Int64
			one.Ways[0].SetFault(func(cmd nodetest.Command) nodetest.Fault {
				if cmd.Name == "extend" {
					extends.Add(1)
				}
				return nodetest.Fault{}
			})
			time.Sleep(time.Minute)
			return extends.Load()
		}
		plain, with := extends("plain"), extends("with", redlock.WithMinHold(time.Hour))
		if with != plain {
			t.Errorf("%d extends in a minute, and %d without a minimum hold", with, plain)
		}
	})
}

// Waiters know when the minimum hold is over, although Unlock came long before.
func TestMinHold_waiter_hasItAtTheEnd(t *testing.T) {
	for _, hold := range []time.Duration{time.Second, 3500 * time.Millisecond, 7 * time.Second} {
		simulateWith(t, 3, func(t *testing.T, c *cluster) {
			c.init()
			begun := time.Now()
			l := locked(t, c.client().Mutex("x", redlock.WithMinHold(hold)))
			time.AfterFunc(100*time.Millisecond, func() { _ = l.Unlock(context.Background()) })
			noErr(t, locked(t, c.client().Mutex("x")).Unlock(t.Context()))
			if took := time.Since(begun); took < hold || took > hold+5*time.Millisecond {
				t.Errorf("a hold of %v is over for a waiter after %v", hold, took)
			}
		})
	}
}

// No vote lasts longer than the TTL, whatever the lock's minimum hold is.
func TestMinHold_votes_neverOutliveTheTTL(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		l := locked(t, c.client().Mutex("x", redlock.WithMinHold(time.Hour)))
		for range 5 {
			noErr(t, l.Extend(t.Context()))
			synctest.Wait()
			for i, m := range c.masters {
				if left := m.PTTL("x"); left > redlock.DefaultTTL {
					t.Fatalf("master %d keeps the vote for %v", i, left)
				}
			}
			time.Sleep(5 * time.Second)
		}
		noErr(t, l.Unlock(t.Context()))
		c.wantVotes("x", "", 3)
		_, err := c.client().Mutex("x").TryLock(t.Context())
		wantIs(t, err, redlock.ErrHeld)
	})
}

// A client whose every lock would have a minimum hold could have no RWMutex: it is not opened.
func TestWithMinHold_defaultOfAClient_refused(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		_, err := c.masters.Open(t.Context(), nil, redlock.WithMinHold(time.Second))
		wantIs(t, err, redlock.ErrConfig)
		wantText(t, err, "minimum hold", "Client.Mutex")
		noErr(t, c.client(redlock.WithMinHold(0)).Close())
	})
}

// A release does not hand a lock that rests, and those who wait are in their order when the rest is over.
func TestMinHold_waitersOfManyProcesses_inTheirOrder(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		l := locked(t, c.client().Mutex("x", redlock.WithMinHold(4*time.Second)))
		begun := time.Now()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			client := c.client()
			wg.Go(func() {
				time.Sleep(time.Duration(i+1) * 50 * time.Millisecond)
				next, err := client.Mutex("x").Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				if took := time.Since(begun); took < 4*time.Second || took > 5*time.Second {
					t.Errorf("waiter %d has it after %v", i, took)
				}
				_ = next.Unlock(t.Context())
			})
		}
		time.Sleep(time.Second)
		noErr(t, l.Unlock(t.Context()))
		wg.Wait()
		if !slices.IsSorted(order) {
			t.Errorf("served in the order %v", order)
		}
	})
}

// A master that was out of reach at the grant, or lost its data since, does not know the rest. Two others do.
func TestMinHold_oneMasterForgets_restHolds(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		one, other := c.client(), c.client()
		noErr(t, locked(t, one.Mutex("x", redlock.WithMinHold(10*time.Minute))).Unlock(t.Context()))
		synctest.Wait()
		c.masters[1].Flush()
		begun := time.Now()
		for {
			if l, err := other.Mutex("x").TryLock(t.Context()); err == nil {
				noErr(t, l.Unlock(t.Context()))
				break
			} else if !errors.Is(err, redlock.ErrHeld) && !errors.Is(err, redlock.ErrRecovering) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(begun); took < 9*time.Minute {
			t.Errorf("taken after %v", took)
		}
	})
}

// On real masters: the rest is a key of its own, with its own TTL, and the votes go with Unlock.
func TestMinHold_realMasters_restIsAKeyOfItsOwn(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	defer c.Close()
	runs := 0
	run := func(context.Context, *redlock.Lease) error { runs++; return nil }
	seldom := c.Every("seldom", time.Hour)
	noErr(t, done(seldom.Do(t.Context(), run)))
	if ran, err := seldom.Do(t.Context(), run); ran || err != nil || runs != 1 {
		t.Errorf("in the period it ran: %v, %v, %d runs", ran, err, runs)
	}
	// Do returned at the quorum: the third master may hear of the rest later.
	soon(t, "it rests everywhere", func() bool { return len(ms.keys("redlock:rest:{seldom}")) == 3 })
	ms.each(ms.all(), drop("redlock:rest:{seldom}"))
	runs = 0
	began := time.Now()
	e := c.Every("job", 400*time.Millisecond)
	noErr(t, done(e.Do(t.Context(), run)))
	soon(t, "the votes are gone", func() bool { return len(ms.keys("job")) == 0 })
	soon(t, "the period is over", func() bool { return done(e.Do(t.Context(), run)) == nil })
	if runs != 2 || time.Since(began) < 400*time.Millisecond {
		t.Errorf("%d runs in %v", runs, time.Since(began))
	}
	soon(t, "the rests are over", func() bool { return len(ms.keys("redlock:rest*")) == 0 })
}
