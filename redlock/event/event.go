// SPDX-License-Identifier: Apache-2.0

// Package event has what a client tells its Observers: one type for each thing that happens to locks and masters.
//
//	client, err := redlock.Open(ctx, urls, redlock.WithObserver(&event.Observer{
//		Ended: func(e event.End) { fmt.Println(e.Lock, e.Ending) },
//	}))
//
// Programs that only lock do not need it: package metrics counts for Prometheus, and redlock.WithLogger logs. A name that an event has keeps its
// meaning; new fields may come, so an event is made by the client alone.
package event

import (
	"context"
	"time"
)

// Observer has a function for each thing that a client does and that its operator may want to
// see. Give it to redlock.WithObserver. A nil function costs nothing. Package metrics, redlock.WithLogger and
// the OpenTelemetry module are Observers (docs/observe.md).
//
// The client calls the functions from whatever goroutine does the thing: a caller's, the one that
// renews leases, or the one that talks to a master. Several may run at the same time, and several
// clients may have the same Observer. A function must return soon and must not block: the client
// waits for it, so a function that blocks delays renewals. For the same reason it must not call
// what asks the masters. It may call what does not: Stats, Ready, and a lease's Err, Token and
// ValidUntil. Close and Shutdown wait for the functions that run: one that calls them may wait for itself, so it begins them on
// another goroutine. Events have all that is known.
//
// If a function panics, the client recovers, logs the panic once (redlock.WithLogger), counts it
// ([Stats]) and calls no function of that Observer any more. Locks and other Observers go on.
// A function must not end its goroutine, as t.Fatal and runtime.Goexit do: what the client was
// about to do there is not done. A lock may stay taken, and Close waits for ever. A test notes
// what it saw, and fails on its own goroutine.
//
// The context of an event is the caller's. An event without one comes from the client itself.
// An error in an event is the one that the caller gets, so errors.Is finds the same in it.
type Observer struct {
	// Opening is called once, if Open or New has to wait for a quorum of masters.
	Opening func(context.Context, Opening)
	// Opened is called before Open or New returns c. Closed is called at the end of c.Close. These
	// two may call c's Stats, and Opened may keep c, for Stats later. After Closed only calls are told
	// of that were under way, or that end with ErrClosed.
	Opened func(c Client)
	Closed func(c Client)

	// Waits is called when a caller's Lock cannot have the lock at once, and again after each round
	// that the caller makes in vain. An Acquired of that call follows.
	Waits func(context.Context, Wait)
	// Acquired is called when a Lock, TryLock, Do, TryDo or Adopt has the lock, or returns an
	// error without it. It is not called for redlock.ErrConfig, redlock.ErrNotReentrant and redlock.ErrUpgrade, nor
	// for a call with the context of a lease of the same lock, which enters that again or says why it cannot.
	Acquired func(context.Context, Acquire)
	// Voted is called for each answer of a master to a request for its vote, for each vote that
	// a release handed to a waiter, and for each that a caller took over from another one of this process. It is not called for the votes of an Adopt.
	Voted func(Vote)
	// Extended is called when an extend was decided, the client's own or one of redlock.Lease.Extend.
	Extended func(Extend)
	// Ended is called once for each grant: when its last lease was unlocked or when it was lost,
	// whichever comes first.
	Ended func(End)
	// Unlocked is called when the Unlock of a grant's last lease returns, and when a Do has given its
	// lock back. For a Do, it alone reports that the release was not confirmed
	// (redlock.ErrUnconfirmed).
	Unlocked func(context.Context, Unlock)

	// Master is called when the state of a master changes, as far as the client knows. A master
	// that dies while the client has nothing to ask of it is down from the next request on. The
	// client looks at its masters every second while it is in use, and else four times in a maximum
	// TTL; with redlock.WithUnsafeRecoveryOff it does not look by itself. When the client is closed, all
	// its masters become MasterUnknown.
	Master func(Master)
	// Clock is called when a clock seems to have jumped.
	Clock func(Clock)
	// Epoch is called when the client learns the epoch of its masters, and when that changes.
	Epoch func(Epoch)

	_ struct{}
}

// Opening says what Open waits for.
type Opening struct {
	Answered, Quorum int   // masters that have answered, and how many must
	Err              error // why the others have not; if a quorum has, why that is not enough. It is never nil

	_ struct{}
}

// Wait says what a caller waits for.
type Wait struct {
	Lock  string // its name
	Mode  string // "mutex", "read" or "write"
	First bool   // the wait begins
	// Recovers is set once in a wait: Last says for the first time that the masters recover.
	Recovers bool
	Waited   time.Duration
	Before   time.Duration // Waited of the event before; 0 with First
	// Last is the last round of any caller in this process that waits for the lock, a *redlock.RoundError. It says who has
	// it. It is nil before the first.
	Last error

	_ struct{}
}

// Acquire is the end of a call for a lock.
type Acquire struct {
	Lock   string
	Mode   string        // "mutex", "read" or "write"
	Took   time.Duration // from the call to its end
	Waited bool          // a [Wait] came before
	Rounds int           // that the caller made; it can be 0 if its turn in this process never came, or if the context or the client was over before
	// Err is nil if the lock was granted. If the maximum wait (redlock.WithMaxWait) was over after a round, it is that of the round.
	Err error

	// These are of the lease, if it was granted.
	Token    int64
	Holder   string
	Validity time.Duration // that was left

	_ struct{}
}

