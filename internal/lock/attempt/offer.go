// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Offer is a lock that its holder gives back, and that the next caller of this process may take over. On each master that is a release and an
// acquire in one step, so it needs no more than these two do: the vote of a holder of this client may be removed at any time, and whoever takes
// over has an id, a token and a TTL of its own. A master that has done it has acknowledged the release, and each other one is sent it.
//
// Invariant: whoever has claimed the offer asks, or declines it. So the release is acknowledged by each master of the set or sent to it, once.
type Offer struct {
	Lock    *protocol.Lock
	Holder  string // who gives it back
	Token   int64
	Set     uint64                  // the masters that may have a vote or a place of the holder
	Release *quorum.Call            // which no master was sent
	Holding interface{ Released() } // told when the release is on its way

	claimed uint32 // no atomic.Bool: an offer is copied until somebody has it
}

// Claim says whether the caller is the one who asks or declines, because nobody else does.
func (o *Offer) Claim() bool { return atomic.SwapUint32(&o.claimed, 1) == 0 }

// Request is what an attempt asks that takes the lock over.
func (o *Offer) Request() *protocol.Request {
	return &protocol.Request{Kind: protocol.Adopt, From: o.Holder, Passed: true, Token: min(o.Token+1, counting.MaxToken)}
}

// Ask asks the masters for the attempt a, which takes the lock over, and returns the verdict on it. The release is settled on each master as that
// answers. With the verdict it goes out to those that have not answered, behind what they were asked: who gave the lock back, or closes the client,
// waits for no master that is silent.
func (o *Offer) Ask(a *Attempt) counting.Verdict {
	others := a.t.Masters.All &^ o.Set
	a.Call.Skip(others)
	o.Release.Skip(others)
	a.Call.Instead(o.Release, o.Set)
	a.Call.Send(o.Set)
	v := a.Call.Await(a.Ctx, a.Timeout)
	a.Call.Hurry()
	o.Holding.Released()
	return v
}

// claimWithin is how long the next caller has to come to what it is offered. It has been woken, but it may be held up, by an Observer for example.
const claimWithin = 4 * time.Millisecond

// Await waits for the answers to the release, for the node timeout, and sends it if nobody has claimed the offer soon.
func (o *Offer) Await(ctx context.Context, m *quorum.Masters) counting.Verdict {
	o.Release.Await(ctx, claimWithin)
	if o.Claim() {
		o.Decline(m.All)
	}
	return o.Release.Rest(ctx, m.Timeout())
}

// Decline sends the release. all are all masters.
func (o *Offer) Decline(all uint64) {
	o.Release.Send(o.Set)
	o.Release.Skip(all &^ o.Set)
	o.Holding.Released()
}
