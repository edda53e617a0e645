// SPDX-License-Identifier: Apache-2.0

// Package inspect says who has a lock, as a quorum of the masters knows it, and takes a lock away from a holder. It also tells the masters what they
// show of a client: its label, and what a holder says about itself.
//
// It knows the masters, the names of locks and the replies. It knows nothing of leases, of waiting, or of a client: an [Asker] asks for one.
//
// Its types are those of package redlock, which documents them: Inspection, Holder, Waiter, and Answer for a MasterInspection.
package inspect

import (
	"cmp"
	"context"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Inspection is what the masters answered about a lock.
type Inspection struct {
	Name    string
	Holders []Holder
	Free    bool
	Waiters []Waiter
	AsOf    time.Time
	Quorum  int
	Masters []Answer
}

// Holder is a holder of a lock, as a quorum of masters knows it.
type Holder struct {
	ID      string
	Votes   int
	Count   int
	Left    time.Duration
	Read    bool
	Resting bool
	Owner   string
	Token   int64
	Since   time.Time
	Value   string
}

// Waiter is the first of the callers of a process that wait for a lock.
type Waiter struct {
	Client string
	Owner  string
	Read   bool
	Since  time.Time
	Places int
}

// Answer is what one master answered about a lock.
type Answer struct {
	Name    string
	Err     error
	Votes   bool
	Holders []string
	Left    time.Duration
	Rest    time.Duration
	Counter int64
}

// Asker asks the masters of one client. Its fields do not change after the first call.
type Asker struct {
	Masters   *quorum.Masters
	Clock     clock.Clock
	Timeout   func() time.Duration // the node timeout now
	Namespace protocol.Namespace
	Drift     clock.Drift
	MaxTTL    time.Duration
	// Check returns why no lock can have that name, or nil.
	Check func(name string) error
	// MayAsk returns why the masters may not be asked about a lock, or nil: ctx has ended, or the client was closed.
	MayAsk func(ctx context.Context, l *protocol.Lock) error
	Closed func() bool // the client was closed
	// Explain adds to the refusal of master i why it does not vote.
	Explain func(i int, err error) error
}

// hearOut is how long an inspection waits for a slow master beyond the answers that decide, so that the master does not look silent.
const hearOut = 10 * time.Millisecond

// Inspect asks every master once who has the lock and who waits for it. If too few answered, it returns an Inspection and an error.
func (a *Asker) Inspect(ctx context.Context, l *protocol.Lock) (*Inspection, error) {
	if err := a.MayAsk(ctx, l); err != nil {
		return nil, err
	}
	in, _, err := a.inquire(l).conclude(ctx)
	return in, err
}

// inquiry is one Inspect on its way.
type inquiry struct {
	a     *Asker
	l     *protocol.Lock
	in    *Inspection
	q     *quorum.Call
	start time.Duration
}

// inquire asks every master. The caller must call conclude.
func (a *Asker) inquire(l *protocol.Lock) *inquiry {
	now := a.Clock.Elapsed()
	return &inquiry{a: a, l: l, in: &Inspection{Name: l.Name, AsOf: a.Clock.Wall(), Quorum: a.Masters.Need}, start: now,
		q: a.Masters.Poll(a.Masters.All, a.Masters.Need, &protocol.Request{Kind: protocol.Inspect, Lock: l, Start: now, Deadline: now + a.Timeout()})}
}

// conclude waits for the answers. It returns what Inspect returns, and the answers.
func (iq *inquiry) conclude(ctx context.Context) (*Inspection, []protocol.Reply, error) {
	a, in, q := iq.a, iq.in, iq.q
	defer q.Done()
	took := func() time.Duration { return a.Clock.Elapsed() - iq.start }
	q.Await(ctx, a.Timeout())
	// A little longer, so that a slow master does not look silent.
	q.Hear(ctx, quorum.Everybody, min(max(3*took(), hearOut), a.Timeout()-took()))
	if in.read(q.Replies()); len(in.Holders) == 0 && !in.Free {
		q.Hear(ctx, quorum.Everybody, a.Timeout()-took()) // the others may tell
		in.read(q.Replies())
	}
	if err := a.MayAsk(ctx, iq.l); err != nil {
		return nil, nil, err
	}
	replies := q.Replies()
	return in, replies, in.identify(a.Masters.Nodes, replies)
}

// NameHolder returns the id of the holder of a lock and its label, as far as the masters tell them within timeout, or until ctx ends. It costs a
// trip. holder is the id if it is known already, and owner the label. If nobody is named, NameHolder returns an empty id.
func (a *Asker) NameHolder(ctx context.Context, l *protocol.Lock, holder, owner string, timeout time.Duration) (id, label string) {
	began := a.Clock.Elapsed()
	q := a.Masters.Poll(a.Masters.All, a.Masters.Need, &protocol.Request{Kind: protocol.Inspect, Lock: l, Start: began, Deadline: began + timeout})
	defer q.Done()
	q.Await(ctx, timeout)
	if in := (Inspection{Quorum: a.Masters.Need}); holder == "" {
		if in.read(q.Replies()); len(in.Holders) == 0 && !in.Free {
			q.Hear(ctx, quorum.Everybody, timeout-(a.Clock.Elapsed()-began)) // the others may tell
			in.read(q.Replies())
		}
		if len(in.Holders) == 0 {
			return "", ""
		}
		holder = in.Holders[0].ID
	}
	for _, r := range q.Replies() {
		if r.Inspected == nil {
			continue
		}
		for _, v := range r.Inspected.Votings {
			if idOf(v.Field) == holder {
				owner = cmp.Or(owner, v.Owner)
			}
		}
	}
	return holder, owner
}
