// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// The ticket of a lock with a minimum hold is used, an operator ends the heir's lease, another has the lock, and a master that
// gave the heir its vote restarts with older data. The giver's votes must not last that long.
func TestAdopt_minimumHoldAndOlderData_refused(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		giver, heir, other := c.client(), c.client(), c.client()
		l := locked(t, giver.Mutex("x", redlock.WithMinHold(5*time.Minute)))
		synctest.Wait() // it knows all its votes, and so does the ticket: one of those masters will not hear the heir
		ticket := handedOff(t, l)
		before := c.masters[0].Snapshot()
		heir.faultOn("adopt", nodetest.Fault{Lose: nodetest.LoseCommand}, 2)
		adopted, err := heir.Adopt(t.Context(), ticket)
		noErr(t, err)
		noErr(t, other.ForceUnlock(t.Context(), "x", adopted.Holder()))
		noErr(t, heir.Close())
		next, err := other.Mutex("x", redlock.WithMaxWait(time.Minute)).Lock(t.Context())
		noErr(t, err)
		c.masters[0].Promote(before)
		c.masters[0].Restart()
		time.Sleep(40 * time.Second) // it votes again
		if l, err := c.client().Adopt(t.Context(), ticket); err == nil {
			t.Fatalf("adopted with token %d, after %d was granted", l.Token(), next.Token())
		}
	})
}

// All masters lose their last second: the votes of a ticket that was used are back.
func TestAdopt_minimumHoldAllLoseTheLastSecond_refused(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		giver, heir := c.client(), c.client()
		ticket := handedOff(t, locked(t, giver.Mutex("x", redlock.WithMinHold(5*time.Minute))))
		var before []*nodetest.Data
		for _, m := range c.masters {
			before = append(before, m.Snapshot())
		}
		adopted, err := heir.Adopt(t.Context(), ticket)
		noErr(t, err)
		noErr(t, adopted.Unlock(t.Context())) // the job is done
		for i, m := range c.masters {
			m.Promote(before[i])
			m.Restart()
		}
		for range 100 {
			time.Sleep(time.Second)
			if _, err := heir.Adopt(t.Context(), ticket); err == nil {
				t.Fatal("the job is done again")
			}
		}
		_, err = heir.Mutex("x").TryLock(t.Context()) // and it rests on, because the masters have their data
		wantIs(t, err, redlock.ErrHeld)
	})
}

// The minimum hold is not longer because its lease was under way as a ticket.
func TestHandoff_minimumHold_runsOnWhileTheTicketTravels(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		begun := time.Now()
		l := locked(t, c.client().Mutex("x", redlock.WithMinHold(30*time.Second), redlock.WithTTL(30*time.Second)))
		ticket := handedOff(t, l)
		time.Sleep(25 * time.Second)
		adopted, err := c.client().Adopt(t.Context(), ticket)
		noErr(t, err)
		noErr(t, adopted.Unlock(t.Context()))
		noErr(t, locked(t, c.client().Mutex("x")).Unlock(t.Context()))
		if took := time.Since(begun); took < 30*time.Second || took > 33*time.Second {
			t.Errorf("free after %v", took)
		}
	})
}

// G has handed its lease off, and a write of G is on its way. Once the adopter has shown its token the resource refuses that write.
func TestAdopt_giversLateWrite_isFenced(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		giver, heir, third := c.client(), c.client(), c.client()
		largest := int64(0) // what the resource has been shown
		present := func(token int64) bool {
			if token < largest {
				return false
			}
			largest = token
			return true
		}
		g := locked(t, giver.Mutex("x"))
		present(g.Token())
		a, err := heir.Adopt(t.Context(), handedOff(t, g))
		noErr(t, err)
		if !present(a.Token()) {
			t.Errorf("the adopter is refused with %d after %d", a.Token(), g.Token())
		}
		if present(g.Token()) {
			t.Errorf("the giver's late write with %d is accepted after %d", g.Token(), a.Token())
		}
		b, err := third.Adopt(t.Context(), handedOff(t, a))
		noErr(t, err)
		if b.Token() <= a.Token() {
			t.Errorf("token %d after %d", b.Token(), a.Token())
		}
		noErr(t, b.Unlock(t.Context()))
		next := locked(t, giver.Mutex("x"))
		if next.Token() <= b.Token() {
			t.Errorf("token %d after %d", next.Token(), b.Token())
		}
		noErr(t, next.Unlock(t.Context()))
	})
}

