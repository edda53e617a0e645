// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/lock/inspect"
)

// Inspection is what the masters answered about a lock: see [Client.Inspect].
type Inspection struct {
	Name string // of the lock
	// Holders are those of whom a quorum of masters has a vote: one, or the readers of an
	// [RWMutex], sorted by id. If there is none it is the one after whom the lock rests ([WithMinHold]), or empty.
	Holders []Holder
	// Free says that no holder can have a quorum of votes. If there are no Holders and Free is
	// false, the answers do not tell: the votes are split at this moment, or too few masters
	// answered, or too many may have forgotten a vote.
	Free bool
	// Waiters are those who wait, in the order in which they are served: of each process the
	// first of its callers, and of all no more than 64 on each master.
	Waiters []Waiter
	// AsOf is when the masters were asked, on this host's clock. Each answered later.
	AsOf    time.Time
	Quorum  int                // how many masters make a holder
	Masters []MasterInspection // in the order of the client's list
}

// Holder is a holder of a lock, as a quorum of masters knows it.
type Holder struct {
	ID    string // as [Lease.Holder] returns it
	Votes int    // how many masters have its vote
	Count int    // the hold count: 1, and more if the lock was re-entered
	// Left is how long a quorum of its votes lasts, if the holder does not renew them.
	Left time.Duration

	Read bool // the holder reads: others may too
	// Resting says that the lease is over, and the lock stays taken for Left ([WithMinHold]). Votes is how many masters keep it
	// so, and Count is 0.
	Resting bool
	// Owner is the label of the holder's client ([WithClientName]), or empty.
	Owner string

	// Token, Since and Value are what the holder has announced: its fencing token, when its hold
	// began on its own clock, and a text of its own. A leader of package election announces itself.
	// They are zero if no master that was heard has an announcement of this holder.
	Token int64
	Since time.Time
	Value string
}

// Waiter is the first of the callers of a process that wait for a lock.
type Waiter struct {
	Client string // the id of its client, with which the ids of its leases begin
	Owner  string // the label of its client ([WithClientName]), or empty
	Read   bool   // it waits to read
	// Since is when it began to wait, on the masters' clocks.
	Since time.Time
	// Places is how many masters have it in their queue. One that has just come, or that leaves,
	// has few.
	Places int
}

// MasterInspection is what one master answered about a lock.
type MasterInspection struct {
	Name    string        // of the master
	Err     error         // why there is no answer; nil if there is one
	Votes   bool          // the master may vote; else it may have forgotten a vote
	Holders []string      // the ids of the holders of whom it has a vote
	Left    time.Duration // the rest of the TTL of the longest of these votes
	Rest    time.Duration // for how long the lock rests there ([WithMinHold]); 0: it does not
	Counter int64         // the lock's counter: at least the token of every lease that the master voted for
}

// Inspect asks every master once who has the lock called name and who waits for it, and changes nothing. It needs no
// vote, so it also works while masters recover. name may be that of a Mutex or of an RWMutex.
//
// What it returns is advice and no lock. When Inspect returns, the lock may have another
// holder, and a lock that was Free may be held. That is why there is no IsLocked, which would look
// like an answer to act on. To do something while nobody else does, take the lock. To protect a resource, give it the fencing token (package fence).
//
// If fewer masters than a quorum answered within the node timeout, Inspect returns the Inspection,
// in which each master has its error, and
//
//	ErrUnreachable  too few answered
//	ErrRefused      masters answered, and would not say: the name is a key of another type, for example
//
// With the other errors, ErrConfig, ErrClosed and ctx.Err(), it returns no Inspection.
func (c *Client) Inspect(ctx context.Context, name string) (*Inspection, error) {
	m := c.Mutex(name)
	switch {
	case m.err != nil:
		return nil, m.err
	case ctx == nil:
		return nil, errNilContext
	}
	in, err := c.asker.Inspect(ctx, m.l)
	return inspectionOf(in), err
}

