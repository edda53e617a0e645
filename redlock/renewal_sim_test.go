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

// A writer that went on to read gives both votes one key. Renewing the write lease, which has the shorter TTL, must not shorten that of the
// read lease, which goes on alone: a writer came in beside it.
func TestSim_renewal_writerWithAShorterTTL_readerKeepsItsVotes(t *testing.T) {
	for name, goesOn := range map[string]func(t *testing.T, w *redlock.Lease){
		"unlocked": func(t *testing.T, w *redlock.Lease) { wantErr(t, w.Unlock(t.Context()), nil) },
		"held":     func(*testing.T, *redlock.Lease) {},
	} {
		t.Run(name, func(t *testing.T) {
			simulateWith(t, 3, func(t *testing.T, c *cluster) {
				a, b := c.client(), c.client()
				w := mustLock(t, a.RWMutex("x", redlock.WithTTL(time.Second)).Locker())
				r, err := a.RWMutex("x", redlock.WithoutRenewal()).RLock(w.Context())
				wantErr(t, err, nil)
				time.Sleep(500 * time.Millisecond) // it was renewed once
				goesOn(t, w)
				for r.Err() == nil {
					if l, err := b.RWMutex("x").TryLock(t.Context()); err == nil && r.Err() == nil {
						t.Fatalf("token %d beside a read lease that is valid until %v", l.Token(), time.Until(r.ValidUntil()))
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		})
	}
}

// Masters whose memory is full renew leases, also one that was entered again, and those that are renewed with it: with its count, the extend
// writes what a full master refuses.
func TestSim_renewal_memoryFull_reenteredLeaseGoesOn(t *testing.T) {
	for name, lock := range map[string]func(c *redlock.Client) redlock.Locker{
		"plain": func(c *redlock.Client) redlock.Locker { return c.Mutex("x") },
		"write": func(c *redlock.Client) redlock.Locker { return c.RWMutex("x").Locker() },
		"read":  func(c *redlock.Client) redlock.Locker { return c.RWMutex("x").RLocker() },
	} {
		t.Run(name, func(t *testing.T) {
			simulateWith(t, 3, func(t *testing.T, c *cluster) {
				a := c.client()
				entered := mustLock(t, lock(a.Client.Client))
				inner, err := entered.Reenter(t.Context())
				wantErr(t, err, nil)
				wantErr(t, inner.Unlock(t.Context()), nil)
				other := mustLock(t, a.Mutex("y"))
				for _, m := range c.masters {
					m.RefuseWrites(errOOM)
				}
				time.Sleep(time.Minute)
				wantErr(t, entered.Err(), nil)
				wantErr(t, other.Err(), nil)
			})
		})
	}
}
