// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// cut separates the client from all masters, until heal.
func (m *member) cut() {
	for _, way := range m.Ways {
		way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
			return nodetest.Fault{Lose: nodetest.LoseCommand, Cut: cmd.Name != "dial"}
		})
	}
}

// both takes the lock for writing, and with the context of that lease for reading.
func both(t *testing.T, m *member, write, read []redlock.LockOption) (w, r *redlock.Lease) {
	t.Helper()
	w = mustLock(t, m.RWMutex("x", write...).Locker())
	r, err := m.RWMutex("x", read...).RLock(w.Context())
	noErr(t, err)
	return w, r
}

// The unlock of the write lease came to no master, and is sent again for as long as its vote may be there: that is as long as the key, which the
// read lease keeps. So other readers come in, and the lock is free after the last of them.
func TestSim_downgrade_writersUnlockComesLate_onlyReadersAreLeft(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		w, r := both(t, a, []redlock.LockOption{redlock.WithTTL(time.Second)}, []redlock.LockOption{redlock.WithTTL(20 * time.Second)})
		a.cut()
		wantErr(t, w.Unlock(t.Context()), redlock.ErrUnconfirmed)
		time.Sleep(3 * time.Second)
		a.heal()
		time.Sleep(10 * time.Second)
		wantErr(t, r.Err(), nil)
		other, err := b.RWMutex("x").TryRLock(t.Context())
		if err != nil {
			t.Fatalf("beside a read lease alone: %v", err)
		}
		noErr(t, other.Unlock(t.Context()))
		noErr(t, r.Unlock(t.Context()))
		noErr(t, mustLock(t, b.RWMutex("x").Locker()).Unlock(t.Context()))
	})
}

// A lock stays taken for the TTL of the leases that are left when their process dies, and not for that of one that was over before.
func TestSim_downgrade_processDies_theLockIsTakenForTheTTLThatIsLeft(t *testing.T) {
	brief, long := []redlock.LockOption{redlock.WithTTL(time.Second)}, []redlock.LockOption{redlock.WithTTL(20 * time.Second)}
	for name, tc := range map[string]struct {
		write, read []redlock.LockOption
		over        func(w, r *redlock.Lease) *redlock.Lease // which of them is unlocked before
	}{
		"the writer is left": {brief, long, func(_, r *redlock.Lease) *redlock.Lease { return r }},
		"the reader is left": {long, brief, func(w, _ *redlock.Lease) *redlock.Lease { return w }},
	} {
		t.Run(name, func(t *testing.T) {
			simulateWith(t, 3, func(t *testing.T, c *cluster) {
				a, b := c.client(), c.client()
				w, r := both(t, a, tc.write, tc.read)
				noErr(t, tc.over(w, r).Unlock(t.Context()))
				time.Sleep(2 * time.Second) // the other one was renewed
				a.cut()
				died := time.Now()
				lease, err := b.RWMutex("x").Lock(t.Context())
				noErr(t, err)
				if took := time.Since(died); took > 3*time.Second {
					t.Errorf("the lock was taken for %v", took)
				}
				noErr(t, lease.Unlock(t.Context()))
			})
		})
	}
}

// A read lease within a write lease, whose votes have expired on the masters: nobody is shown it as a holder, and it does not keep the lock
// when the write lease is unlocked.
func TestSim_downgrade_readVotesExpired_theWritersUnlockFreesTheLock(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		w, r := both(t, a, []redlock.LockOption{redlock.WithTTL(20 * time.Second)}, []redlock.LockOption{redlock.WithTTL(10 * time.Second)})
		in := inspected(t, b)
		if len(in.Holders) != 2 || in.Holders[0].Read == in.Holders[1].Read {
			t.Fatalf("%+v", in.Holders)
		}
		for _, h := range in.Holders {
			if ttl := map[bool]time.Duration{true: 10 * time.Second, false: 20 * time.Second}[h.Read]; h.Left > ttl || h.Left < ttl-time.Second {
				t.Errorf("%+v", h)
			}
		}
		for _, m := range c.masters {
			noErr(t, m.Do(func(db *nodetest.DB) { db.Del("{x}:" + r.Holder() + ":rwlock_timeout:1") }))
		}
		if in := inspected(t, b); len(in.Holders) != 1 || in.Holders[0].ID != w.Holder() {
			t.Errorf("%+v", in.Holders)
		}
		noErr(t, w.Unlock(t.Context()))
		noErr(t, mustLock(t, b.RWMutex("x").Locker()).Unlock(t.Context()))
	})
}

// The write lease is unlocked with a context of the read lease, which was made from its own: that context ends with the unlock, and does not
// end it.
func TestSim_downgrade_unlockWithTheReadersContext_confirmed(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		for i := range 5 {
			a.faultOn("release", nodetest.Fault{ReplyDelay: time.Millisecond}, i)
		}
		rw := a.RWMutex("x")
		w := mustLock(t, rw.Locker())
		noErr(t, rw.RDo(w.Context(), func(ctx context.Context, _ *redlock.Lease) error { return w.Unlock(ctx) }))
		w = mustLock(t, rw.Locker())
		r, err := rw.RLock(w.Context())
		noErr(t, err)
		ctx, stop := r.Bind(w.Context())
		defer stop()
		noErr(t, w.Unlock(ctx))
		noErr(t, r.Unlock(t.Context()))
		time.Sleep(10 * time.Millisecond)
		c.wantVotes("x", "", 5)
	})
}
