// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/model/tokenmodel"
)

// The functions of this file are a client's bookkeeping: what one attempt knows, which answers and messages count, and
// from when. They are pure. The explorers and the simulation call them as they are, and the product may too.

// Standing says what an attempt is known to have on one master. It only ever grows: a place becomes a vote, and either
// is gone one day. So an answer that arrives late never undoes a newer one.
type Standing uint8

const (
	Silent Standing = iota // no answer yet
	Queued                 // a place
	Voted                  // the vote
	Gone                   // neither, and never again under this holder id
)

// String says what an attempt has.
func (s Standing) String() string {
	return [...]string{"silent", "queued", "voted", "gone"}[s]
}

// Hand is the message by which a master tells that it has given its vote to a place in the queue.
type Hand struct {
	Holder string
	Vote   int64         // the counter's value
	Stamp  time.Duration // when the client sent the sign of life that the master read at the grant, on the client's clock
	TTL    time.Duration // of the vote, from the grant
}

// Answer is a master's reply to an enqueue, a retry or a claim.
type Answer struct {
	Standing Standing      // Queued, Voted or Gone
	Vote     int64         // Voted: the vote or, when it was there before, the counter
	TTL      time.Duration // Voted: what the op set
	Ahead    int           // live places before this one, or, with the vote, in the queue with a smaller ticket
	Held     time.Duration // not Voted: what the holder's TTL has left; 0 if the lock was free
	Stranger bool          // not Voted: the holder is Redisson's, who tells its release on a channel of its own
}

// Seen is what an attempt knows of one master.
type Seen struct {
	Standing Standing
	Vote     int64         // what the first answer told; 0 if none did
	Until    time.Duration // the vote counts before this instant
	Joined   bool          // the master stands for the attempt's token, see tokenmodel.Joins
	Ahead    int           // of the last answer
	Held     time.Duration // of the last answer
	Stranger bool          // of the last answer
	Asked    time.Duration // when the op of the last answer was sent
}

// Hear takes in a message and reports whether it counts. It does not if it is another attempt's, if this attempt is
// over (its give-back is sent or owed: rule H5), or if its stamp is from before the client's clock jumped. The vote
// counts from the stamp (rules H1 and H2).
func (a *Attempt) Hear(n int, h Hand) bool {
	s := &a.Seen[n]
	if a.Over || h.Holder != a.Holder || s.Standing == Gone || h.Stamp < a.Trusted {
		return false
	}
	s.voted(h.Vote, h.Stamp, h.TTL, a.Drift)
	a.note(s, s.Vote)
	return true
}

// Take takes in the answer to an op that was sent at sent, a claim with that token, or 0. A vote counts from the
// sending of the op, because that op gave it or renewed it (rule H3).
func (a *Attempt) Take(n int, r Answer, sent time.Duration, token int64) {
	s := &a.Seen[n]
	if a.Over || r.Standing < s.Standing {
		return
	}
	if sent >= s.Asked {
		s.Ahead, s.Held, s.Stranger, s.Asked = r.Ahead, r.Held, r.Stranger, sent
	}
	if r.Standing != Voted {
		s.Standing, s.Until = r.Standing, 0
		return
	}
	if sent < a.Trusted {
		return
	}
	before := s.Vote
	s.voted(r.Vote, sent, r.TTL, a.Drift)
	if token != 0 && token == a.Token {
		s.Joined = s.Joined || tokenmodel.Joins(before, token, r.Vote)
		return
	}
	a.note(s, s.Vote)
}

// voted notes a vote that counts from start. The first answer's value stands (rule R1); the time may grow.
func (s *Seen) voted(vote int64, start, ttl time.Duration, drift clock.Drift) {
	s.Standing = Voted
	if s.Vote == 0 {
		s.Vote = vote
	}
	if ttl > 0 {
		s.Until = max(s.Until, start+drift.Validity(ttl, 0))
	}
}

// note lets a vote that equals the token stand for it.
func (a *Attempt) note(s *Seen, vote int64) {
	if a.Token != 0 && vote == a.Token {
		s.Joined = true
	}
}

// HoldsUntil is when a holder stops having a quorum of votes that count: the quorum-th latest of their ends. Votes may
// have ends of their own, because a handed vote has a shorter TTL. 0 if there are fewer votes.
func HoldsUntil(until []time.Duration, quorum int) time.Duration {
	best := time.Duration(0)
	for _, end := range until {
		atLeast := 0
		for _, other := range until {
			if other >= end {
				atLeast++
			}
		}
		if atLeast >= quorum && end > best {
			best = end
		}
	}
	return best
}

// FixToken is rule R3 of docs/safety.md: the largest of the counted votes, once a quorum is counted; else 0. A master
// that has not voted counts as 0.
func FixToken(votes []int64, quorum int) int64 {
	token, counted := int64(0), 0
	for _, v := range votes {
		if v > 0 {
			counted++
			token = max(token, v)
		}
	}
	if counted < quorum {
		return 0
	}
	return token
}
