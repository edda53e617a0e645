// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// A waiter with one vote of three gives it back and takes places alone. The holder unlocks while that is on its way: each master hands the
// lock to the place that is about to go, and has the lock free and the waiter at the head of the queue when the new place comes. It wakes
// nobody for that, so the waiter asks because the masters said that the lock is free.
func TestSim_unlockWhileTheWaiterStepsBack_asksAtOnce(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		other := mustLock(t, a.Mutex("other"))
		waits := b.waitsFor(t.Context(), "other") // so b hears messages
		time.Sleep(100 * time.Millisecond)
		a.faultOn("acquire", nodetest.Fault{Delay: 400 * time.Millisecond}, 0)
		held, err := a.Mutex("x").TryLock(t.Context())
		wantErr(t, err, nil)

		got := make(chan *redlock.Lease, 1)
		ctx := t.Context()
		go func() {
			next, _ := b.Mutex("x").Lock(ctx)
			got <- next
		}()
		time.Sleep(time.Millisecond) // it is stuck with the vote of master 0
		for _, way := range b.Ways {
			way.SetFault(func(cmd nodetest.Command) (f nodetest.Fault) {
				if cmd.Name != "message" {
					f.Delay = 10 * time.Millisecond
				}
				return f
			})
		}
		time.Sleep(5 * time.Millisecond) // now it steps back
		start := time.Now()
		wantErr(t, held.Unlock(t.Context()), nil)
		lease := <-got
		if took := time.Since(start); lease == nil || took > 100*time.Millisecond {
			t.Errorf("%v after %v", lease, took)
		}
		b.heal()
		wantErr(t, lease.Unlock(t.Context()), nil)
		wantErr(t, other.Unlock(t.Context()), nil)
		wantErr(t, (<-waits).Unlock(t.Context()), nil)
		synctest.Wait()
	})
}
