// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/internal/counting"
)

// What can go wrong, to be asked for with errors.Is. A caller that gave up finds
// its own ctx.Err() in the error and none of the first three.
var (
	// ErrHeld: a majority of the masters answered, and another holder has the
	// lock on one of them or more.
	ErrHeld = errors.New("redlock: held by another")
	// ErrUnreachable: fewer masters than a quorum answered in time.
	ErrUnreachable = errors.New("redlock: no quorum of masters answered")
	// ErrRefused: masters answered but will not vote (a key of another type at
	// the lock's name, a missing right...), and waiting will not change it.
	ErrRefused = errors.New("redlock: masters refuse to vote")

	// ErrRecovering: too many masters wait until they may vote again, after a
	// restart, a flush or a jump of their clock, or before their first use. The
	// error says how long. It passes by itself.
	ErrRecovering = errors.New("redlock: masters are recovering")

	// ErrNeedsInit: a majority of the masters has lost its records, or never had any,
	// and no client saw them vote lately. Only an operator knows whether this list is
	// the right one; the error says what to run. It is also an [ErrRefused].
	ErrNeedsInit = fmt.Errorf("%w: the masters need an operator's word", ErrRefused)

	// ErrNotReentrant: the context of the call is that of a live lease of the same lock, or
	// made from it, and the lock is not [Reentrant]. Waiting for it would never end. Nothing
	// was asked of the masters. It is no ErrHeld: nobody else has the lock.
	ErrNotReentrant = errors.New("redlock: the caller holds the lock already")

	// ErrLost: the lease ended before it was unlocked: its validity ran out, a
	// quorum of its votes is gone, or this host's clock jumped, so that nobody knows.
	// Another holder may have the lock.
	ErrLost = errors.New("redlock: lease lost")
	// ErrReleased: the lease was unlocked.
	ErrReleased = errors.New("redlock: lease released")
	// ErrUnconfirmed: Unlock could not learn from a quorum that the lock is free.
	// The releases are sent again; the TTL ends what they cannot.
	ErrUnconfirmed = errors.New("redlock: release not confirmed")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("redlock: client closed")
	// ErrConfig: an option, a name or a list of nodes that cannot work; a nil context or
	// function; or a nil or zero value where one must be made by Open, New or a Client.
	ErrConfig = errors.New("redlock: bad configuration")
)

// errNilContext is returned where the library would panic on a nil context.
var errNilContext = fmt.Errorf("%w: a nil context; use context.Background()", ErrConfig)

var (
	errNilFunc    = fmt.Errorf("%w: a nil function", ErrConfig)
	errZeroMutex  = fmt.Errorf("%w: a nil or zero lock; make it with Client.Mutex or Client.RWMutex", ErrConfig)
	errZeroClient = fmt.Errorf("%w: a nil or zero Client; make it with Open or New", ErrConfig)
	errZeroLease  = fmt.Errorf("%w: a nil or zero Lease; Lock returns them", ErrConfig)
)

// errNoTTL: no lock is held like that, by this library or by Redisson.
var errNoTTL = errors.New("the key at the lock's name has no TTL and stays for ever; if no program needs it, delete it")

// RoundError is why one round over all masters did not give a lease. Its chain
// holds one of [ErrHeld], [ErrUnreachable], [ErrRecovering] and [ErrRefused], and
// the [node.Error] of each master that had one to tell.
type RoundError struct {
	Name string // the lock
	// How the masters voted. A vote that was granted was given back.
	Granted, Held, Refused, Unknown int
	Quorum                          int
	// Holder is the id of the other holder that has the lock on a quorum, as
	// [Lease.Holder] tells it. Empty when no quorum named one and the same: the votes
	// are split, or others wait for a lock that nobody holds.
	Holder string
	// RetryAfter is when a quorum could be free, if every TTL runs out and every
	// master that recovers votes when it expects to: the smallest wait after which a
	// next round is of use. 0 when unknown.
	RetryAfter time.Duration
	// Elapsed is set when the round was won but too late for its TTL.
	Elapsed time.Duration

	kind  error
	nodes *multierror.Error
	why   string // what the masters as a whole lack
	// votes counts the masters that named each other holder.
	votes   map[string]int
	hurried bool // it had less than the node timeout, for its caller's time was nearly over
}

