// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// This file is what a Call of a waiter does while its places are in the masters' queues
// (docs/internals/handoff.md). The places may become votes, of which messages tell, until the call is over.

// Sleeper is who sleeps while the places of a call may become votes.
type Sleeper interface {
	// Voted is told that a vote has come in a reply. No mutex of the call is locked.
	Voted(*Call)
	// Freed is told that a reply has come that made a master one of [Call.Free], which it is told too.
	Freed(q *Call, free uint64)
}

// Vote is a vote that a master gave by a message.
type Vote struct {
	Token       int64
	From, Until time.Duration // the vote counts
}

// Hand takes a vote that master i gave to the call's holder in the voting state, because another holder released the
// lock. The first answer of each master stands. hand says whether the call did not have that vote.
//
// A vote that was given in another state than the place is not one of master i: a server that became a replica passes on what its master publishes,
// and one of which two nodes have an address is heard twice (docs/safety.md A25).
func (q *Call) Hand(i int, field, state string, v Vote) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	bit, op := uint64(1)<<i, &q.ops[i]
	if q.over || q.handed&bit != 0 || q.req.Lock == nil || q.req.Lock.Field(q.req.Holder) != field {
		return false
	}
	if q.answered&bit != 0 {
		if op.Reply.Outcome == protocol.Granted || op.Reply.Outcome == protocol.NotSent { // it was not asked, and so gives no vote
			return false
		}
		if op.Reply.State != state {
			return false
		}
		q.tally.Retract()
	} else if q.m.Nodes[i].VotingState() != state { // that with which it was sent the acquire
		return false
	}
	if q.votes == nil {
		q.votes = make([]Vote, len(q.ops))
	}
	q.handed |= bit
	q.votes[i] = v
	late := q.doneLocked()
	q.tally.Add(true)
	if !late && q.doneLocked() {
		q.Decide()
	}
	return true
}

// AsksFor says whether the call asks for that holder.
func (q *Call) AsksFor(field string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.over && q.req.Lock != nil && q.req.Lock.Field(q.req.Holder) == field
}

// Park says that s sleeps until the call's places become votes. It says whether a quorum of votes
// is there, whether some are, and whether masters told of some by messages.
func (q *Call) Park(s Sleeper) (won, some, handed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parked = s
	return q.wonLocked(), q.tally.Yes > 0 && !q.over, q.handed != 0
}

// Handable says whether the call's places may become votes: if the TTL is liveness or longer. The masters decide in the same way.
func (q *Call) Handable(liveness time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.req.Lock != nil && q.req.Lock.Mode != protocol.Read && q.req.TTL >= liveness
}

// End says that nothing of the call counts any more.
func (q *Call) End() {
	q.mu.Lock()
	q.closed, q.over, q.parked = true, true, nil
	q.mu.Unlock()
}

// Won says whether a quorum of votes is there.
func (q *Call) Won() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wonLocked()
}

func (q *Call) wonLocked() bool { return !q.over && q.tally.Verdict() == counting.Won }

// leaveBefore gives back what the call before this one may have on master i, one of beforeAt. asks says whether
// an acquire of this call is sent behind it.
func (q *Call) leaveBefore(i int, asks bool) {
	q.beforeAt &^= 1 << i
	req := *q.before
	req.Leaves, req.More = asks, asks
	q.m.Nodes[i].Submit(&protocol.Op{To: Ignore{}, Request: &req})
}

// Free are the masters on which the lock was free when they gave the holder the first place in the queue, and no vote because it asked
// for none. Nobody will wake it there.
func (q *Call) Free() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.freeLocked()
}

func (q *Call) freeLocked() (set uint64) {
	if q.req.Wait == nil || !q.req.Wait.Only {
		return 0
	}
	for i := range q.ops {
		r := &q.ops[i].Reply
		if q.answered&^q.handed&(1<<i) != 0 && r.Outcome == protocol.Held && r.Ticket != 0 && r.Ahead == 0 && r.Remaining == 0 && !r.Foreign {
			set |= 1 << i
		}
	}
	return set
}

// Definite returns the masters that have answered that the holder has the vote, or a place.
func (q *Call) Definite() (set uint64) {
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

// PlacedAs fills in of each master in set, which gave a place, the voting state with which it did. It returns as, or a new slice if that is nil.
func (q *Call) PlacedAs(as []string, set uint64) []string {
	if as == nil {
		as = make([]string, len(q.ops))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		as[i] = q.ops[i].Reply.State
	}
	return as
}

// Handed are the masters that gave their vote by a message.
func (q *Call) Handed() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.handed
}

// HandedVote is the vote that master i gave by a message, if it did.
func (q *Call) HandedVote(i int) (v Vote, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ok = q.handed&(1<<i) != 0; ok {
		v = q.votes[i]
	}
	return v, ok
}

// VotesUpTo returns the masters whose vote is known, and is no larger than the token.
func (q *Call) VotesUpTo(token int64) (set uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.ops {
		if vote, ok := q.voteLocked(i); ok && vote <= token {
			set |= 1 << i
		}
	}
	return set
}

// voteLocked returns the vote of master i.
func (q *Call) voteLocked(i int) (token int64, ok bool) {
	switch r := &q.ops[i].Reply; {
	case q.handed&(1<<i) != 0:
		return q.votes[i].Token, true
	case q.answered&(1<<i) != 0 && r.Outcome == protocol.Granted:
		return r.Token, true
	}
	return 0, false
}

// Tokens counts the tokens of the votes that were granted by now.
func (q *Call) Tokens() (t counting.Tokens) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.ops {
		if vote, ok := q.voteLocked(i); ok {
			t.Add(i, vote)
		}
	}
	return t
}