// Locks iterates over the locks whose names begin with prefix, in no order. With an empty prefix it
// iterates over all. Each comes with what [Client.Inspect] says about it, and is left out if that is
// Free. As with Inspect, the result is advice: a lock may change hands while the loop runs. A lock
// that is taken or given up meanwhile may be listed or not. Locks that are held all the time are
// listed, each once.
//
// Locks asks each master for its keys in small steps (SCAN), one master after the other, and the
// masters serve others in between. It looks at every key, so use it for people and not in a loop. It
// keeps the names that it has seen until it ends. Masters that do not answer are left out, and so are those that
// do not vote and may have forgotten locks, as long as the others must know every lock. Else the iteration
// ends with one error, and a nil Inspection:
//
//	ErrUnreachable  too many masters do not answer
//	ErrRecovering   too many masters do not vote yet; while they are being changed it is an ErrUnfinished too
//	ErrRefused      too many masters refuse, because the user lacks the right to SCAN, for example
//	ErrConfig, ErrClosed, ctx.Err()
func (c *Client) Locks(ctx context.Context, prefix string) iter.Seq2[*Inspection, error] {
	return func(yield func(*Inspection, error) bool) {
		switch {
		case c.isZero():
			yield(nil, errZeroClient)
			return
		case ctx == nil:
			yield(nil, errNilContext)
			return
		}
		for in, err := range c.asker.Locks(ctx, prefix) {
			if !yield(inspectionOf(in), err) {
				return
			}
		}
	}
}

// ForceUnlock takes the lock called name away from a holder, for an operator who knows that the holder
// is stuck. holder is its id, as [Client.Inspect] and [Lease.Holder] return it. No other attempt ever
// has that id, so ForceUnlock cannot hit the next holder, however late it comes.
//
// It breaks the promise of the lock. The holder learns that its lease is lost when it next extends it,
// after a third of its TTL by default; without renewal, and while the masters are being changed, when
// its validity ends. Until then the next holder may run beside it. Only a resource that refuses smaller fencing tokens (package fence) keeps
// them apart: the token of the next holder is larger. A lock that nobody renews ends by itself
// within its TTL, so wait for that if you can.
//
// A rest of the lock ([WithMinHold]) ends with it, where a quorum of masters shows that the holder has the lock; else its own rest alone. If the lease is over and only the rest is left, holder is the id of the
// [Holder] that is Resting.
//
// ForceUnlock returns nil when the holder cannot have a quorum any more: its votes are gone from so
// many masters, and these refuse to take them back, unless one comes back with data of before (docs/safety.md A50). The first that waits is woken. Otherwise it
// returns one of
//
//	ErrNotHolder    the holder has no quorum, and another may have the lock: one to whom it handed its
//	                lease off while ForceUnlock was under way, for example. Inspect says who
//	ErrUnreachable  the masters do not tell; nothing was done
//	ErrUnconfirmed  too few masters confirmed it. The lease may go on, with fewer votes, or be lost. A
//	                master that did not answer is sent the release again until it acknowledges it, or
//	                until twice the maximum TTL is over, or the client is closed. Call it again.
//	ErrRefused, ErrConfig, ErrClosed, ctx.Err()
func (c *Client) ForceUnlock(ctx context.Context, name, holder string) error {
	m := c.Mutex(name)
	switch {
	case m.err != nil:
		return m.err
	case ctx == nil:
		return errNilContext
	case holder == "":
		return fmt.Errorf("%w: forcing %q: an empty holder; Inspect returns its id", ErrConfig, name)
	}
	return c.asker.ForceUnlock(ctx, m.l, holder)
}

// inspectionOf is in as users get it. Nil stays nil.
func inspectionOf(in *inspect.Inspection) *Inspection {
	if in == nil {
		return nil
	}
	out := &Inspection{Name: in.Name, Free: in.Free, AsOf: in.AsOf, Quorum: in.Quorum}
	for _, h := range in.Holders {
		out.Holders = append(out.Holders, Holder(h))
	}
	for _, w := range in.Waiters {
		out.Waiters = append(out.Waiters, Waiter(w))
	}
	for _, a := range in.Masters {
		out.Masters = append(out.Masters, MasterInspection(a))
	}
	return out
}

// String is the verdict in one line.
func (in *Inspection) String() string {
	switch {
	case in == nil:
		return "no inspection"
	case in.Free:
		return fmt.Sprintf("%q is free", in.Name)
	case len(in.Holders) == 0:
		return fmt.Sprintf("the masters do not tell who has %q", in.Name)
	}
	h := in.Holders[0]
	how := "is held by"
	if h.Resting {
		how = "rests after"
	}
	s := fmt.Sprintf("%q %s %s, by %d of %d masters for %v", in.Name, how, strings.TrimSpace(h.Owner+" "+h.ID), h.Votes, len(in.Masters), h.Left)
	if more := len(in.Holders) - 1; more > 0 {
		s += fmt.Sprintf(", and by %d more", more)
	}
	if n := len(in.Waiters); n > 0 {
		s += fmt.Sprintf("; %d wait", n)
	}
	return s
}
