// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

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
	in.Holders, in.Free = nil, possible("", replies, has) < in.Quorum
	for field, h := range holders {
		if h.Votes >= in.Quorum {
			h.Left = lastOf(lefts[field], in.Quorum)
			in.Holders = append(in.Holders, *h)
		}
		in.Free = in.Free && possible(field, replies, has) < in.Quorum
	}
	in.readRests(replies)
	slices.SortFunc(in.Holders, func(a, b Holder) int { return strings.Compare(a.ID, b.ID) })
	in.Waiters = waitersOf(replies)
}

// readRests adds the holder that put a quorum of rests, if nobody has a quorum of votes, and that holder cannot have one: a lease
// that lives has its rests beside its votes.
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
		in.Free = in.Free && possible(field, replies, has) < in.Quorum
		if !held && h.Votes >= in.Quorum && possible(field, replies, voted) < in.Quorum {
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
// not answer, and those that a master may have forgotten. seen is has, or voted for the votes alone.
func possible(field string, replies []protocol.Reply, seen func(at *protocol.Inspected, field string) bool) (n int) {
	for i := range replies {
		if at := replies[i].Inspected; at == nil || !at.Votes || seen(at, field) {
			n++
		}
	}
	return n
}

func has(at *protocol.Inspected, field string) bool {
	return field != "" && at.Rest.Field == field || voted(at, field)
}

func voted(at *protocol.Inspected, field string) bool {
	return slices.ContainsFunc(at.Votings, func(v protocol.Voting) bool { return v.Field == field })
}

// idOf is the holder's id. The vote of a writer of an RWMutex has a mark behind it.
func idOf(field string) string { return strings.TrimSuffix(field, ":write") }

// identify fills in the masters, and returns the error of [Asker.Inspect].
func (in *Inspection) identify(nodes []protocol.Node, replies []protocol.Reply) error {
	told, refused := 0, 0
	all := errs.Collect()
	for i := range replies {
		r := &replies[i]
		m := Answer{Name: nodes[i].Name(), Err: r.Err}
		switch at := r.Inspected; {
		case at != nil:
			told++
			m.Votes, m.Counter, m.Rest = at.Votes, at.Counter, max(at.Rest.Left, 0)
			for _, v := range at.Votings {
				m.Holders = append(m.Holders, idOf(v.Field))
				m.Left = max(m.Left, v.Left)
			}
		case r.Err == nil:
			m.Err = &node.Error{Node: m.Name, Err: errs.ErrNoAnswer}
		case r.Outcome == protocol.Refused:
			refused++
		}
		if m.Err != nil {
			all.Errors = append(all.Errors, m.Err)
		}
		in.Masters = append(in.Masters, m)
	}
	if told >= in.Quorum {
		return nil
	}
	kind := errs.ErrUnreachable
	if told+refused >= in.Quorum {
		kind = errs.ErrRefused
	}
	return fmt.Errorf("%w: inspecting %q: %d of %d masters said who has it, quorum is %d: %w", kind, in.Name, told, len(replies), in.Quorum, all)
}
