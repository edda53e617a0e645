// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// The errors of this package. Ask for them with errors.Is. If the caller's context ended, the
// error wraps ctx.Err(), and none of ErrHeld, ErrUnreachable, ErrRefused and ErrRecovering. Open
// is the exception: its error wraps ErrUnreachable too. No error of a master is
// context.DeadlineExceeded or context.Canceled, so an error that is one of these is of the caller's
// own context.
//
// The error wraps the cause of the caller's context too. An error of this package in that cause is of another call, so
// errors.Is does not find it: context.Cause has it.
var (
	// ErrHeld says that a quorum of masters answered, and that on one of them or more
	// another holder has the lock or another caller waits for it. It comes as a
	// [RoundError].
	ErrHeld = errs.ErrHeld
	// ErrUnavailable says that the masters cannot say now who has the lock: it is each ErrUnreachable, ErrRecovering
	// and ErrRefused. A server answers 503 for it. Which of the three it is says whether waiting helps.
	ErrUnavailable = errs.ErrUnavailable
	// ErrUnreachable says that fewer masters than a quorum answered in time. The chain has
	// the [node.Error] of each master that failed, but for Extend, Reenter and Transfer, which say how many have
	// confirmed the vote. Trying again may help.
	ErrUnreachable = errs.ErrUnreachable
	// ErrRefused says that masters answered and will not vote, so many that no quorum is left.
	// Waiting does not change that: for example, the lock's name is a key of another type, the user
	// lacks a right, the masters lack a command, or their memory is full.
	ErrRefused = errs.ErrRefused

	// ErrRecovering says that too many masters are in quarantine: they may not vote yet,
	// after a restart, a flush or a jump of their clock, or before their first use. The
	// quarantine ends by itself. RetryAfter of the [RoundError] says when, if that is known.
	ErrRecovering = errs.ErrRecovering

	// ErrNeedsInit says that a majority of the masters has no record, and that no client saw
	// them vote lately. The masters are new, or lost their data. Only an operator knows
	// whether this list is the right one. The error text says what to run: see admin.Init.
	// ErrNeedsInit wraps [ErrRefused].
	ErrNeedsInit = errs.ErrNeedsInit

	// ErrNotReentrant says that the caller holds the lock itself: the context of the call
	// carries a live lease of the same lock, and the lock has no [WithReentry]. To wait would
	// be to wait for ever. No master was asked. The error does not wrap ErrHeld.
	ErrNotReentrant = errs.ErrNotReentrant

	// ErrLost says that the lease ended before it was unlocked. Its validity is over, or a
	// quorum of its votes is gone, or this host's clock jumped. Another holder may have the
	// lock.
	ErrLost = errs.ErrLost
	// ErrReleased says that the lease was unlocked before.
	ErrReleased = errs.ErrReleased
	// ErrUnconfirmed says that no quorum confirmed a release in time. The lease has ended. The
	// client sends the release again until the master acknowledges it, or what it gives back is over for sure.
	ErrUnconfirmed = errs.ErrUnconfirmed
	// ErrNotHolder says that ForceUnlock was told of a holder that does not hold the lock.
	ErrNotHolder = errs.ErrNotHolder
	// ErrClosed says that the client was closed, or that its Shutdown has begun.
	ErrClosed = errs.ErrClosed
	// ErrConfig says that the caller must change the program or its settings: an option, a
	// name or a list of masters cannot work, or a context, a function or a value that Open,
	// New or a Client makes is nil or zero. From Open it also says that so many masters evict keys, are replicas, or
	// do not tell what they are, that no quorum is left; the text names them.
	ErrConfig = errs.ErrConfig

	// ErrUpgrade says that the caller asked for the lock for writing with the context of a read lease
	// of the same lock. A read lease cannot become a write lease: two readers that tried would wait
	// for each other for ever. Unlock the read lease first.
	ErrUpgrade = errs.ErrUpgrade

	// ErrUnfinished says that a change of masters was begun and is not finished. The error text
	// says which change it is, and what to do.
	ErrUnfinished = errs.ErrUnfinished
)

