// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// A lease that was handed by three masters of five has the votes of all five a moment later. One of the three loses its data,
// or restarts. Four votes are left, so the lease is not lost, and is extended.
func TestSim_handedLease_aMasterOfItsQuorumLosesItsVote_isHeld(t *testing.T) {
	for name, happens := range map[string]func(c *cluster){
		"flushed":                   func(c *cluster) { c.masters[1].Flush() },
		"restarted with its data":   func(c *cluster) { c.masters[1].Restart() },
		"restarted without a trace": func(c *cluster) { c.masters[1].Crash(); c.masters[1].Flush(); c.masters[1].Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				lease := c.handedByThree(t)
				happens(c)
				for range 20 {
					time.Sleep(500 * time.Millisecond)
					wantErr(t, lease.Err(), nil)
				}
				if left := time.Until(lease.ValidUntil()); left < 5*time.Second {
					t.Errorf("valid for %v: no extend was won", left)
				}
				wantErr(t, lease.Unlock(t.Context()), nil)
			})
		})
	}
}

// handedByThree returns a lease that counts the votes of m0 to m2, which came by messages. Those of m3 and m4 come a moment later.
func (c *cluster) handedByThree(t *testing.T) *redlock.Lease {
	t.Helper()
	a, b := c.client(), c.client()
	first := mustLock(t, a.Mutex("x"))
	got := b.waits(t.Context())
	a.slowRelease(5*time.Millisecond, 3, 4)
	wantErr(t, first.Unlock(t.Context()), nil)
	lease := <-got
	if lease == nil {
		t.Fatal("it failed")
	}
	if n := redlock.CountedVotes(lease); n != 3 {
		t.Fatalf("%d votes count, want 3", n)
	}
	time.Sleep(10 * time.Millisecond)
	c.wantVotes("x", lease.Holder(), 5)
	a.heal()
	return lease
}

// A lease is lost when too few votes are left, and the text says how many.
func TestSim_handedLease_quorumLosesItsVotes_lostWithTheNumber(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		lease := c.handedByThree(t)
		for i := range 3 {
			c.masters[i].Flush()
		}
		time.Sleep(3 * time.Second)
		wantErr(t, lease.Err(), redlock.ErrLost)
		if !strings.Contains(lease.Err().Error(), "2 of 5 masters may still have the vote") {
			t.Error(lease.Err())
		}
	})
}
