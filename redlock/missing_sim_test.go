// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/node/nodetest"
)

// Two masters of five forget a lock that is held and waited for. The waiter is given their votes by replies, and gives them back: it does not ask
// again and again, and the holder puts its own votes there with one of its next extensions.
func TestSim_mastersForgetAHeldLock_waiterLetsTheHolderRestoreIt(t *testing.T) {
	needs.NoRace(t, "a large simulation")
	for _, trip := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		for at := range 12 {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				a, b := c.client(), c.client()
				held := mustLock(t, a.Mutex("x"))
				a.way(trip)
				b.way(trip)
				got := b.waits(t.Context())
				time.Sleep(time.Duration(100+at*467) * time.Millisecond)
				for _, i := range []int{3, 4} {
					noErr(t, c.masters[i].Do(func(db *nodetest.DB) { db.Del("x") }))
				}
				before, start := b.Stats().Rounds, time.Now()
				for c.votes("x", held.Holder()) < 5 && time.Since(start) < time.Minute {
					time.Sleep(10 * time.Millisecond)
				}
				if took, rounds := time.Since(start), b.Stats().Rounds-before; took > 4*time.Second || rounds > 3 {
					t.Errorf("trip %v, %d: restored after %v, and the waiter made %d rounds meanwhile", trip, at, took, rounds)
				}
				noErr(t, held.Unlock(t.Context()))
				noErr(t, (<-got).Unlock(t.Context()))
			})
		}
	}
}
