// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// The clocks of the masters are ahead for a while, and then right again. A client that took tickets meanwhile takes its next ones from
// the clocks as they are: it is not behind all other clients until they are where its last ticket was.
func TestSim_mastersClocksSteppedBack_ticketsFollow(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		step := func(by time.Duration) {
			for _, m := range c.masters {
				m.StepClock(by)
			}
			time.Sleep(2 * redlock.DefaultMaxTTL) // the masters recover
		}
		var order []string
		// inTurn lets the clients wait for a lock that is held, one second apart.
		inTurn := func(waiters ...*member) {
			held := mustLock(t, b.Mutex("x"))
			for i, w := range waiters {
				go func() {
					lease, err := w.Mutex("x").Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					order = append(order, []string{"first", "second"}[i])
					wantErr(t, lease.Unlock(t.Context()), nil)
				}()
				time.Sleep(time.Second)
			}
			wantErr(t, held.Unlock(t.Context()), nil)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		step(time.Hour)
		inTurn(a)
		step(-time.Hour)
		order = nil
		inTurn(a, c.client())
		if len(order) != 2 || order[0] != "first" {
			t.Errorf("granted to %v, want the first first", order)
		}
	})
}
