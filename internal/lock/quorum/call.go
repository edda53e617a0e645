// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"math/bits"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Call is one request to every master, and the answers. The caller of await goes on when
// the tally is decided. Later answers are kept, because they say where a vote may still be.
type Call struct {
	m       *Masters
	decided chan struct{} // holds a token when await is to return

	// Guarded by the mutex of the client's deadlines.
	limit protocol.Limit
	pos   int // in deadlines.open; -1 outside

	mu    sync.Mutex
	tally counting.Tally
	// want is how many masters must answer before await returns. 0: as many as decide the
	// tally. Everybody: all of them, or the end of the time.
	want, heard int
	req         protocol.Request
	ops         []protocol.Op
	// answered are the masters whose reply is there. An op without a reply belongs to its
	// node's lane, except for the fields that send set.
	answered uint64
	// handed are the masters that gave their vote to a place of the call by a message, and votes
	// what the messages told. Such a master's reply does not count.
	handed uint64
	votes  []Vote
	// woken are the masters that woke the contender while they were being asked.
	woken uint64
	// again are the masters that are being asked a second time, and first what they answered before: that they queue the holder.
	again uint64
	first []protocol.Reply
	// closed: the call asks no master a second time, because its round is decided.
	closed bool
	// over: nothing counts any more, because what the call took is given back, or is about to be
	// (H5 in docs/internals/handoff.md).
	over bool
	// parked is who sleeps while the call's places may become votes; nil: none.
	parked Sleeper
	// before is the holder of the contender's call before this one. It gives back what that call
	// may have on the masters in beforeAt, on each ahead of the op. Only the contender's caller
	// uses both.
	before   *protocol.Request
	beforeAt uint64
	// instead is the release that this call's adoptions are instead of, and insteadAt the masters that are sent it if they answer otherwise;
	// nil: none. See takeover.go.
	instead   *Call
	insteadAt uint64
	// took are the masters that let another call take over what this one gives back, and doubt those that may have.
	took, doubt uint64
	// users is how many ops have no answer, plus one until the caller has called done. The
	// last user puts the call into the client's pool: quorum calls would be most of what a
	// lock allocates.
	users int
}

// Send sends the request to the masters in the set.
func (q *Call) Send(set uint64) {
	for i, n := range q.m.Nodes {
		if set&(1<<i) == 0 {
			continue
		}
		if q.beforeAt&(1<<i) != 0 {
			q.leaveBefore(i, true)
		}
		if op := &q.ops[i]; !n.Submit(op) {
			q.Receive(op)
		}
	}
}

// Wake says that the masters in the set have woken the contender. If a master has refused the
// contender in this round, and the round is still open, the master is asked again: it was asked
// a moment before the holder's release came, and the other masters may be slow. The second
// answer counts as the first would have, because the lease counts from the beginning of the
// round.
func (q *Call) Wake(set uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.woken |= set; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		if q.answered&(1<<i) != 0 && q.retryLocked(i) {
			q.users++
		}
	}
}

// Close is called before the votes of a round that is over are read.
func (q *Call) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}

// ClearWoken forgets the wakes of masters that are about to be asked.
func (q *Call) ClearWoken(set uint64) {
	q.mu.Lock()
	q.woken &^= set
	q.mu.Unlock()
}

// Change has the ops to the masters in the set, which are not under way, ask for something else than the others.
func (q *Call) Change(set uint64, to func(*protocol.Request)) {
	if set == 0 {
		return
	}
	req := q.req
	to(&req)
	for ; set != 0; set &= set - 1 {
		q.ops[bits.TrailingZeros64(set)].Request = &req
	}
}

// retryLocked sends the op to master i again, if that can still change the verdict. It submits
// the op under the lock, because the release of the round's votes must be sent later.
func (q *Call) retryLocked(i int) bool {
	bit, op := uint64(1)<<i, &q.ops[i]
	if q.woken&bit == 0 || q.closed || q.handed&bit != 0 || q.doneLocked() || op.Reply.Outcome != protocol.Held || op.Reply.Ticket == 0 {
		return false
	}
	q.woken &^= bit
	q.Change(bit, func(r *protocol.Request) {
		again := *r.Wait
		again.Again = true // the holder has a place in this master's queue
		r.Wait = &again
	})
	if q.first == nil {
		q.first = make([]protocol.Reply, len(q.ops))
	}
	q.first[i], op.Reply = op.Reply, protocol.Reply{}
	if !q.m.Nodes[i].Submit(op) {
		op.Reply = q.first[i]
		return false
	}
	q.again |= bit
	q.answered &^= bit
	q.tally.Retract()
	q.heard--
	return true
}

// Skip counts a no for each master in the set.
func (q *Call) Skip(set uint64) {
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		if q.beforeAt&(1<<i) != 0 {
			q.leaveBefore(i, false)
		}
		q.ops[i].Reply = protocol.Reply{Outcome: protocol.NotSent}
		q.Receive(&q.ops[i])
	}
}