// Masters whose counters differ give the adopter different numbers: it has the largest confirmed, as any attempt does.
func TestAdopt_countersDiffer_tokenIsConfirmed(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		giver, heir, third := c.client(), c.client(), c.client()
		g := locked(t, giver.Mutex("x"))
		far := time.Now().Add(30 * time.Second).UnixMicro()
		synctest.Wait()
		noErr(t, c.masters[1].Do(func(db *nodetest.DB) {
			for field := range db.HGetAll("redlock:node") {
				if len(field) > 1 && field[0] == 'c' && field[1] >= '0' && field[1] <= '9' {
					db.HSet("redlock:node", field, fmt.Sprint(far))
				}
			}
		}))
		a, err := heir.Adopt(t.Context(), handedOff(t, g))
		noErr(t, err)
		heir.faultOn("release", nodetest.Fault{Lose: nodetest.LoseCommand}, 1)
		_ = a.Unlock(t.Context())
		// The next holder does not reach the master with the far counter.
		third.Ways[1].SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Lose: nodetest.LoseCommand} })
		next, err := third.Mutex("x", redlock.WithMaxWait(time.Minute)).Lock(t.Context())
		noErr(t, err)
		if next.Token() <= a.Token() || a.Token() <= g.Token() {
			t.Errorf("tokens %d, %d, %d", g.Token(), a.Token(), next.Token())
		}
	})
}

// A counter that cannot be raised gives no token, and the vote is left where it is.
func TestAdopt_counterBeyondLimit_refusedAndNothingTaken(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		giver, heir := c.client(), c.client()
		l := locked(t, giver.Mutex("x"))
		synctest.Wait()
		ticket := handedOff(t, l)
		counter := protocol.NewLock("x", protocol.Plain).Counter
		for _, m := range c.masters {
			noErr(t, m.Do(func(db *nodetest.DB) { db.HSet("redlock:node", counter, "9007199254740990") }))
		}
		_, err := heir.Adopt(t.Context(), ticket)
		wantIs(t, err, redlock.ErrRefused)
		wantText(t, err, "9007199254740990")
		c.wantVotes("x", l.Holder(), 3)
	})
}

// An operator lifts the rest that a lease has left, by the id that Inspect shows, and waiters are told.
func TestForceUnlock_resting_isFreeAtOnce(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		one, other := c.client(redlock.WithClientName("billing")), c.client()
		l := locked(t, one.Mutex("x", redlock.WithMinHold(time.Hour)))
		begun := time.Now()
		noErr(t, l.Unlock(t.Context()))
		got := make(chan error, 1)
		go func() {
			next, err := other.Mutex("x").Lock(t.Context())
			if err == nil {
				err = next.Unlock(t.Context())
			}
			got <- err
		}()
		time.Sleep(20 * time.Second)
		in, err := other.Inspect(t.Context(), "x")
		noErr(t, err)
		if in.Free || len(in.Holders) != 1 || in.Holders[0].ID != l.Holder() || in.Holders[0].Left < 50*time.Minute || in.Holders[0].Owner != "billing" {
			t.Fatalf("%+v", in)
		}
		var names []string
		for in, err := range other.Locks(t.Context(), "") {
			noErr(t, err)
			names = append(names, in.Name)
		}
		if !slices.Equal(names, []string{"x"}) {
			t.Errorf("listed: %q", names)
		}
		wantIs(t, other.ForceUnlock(t.Context(), "x", "nobody:1"), redlock.ErrNotHolder)
		noErr(t, other.ForceUnlock(t.Context(), "x", l.Holder()))
		noErr(t, <-got)
		if took := time.Since(begun); took > 25*time.Second {
			t.Errorf("free after %v", took)
		}
	})
}

