// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// Another program writes to the key of one lock. The leases that are renewed in the same batch go on, and keep their vote on every
// master (A32 in docs/safety.md), wherever in the batch the lock is.
func TestSim_renewal_keyOfAnotherType_otherLeasesGoOn(t *testing.T) {
	for taken := range 3 {
		for _, tc := range []struct {
			masters, votes int // with a key of another type, of three; with a vote of that lock in the end
			err            error
		}{
			{3, 0, redlock.ErrLost},
			{2, 0, redlock.ErrLost},
			{1, 2, nil},
		} {
			t.Run(fmt.Sprintf("lock %d on %d masters", taken, tc.masters), func(t *testing.T) {
				simulateWith(t, 3, func(t *testing.T, c *cluster) {
					m := c.client()
					var leases [3]*redlock.Lease
					for i := range leases {
						leases[i] = mustLock(t, m.Mutex(fmt.Sprint("x", i)))
					}
					for _, master := range c.masters[:tc.masters] {
						wantErr(t, master.Do(func(db *nodetest.DB) { db.Set(leases[taken].Name(), "text") }), nil)
					}
					time.Sleep(2 * redlock.DefaultTTL)
					for i, lease := range leases {
						err, votes := error(nil), 3
						if i == taken {
							err, votes = tc.err, tc.votes
						}
						wantErr(t, lease.Err(), err)
						c.wantVotes(lease.Name(), lease.Holder(), votes)
					}
				})
			})
		}
	}
}
