// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
)

// A thousand waiters of a hundred clients want one lock, and 100 of them come and go. Nothing fails, so the lock never stands still: with places
// that leaked it did, for 3 s each.
func TestSim_thousandWaitersOnAHundredClients_neverStandStill(t *testing.T) {
	needs.NoRace(t, "a large simulation")
	needs.Test(t)
	simulate(t, func(t *testing.T, c *cluster) {
		const clients, waiters, hold, longest = 100, 10, time.Millisecond, 500 * time.Millisecond
		c.init()
		var (
			mu    sync.Mutex
			last  time.Time
			worst time.Duration
			turns int
		)
		granted := func() {
			mu.Lock()
			defer mu.Unlock()
			if !last.IsZero() {
				worst = max(worst, time.Since(last))
			}
			last, turns = time.Now(), turns+1
		}
		until, end := context.WithTimeout(t.Context(), 2*time.Second)
		defer end()
		var wg sync.WaitGroup
		for i := range clients {
			m := c.client()
			m.slow(time.Duration(100+10*i)*time.Microsecond, 0, 1, 2, 3, 4)
			for j := range waiters {
				wg.Go(func() {
					for until.Err() == nil {
						ctx, cancel := until, context.CancelFunc(func() {})
						if j == 0 { // it gives up, and asks anew
							ctx, cancel = context.WithTimeout(until, 300*time.Millisecond+time.Duration(i)*time.Millisecond)
						}
						lease, err := m.Mutex("x").Lock(ctx)
						cancel()
						if err != nil {
							continue
						}
						granted()
						time.Sleep(hold)
						wantErr(t, lease.Unlock(t.Context()), nil)
					}
				})
			}
		}
		wg.Wait()
		t.Logf("%d turns, at most %v without one", turns, worst)
		if worst > longest || turns < 1000 {
			t.Errorf("%d turns, and nobody had the lock for %v", turns, worst)
		}
	})
}
