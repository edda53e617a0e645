// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"
)

// Observer has a function for each thing that a client does and that its operator may want to
// see. Give it to [WithObserver]. A nil function costs nothing. Package metrics, [WithLogger] and
// the OpenTelemetry module are Observers (docs/observe.md).
//
// The client calls the functions from whatever goroutine does the thing: a caller's, the one that
// renews leases, or the one that talks to a master. Several may run at the same time, and several
// clients may have the same Observer. A function must return soon and must not block: the client
// waits for it, so a function that blocks delays renewals. For the same reason it must not call
// what asks the masters. It may call what does not: Stats, Ready, and a lease's Err, Token and
// ValidUntil. Events have all that is known.
//
// If a function panics, the client recovers, logs the panic once ([WithLogger]), counts it
// ([Stats]) and calls no function of that Observer any more. Locks and other Observers go on.
//
// The context of an event is the caller's. An event without one comes from the client itself.
// An error in an event is the one that the caller gets, so errors.Is finds the same in it.
type Observer struct {
	// Opening is called once, if Open or New has to wait for a quorum of masters.
	Opening func(context.Context, OpeningEvent)
	// Opened is called before Open or New returns c. Closed is called at the end of c.Close. These
	// two may call c's Stats, and Opened may keep c, for Stats later. After Closed only calls are told
	// of that were under way, or that end with ErrClosed.
	Opened func(c *Client)
	Closed func(c *Client)

	// Waits is called when a caller's Lock cannot have the lock at once, and again after each round
	// that the caller makes in vain. An Acquired of that call follows.
	Waits func(context.Context, WaitEvent)
	// Acquired is called when a Lock, TryLock, TryLockFor, Do, TryDo or Adopt has the lock, or returns an
	// error without it. It is not called for [ErrConfig], [ErrNotReentrant] and [ErrUpgrade], nor
	// for a lock that is entered again.
	Acquired func(context.Context, AcquireEvent)
	// Voted is called for each answer of a master to a request for its vote, and for each vote that
	// a release handed to a waiter.
	Voted func(VoteEvent)
	// Extended is called when an extend was decided, the client's own or one of [Lease.Extend].
	Extended func(ExtendEvent)
	// Ended is called once for each grant: when its last lease was unlocked or when it was lost,
	// whichever comes first.
	Ended func(EndEvent)
	// Unlocked is called when the Unlock of a grant's last lease returns, and when a Do has given its
	// lock back. It is the only one who hears from a Do that the release was not confirmed
	// ([ErrUnconfirmed]).
	Unlocked func(context.Context, UnlockEvent)

	// Master is called when the state of a master changes, as far as the client knows. A master
	// that dies while the client has nothing to ask of it is down from the next request on. The
	// client looks at its masters every second while it is in use, and else four times in a maximum
	// TTL; with [WithUnsafeRecoveryOff] it does not look by itself. When the client is closed, all
	// its masters become MasterUnknown.
	Master func(MasterEvent)
	// Clock is called when a clock seems to have jumped.
	Clock func(ClockEvent)
	// Epoch is called when the client learns the epoch of its masters, and when that changes.
	Epoch func(EpochEvent)

	_ struct{}
}

// OpeningEvent says what Open waits for.
type OpeningEvent struct {
	Answered, Quorum int   // masters that have answered, and how many must
	Err              error // why the others have not

	_ struct{}
}

// WaitEvent says what a caller waits for.
type WaitEvent struct {
	Lock   string // its name
	Mode   string // "mutex", "read" or "write"
	First  bool   // the wait begins
	Waited time.Duration
	Before time.Duration // Waited of the event before; 0 with First
	// Last is the last round of any caller in this process that waits for the lock. It says who has
	// it. It is nil before the first, and while other callers of this process are ahead.
	Last *RoundError

	_ struct{}
}

// AcquireEvent is the end of a call for a lock.
type AcquireEvent struct {
	Lock   string
	Mode   string        // "mutex", "read" or "write"
	Took   time.Duration // from the call to its end
	Waited bool          // a [WaitEvent] came before
	Rounds int           // that the caller made; 0 if its turn in this process never came
	Err    error         // nil if the lock was granted; context.DeadlineExceeded if the time of a TryLockFor was over

	// These are of the lease, if it was granted.
	Token    int64
	Holder   string
	Validity time.Duration // that was left

	_ struct{}
}

// Vote is what a master said to a request for its vote.
type Vote uint8

