// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Config is what the lines of a client work with, and whom they tell. Its functions are called while the lines are not locked,
// but for Over, Jitter and those of Masters.
type Config struct {
	Masters   *quorum.Masters
	Namespace protocol.Namespace
	Client    string                            // its id, to which the masters publish
	Jitter    func(time.Duration) time.Duration // a random time below its argument
	// Over returns why the client grants nothing any more, or nil.
	Over func() error
	// GaveUp returns the error of a caller whose context ended. last is that of the last round of any caller in its line, or nil.
	GaveUp func(ctx context.Context, l *protocol.Lock, last error) error
	// Waits is told of a caller that begins to wait, when Waited is not set yet, and that waits on after a round. Nil: nobody wants to know.
	Waits func(ctx context.Context, call *Caller, last error)
	// Handed is told of each vote that master i gave by a message. Nil: nobody wants to know.
	Handed func(i int, lock string)
}

// Caller is a call for a lock that waits until it has it. The face makes it, and what it has of its own beside it: one allocation.
type Caller struct {
	Face Face
	Lock *protocol.Lock

	Waited bool // it began to wait
	asked  bool // ask is closed
	// These are of a call that has ended: how many rounds it made, and how long the masters took to answer the last round of its line.
	Rounds int
	Trip   time.Duration

	turn chan struct{} // closed when its turn has come; nil: it never was in a line
	ask  chan struct{} // closed when it is to ask by itself: see followReaderLocked; nil: it is no reader, or the first
	// ticket is its place in the order of all callers of all processes: when it came, on the masters' clocks.
	ticket int64
	joined time.Duration  // when it began to wait
	offer  *attempt.Offer // what it may take over in its turn; nil: nothing. Set with the turn
}

// Face is what a caller's lock does with the rounds that the line makes for it.
type Face interface {
	Terms() Terms
	// Begin makes a round of which no master has been asked, and which takes places in their queues.
	Begin(ctx context.Context, place *protocol.Wait) *attempt.Attempt
	// TakeOver makes the round that asks for what is offered. No master has been asked.
	TakeOver(ctx context.Context, o *attempt.Offer) *attempt.Attempt
	// Win settles a round with the verdict. If the round gives a lease, it keeps that for the caller and says so. Else it says how the
	// round ended.
	Win(a *attempt.Attempt, v counting.Verdict) (attempt.Lost, bool)
	// Alone makes a round without a place, as one that does not wait, and says whether the caller has the lock.
	Alone(ctx context.Context) bool
	// Failed says what a round found that gave no lease. It may wait for masters that have not answered.
	Failed(a *attempt.Attempt, end attempt.Lost) Failed
}

// Terms are the settings of a lock that concern its waiting.
type Terms struct {
	Unfair   bool          // it goes past others that wait
	Within   time.Duration // how long a waiter that is next sleeps at most; 0: as long as it may
	Patience time.Duration // how long the caller goes on while no quorum of masters answers
}

// Failed is a round that gave no lease.
type Failed struct {
	Err     error        // what the caller gets, if it waits no longer
	Late    func() error // Err with the answers that have come since, while the round is open; or nil. It is called with the lines locked. Nil: there are no others
	Final   bool         // waiting cannot cure it
	Silent  bool         // no quorum of masters answered
	Hurried bool         // it had too little time to hear the masters, because the caller's was nearly over
	Deaf    bool         // it was over before masters that are well could have answered
	// Saw is what it saw. Replies, Need, Behind and Within are of the line.
	Saw waiting.Round
}