var errNilContext = fmt.Errorf("%w: a nil context; use context.Background()", ErrConfig)

var (
	errNilFunc    = fmt.Errorf("%w: a nil function", ErrConfig)
	errZeroMutex  = fmt.Errorf("%w: a nil or zero lock; make it with Client.Mutex or Client.RWMutex", ErrConfig)
	errZeroClient = fmt.Errorf("%w: a nil or zero Client; make it with Open or New", ErrConfig)
	errZeroLease  = fmt.Errorf("%w: a nil or zero Lease; Lock returns them", ErrConfig)
)

// errNoTTL is the error of a master where the lock's key has no TTL. Neither this library nor
// Redisson writes such a key.
var errNoTTL = errors.New("the key at the lock's name has no TTL and stays for ever; if no program needs it, delete it")

// RoundError says why a round over all masters gave no lease. It wraps one of [ErrHeld],
// [ErrUnreachable], [ErrRecovering] and [ErrRefused], and the [node.Error] of each master that
// failed. Ask for it with errors.As. A Lock whose context ended has the last round that was made, by
// it or by a caller before it in this process: errors.As finds that, and errors.Is does not
// find its kind. Nothing of the round is left on a master that granted in
// time. The other masters are sent the release until they acknowledge it or the TTL is over.
type RoundError struct {
	Name string // of the lock
	// How many masters granted the lock, hold it for another or have others waiting for it,
	// refused, and did not answer. The sum is the number of masters. The votes that were
	// granted have been released.
	Granted, Held, Refused, Unknown int
	// Quorum is how many masters must grant the lock.
	Quorum int
	// Holder is the id of the other holder, as [Lease.Holder] returns it, if a quorum of
	// masters named the same one. Otherwise it is empty: the votes are split, or others wait
	// for a lock that nobody holds. A Lock whose time is over asks for it with its last message, and
	// waits for the answer for two trips, or for 10 ms if that is longer.
	Holder string
	// Owner is the label of that holder's client ([WithClientName]), if it has one and the masters told it in
	// time. A TryLock asks for it only if its own client was given a label too. Otherwise it is empty.
	Owner string
	// RetryAfter is the shortest wait after which another round may win: a quorum of masters
	// is free then, if no vote is renewed and every master that recovers votes in time. It is
	// 0 if that is not known. Only ErrHeld and ErrRecovering have it.
	RetryAfter time.Duration
	// Elapsed is how long the round took, if a quorum granted the lock but too little of the
	// TTL was left ([WithMinValidity]), or too little for a multilock to have its other members. Otherwise it is 0.
	Elapsed time.Duration

	kind  error
	nodes *multierror.Error
	why   string // why no lock can be taken on these masters, or empty
	// votes counts, for each other holder, the masters that named it.
	votes   map[string]int
	silent  int           // masters that did not answer, and are not known to recover
	hurried bool          // the round had too little time to hear the masters, because the caller's was nearly over, or over
	waited  time.Duration // how long it waited for those that were silent to its end, if there are any
	cut     bool          // the caller's time was over before the round was
}

// split says whether another round may win although no holder releases the lock. This is so in
// two cases. Several attempts have votes on different masters, and none was seen to have a
// quorum. Or a quorum granted the lock, and another reader's token passed the token of this one.
func (e *RoundError) split() bool {
	return e.kind == ErrHeld && (e.Granted >= e.Quorum || e.Holder == "" && len(e.votes) > 0)
}

// seenAgain says whether a holder that the former round saw still has votes, and may have a
// quorum of them if the masters that did not answer are counted. That holder keeps the lock. An
// attempt that fails, as this one did, would have released its votes by now.
func (e *RoundError) seenAgain(former *RoundError) bool {
	unheard := e.Unknown + e.Refused
	for holder, n := range e.votes {
		if former.votes[holder] > 0 && n+unheard >= e.Quorum {
			return true
		}
	}
	return false
}

