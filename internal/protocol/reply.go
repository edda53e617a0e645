// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

// Outcome says what a reply means to a coordinator that counts votes.
type Outcome uint8

const (
	// Unknown: there is no answer. The master may have executed the op, or may execute
	// it later. Unknown is not a vote. The submitter must send a Release after an
	// Acquire with this outcome.
	Unknown Outcome = iota
	// Granted: the master did what was asked.
	Granted
	// Held: another holder has the lock on this master, for Reply.Remaining.
	Held
	// Absent: the holder had no vote on this master, or the waiter no place.
	Absent
	// Refused: the master answered and refused; Reply.Err says why. It changed nothing.
	Refused
	// NotSent: the master has not executed the op and never will, so there is nothing
	// to release. Reply.Err says why. A Release never has this outcome: the
	// node sends it later.
	NotSent
)

var outcomes = [...]string{"unknown", "granted", "held", "absent", "refused", "not sent"}

func (o Outcome) String() string {
	if int(o) >= len(outcomes) {
		return "?"
	}
	return outcomes[o]
}

// Reply is the result of an Op.
type Reply struct {
	Outcome Outcome
	Foreign bool // Acquire with Wait, Held: the holder is Redisson's
	// Remaining is the rest of the other holder's TTL. It is negative when the key has
	// no TTL; no lock of this library or of Redisson is without one.
	Remaining time.Duration
	// Received is when the answer came that has a Remaining above 0, on the client's clock. Whoever takes the answer sets it.
	Received time.Duration
	// Holder is the other holder, or one of several, when an Acquire without Wait is
	// Held. It is empty when nobody holds the lock on this master and others queue for
	// it.
	Holder string
	Token  int64             // Acquire, Granted: the vote's token
	Ticket int64             // Acquire with Wait, Held: the waiter's place in the queue
	Ahead  int               // Acquire with Wait, Held: how many waiters are before it
	State  string            // Acquire with Wait, but for Granted: [Node.VotingState]. Whoever takes the answer sets it
	Intact []bool            // Extend: one for each item
	Denied []bool            // Extend: one for each item that the user may not touch, of which Intact says nothing; nil: none
	Record map[string]string // ReadRecord: the fields that exist
	Seen   Seen              // ReadRecord
	Err    error             // Unknown, NotSent and Refused

	Inspected *Inspected // Inspect, Granted
	Listed    *Listed    // ListLocks, Granted
}

// Seen says when a record was read, and on which master.
type Seen struct {
	// Sent and Received are on the clock that the node was opened with, before and
	// after the record was read.
	Sent, Received time.Duration
	// Time is the master's clock at a moment between Sent and Received, since 1970.
	Time        time.Duration
	Incarnation string // of the master, on the connection that was used
}

// MayQueue says whether the master that gave the reply to an acquire that waits may have the
// waiter in its queue.
func (r *Reply) MayQueue() bool {
	switch r.Outcome {
	case Granted, NotSent:
		return false
	case Held:
		return r.Ticket != 0
	}
	return true
}
