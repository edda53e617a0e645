// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/lock/lockerr"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
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
	if err := c.mayAsk(ctx, m.l); err != nil {
		return nil, err
	}
	in, _, err := c.inquire(m.l).conclude(ctx)
	return in, err
}

// inquiry is one Inspect on its way.
type inquiry struct {
	c     *Client
	l     *protocol.Lock
	in    *Inspection
	q     *quorum.Call
	start time.Duration
}

// inquire asks every master. The caller must call conclude.
func (c *Client) inquire(l *protocol.Lock) *inquiry {
	now := c.clock.Elapsed()
	return &inquiry{c: c, l: l, in: &Inspection{Name: l.Name, AsOf: c.clock.Wall(), Quorum: c.masters.Need}, start: now,
		q: c.masters.Poll(c.masters.All, c.masters.Need, &protocol.Request{Kind: protocol.Inspect, Lock: l, Start: now, Deadline: now + c.timeout()})}
}

// conclude waits for the answers. It returns what Inspect returns, and the answers.
func (iq *inquiry) conclude(ctx context.Context) (*Inspection, []protocol.Reply, error) {
	c, in, q := iq.c, iq.in, iq.q
	defer q.Done()
	took := func() time.Duration { return c.clock.Elapsed() - iq.start }
	q.Await(ctx, c.timeout())
	// A little longer, so that a slow master does not look silent.
	q.Hear(ctx, quorum.Everybody, min(max(3*took(), hearOutMax), c.timeout()-took()))
	if in.read(q.Replies()); len(in.Holders) == 0 && !in.Free {
		q.Hear(ctx, quorum.Everybody, c.timeout()-took()) // the others may tell
		in.read(q.Replies())
	}
	if err := c.mayAsk(ctx, iq.l); err != nil {
		return nil, nil, err
	}
	replies := q.Replies()
	return in, replies, in.identify(c, replies)
}

// read decides by quorum what the replies say.
func (in *Inspection) read(replies []protocol.Reply) {
	holders := make(map[string]*Holder) // by field
	lefts := make(map[string][]time.Duration)
	for i := range replies {
		at := replies[i].Inspected
		if at == nil || !at.Votes {
			continue // the vote of a master in quarantine counts for nobody: possible has it
		}
		for _, v := range at.Votings {
			h := holders[v.Field]
			if h == nil {
				h = &Holder{ID: idOf(v.Field), Read: v.Mode == protocol.Read}
				holders[v.Field] = h
			}
			h.Votes++
			h.Count, h.Owner = max(h.Count, v.Count), cmp.Or(h.Owner, v.Owner)
			lefts[v.Field] = append(lefts[v.Field], max(v.Left, 0))
		}
	}
	for i := range replies {
		if at := replies[i].Inspected; at != nil {
			said, ok := protocol.ParseAnnouncement(at.Announcement)
			if h := holders[said.Field]; ok && h != nil && has(at, said.Field) {
				h.Token, h.Since, h.Value = said.Token, said.Since, said.Value
			}
		}
	}
	in.Holders, in.Free = nil, in.possible("", replies) < in.Quorum
	for field, h := range holders {
		if h.Votes >= in.Quorum {
			h.Left = lastOf(lefts[field], in.Quorum)
			in.Holders = append(in.Holders, *h)
		}
		in.Free = in.Free && in.possible(field, replies) < in.Quorum
	}
	in.readRests(replies)
	slices.SortFunc(in.Holders, func(a, b Holder) int { return strings.Compare(a.ID, b.ID) })
	in.Waiters = waitersOf(replies)
}