func (e *RoundError) Error() string {
	var b strings.Builder
	n := e.Granted + e.Held + e.Refused + e.Unknown
	fmt.Fprintf(&b, "%v: %q: %d of %d masters granted it, %d hold it for another, %d refused, %d did not answer; quorum is %d",
		e.kind, e.Name, e.Granted, n, e.Held, e.Refused, e.Unknown, e.Quorum)
	if e.hurried && e.Unknown > 0 && e.waited > 0 {
		fmt.Fprintf(&b, "; the caller's time left them %v to answer", e.waited.Round(100*time.Microsecond))
	}
	if e.Owner != "" {
		fmt.Fprintf(&b, "; held by %s", e.Owner)
	}
	if e.Elapsed > 0 {
		fmt.Fprintf(&b, "; granted only after %v, too late for its TTL", e.Elapsed)
	}
	if e.why != "" {
		fmt.Fprintf(&b, "; %s", e.why)
		return b.String() // why names the masters
	}
	for _, err := range e.nodes.WrappedErrors() {
		fmt.Fprintf(&b, "; %v", err)
	}
	return b.String()
}

func (e *RoundError) Unwrap() []error {
	return append([]error{e.kind}, e.nodes.WrappedErrors()...)
}

// roundError returns the error of a round that gave no lease.
func (c *Client) roundError(l *protocol.Lock, replies []protocol.Reply) *RoundError {
	e := &RoundError{Name: l.Name, Quorum: c.masters.Need, nodes: errs.Collect()}
	recovering, never, mute := 0, 0, 0 // never: masters that will not vote until somebody acts. mute: those that did not answer, for that reason or another
	var waits []time.Duration          // of the masters that recover and know how long
	for i := range replies {
		e.count(c, i, &replies[i])
		wait, acts := e.explain(c, i, &replies[i])
		if acts {
			never++
		}
		if wait == nil {
			if o := replies[i].Outcome; o == protocol.Unknown || o == protocol.NotSent {
				mute++
				if !acts {
					e.silent++
				}
			}
			continue
		}
		if !wait.Final {
			recovering++
		}
		if after, known := wait.After(); known {
			waits = append(waits, after)
		}
	}
	n := len(replies)
	switch {
	case n-never < c.masters.Need: // also where another has the lock on the others: to wait for that would be in vain
		e.kind = ErrRefused
	case n-mute < c.masters.Need:
		e.kind = ErrUnreachable
	case e.Held > 0:
		e.kind = ErrHeld
	case recovering > 0 && n-(e.Refused+e.Unknown-recovering) >= c.masters.Need:
		e.kind = ErrRecovering
	default:
		e.kind = ErrUnreachable
	}
	if e.kind == ErrRecovering || e.kind == ErrRefused {
		e.why = c.keeper.Reason()
	}
	if e.kind != ErrRecovering {
		e.ofOneKind()
	}
	if e.kind == ErrUnreachable {
		e.nameSilent(c, replies)
	}
	if e.kind == ErrHeld || e.kind == ErrRecovering {
		e.RetryAfter = counting.FreeAfter(replies, waits, c.masters.Need)
	}
	return e
}

// tooLate is internals.TooLate.
func (l *Lease) tooLate() *RoundError {
	h, c := l.hold(), l.c
	votes, _, _ := h.Voters()
	granted := bits.OnesCount64(votes)
	return &RoundError{Name: h.Lock.Name, Granted: granted, Unknown: len(c.masters.Nodes) - granted, Quorum: c.masters.Need,
		Elapsed: c.clock.Elapsed() - h.Start, kind: ErrUnreachable, nodes: errs.Collect()}
}

// ofOneKind keeps a minority of masters that recover from making this an ErrRecovering too: a lock that another has is held, and
// nobody waits for those masters.
func (e *RoundError) ofOneKind() {
	for i, err := range e.nodes.WrappedErrors() {
		var on *node.Error
		var wait *masters.MayNotVote
		if errors.As(err, &on) && errors.As(on.Err, &wait) && !wait.Final {
			e.nodes.Errors[i] = &node.Error{Node: on.Node, Err: wait.Minor()}
		}
	}
}