// split says whether a further round may win although nothing changes: several attempts hold
// the lock here and there, this one among them, and nobody was seen to have it on a quorum; or a
// quorum granted it, and another reader's token passed this one's.
func (e *RoundError) split() bool {
	return e.kind == ErrHeld && (e.Granted >= e.Quorum || e.Holder == "" && len(e.votes) > 0)
}

// seenAgain: a holder that a former round saw has the lock still, and may have a quorum,
// with the masters that did not answer. An attempt that will fail as this one has given
// its votes back by then, so it is one that holds the lock.
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
	if e.Elapsed > 0 {
		fmt.Fprintf(&b, "; granted only after %v, too late for its TTL", e.Elapsed)
	}
	if e.why != "" {
		fmt.Fprintf(&b, "; %s", e.why)
		return b.String() // it names the masters
	}
	for _, err := range e.nodes.WrappedErrors() {
		fmt.Fprintf(&b, "; %v", err)
	}
	return b.String()
}

func (e *RoundError) Unwrap() []error {
	return append([]error{e.kind}, e.nodes.WrappedErrors()...)
}

// collect is an empty list of errors whose text is one line: multierror's own has
// line breaks and tabs, which logs tear apart.
func collect() *multierror.Error {
	return &multierror.Error{ErrorFormat: func(errs []error) string {
		texts := make([]string, len(errs))
		for i, err := range errs {
			texts[i] = err.Error()
		}
		return strings.Join(texts, "; ")
	}}
}

// roundError sums up a round that gave no lease.
func (c *Client) roundError(l *protocol.Lock, replies []protocol.Reply) *RoundError {
	e := &RoundError{Name: l.Name, Quorum: c.need, nodes: collect()}
	recovering := 0
	var waits []time.Duration // of the masters that recover and know how long
	for i := range replies {
		e.count(c, i, &replies[i])
		wait := e.explain(c, i, &replies[i])
		if wait == nil {
			continue
		}
		if !wait.final {
			recovering++
		}
		if after, known := wait.after(); known {
			waits = append(waits, after)
		}
	}
	n := len(replies)
	switch {
	case e.Granted+e.Held+e.Refused+recovering < c.need:
		e.kind = ErrUnreachable
	case e.Held > 0:
		e.kind = ErrHeld
	case recovering > 0 && n-(e.Refused+e.Unknown-recovering) >= c.need:
		e.kind = ErrRecovering
	case e.Refused > 0:
		e.kind = ErrRefused
	default:
		e.kind = ErrUnreachable
	}
	if e.kind == ErrRecovering || e.kind == ErrRefused {
		e.why = c.keeper.reason()
	}
	if e.kind == ErrHeld || e.kind == ErrRecovering {
		e.RetryAfter = counting.FreeAfter(replies, waits, c.need)
	}
	return e
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
			if e.votes[r.Holder]++; e.votes[r.Holder] >= c.need {
				e.Holder = r.Holder
			}
		}
		if r.Remaining < 0 {
			e.nodes = multierror.Append(e.nodes, &node.Error{Node: c.nodes[i].Name(), Err: errNoTTL})
		}
	case protocol.Refused:
		e.Refused++
	default:
		e.Unknown++
	}
}

// explain adds the error of master i, if there is one. It returns why the master may not be
// asked for votes, or nil. A master that will not vote again by itself counts as one that
// refused.
func (e *RoundError) explain(c *Client, i int, r *protocol.Reply) *waitError {
	if r.Err == nil {
		return nil
	}
	err := c.keeper.explain(i, r.Err)
	var wait *waitError
	if errors.As(err, &wait) && wait.final && r.Outcome != protocol.Refused {
		e.Refused, e.Unknown = e.Refused+1, e.Unknown-1
	}
	e.nodes = multierror.Append(e.nodes, err)
	return wait
}

// gaveUpError is the error of a caller whose context ended. It says what the last
// round saw, but is none of ErrHeld, ErrUnreachable, ErrRecovering and ErrRefused.
type gaveUpError struct {
	name string
	err  error       // ctx.Err(), with its cause
	last *RoundError // may be nil
}

func gaveUp(ctx context.Context, l *protocol.Lock, last *RoundError) error {
	return &gaveUpError{l.Name, contextError(ctx), last}
}

// contextError is ctx.Err(), with its cause.
func contextError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		err = fmt.Errorf("%w: %w", err, cause)
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

func (e *gaveUpError) Unwrap() error { return e.err }
