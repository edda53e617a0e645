// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Observer has a function for each thing that a client does and that its operator may want to
// see. Give it to [WithObserver]. A nil function costs nothing. Package metrics, [WithLogger] and
// the OpenTelemetry module are Observers (docs/observe.md).
//
// The client calls the functions from whatever goroutine does the thing: a caller's, the one that
// renews leases, or the one that talks to a master. Several may run at the same time, and several
// clients may have the same Observer. A function must return soon and must not block: the client
// waits for it, and holds locks of its own meanwhile, so a function that blocks delays renewals.
// For the same reason it must not call a method of a client or of a lease. Events have all that is
// known.
//
// If a function panics the program ends, even if the caller of Lock or Unlock would recover. A
// program that went on could hold a lock of which nobody knows.
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
	MasterRefuses                       // it will not vote until somebody does something about it
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

// telling has the functions of all Observers of a client, by event. A list that is empty is all
// that an event costs then: the event is not even made.
type telling struct {
	opening  []func(context.Context, OpeningEvent)
	opened   []func(*Client)
	closed   []func(*Client)
	waits    []func(context.Context, WaitEvent)
	acquired []func(context.Context, AcquireEvent)
	voted    []func(VoteEvent)
	extended []func(ExtendEvent)
	ended    []func(EndEvent)
	unlocked []func(context.Context, UnlockEvent)
	master   []func(MasterEvent)
	clock    []func(ClockEvent)
	epoch    []func(EpochEvent)
}

func newTelling(observers []Observer) (t telling) {
	for i := range observers {
		o := &observers[i]
		if o.Opening != nil {
			t.opening = append(t.opening, o.Opening)
		}
		if o.Opened != nil {
			t.opened = append(t.opened, o.Opened)
		}
		if o.Closed != nil {
			t.closed = append(t.closed, o.Closed)
		}
		if o.Waits != nil {
			t.waits = append(t.waits, o.Waits)
		}
		if o.Acquired != nil {
			t.acquired = append(t.acquired, o.Acquired)
		}
		if o.Voted != nil {
			t.voted = append(t.voted, o.Voted)
		}
		if o.Extended != nil {
			t.extended = append(t.extended, o.Extended)
		}
		if o.Ended != nil {
			t.ended = append(t.ended, o.Ended)
		}
		if o.Unlocked != nil {
			t.unlocked = append(t.unlocked, o.Unlocked)
		}
		if o.Master != nil {
			t.master = append(t.master, o.Master)
		}
		if o.Clock != nil {
			t.clock = append(t.clock, o.Clock)
		}
		if o.Epoch != nil {
			t.epoch = append(t.epoch, o.Epoch)
		}
	}
	return t
}

// tell calls the functions with e.
func tell[E any](functions []func(E), e E) {
	defer endOnPanic()
	for _, f := range functions {
		f(e)
	}
}

// tellOf is tell for an event of a caller.
func tellOf[E any](ctx context.Context, functions []func(context.Context, E), e E) {
	defer endOnPanic()
	for _, f := range functions {
		f(ctx, e)
	}
}

// endOnPanic ends the program if an Observer panics. A panic on the caller's goroutine might be
// recovered, with mutexes locked, or with a lease that is renewed for ever and that nobody has.
func endOnPanic() {
	p := recover()
	if p == nil {
		return
	}
	text := fmt.Sprintf("redlock: an Observer panicked: %v\n\n%s", p, debug.Stack())
	go func() { panic(text) }()
	select {} // until the program has ended
}

func modeName(l *protocol.Lock) string {
	switch l.Mode {
	case protocol.Read:
		return "read"
	case protocol.Write:
		return "write"
	}
	return "mutex"
}

// began is when a call began, for tellAcquired. It is 0 if nobody wants to know.
func (c *Client) began() time.Duration {
	if len(c.tells.acquired) == 0 && len(c.tells.waits) == 0 {
		return 0
	}
	return c.clock.Elapsed()
}

// tellWaits tells of a caller that waits, and notes when it did.
func (m *Mutex) tellWaits(ctx context.Context, ct *contender, call *caller) {
	c := m.c
	if len(c.tells.waits) == 0 {
		return
	}
	now := c.clock.Elapsed()
	e := WaitEvent{Lock: m.l.Name, Mode: modeName(m.l), First: !call.waits, Waited: now - call.began, Last: ct.lastRound()}
	if !e.First {
		e.Before = call.told - call.began
	}
	tellOf(ctx, c.tells.waits, e)
	call.told = now
}

// tellServed is tellAcquired for a caller that was in a line.
//
//go:noinline // what it passes on would be in the frame of lock
func (m *Mutex) tellServed(ctx context.Context, lease *Lease, err error, call *caller) {
	m.tellAcquired(ctx, lease, err, call.began, call.rounds, call.waits)
}

// tellAcquired tells of a call for the lock that has ended.
func (m *Mutex) tellAcquired(ctx context.Context, lease *Lease, err error, began time.Duration, rounds int, waited bool) {
	c := m.c
	if len(c.tells.acquired) == 0 {
		return
	}
	e := AcquireEvent{Lock: m.l.Name, Mode: modeName(m.l), Waited: waited, Rounds: rounds, Err: err}
	if lease == nil {
		e.Took = c.clock.Elapsed() - began
	} else {
		h := lease.h
		e.Took, e.Token, e.Holder = h.granted-began, h.token, h.holder
		h.mu.Lock()
		e.Validity = h.grant.Until() - h.granted
		h.mu.Unlock()
	}
	tellOf(ctx, c.tells.acquired, e)
}

// tellVoted tells of the reply of master i to an acquire.
func (c *Client) tellVoted(i int, l *protocol.Lock, r *protocol.Reply) {
	e := VoteEvent{Master: c.nodes[i].Name(), Lock: l.Name, Err: r.Err}
	switch r.Outcome {
	case protocol.Granted:
		e.Vote = VoteGranted
	case protocol.Held:
		e.Vote = VoteHeld
	case protocol.Refused:
		e.Vote = VoteRefused
	case protocol.NotSent:
		e.Vote = VoteNotAsked
	}
	tell(c.tells.voted, e)
}

// tellEndedLocked tells of the end of h. It runs before the leases learn it.
func (h *hold) tellEndedLocked(end End) {
	if len(h.c.tells.ended) == 0 {
		return
	}
	now := h.c.clock.Elapsed()
	tell(h.c.tells.ended, EndEvent{Lock: h.l.Name, Mode: modeName(h.l), Token: h.token, Holder: h.holder,
		End: end, Held: now - h.granted, Left: max(h.grant.Until()-now, 0), Err: h.ended})
}

// tellUnlocked tells of an Unlock that began at start.
func (h *hold) tellUnlocked(ctx context.Context, start time.Duration, err error) {
	if len(h.c.tells.unlocked) == 0 {
		return
	}
	tellOf(ctx, h.c.tells.unlocked, UnlockEvent{Lock: h.l.Name, Mode: modeName(h.l), Token: h.token,
		Took: h.c.clock.Elapsed() - start, Err: err})
}