const (
	VoteSilent   Vote = iota // no answer in time; the master may have granted
	VoteGranted              // the vote is the caller's
	VoteHeld                 // another holder has it, or waits for it
	VoteRefused              // the master answered with an error
	VoteNotAsked             // the master is down, recovers, or was not needed any more
	voteCount    = iota
)

var votes = [voteCount]string{"silent", "granted", "held", "refused", "not_asked"}

// String returns v as the label that package metrics has for it, for example "granted".
func (v Vote) String() string {
	if int(v) >= len(votes) {
		return "?"
	}
	return votes[v]
}

// VoteEvent is the answer of one master.
type VoteEvent struct {
	Master string
	Lock   string
	Vote   Vote
	Handed bool  // the release of another holder gave the vote, while the caller waited
	Err    error // with VoteSilent, VoteRefused and VoteNotAsked

	_ struct{}
}

// ExtendEvent is an extend that was decided.
type ExtendEvent struct {
	Lock  string
	Token int64
	Left  time.Duration // of the validity, just before
	Err   error         // nil if a quorum confirmed; ErrUnreachable if the old end stands; or why the lease is over

	_ struct{}
}

// End is how a grant ended.
type End uint8

const (
	EndReleased   End = iota // by Unlock
	EndClosed                // the client was closed
	EndExpired               // lost: too few masters confirmed an extend before the validity was over
	EndNotRenewed            // lost: the validity was over, and the lease was not renewed (WithoutRenewal, WithMaxHold)
	EndVotes                 // lost: a quorum of the masters does not have the votes any more
	EndClock                 // lost: the clock of this host jumped
	endCount      = iota
)

var ends = [endCount]string{"released", "closed", "expired", "not_renewed", "votes_gone", "clock_jumped"}

// String returns e as the label that package metrics has for it, for example "expired".
func (e End) String() string {
	if int(e) >= len(ends) {
		return "?"
	}
	return ends[e]
}

// Lost says whether the grant ended with [ErrLost].
func (e End) Lost() bool { return e >= EndExpired && e < endCount }

// EndEvent is the end of a grant.
type EndEvent struct {
	Lock   string
	Mode   string // "mutex", "read" or "write"
	Token  int64
	Holder string
	End    End
	Held   time.Duration // from the grant to its end
	Left   time.Duration // of the validity
	Err    error         // ErrReleased, ErrClosed or ErrLost

	_ struct{}
}

// UnlockEvent is the end of an Unlock.
type UnlockEvent struct {
	Lock  string
	Mode  string // "mutex", "read" or "write"
	Token int64
	Took  time.Duration
	Err   error // that Unlock returned

	_ struct{}
}

// MasterState is what a client knows about a master.
type MasterState uint8

const (
	MasterUnknown    MasterState = iota // the client has not heard of it yet
	MasterVotes                         // all is well
	MasterRecovers                      // it may not vote for a while, after a restart, for instance
	MasterRefuses                       // it will not vote until somebody does something about it: its policy, its role or its rights are wrong, its record is another's, or it refuses writes
	MasterDown                          // there is no connection to it
	masterStateCount = iota
)

var masterStates = [masterStateCount]string{"unknown", "votes", "recovers", "refuses", "down"}

// String returns s as the label that package metrics has for it, for example "down".
func (s MasterState) String() string {
	if int(s) >= len(masterStates) {
		return "?"
	}
	return masterStates[s]
}

// MasterEvent is a change of a master's state.
type MasterEvent struct {
	Master   string
	From, To MasterState
	Err      error         // why it does not vote
	Left     time.Duration // with MasterRecovers: until it may vote; 0 if that is not known
	Away     time.Duration // with MasterVotes: for how long it did not; 0 if it never did before

	_ struct{}
}

// ClockEvent says whose clock seems to have jumped. Its votes do not count until that is
// cleared up. If it is the clock of this host, all its leases are lost.
type ClockEvent struct {
	Master string // empty: this host

	_ struct{}
}

// EpochEvent says in which epoch the masters vote: which list, with which maximum TTL and drift,
// and how often it was begun anew.
type EpochEvent struct {
	Number int64
	Epoch  string // "number.id", as in [Status]

	_ struct{}
}

// WithObserver has o told what the client does. Given several times, all of them are told, in that
// order. The client copies o. Default: nobody. A nil o changes nothing.
func WithObserver(o *Observer) Option {
	return clientOption(func(s *settings) {
		if o != nil {
			s.told = append(s.told[:len(s.told):len(s.told)], *o)
		}
	})
}
