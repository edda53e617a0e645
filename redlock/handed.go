// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/internal/counting"
	"github.com/redlock-go/redlock/redlock/internal/holding"
	"github.com/redlock-go/redlock/redlock/internal/waiting"
)

// This file is what a quorumCall of a waiter does while its places are in the masters' queues
// (docs/handoff.md). The places may become votes, of which messages tell, until the call is over.

// handedVote is a vote that a master gave by a message.
type handedVote struct {
	token       int64
	from, until time.Duration // the vote counts
}

// hand takes a vote that master i gave to the call's holder, because another holder released the
// lock. The first answer of each master stands. hand says whether the call did not have that vote.
func (q *quorumCall) hand(i int, field string, v handedVote) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	bit, op := uint64(1)<<i, &q.ops[i]
	if q.over || q.handed&bit != 0 || q.req.Lock == nil || q.req.Lock.Field(q.req.Holder) != field {
		return false
	}
	if q.answered&bit != 0 {
		if op.Reply.Outcome == protocol.Granted {
			return false
		}
		q.tally.Retract()
	}
	if q.votes == nil {
		q.votes = make([]handedVote, len(q.ops))
	}
	q.handed |= bit
	q.votes[i] = v
	late := q.doneLocked()
	q.tally.Add(true)
	if !late && q.doneLocked() {
		q.decide()
	}
	return true
}

// asksFor says whether the call asks for that holder.
func (q *quorumCall) asksFor(field string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.over && q.req.Lock != nil && q.req.Lock.Field(q.req.Holder) == field
}

// park says that ct sleeps until the call's places become votes. It says whether a quorum of votes
// is there, whether some are, and whether masters told of some by messages.
func (q *quorumCall) park(ct *contender) (won, some, handed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parked = ct
	return q.wonLocked(), q.tally.Yes > 0 && !q.over, q.handed != 0
}

// sleeps says whether a contender sleeps on the call.
func (q *quorumCall) sleeps() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.parked != nil
}

// handable says whether the call's places may become votes. The masters decide in the same way.
func (q *quorumCall) handable() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.req.Lock != nil && q.req.Lock.Mode != protocol.Read && q.req.TTL >= waiting.Liveness
}

// end says that nothing of the call counts any more.
func (q *quorumCall) end() {
	q.mu.Lock()
	q.closed, q.over, q.parked = true, true, nil
	q.mu.Unlock()
}

// won says whether a quorum of votes is there.
func (q *quorumCall) won() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wonLocked()
}

func (q *quorumCall) wonLocked() bool { return !q.over && q.tally.Verdict() == counting.Won }

// leaveBefore gives back what the call before this one may have on master i. asks says whether
// an acquire of this call is sent behind it.
func (q *quorumCall) leaveBefore(i int, asks bool) {
	if q.beforeAt&(1<<i) == 0 {
		return
	}
	q.beforeAt &^= 1 << i
	req := *q.before
	req.Leaves, req.More = asks, asks
	q.c.nodes[i].Submit(&protocol.Op{To: ignore{}, Request: &req})
}

// definite returns the masters that have answered that the holder has the vote, or a place.
func (q *quorumCall) definite() (set uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.ops {
		switch r := &q.ops[i].Reply; {
		case q.answered&(1<<i) == 0:
		case r.Outcome == protocol.Granted, r.Outcome == protocol.Held && r.Ticket != 0:
			set |= 1 << i
		}
	}
	return set
}

// acquired returns what the masters have answered by now for a lease of the call, the masters of [quorumCall.definite], and whether
// a master may have the holder in its queue.
func (q *quorumCall) acquired() (a holding.Answers, definite uint64, queued bool) {
	granted, maybe, silent := q.sets()
	places := q.places()
	definite = q.definite()
	a = holding.Answers{Granted: granted, Maybe: maybe | places, Silent: silent}
	if q.handable() && !mutants.LateHands {
		a.Places = definite &^ granted
	}
	return a, definite, places != 0
}

// lasts returns from when the earliest of the votes of the masters in the set counts, and until
// when a quorum of them does. A vote in a reply counts from start, for full.
func (q *quorumCall) lasts(set uint64, start, full time.Duration) (from, until time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	set &= q.c.all
	if set&q.handed == 0 {
		return start, start + full
	}
	from = never
	ends := make([]time.Duration, 0, len(q.ops))
	for ; set != 0; set &= set - 1 {
		v := handedVote{from: start, until: start + full}
		if i := bits.TrailingZeros64(set); q.handed&(1<<i) != 0 {
			v = q.votes[i]
		}
		from, ends = min(from, v.from), append(ends, v.until)
	}
	return from, holding.Until(ends, q.c.need)
}
