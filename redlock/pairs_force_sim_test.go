// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// An operator forces the giver while its lease is adopted. The commands of the two meet in another order on each master. If ForceUnlock
// returns nil nobody has adopted the lease; if somebody has, ForceUnlock says so, and that one goes on.
func TestTogether_forceWhileAdopting_theGiver(t *testing.T) {
	needs.NoRace(t, "a large simulation")
	won, forced := 0, 0
	for at := time.Duration(0); at <= 24*time.Millisecond; at += 2 * time.Millisecond {
		simulate(t, func(t *testing.T, c *cluster) {
			w := newAdoption(t, c)
			told := make(chan error, 1)
			go func() {
				time.Sleep(at)
				told <- w.operator.ForceUnlock(context.Background(), "x", w.lease.Holder())
			}()
			adopted, err := w.heir.Adopt(t.Context(), w.voucher)
			force := <-told
			w.healed()
			if err != nil {
				forced++
				w.waiterHasIt(at)
				return
			}
			won++
			w.add(adopted, 1, "the heir")
			wantErr(t, force, redlock.ErrNotHolder)
			time.Sleep(20 * time.Second) // what of the force was on its way is over
			wantErr(t, adopted.Err(), nil)
			if n := c.votes("x", adopted.Holder()); n < 3 {
				t.Errorf("%v: the heir has %d votes", at, n)
			}
			noErr(t, adopted.Unlock(t.Context()))
			w.waiterHasIt(at)
		})
	}
	if won == 0 || forced == 0 {
		t.Errorf("%d were adopted, %d were not: the moments show nothing", won, forced)
	}
}

// An operator forces whomever Inspect names while a lease is adopted. If that is the adopter, it is told with its next extend, and the
// waiter has the lock. If it is the giver, that is the test above.
func TestTogether_forceWhileAdopting_whomInspectNames(t *testing.T) {
	needs.NoRace(t, "a large simulation")
	heirs := 0
	for at := time.Duration(0); at <= 40*time.Millisecond; at += 2 * time.Millisecond {
		simulate(t, func(t *testing.T, c *cluster) {
			w := newAdoption(t, c)
			type forced struct {
				id  string
				at  time.Time
				err error
			}
			told := make(chan forced, 1)
			go func() {
				time.Sleep(at)
				in, err := w.operator.Inspect(context.Background(), "x")
				if err != nil || len(in.Holders) == 0 { // the votes are split between the two for a moment
					told <- forced{}
					return
				}
				f := forced{id: in.Holders[0].ID, at: time.Now()}
				f.err = w.operator.ForceUnlock(context.Background(), "x", f.id)
				told <- f
			}()
			adopted, err := w.heir.Adopt(t.Context(), w.voucher)
			if err != nil {
				<-told
				w.healed()
				w.waiterHasIt(at)
				return
			}
			s := w.add(adopted, 1, "the heir")
			f := <-told
			w.healed()
			if f.id != adopted.Holder() {
				noErr(t, adopted.Unlock(t.Context()))
				w.waiterHasIt(at)
				return
			}
			heirs++
			noErr(t, f.err)
			w.end(s, f.at) // from then on the next may have it
			<-adopted.Context().Done()
			wantErr(t, adopted.Err(), redlock.ErrLost)
			if took := time.Since(f.at); took > redlock.DefaultTTL/3+time.Second {
				t.Errorf("%v: the heir was told after %v", at, took)
			}
			w.waiterHasIt(at)
		})
	}
	if heirs == 0 {
		t.Error("no adopter was forced: the moments show nothing")
	}
}

// adoption is a lease that was transferred, a waiter behind it, and ways on which the commands of an adopter and of an operator meet in
// another order on each master.
type adoption struct {
	ledger
	t              *testing.T
	c              *cluster
	heir, operator *member
	lease          *redlock.Lease
	voucher        string
	next           chan *redlock.Lease
}

func newAdoption(t *testing.T, c *cluster) *adoption {
	c.init()
	giver, other := c.client(), c.client()
	w := &adoption{t: t, c: c, heir: c.client(), operator: c.client(), lease: mustLock(t, giver.Mutex("x"))}
	w.add(w.lease, 0, "the giver")
	w.next = other.waits(context.Background())
	w.voucher = handedOff(t, w.lease)
	synctest.Wait()
	for i := range 5 {
		w.heir.faultOn("adopt", nodetest.Fault{Delay: time.Duration(10+2*i) * time.Millisecond}, i)
		w.operator.faultOn("set", nodetest.Fault{Delay: time.Duration(2*(4-i)) * time.Millisecond}, i) // the bar, and the release behind it
	}
	return w
}

func (w *adoption) healed() {
	w.heir.heal()
	w.operator.heal()
}

// waiterHasIt wants the waiter to have the lock within a TTL, and nothing to be left of the others.
func (w *adoption) waiterHasIt(at time.Duration) {
	w.t.Helper()
	begun := time.Now()
	got := <-w.next
	if took := time.Since(begun); got == nil || took > redlock.DefaultTTL+time.Second {
		w.t.Fatalf("%v: the waiter has %v after %v", at, got, took)
	}
	w.add(got, 0, "the waiter")
	time.Sleep(15 * time.Second)
	wantErr(w.t, got.Err(), nil)
	noErr(w.t, got.Unlock(w.t.Context()))
	w.judge(w.t)
	w.c.nothingLeft()
}
