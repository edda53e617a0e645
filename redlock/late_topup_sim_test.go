// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// docs/safety.md A53. A holds with the votes of masters 0 and 1. Its extend is late on master 2, which voted for B meanwhile, lost that vote, and is
// quarantined: A's vote is put there late. B's attempt began after that extend, so it is open still when A's vote on master 0, which A
// reaches no more, ends there and master 0 votes for B. If A counts its vote on master 2, both hold.
func TestSim_voteIsPutBackLate_doesNotCount(t *testing.T) {
	const ttl, late = time.Second, 870 * time.Millisecond
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init(redlock.WithMaxTTL(10 * time.Second))
		time.Sleep(2 * time.Minute) // until then the counters of new masters are ahead of the clocks, and an attempt asks twice
		opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithMaxTTL(10 * time.Second)}
		a, b, other := c.client(opts...), c.client(opts...), c.client(opts...)
		elsewhere := mustLock(t, other.Mutex("elsewhere"))
		a.faultOn("acquire", nodetest.Fault{Lose: nodetest.LoseCommand, Cut: true}, 2)
		lease := mustLock(t, a.Mutex("x"))
		a.heal()
		time.Sleep(100 * time.Millisecond) // master 2 is in touch again

		began := time.Now()
		at := func(d time.Duration) { time.Sleep(time.Until(began.Add(d))) }
		var sent atomic.Bool
		a.Ways[2].SetFault(func(cmd nodetest.Command) (f nodetest.Fault) {
			if cmd.Name == "extend" && !sent.Swap(true) {
				f.Delay = late
			}
			return f
		})
		noErr(t, lease.Extend(t.Context()))
		synctest.Wait()
		a.faultOn("extend", nodetest.Fault{Lose: nodetest.LoseCommand}, 0)

		at(late - 10*time.Millisecond)
		b.faultOn("acquire", nodetest.Fault{Delay: 142 * time.Millisecond}, 0)
		var second *redlock.Lease
		done := make(chan error)
		go func() {
			var err error
			second, err = b.Mutex("x").TryLock(t.Context())
			done <- err
		}()
		at(late - 8*time.Millisecond)
		if c.masters[2].Holder("x") == "" {
			t.Fatal("master 2 has not voted for B")
		}
		c.masters[2].Flush()
		noErr(t, elsewhere.Extend(t.Context())) // sees that master 2 lost its data, and begins its quarantine
		noErr(t, <-done)
		c.wantVotes("x", lease.Holder(), 2) // on masters 1 and 2
		if left := time.Until(lease.ValidUntil()); left > 0 {
			t.Errorf("%v after the extend A holds for %v, and B for %v", time.Since(began), left, time.Until(second.ValidUntil()))
		}
	})
}

// The other half: an attempt that took long is not granted, however much is left of its votes. One for a lock with a minimum hold asks twice.
func TestSim_attemptTookLong_isNotGranted(t *testing.T) {
	for _, tc := range []struct {
		trip time.Duration
		had  bool
	}{{327 * time.Millisecond, true}, {331 * time.Millisecond, false}} {
		simulateWith(t, 3, func(t *testing.T, c *cluster) {
			c.init()
			b := c.client(redlock.WithTTL(time.Second), redlock.WithNodeTimeout(time.Second))
			for _, way := range b.Ways {
				way.SetFault(func(cmd nodetest.Command) (f nodetest.Fault) {
					if cmd.Name == "acquire" || cmd.Name == "confirm" {
						f.Delay = tc.trip
					}
					return f
				})
			}
			lease, err := b.Mutex("x", redlock.WithMinHold(time.Second)).TryLock(t.Context())
			if (lease != nil) != tc.had {
				t.Errorf("each trip took %v: %v", tc.trip, err)
			}
		})
	}
}