// Receive implements [protocol.Receiver].
func (q *Call) Receive(op *protocol.Op) {
	if q.m.Voted != nil && (op.Kind == protocol.Acquire || q.instead != nil && op.Reply.Outcome != protocol.Absent) {
		q.m.Voted(op.Index, q.req.Lock, &op.Reply)
	}
	if q.req.Wait != nil && op.Reply.Outcome != protocol.Granted { // a master that granted keeps no place
		op.Reply.State = q.m.Nodes[op.Index].VotingState()
	}
	q.mu.Lock()
	bit := uint64(1) << op.Index
	if q.again&bit != 0 && op.Reply.Outcome == protocol.NotSent {
		op.Reply = q.first[op.Index] // the second ask changed nothing: the master still queues the holder
	} else if op.Reply.Remaining > 0 {
		op.Reply.Received = q.m.Clock.Elapsed()
	}
	q.takenLocked(op)
	q.again &^= bit
	q.answered |= bit
	late := q.doneLocked()
	granted := op.Reply.Outcome == protocol.Granted
	if q.handed&bit == 0 { // else the vote was counted with the message, which came before
		q.tally.Add(granted)
	}
	if op.Reply.Outcome != protocol.Unknown && op.Reply.Outcome != protocol.NotSent {
		q.heard++
	}
	if !late && q.doneLocked() {
		q.Decide()
	}
	if q.retryLocked(op.Index) {
		q.mu.Unlock()
		return
	}
	sleeps := q.parked
	instead, outcome, waits := q.instead, op.Reply.Outcome, q.insteadAt&bit != 0
	free := q.freeLocked()
	q.doneUnlock()
	switch {
	case instead != nil:
		instead.settle(op.Index, outcome, waits)
	case sleeps == nil:
	case granted:
		sleeps.Voted(q)
	case free&bit != 0:
		sleeps.Freed(q, free)
	}
}

// Decided holds a token when Await is to return. Who takes it, and does not call Await, calls Decide.
func (q *Call) Decided() <-chan struct{} { return q.decided }

// Postpone lets the masters that are asked from now on take d longer.
func (q *Call) Postpone(d time.Duration) { q.req.Deadline += d }

// Before has the call give back what the call of req may have on the masters in the set, on each ahead of what it asks of it itself.
// It is called before any master is asked.
func (q *Call) Before(req *protocol.Request, set uint64) { q.before, q.beforeAt = req, set }

// Decide lets Await return.
func (q *Call) Decide() {
	select {
	case q.decided <- struct{}{}:
	default: // the call was decided when its time was over
	}
}

// Done ends the caller's use of the call.
func (q *Call) Done() {
	q.mu.Lock()
	q.doneUnlock()
}

func (q *Call) doneUnlock() {
	q.users--
	last := q.users == 0
	q.mu.Unlock()
	if !last {
		return
	}
	select {
	case <-q.decided: // nobody takes the token after a timeout
	default:
	}
	q.req, q.parked, q.before, q.instead = protocol.Request{}, nil, nil, nil
	for i := range q.ops {
		q.ops[i].Request = &q.req
	}
	q.m.pool.Put(q)
}

// Places returns the masters that have answered and may have the call's holder in their queue.
func (q *Call) Places() (set uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.ops {
		if bit := uint64(1) << i; q.answered&bit != 0 && q.req.Wait != nil && q.ops[i].Reply.MayQueue() {
			set |= bit
		}
	}
	return set
}

// Absent is how many masters have answered Absent: the vote is not there.
func (q *Call) Absent() (n int) {
	for _, r := range q.Replies() {
		if r.Outcome == protocol.Absent {
			n++
		}
	}
	return n
}

func (q *Call) doneLocked() bool {
	if q.want > 0 {
		return q.heard >= q.want || q.tally.All()
	}
	return q.tally.Verdict() != counting.Pending
}

// Await returns the verdict when it is there, when timeout is over or when ctx ends. Masters
// that have not answered by then count as a no. See [protocol.Limit] for a process that was held up.
func (q *Call) Await(ctx context.Context, timeout time.Duration) counting.Verdict {
	select {
	case <-q.decided:
	default:
		q.m.deadlines.add(q, timeout)
		select {
		case <-q.decided:
		case <-ctx.Done():
		}
		q.m.deadlines.remove(q)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if v := q.tally.Verdict(); v != counting.Pending {
		return v
	}
	return counting.Lost
}

// Rest is Await, unless the tally is decided by now: after another Await whose time was over.
func (q *Call) Rest(ctx context.Context, timeout time.Duration) counting.Verdict {
	q.mu.Lock()
	v := q.tally.Verdict()
	q.mu.Unlock()
	if v != counting.Pending {
		return v
	}
	return q.Await(ctx, timeout)
}

// Hear waits after the verdict until want masters have answered, until every master has
// answered or is known to be out of reach, or until timeout is over.
func (q *Call) Hear(ctx context.Context, want int, timeout time.Duration) {
	q.mu.Lock()
	q.want = want
	done := q.doneLocked()
	q.mu.Unlock()
	if !done {
		q.Await(ctx, timeout)
	}
}

// Replies copies the replies that are there. The reply of a silent master is Unknown. That of a
// master that gave its vote by a message is Granted. What is Remaining of another's vote counts from now, and not from the answer: a
// waiter would come too late by as long as the round was open.
func (q *Call) Replies() []protocol.Reply {
	q.mu.Lock()
	defer q.mu.Unlock()
	rs := make([]protocol.Reply, len(q.ops))
	for i := range q.ops {
		switch bit := uint64(1) << i; {
		case q.handed&bit != 0:
			rs[i] = protocol.Reply{Outcome: protocol.Granted, Token: q.votes[i].Token}
		case q.answered&bit != 0:
			rs[i] = q.ops[i].Reply
		}
		if r := &rs[i]; r.Remaining > 0 { // 0 would say that nobody has the lock there
			r.Remaining = max(r.Remaining-(q.m.Clock.Elapsed()-r.Received), 1)
		}
	}
	return rs
}

// Sets returns the masters that granted, the masters that may hold a vote, and the masters
// that have not answered. A master that was asked and gave no definite answer may hold one.
func (q *Call) Sets() (granted, maybe, silent uint64) {
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
	return granted | q.handed, maybe | q.handed, silent
}