// nameSilent names the masters that were asked and have said nothing.
func (e *RoundError) nameSilent(c *Client, replies []protocol.Reply) {
	for i := range replies {
		if r := &replies[i]; r.Outcome == protocol.Unknown && r.Err == nil {
			e.nodes = multierror.Append(e.nodes, &node.Error{Node: c.masters.Nodes[i].Name(), Err: errs.ErrNoAnswer})
		}
	}
}

// count counts the vote of master i.
func (e *RoundError) count(c *Client, i int, r *protocol.Reply) {
	switch r.Outcome {
	case protocol.Granted:
		e.Granted++
	case protocol.Held:
		e.Held++
		if r.Holder != "" {
			if e.votes == nil {
				e.votes = make(map[string]int)
			}
			if e.votes[r.Holder]++; e.votes[r.Holder] >= c.masters.Need {
				e.Holder = r.Holder
			}
		}
		if r.Remaining < 0 {
			e.nodes = multierror.Append(e.nodes, &node.Error{Node: c.masters.Nodes[i].Name(), Err: errNoTTL})
		}
	case protocol.Refused, protocol.Absent: // a vote that is not there cannot be handed to an adopter
		e.Refused++
	default:
		e.Unknown++
	}
}

// explain adds the error of master i, if it has one. It returns why the master may not be asked
// for votes, or nil, and whether the master votes only after somebody has acted. Such a master counts as refused, also where it was not asked:
// there is no connection to a master that turns the user away, and one that took a right away is asked for no vote.
func (e *RoundError) explain(c *Client, i int, r *protocol.Reply) (wait *masters.MayNotVote, acts bool) {
	if r.Err == nil {
		return nil, r.Outcome == protocol.Refused
	}
	err := c.keeper.Explain(i, r.Err)
	e.nodes = multierror.Append(e.nodes, err)
	if errors.As(err, &wait) {
		acts = wait.Final
	} else {
		acts = r.Outcome == protocol.Refused || masters.Refuses(c.masters.Nodes[i], err)
	}
	if acts && r.Outcome != protocol.Refused {
		e.Refused, e.Unknown = e.Refused+1, e.Unknown-1
	}
	return wait, acts
}

// gaveUpError is the error of a caller whose context ended. Its text says what the last round
// saw. It wraps none of ErrHeld, ErrUnreachable, ErrRecovering and ErrRefused. errors.As finds the last
// round all the same: who had the lock is worth knowing when the time is over.
type gaveUpError struct {
	name string
	err  error       // ctx.Err(), with its cause
	last *RoundError // may be nil
}

func gaveUp(ctx context.Context, l *protocol.Lock, last *RoundError) error {
	return &gaveUpError{l.Name, errs.OfContext(ctx), last}
}

// endedMeanwhile is err, or the error of a caller who gave up if ctx has ended since the round that err is of.
func endedMeanwhile(ctx context.Context, err error) error {
	if round := failedRound(err); round != nil && ctx.Err() != nil {
		return &gaveUpError{round.Name, errs.OfContext(ctx), round}
	}
	return err
}

func (e *gaveUpError) Error() string {
	s := fmt.Sprintf("redlock: gave up on %q: %v", e.name, e.err)
	if e.last != nil {
		s += fmt.Sprintf(" (last round: %v)", e.last)
	}
	return s
}

func (e *gaveUpError) Is(target error) bool { return errors.Is(e.err, target) }

// As finds the last round as a *RoundError, and anything else in the context's error. There is no Unwrap: the cause of the context may
// have a round of another lock.
func (e *gaveUpError) As(target any) bool {
	round, ok := target.(**RoundError)
	if !ok {
		return errors.As(e.err, target)
	}
	if e.last != nil {
		*round = e.last
	}
	return e.last != nil
}

// failedRound returns err if it is of a round that failed and whose caller did not give up, else nil.
func failedRound(err error) *RoundError {
	round, _ := err.(*RoundError) // what wraps one is another error
	return round
}
