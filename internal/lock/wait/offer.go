// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/lock/attempt"
)

// This file is a lock that goes from caller to caller within the process.

// passesMax is how many callers of one process take the lock over from one another at most, while other processes wait: see [Lines.Offer].
const passesMax = 16

// Offer has the next caller of this process take over the lock that is about to be released, and returns what it has of the offer. It returns
// nil if nobody takes it.
//
// That is for locks that are held briefly, whose next caller has not asked the masters yet. It costs each master fewer commands than a hand, and
// no message. So that other processes have their turn, passesMax callers take it over after this process had its turn in the order of all, at most.
func (w *Lines) Offer(o attempt.Offer) *attempt.Offer {
	w.mu.Lock()
	defer w.mu.Unlock()
	ct := w.contenders[lockKey{o.Lock.Name, o.Lock.Mode}]
	if ct == nil || ct.passes == 0 || ct.offloaded || !ct.machine.Offers(w.Masters.Clock.Elapsed(), w.farthest()) {
		return nil
	}
	ct.passes--
	next := new(attempt.Offer) // not &o, which would allocate for each release that nobody waits for
	*next = o
	ct.line.Front().Value.(*Caller).offer = next
	ct.releasedLocked()
	return next
}

// farthest is how long a trip takes to the farthest master that can be reached.
func (w *Lines) farthest() (trip time.Duration) {
	for _, n := range w.Masters.Nodes {
		trip = max(trip, n.Trip())
	}
	return trip
}

// takeOver has the caller whose turn it is take over what it is offered, and says whether it has the lock. An error is that of a caller
// that was cut off: it makes no other round, which would say who has the lock.
func (ct *contender) takeOver(ctx context.Context, call *Caller) (won bool, err error) {
	o := call.offer
	call.offer = nil
	if !o.Claim() { // who gave it back waits no longer
		return false, nil
	}
	r := call.Face.TakeOver(ctx, o)
	ct.rounds++
	v := o.Ask(r)
	end, won := call.Face.Win(r, v)
	if won {
		ct.granted()
		return true, nil
	}
	ct.stopPassing() // a master that does not let it is hurt, or Redisson waits
	if ctx.Err() != nil {
		err = call.Face.Failed(r, end).Err
	}
	r.GiveBack()
	return false, err
}

// stopPassing has the callers of the line ask the masters, each by itself, until its next turn in the order of all processes.
func (ct *contender) stopPassing() {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.passes = 0
}

// decline sends the release of what the caller was offered.
func (call *Caller) decline(all uint64) {
	if call.offer.Claim() {
		call.offer.Decline(all)
	}
}
