// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"math/bits"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/internal/counting"
	"github.com/redlock-go/redlock/redlock/internal/waiting"
)

// quorumCall is one operation put to every master, and what they answer. The
// caller of wait goes on when the tally is decided; answers that come later are
// kept, for they say where a vote may still be.
type quorumCall struct {
	c       *Client
	decided chan struct{} // holds a token when wait is to go on

	// Guarded by the mutex of the client's deadlines.
	deadline time.Time
	pos      int // among those that are waited for, or -1

	mu    sync.Mutex
	tally counting.Tally
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
	// The last of them gives the call back to its client, to be used again:
	// quorum calls are most of what a lock would allocate otherwise.
	users int
}

const everybody = counting.MaxMasters + 1

// newQuorumCall is a new one on req, of which nobody has been asked. need is how many must say
// Granted for a verdict; with need 0 there is none, and wait waits for everybody.
// The caller sends or skips every node, and calls done when it will not look at the
// call again.
func (c *Client) newQuorumCall(need int, req *protocol.Request) *quorumCall {
	q, _ := c.quorumCalls.Get().(*quorumCall)
	if q == nil {
		q = &quorumCall{c: c, decided: make(chan struct{}, 1), ops: make([]protocol.Op, len(c.nodes))}
		for i := range q.ops {
			q.ops[i] = protocol.Op{Request: &q.req, To: q, Index: i}
		}
	}
	q.req = *req
	q.want, q.heard, q.tally = 0, 0, counting.Tally{Voters: len(c.nodes), Need: need}
	if need == 0 {
		q.want = everybody
	}
	q.answered, q.woken, q.closed, q.users = 0, 0, false, len(c.nodes)+1
	return q
}

// poll puts req to all nodes in the set at once.
func (c *Client) poll(set uint64, need int, req *protocol.Request) *quorumCall {
	q := c.newQuorumCall(need, req)
	q.send(set)
	q.skip(c.all &^ set)
	return q
}

// send puts the request to the nodes in the set.
func (q *quorumCall) send(set uint64) {
	for i, n := range q.c.nodes {
		if op := &q.ops[i]; set&(1<<i) != 0 && !n.Submit(op) {
			q.Receive(op)
		}
	}
}

// wake says that the masters in the set have woken the contender. One that has refused it
// is asked again while the round is open: it was asked a moment before the holder's
// release came, and the others may be slow. Its vote is then worth as much as a first one:
// an acquire can be repeated, and the lease counts from the beginning of the round.
func (q *quorumCall) wake(set uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.woken |= set; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		if q.answered&(1<<i) != 0 && q.retryLocked(i) {
			q.users++
		}
	}
}

// close is called before the votes of a round that is over are looked at.
func (q *quorumCall) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}

// clearWoken forgets wakes of masters that are about to be asked.
func (q *quorumCall) clearWoken(set uint64) {
	q.mu.Lock()
	q.woken &^= set
	q.mu.Unlock()
}

// retryLocked puts the request once more to master i, which has answered, if that is of
// use. It submits under the lock: what releases the round's votes must come behind it.
func (q *quorumCall) retryLocked(i int) bool {
	bit, op := uint64(1)<<i, &q.ops[i]
	if q.woken&bit == 0 || q.closed || q.doneLocked() || op.Reply.Outcome != protocol.Held || op.Reply.Ticket == 0 {
		return false
	}
	q.woken &^= bit
	// It has its place in that master's queue, which each gives out on its own.
	req, place := q.req, *q.req.Wait
	place.Ticket = op.Reply.Ticket
	req.Wait = &place
	op.Request, op.Reply = &req, protocol.Reply{}
	if !q.c.nodes[i].Submit(op) {
		return false // its no stays counted
	}
	q.answered &^= bit
	q.tally.Retract()
	q.heard--
	return true
}

// skip counts the nodes in the set as a no.
func (q *quorumCall) skip(set uint64) {
	for ; set != 0; set &= set - 1 {
		op := &q.ops[bits.TrailingZeros64(set)]
		op.Reply = protocol.Reply{Outcome: protocol.NotSent}
		q.Receive(op)
	}
}