// readRests adds the holder that put a quorum of rests, if nobody has a quorum of votes.
func (in *Inspection) readRests(replies []protocol.Reply) {
	rests, lefts := make(map[string]*Holder), make(map[string][]time.Duration)
	for i := range replies {
		if at := replies[i].Inspected; at != nil && at.Rest.Field != "" {
			h := rests[at.Rest.Field]
			if h == nil {
				h = &Holder{ID: at.Rest.Field, Resting: true}
				rests[at.Rest.Field] = h
			}
			h.Votes++
			h.Owner = cmp.Or(h.Owner, at.Rest.Owner)
			lefts[at.Rest.Field] = append(lefts[at.Rest.Field], at.Rest.Left)
		}
	}
	held := len(in.Holders) > 0
	for field, h := range rests {
		in.Free = in.Free && in.possible(field, replies) < in.Quorum
		if !held && h.Votes >= in.Quorum {
			h.Left = lastOf(lefts[field], in.Quorum)
			in.Holders = append(in.Holders, *h)
		}
	}
}

// lastOf is how long a quorum of the times lasts.
func lastOf(left []time.Duration, quorum int) time.Duration {
	slices.Sort(left)
	return left[len(left)-quorum]
}

// waitersOf puts the masters' queues together. A caller has the same ticket on every master, and in
// all its rounds. The holder ids of its places differ while one round follows the other.
func waitersOf(replies []protocol.Reply) []Waiter {
	type caller struct {
		client string
		ticket int64
	}
	found := make(map[caller]*Waiter)
	var order []caller
	for i := range replies {
		at := replies[i].Inspected
		if at == nil {
			continue
		}
		here := make(map[caller]bool)
		for _, p := range at.Waiting {
			field, mode := protocol.ParsePlace(p.Place)
			k := caller{protocol.ClientOf(field), p.Ticket}
			w := found[k]
			if w == nil {
				w = &Waiter{Client: k.client, Read: mode == protocol.Read, Since: time.UnixMicro(k.ticket)}
				found[k], order = w, append(order, k)
			}
			if w.Owner = cmp.Or(w.Owner, p.Owner); !here[k] {
				here[k] = true
				w.Places++
			}
		}
	}
	slices.SortFunc(order, func(a, b caller) int {
		return cmp.Or(cmp.Compare(a.ticket, b.ticket), strings.Compare(a.client, b.client))
	})
	all := make([]Waiter, len(order))
	for i, k := range order {
		all[i] = *found[k]
	}
	return all
}

// possible is how many votes or rests the holder may have: those that were seen, those of masters that did
// not answer, and those that a master may have forgotten.
func (in *Inspection) possible(field string, replies []protocol.Reply) (n int) {
	for i := range replies {
		if at := replies[i].Inspected; at == nil || !at.Votes || has(at, field) {
			n++
		}
	}
	return n
}

func has(at *protocol.Inspected, field string) bool {
	return field != "" && at.Rest.Field == field || slices.ContainsFunc(at.Votings, func(v protocol.Voting) bool { return v.Field == field })
}

// idOf is the holder's id. The vote of a writer of an RWMutex has a mark behind it.
func idOf(field string) string { return strings.TrimSuffix(field, ":write") }

// identify fills in the masters, and returns the error of Inspect.
func (in *Inspection) identify(c *Client, replies []protocol.Reply) error {
	told, refused := 0, 0
	errs := lockerr.Collect()
	for i := range replies {
		r := &replies[i]
		m := MasterInspection{Name: c.masters.Nodes[i].Name(), Err: r.Err}
		switch at := r.Inspected; {
		case at != nil:
			told++
			m.Votes, m.Counter, m.Rest = at.Votes, at.Counter, max(at.Rest.Left, 0)
			for _, v := range at.Votings {
				m.Holders = append(m.Holders, idOf(v.Field))
				m.Left = max(m.Left, v.Left)
			}
		case r.Err == nil:
			m.Err = &node.Error{Node: m.Name, Err: lockerr.NoAnswer}
		case r.Outcome == protocol.Refused:
			refused++
		}
		if m.Err != nil {
			errs.Errors = append(errs.Errors, m.Err)
		}
		in.Masters = append(in.Masters, m)
	}
	if told >= in.Quorum {
		return nil
	}
	kind := ErrUnreachable
	if told+refused >= in.Quorum {
		kind = ErrRefused
	}
	return fmt.Errorf("%w: inspecting %q: %d of %d masters said who has it, quorum is %d: %w", kind, in.Name, told, len(replies), in.Quorum, errs)
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