// The waiter has the lock before ForceUnlock looks again. That is what ForceUnlock is for, and no hand-off of the lease that rested.
func TestForceUnlock_resting_waiterHasItAtOnce(t *testing.T) {
	for range 20 { // who is first is the scheduler's choice
		simulateWith(t, 3, func(t *testing.T, c *cluster) {
			c.init()
			one, other := c.client(), c.client()
			l := locked(t, one.Mutex("x", redlock.WithMinHold(time.Hour)))
			noErr(t, l.Unlock(t.Context()))
			got := make(chan *redlock.Lease, 1)
			go func() {
				next, err := other.Mutex("x").Lock(t.Context())
				noErr(t, err)
				got <- next
			}()
			time.Sleep(20 * time.Second)
			noErr(t, one.ForceUnlock(t.Context(), "x", l.Holder()))
			noErr(t, (<-got).Unlock(t.Context()))
		})
	}
}

// adoptedWithRest is a lease of a lock with a minimum hold, which was handed off and adopted: the rest is of the giver.
func (c *cluster) adoptedWithRest(t *testing.T) (giver *member, given, adopted *redlock.Lease) {
	t.Helper()
	c.init()
	giver = c.client()
	given = locked(t, giver.Mutex("x", redlock.WithMinHold(time.Hour)))
	adopted, err := c.client().Adopt(t.Context(), handedOff(t, given))
	noErr(t, err)
	return giver, given, adopted
}

// The lease that an operator ends was handed off to its holder: the rest is of the one before.
func TestForceUnlock_adopted_liftsTheRest(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		one, _, adopted := c.adoptedWithRest(t)
		noErr(t, one.ForceUnlock(t.Context(), "x", adopted.Holder()))
		noErr(t, mustLock(t, one.Mutex("x")).Unlock(t.Context()))
	})
}

// Who has handed its lease off is not the holder, and its minimum hold stays.
func TestForceUnlock_giver_isNotTheHolder(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		one, l, adopted := c.adoptedWithRest(t)
		wantIs(t, one.ForceUnlock(t.Context(), "x", l.Holder()), redlock.ErrNotHolder)
		noErr(t, adopted.Unlock(t.Context()))
		wantIs(t, second(one.Mutex("x").TryLock(t.Context())), redlock.ErrHeld)
	})
}

// The inner lease's Unlock is the first to hear that the votes are gone.
func TestUnlock_innerLease_votesGone_isLost(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		outer := locked(t, a.Mutex("x", redlock.WithReentry()))
		inner, err := a.Mutex("x", redlock.WithReentry()).Lock(outer.Context())
		noErr(t, err)
		noErr(t, b.ForceUnlock(t.Context(), "x", outer.Holder()))
		noErr(t, locked(t, b.Mutex("x")).Unlock(t.Context()))
		wantIs(t, inner.Unlock(t.Context()), redlock.ErrLost)
		wantIs(t, outer.Unlock(t.Context()), redlock.ErrLost)
	})
}

// The giver's TTL is long, the adopter's short. An adopter whose unlock reaches no master owes it for as long as its own TTL lasts, so its votes must
// not last as long as the giver's.
func TestAdopt_longGiverThenUnlockUnconfirmed_freeAfterTheAdoptersTTL(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		giver, heir, other := c.client(), c.client(), c.client()
		voucher := handedOff(t, locked(t, giver.Mutex("x", redlock.WithTTL(30*time.Second))))
		adopted, err := heir.Adopt(t.Context(), voucher, redlock.WithTTL(time.Second))
		noErr(t, err)
		heir.cut()
		wantIs(t, adopted.Unlock(t.Context()), redlock.ErrUnconfirmed)
		time.Sleep(5 * time.Second)
		heir.heal()
		time.Sleep(time.Second)
		l, err := other.Mutex("x").TryLock(t.Context())
		noErr(t, err)
		noErr(t, l.Unlock(t.Context()))
	})
}
