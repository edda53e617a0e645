// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"math/bits"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// ballot is one operation put to every master, and what they answer. The
// caller of wait goes on when the tally is decided; answers that come later are
// kept, for they say where a vote may still be.
type ballot struct {
	c       *Client
	decided chan struct{} // holds a token when wait is to go on

	// Guarded by the mutex of the client's deadlines.
	deadline time.Time
	pos      int // among those that are waited for, or -1

	mu    sync.Mutex
	tally tally
	// want is how many masters are to be heard before wait goes on; 0: as many as
	// decide the tally. everybody: those too that are out of reach.
	want, heard int
	req         protocol.Request
	ops         []protocol.Op
	// answered marks the ops whose Reply is there. An op that is not answered
	// belongs to its node's lane, all but what the submitter set.
	answered uint64
	// woken marks the masters that woke the contender while they were being asked.
	woken uint64
	// closed: nobody is asked any more, for what the round was given is being given back.
	closed bool
	// users are the ops that are not answered, and whoever called poll until done.
	// The last of them gives the ballot back to its client, to be used again:
	// ballots are most of what a lock would allocate otherwise.
	users int
}

const everybody = maxNodes + 1

// ballot is a new one on req, of which nobody has been asked. need is how many must say
// Granted for a verdict; with need 0 there is none, and wait waits for everybody.
// The caller asks or skips every node, and calls done when it will not look at the
// ballot again.
func (c *Client) ballot(need int, req *protocol.Request) *ballot {
	b, _ := c.ballots.Get().(*ballot)
	if b == nil {
		b = &ballot{c: c, decided: make(chan struct{}, 1), ops: make([]protocol.Op, len(c.nodes))}
		for i := range b.ops {
			b.ops[i] = protocol.Op{Request: &b.req, To: b, Index: i}
		}
	}
	b.req = *req
	b.want, b.heard, b.tally = 0, 0, tally{voters: len(c.nodes), need: need}
	if need == 0 {
		b.want = everybody
	}
	b.answered, b.woken, b.closed, b.users = 0, 0, false, len(c.nodes)+1
	return b
}

// poll puts req to all nodes in the set at once.
func (c *Client) poll(set uint64, need int, req *protocol.Request) *ballot {
	b := c.ballot(need, req)
	b.ask(set)
	b.skip(c.all &^ set)
	return b
}

// ask puts the request to the nodes in the set.
func (b *ballot) ask(set uint64) {
	for i, n := range b.c.nodes {
		if op := &b.ops[i]; set&(1<<i) != 0 && !n.Submit(op) {
			b.Receive(op)
		}
	}
}

// wake says that the masters in the set have woken the contender. One that has refused it
// is asked again while the round is open: it was asked a moment before the holder's
// release came, and the others may be slow. Its vote is then worth as much as a first one:
// an acquire can be repeated, and the lease counts from the beginning of the round.
func (b *ballot) wake(set uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.woken |= set; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		if b.answered&(1<<i) != 0 && b.askAgainLocked(i) {
			b.users++
		}
	}
}

// close is called before the votes of a round that is over are looked at.
func (b *ballot) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
}

// asleep forgets wakes of masters that are about to be asked.
func (b *ballot) asleep(set uint64) {
	b.mu.Lock()
	b.woken &^= set
	b.mu.Unlock()
}

// askAgainLocked puts the request once more to master i, which has answered, if that is of
// use. It submits under the lock: what releases the round's votes must come behind it.
func (b *ballot) askAgainLocked(i int) bool {
	bit, op := uint64(1)<<i, &b.ops[i]
	if b.woken&bit == 0 || b.closed || b.doneLocked() || op.Reply.Outcome != protocol.Held || op.Reply.Ticket == 0 {
		return false
	}
	b.woken &^= bit
	// It has its place in that master's queue, which each gives out on its own.
	req, place := b.req, *b.req.Wait
	place.Ticket = op.Reply.Ticket
	req.Wait = &place
	op.Request, op.Reply = &req, protocol.Reply{}
	if !b.c.nodes[i].Submit(op) {
		return false // its no stays counted
	}
	b.answered &^= bit
	b.tally.no--
	b.heard--
	return true
}

// skip counts the nodes in the set as a no.
func (b *ballot) skip(set uint64) {
	for ; set != 0; set &= set - 1 {
		op := &b.ops[bits.TrailingZeros64(set)]
		op.Reply = protocol.Reply{Outcome: protocol.NotSent}
		b.Receive(op)
	}
}