// Answer is what a master said to a request for its vote.
type Answer uint8

const (
	VoteSilent   Answer = iota // no answer in time; the master may have granted
	VoteGranted                // the vote is the caller's
	VoteHeld                   // another holder has it, or waits for it
	VoteRefused                // the master answered with an error
	VoteNotAsked               // the master is down, recovers, or was not needed any more
	voteCount    = iota
)

var votes = [voteCount]string{"silent", "granted", "held", "refused", "not_asked"}

// String returns v as the label that package metrics has for it, for example "granted".
func (v Answer) String() string {
	if int(v) >= len(votes) {
		return "?"
	}
	return votes[v]
}

// Vote is the answer of one master.
type Vote struct {
	Master string
	Lock   string
	Answer Answer
	Handed bool  // the release of another holder gave the vote, while the caller waited
	Err    error // with VoteSilent, VoteRefused and VoteNotAsked

	_ struct{}
}

// Extend is an extend that was decided.
type Extend struct {
	Lock  string
	Token int64
	Left  time.Duration // of the validity, just before
	Err   error         // nil if a quorum confirmed; ErrUnreachable if the old end stands; or why the lease is over

	_ struct{}
}

// Ending is how a grant ended.
type Ending uint8

const (
	EndReleased   Ending = iota // by Unlock
	EndClosed                   // the client was closed
	EndExpired                  // lost: too few masters confirmed an extend before the validity was over
	EndNotRenewed               // lost: the validity was over, and the lease was not renewed (WithoutRenewal, WithMaxHold)
	EndVotes                    // lost: too few masters still have the votes
	EndClock                    // lost: the clock of this host jumped
	endCount      = iota
)

var ends = [endCount]string{"released", "closed", "expired", "not_renewed", "votes_gone", "clock_jumped"}

// String returns e as the label that package metrics has for it, for example "expired".
func (e Ending) String() string {
	if int(e) >= len(ends) {
		return "?"
	}
	return ends[e]
}

// Lost says whether the grant ended with redlock.ErrLost.
func (e Ending) Lost() bool { return e >= EndExpired && e < endCount }

// End is the end of a grant.
type End struct {
	Lock   string
	Mode   string // "mutex", "read" or "write"
	Token  int64
	Holder string
	Ending Ending
	Held   time.Duration // from the grant to its end
	Left   time.Duration // of the validity
	Err    error         // ErrReleased, ErrClosed or ErrLost

	_ struct{}
}

// Unlock is the end of an Unlock.
type Unlock struct {
	Lock  string
	Mode  string // "mutex", "read" or "write"
	Token int64
	Took  time.Duration
	Err   error // that Unlock returned

	_ struct{}
}

// State is what a client knows about a master.
type State uint8

const (
	MasterUnknown    State = iota // the client has not heard of it yet
	MasterVotes                   // all is well
	MasterRecovers                // it may not vote for a while, after a restart, for instance
	MasterRefuses                 // it will not vote until somebody does something about it: its policy, its role or its rights are wrong, its record is another's, or it refuses writes
	MasterDown                    // there is no connection to it
	masterStateCount = iota
)

var masterStates = [masterStateCount]string{"unknown", "votes", "recovers", "refuses", "down"}

// String returns s as the label that package metrics has for it, for example "down".
func (s State) String() string {
	if int(s) >= len(masterStates) {
		return "?"
	}
	return masterStates[s]
}

// Master is a change of a master's state.
type Master struct {
	Master   string
	From, To State
	Err      error         // why it does not vote
	Left     time.Duration // with MasterRecovers: until it may vote; 0 if that is not known
	Away     time.Duration // with MasterVotes: for how long it did not; 0 if it never did before

	_ struct{}
}

// Clock says whose clock seems to have jumped. Its votes do not count until that is
// cleared up. If it is the clock of this host, all its leases are lost.
type Clock struct {
	Master string // empty: this host

	_ struct{}
}

// Epoch says in which epoch the masters vote: which list, with which maximum TTL and drift,
// and how often it was begun anew.
type Epoch struct {
	Number int64
	Epoch  string // "number.id", as in admin.Status

	_ struct{}
}

// Client is the client that an event is of: a *redlock.Client.
type Client interface {
	Stats() Stats
}

// Stats is what a client has counted since it was opened. The uint64 fields are counters, which
// only grow. The int fields are gauges. Leases on the same hold (redlock.Lease.Reenter) count as one.
type Stats struct {
	Rounds       uint64 // acquire rounds that the client began
	Granted      uint64 // acquire rounds that gave a lease
	SecondRounds uint64 // acquire rounds that needed a second round trip for the token
	Extends      uint64 // extends that were decided, won or not, counted once for each lease
	Lost         uint64 // leases that ended with ErrLost before their Unlock

	Held       int // leases that are held now
	Recovering int // masters that may not vote now, as far as the client knows
	Down       int // masters that the client has no connection to
	// Unacknowledged is how many releases, of votes and of places in queues, the masters have
	// not acknowledged, summed over the masters. The client sends each again until the master
	// acknowledges it or the vote is over.
	Unacknowledged int
	// Dropped is how many releases the client gave up because too many waited for one master.
	// A vote whose release was dropped ends with its TTL. A place dies with the client's sign of life.
	Dropped uint64
	// Panics is how many Observers were switched off because a function of theirs panicked.
	Panics uint64

	_ struct{}
}