// Receive implements [protocol.Receiver].
func (q *quorumCall) Receive(op *protocol.Op) {
	q.mu.Lock()
	q.answered |= 1 << op.Index
	late := q.doneLocked()
	q.tally.Add(op.Reply.Outcome == protocol.Granted)
	if op.Reply.Outcome != protocol.Unknown && op.Reply.Outcome != protocol.NotSent {
		q.heard++
	}
	if !late && q.doneLocked() {
		q.decide()
	}
	if q.retryLocked(op.Index) {
		q.mu.Unlock()
		return
	}
	if late && op.Wait != nil && waiting.MayQueue(&op.Reply) && q.tally.Verdict() == counting.Won {
		// The lock is ours, but this master may have us in its queue still.
		// Another caller of this process may have it queue anew by now, so it leaves
		// the place that it had in this round and no other.
		q.mu.Unlock()
		dequeue(q.c.nodes[op.Index], op.Lock, op.Wait.Waiter, max(op.Reply.Ticket, op.Wait.Ticket), op.Start)
		q.mu.Lock()
	}
	q.doneUnlock()
}

// decide has wait go on.
func (q *quorumCall) decide() {
	select {
	case q.decided <- struct{}{}:
	default: // decided and its time over, at once
	}
}

// done ends one use of the call. The one who calls it must not touch it again.
func (q *quorumCall) done() {
	q.mu.Lock()
	q.doneUnlock()
}

func (q *quorumCall) doneUnlock() {
	q.users--
	last := q.users == 0
	q.mu.Unlock()
	if !last {
		return
	}
	select {
	case <-q.decided: // after a timeout nobody took it
	default:
	}
	q.req = protocol.Request{}
	for i := range q.ops {
		q.ops[i].Request = &q.req
	}
	q.c.quorumCalls.Put(q)
}

// queued are the masters that have answered and may have the waiter in their queue,
// and settled those that certainly have not: they granted.
func (q *quorumCall) queued() (queued, settled uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.ops {
		switch r := &q.ops[i].Reply; {
		case q.answered&(1<<i) == 0:
		case waiting.MayQueue(r):
			queued |= 1 << i
		case r.Outcome == protocol.Granted:
			settled |= 1 << i
		}
	}
	return queued, settled
}

// absent is how many masters have said that what was asked about is not there.
func (q *quorumCall) absent() (n int) {
	for _, r := range q.replies() {
		if r.Outcome == protocol.Absent {
			n++
		}
	}
	return n
}

func (q *quorumCall) doneLocked() bool {
	if q.want > 0 {
		return q.heard >= q.want || q.tally.All()
	}
	return q.tally.Verdict() != counting.Pending
}

// await returns when the verdict is there, timeout is over or ctx ends. Masters
// that are silent by then count as a no.
func (q *quorumCall) await(ctx context.Context, timeout time.Duration) counting.Verdict {
	select {
	case <-q.decided:
	default:
		q.c.deadlines.add(q, time.Now().Add(timeout))
		select {
		case <-q.decided:
		case <-ctx.Done():
		}
		q.c.deadlines.remove(q)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if v := q.tally.Verdict(); v != counting.Pending {
		return v
	}
	return counting.Lost
}

// hear waits after the verdict until want masters have answered, all have or are known
// to be out of reach, or timeout is over.
func (q *quorumCall) hear(ctx context.Context, want int, timeout time.Duration) {
	q.mu.Lock()
	q.want = want
	done := q.doneLocked()
	q.mu.Unlock()
	if !done {
		q.await(ctx, timeout)
	}
}

// replies copies what is known by now; silent masters are Unknown.
func (q *quorumCall) replies() []protocol.Reply {
	q.mu.Lock()
	defer q.mu.Unlock()
	rs := make([]protocol.Reply, len(q.ops))
	for i := range q.ops {
		if q.answered&(1<<i) != 0 {
			rs[i] = q.ops[i].Reply
		}
	}
	return rs
}

// votes says which masters granted, which may hold a vote (those, and all that
// were asked and gave no definite answer), and which have not answered at all.
func (q *quorumCall) votes() (granted, maybe, silent uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.ops {
		bit := uint64(1) << i
		r := &q.ops[i].Reply
		switch {
		case q.answered&bit == 0:
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