// Receive implements [protocol.Receiver].
func (b *ballot) Receive(op *protocol.Op) {
	b.mu.Lock()
	b.answered |= 1 << op.Index
	late := b.doneLocked()
	b.tally.add(op.Reply.Outcome == protocol.Granted)
	if op.Reply.Outcome != protocol.Unknown && op.Reply.Outcome != protocol.NotSent {
		b.heard++
	}
	if !late && b.doneLocked() {
		b.decide()
	}
	if b.askAgainLocked(op.Index) {
		b.mu.Unlock()
		return
	}
	if late && op.Wait != nil && mayQueue(&op.Reply) && b.tally.verdict() == won {
		// The lock is ours, but this master may have us in its queue still.
		// Another caller of this process may have it queue anew by now, so it leaves
		// the place that it had in this round and no other.
		b.mu.Unlock()
		leave(b.c.nodes[op.Index], op.Lock, op.Wait.Waiter, max(op.Reply.Ticket, op.Wait.Ticket), op.Start)
		b.mu.Lock()
	}
	b.doneUnlock()
}

// decide has wait go on.
func (b *ballot) decide() {
	select {
	case b.decided <- struct{}{}:
	default: // decided and its time over, at once
	}
}

// done ends one use of the ballot. The one who calls it must not touch it again.
func (b *ballot) done() {
	b.mu.Lock()
	b.doneUnlock()
}

func (b *ballot) doneUnlock() {
	b.users--
	last := b.users == 0
	b.mu.Unlock()
	if !last {
		return
	}
	select {
	case <-b.decided: // after a timeout nobody took it
	default:
	}
	b.req = protocol.Request{}
	for i := range b.ops {
		b.ops[i].Request = &b.req
	}
	b.c.ballots.Put(b)
}

// mayQueue says whether a master that gave reply to an acquire that waits may have
// the waiter in its queue.
func mayQueue(reply *protocol.Reply) bool {
	return reply.Outcome != protocol.Granted && reply.Outcome != protocol.NotSent
}

// queued are the masters that have answered and may have the waiter in their queue,
// and settled those that certainly have not: they granted.
func (b *ballot) queued() (queued, settled uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.ops {
		switch r := &b.ops[i].Reply; {
		case b.answered&(1<<i) == 0:
		case mayQueue(r):
			queued |= 1 << i
		case r.Outcome == protocol.Granted:
			settled |= 1 << i
		}
	}
	return queued, settled
}

// absent is how many masters have said that what was asked about is not there.
func (b *ballot) absent() (n int) {
	for _, r := range b.replies() {
		if r.Outcome == protocol.Absent {
			n++
		}
	}
	return n
}

func (b *ballot) doneLocked() bool {
	if b.want > 0 {
		return b.heard >= b.want || b.tally.yes+b.tally.no == b.tally.voters
	}
	return b.tally.verdict() != pending
}

// wait returns when the verdict is there, timeout is over or ctx ends. Masters
// that are silent by then count as a no.
func (b *ballot) wait(ctx context.Context, timeout time.Duration) verdict {
	select {
	case <-b.decided:
	default:
		b.c.deadlines.add(b, time.Now().Add(timeout))
		select {
		case <-b.decided:
		case <-ctx.Done():
		}
		b.c.deadlines.remove(b)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if v := b.tally.verdict(); v != pending {
		return v
	}
	return lost
}

// hear waits after the verdict until want masters have answered, all have or are known
// to be out of reach, or timeout is over.
func (b *ballot) hear(ctx context.Context, want int, timeout time.Duration) {
	b.mu.Lock()
	b.want = want
	done := b.doneLocked()
	b.mu.Unlock()
	if !done {
		b.wait(ctx, timeout)
	}
}

// replies copies what is known by now; silent masters are Unknown.
func (b *ballot) replies() []protocol.Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	rs := make([]protocol.Reply, len(b.ops))
	for i := range b.ops {
		if b.answered&(1<<i) != 0 {
			rs[i] = b.ops[i].Reply
		}
	}
	return rs
}

// votes says which masters granted, which may hold a vote (those, and all that
// were asked and gave no definite answer), and which have not answered at all.
func (b *ballot) votes() (granted, maybe, silent uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.ops {
		bit := uint64(1) << i
		r := &b.ops[i].Reply
		switch {
		case b.answered&bit == 0:
			maybe |= bit
			silent |= bit
		case r.Outcome == protocol.Granted:
			granted |= bit
			maybe |= bit
		case r.Outcome == protocol.Unknown:
			maybe |= bit
		}
	}
	return granted, maybe, silent
}
