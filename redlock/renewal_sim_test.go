// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"fmt"
	"slices"
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

// So does one beside a read lease of the same caller's that lasts longer, and what is renewed with it.
func TestSim_renewal_memoryFull_reenteredWriteLeaseBesideALongerRead_goesOn(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		a := c.client()
		write := mustLock(t, a.RWMutex("x", redlock.WithTTL(5*time.Second)).Locker())
		inner, err := write.Reenter(t.Context())
		wantErr(t, err, nil)
		wantErr(t, inner.Unlock(t.Context()), nil)
		read, err := a.RWMutex("x", redlock.WithTTL(30*time.Second)).RLock(write.Context())
		wantErr(t, err, nil)
		other := mustLock(t, a.Mutex("y", redlock.WithTTL(5*time.Second)))
		for _, m := range c.masters {
			m.RefuseWrites(errOOM)
		}
		time.Sleep(time.Minute)
		for _, lease := range []*redlock.Lease{write, read, other} {
			wantErr(t, lease.Err(), nil)
		}
	})
}

// The user may not touch one lock, on one master or, since its rights were narrowed, on all. The leases that are renewed in the same batch
// keep their vote on every master. What a master refuses to say is no proof that a vote is missing: the lease of that lock stands while the
// others confirm it, and ends with its TTL when none does.
func TestSim_renewal_lockNotAllowed_otherLeasesGoOn(t *testing.T) {
	for _, tc := range []struct {
		masters, votes int // that deny the lock, of five; with a vote of it in the end
		err            error
	}{
		{1, 4, nil},
		{5, 0, redlock.ErrLost},
	} {
		t.Run(fmt.Sprintf("on %d masters", tc.masters), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				m := c.client()
				before, job, behind := mustLock(t, m.Mutex("app")), mustLock(t, m.Mutex("job")), mustLock(t, m.Mutex("web"))
				for _, way := range m.Ways[:tc.masters] {
					way.SetFault(func(cmd nodetest.Command) (f nodetest.Fault) {
						switch {
						case !slices.Contains(cmd.Keys, "job"):
						case cmd.Name == "topup":
							t.Error("a vote is put back that no master said is missing")
							fallthrough
						default:
							f.Refuse = errNoKey
						}
						return f
					})
				}
				time.Sleep(redlock.DefaultTTL - time.Second)
				wantErr(t, job.Err(), nil) // too few answers do not end it before its time
				time.Sleep(3 * time.Second)
				wantErr(t, job.Err(), tc.err)
				c.wantVotes("job", job.Holder(), tc.votes)
				for _, lease := range []*redlock.Lease{before, behind} {
					wantErr(t, lease.Err(), nil)
					c.wantVotes(lease.Name(), lease.Holder(), 5)
				}
			})
		})
	}
}
