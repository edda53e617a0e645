// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// An operator forces a lock with a minimum hold while the masters are told of it, one after the other: before Lock has returned, and right
// behind. When ForceUnlock has returned nil the lock is free, and stays so: no rest that was on its way comes after.
func TestTogether_forceWhileTheRestIsPut(t *testing.T) {
	needs.NoRace(t, "a large simulation")
	early, late := 0, 0
	for i := range 24 {
		at, apart := time.Duration(1+i/2*4)*time.Millisecond, time.Duration(2+8*(i%2))*time.Millisecond
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			one, operator, other := c.client(), c.client(), c.client()
			for i := range 5 {
				one.faultOn("confirm", nodetest.Fault{Delay: 10*time.Millisecond + time.Duration(i)*apart}, i)
			}
			operator.faultOn("set", nodetest.Fault{Delay: 15 * time.Millisecond}, everybody...) // the bar, and the release behind it
			got := make(chan *redlock.Lease, 1)
			go func() {
				lease, err := one.Mutex("x", redlock.WithMinHold(time.Hour)).TryLock(context.Background())
				if err != nil {
					wantIs(t, err, redlock.ErrUnreachable)
				}
				got <- lease
			}()
			time.Sleep(at)
			in, err := operator.Inspect(t.Context(), "x")
			noErr(t, err)
			if len(in.Holders) != 1 {
				t.Fatalf("%v: %v", at, in)
			}
			noErr(t, operator.ForceUnlock(t.Context(), "x", in.Holders[0].ID))
			forced := time.Now()
			lease := <-got
			next, err := other.Mutex("x", redlock.WithMaxWait(time.Second)).Lock(t.Context())
			if err != nil {
				in, _ := operator.Inspect(t.Context(), "x")
				t.Errorf("%v: forced, and not free: %v; %v", at, err, in)
				return
			}
			if lease == nil { // too few masters said that the lock rests
				early++
			} else {
				late++
				if next.Token() <= lease.Token() {
					t.Errorf("token %d after %d", next.Token(), lease.Token())
				}
				<-lease.Context().Done()
				wantErr(t, lease.Err(), redlock.ErrLost)
				if took := time.Since(forced); took > redlock.DefaultTTL/3+time.Second {
					t.Errorf("%v: the holder was told after %v", at, took)
				}
				if err := lease.Unlock(t.Context()); !errors.Is(err, redlock.ErrLost) {
					t.Errorf("%v: unlocked: %v", at, err)
				}
			}
			time.Sleep(20 * time.Second)
			wantErr(t, next.Err(), nil)
			noErr(t, next.Unlock(t.Context()))
			synctest.Wait()
			noErr(t, mustLock(t, other.Mutex("x")).Unlock(t.Context()))
			c.nothingLeft()
		})
	}
	if early == 0 || late == 0 {
		t.Errorf("%d were forced before they had a lease, %d after: the moments show nothing", early, late)
	}
}

// A minority of masters has the rest of an older holder, which an operator lifted while they were away. The lock is taken by another with
// a minimum hold of its own, and forced too: that one's rest ends on the quorum which has it.
func TestTogether_forceWithAnOlderRestOnAMinority(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		one, two, other := c.client(), c.client(), c.client()
		first := mustLock(t, one.Mutex("x", redlock.WithMinHold(time.Hour)))
		noErr(t, first.Unlock(t.Context()))
		operator := c.client()
		operator.faultOn("release", nodetest.Fault{Lose: nodetest.LoseCommand}, 3, 4)
		noErr(t, operator.ForceUnlock(t.Context(), "x", first.Holder()))
		noErr(t, operator.Close()) // else it would send the releases again
		second, err := two.Mutex("x", redlock.WithMinHold(30*time.Minute), redlock.WithMaxWait(time.Second)).Lock(t.Context())
		noErr(t, err)
		c.wantVotes("x", second.Holder(), 3)
		noErr(t, other.ForceUnlock(t.Context(), "x", second.Holder()))
		third, err := other.Mutex("x", redlock.WithMaxWait(time.Second)).Lock(t.Context())
		noErr(t, err)
		if third.Token() <= second.Token() {
			t.Errorf("token %d after %d", third.Token(), second.Token())
		}
		noErr(t, third.Unlock(t.Context()))
		c.wantVotes("x", "", 5)
		c.nothingLeft()
	})
}

// An adopter whose giver had a minimum hold is forced. Two masters have its rest alone so far: the adopter's command is on its way there.
// That they lift the rest is no vote that was taken away: while two of the three with votes do not confirm, ForceUnlock says so.
func TestTogether_forceAnAdopterWithARest_countsItsVotesOnly(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		giver, heir, operator := c.client(), c.client(), c.client()
		voucher := handedOff(t, mustLock(t, giver.Mutex("x", redlock.WithMinHold(time.Hour))))
		heir.faultOn("adopt", nodetest.Fault{Delay: 30 * time.Millisecond}, 3, 4)
		adopted, err := heir.Adopt(t.Context(), voucher)
		noErr(t, err)
		operator.faultOn("release", nodetest.Fault{Lose: nodetest.LoseCommand}, 1, 2)
		err = operator.ForceUnlock(t.Context(), "x", adopted.Holder())
		time.Sleep(100 * time.Millisecond)
		if n := c.votes("x", adopted.Holder()); n >= 3 && err == nil {
			t.Errorf("forced, and the holder has %d votes", n)
		}
		wantErr(t, err, redlock.ErrUnconfirmed)
		for _, way := range operator.Ways {
			way.SetFault(nil)
			way.Cut()
		}
		time.Sleep(time.Second)
		c.wantVotes("x", adopted.Holder(), 2) // the releases that were lost were sent again
		wantErr(t, adopted.Extend(t.Context()), redlock.ErrLost)
		noErr(t, mustLock(t, operator.Mutex("x")).Unlock(t.Context()))
		c.nothingLeft()
	})
}
