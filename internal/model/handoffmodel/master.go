// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"slices"
	"strings"
	"time"
)

// Liveness is how long a sign of life lasts, and the longest TTL of a handed vote.
const Liveness = 3 * time.Second

// ShortTTL is the TTL of a handed vote, for a lock of that TTL (rule H12).
func ShortTTL(ttl time.Duration) time.Duration { return min(ttl, Liveness) }

// Place is a place in a lock's queue. It is an acquire that the master has not executed yet.
type Place struct {
	Client string
	Holder string // the attempt's id; a fresh one for each
	Read   bool
	Ticket int64
	TTL    time.Duration // of the vote when a reply gives it; a message hands it for ShortTTL
}

// compare orders a queue: by ticket, then by holder id.
func (p *Place) compare(q *Place) int {
	switch {
	case p.Ticket < q.Ticket:
		return -1
	case p.Ticket > q.Ticket:
		return 1
	}
	return strings.Compare(p.Holder, q.Holder)
}

// Swap is the op that gives back and queues: release, leave, enqueue, retry, and hand-over within a process.
type Swap struct {
	State    string // of the master, as the caller's connection knows it
	Out      string // the holder that leaves its place or releases its vote; empty for none
	OutRead  bool   // it is a reader
	Hand     bool   // the vote of Out may be handed on by message: its client saw and believed the answer (rule H17)
	In       *Place // nil for none
	Try      bool   // In takes no place when it is not granted
	Sign     Sign   // of In's client
	Proposal int64  // the least token to give; the same to all masters
}

// ClaimOp looks at a place or vote, renews the vote, and raises the counter to the token. It creates no place.
type ClaimOp struct {
	State    string
	Place    Place
	Token    int64 // 0 for none
	Proposal int64
}

// Reply is what a master answers to a Swap or a ClaimOp.
type Reply struct {
	Refused  bool // the record state does not fit; a give-back was executed all the same
	Released bool // Out had the vote
	Left     bool // Out had a place
	Answer        // of In or of the claim; without either, Silent
}

// Notice is a message that a master publishes on a client's channel: a vote, or with an empty Hand.Holder a wake.
type Notice struct {
	Client string
	Hand   Hand
}

// Master is one lock on one master, as the scripts are to behave. It is exact where Clocks and Tokens are loose. Expired
// votes and signs of life are gone; now never goes back. The zero Master has no record state and no counter.
type Master struct {
	State   string          // the record's: empty, or whatever the ops must name
	Counter int64           // the lock's, in the record
	Java    bool            // PUBLISH on Redisson's channel reaches somebody
	Listens map[string]bool // clients that PUBLISH on their channel reaches

	votes   []vote             // Redisson's among them, with a holder that is none of ours
	queues  map[string][]Place // by the record state of the ops that queued: places die with epoch and incarnation (rule H10)
	signs   map[string]signed
	notices []Notice
	drop    Rule // of the simulation's variants
}

type vote struct {
	holder string
	read   bool
	number int64
	until  time.Duration
}

// Sign is a client's sign of life: a beat, or part of an enqueue.
type Sign struct {
	Stamp time.Duration // when the client sent it, on its own clock; opaque to the master
	Deaf  bool          // wait for this client although PUBLISH reaches nobody: it asks by itself
}

type signed struct {
	Sign
	until time.Duration
}

// Beat takes a sign of life.
func (m *Master) Beat(now time.Duration, client string, sign Sign) {
	if m.signs == nil {
		m.signs = map[string]signed{}
	}
	m.signs[client] = signed{sign, now + Liveness}
}

// Swap executes op. Its notices are published when it is done.
func (m *Master) Swap(now time.Duration, op Swap) (Reply, []Notice) {
	m.begin(now)
	var r Reply
	hand := false
	if op.Out != "" {
		if v := m.voteOf(op.Out); v != nil {
			r.Released, hand = true, op.Hand && !op.OutRead // other readers' votes may have run out too early
			m.remove(op.Out)
		}
		r.Left = m.drop != H4Unlock && m.leave(op.State, op.Out)
	}
	if op.State != m.State {
		r.Refused = true
		return r, nil
	}
	switch {
	case op.In != nil && op.Try:
		r.Answer = m.try(now, &op)
	case op.In != nil:
		r.Answer = m.enqueue(now, &op, hand)
	case r.Released || r.Left:
		m.settle(now, nil, op.Proposal, hand)
	}
	return r, m.notices
}

// begin forgets what has expired.
func (m *Master) begin(now time.Duration) {
	m.votes = slices.DeleteFunc(m.votes, func(v vote) bool { return v.until <= now })
	m.notices = nil
	if m.queues == nil {
		m.queues = map[string][]Place{}
	}
}

func (m *Master) voteOf(holder string) *vote {
	for i := range m.votes {
		if m.votes[i].holder == holder {
			return &m.votes[i]
		}
	}
	return nil
}

func (m *Master) remove(holder string) {
	m.votes = slices.DeleteFunc(m.votes, func(v vote) bool { return v.holder == holder })
}

// placeOf is where the holder's place is in the queue of a record state, or -1.
func (m *Master) placeOf(state, holder string) int {
	return slices.IndexFunc(m.queues[state], func(p Place) bool { return p.Holder == holder })
}

// leave takes the holder's place away, from the queue that an op with this record state sees.
func (m *Master) leave(state, holder string) bool {
	i := m.placeOf(state, holder)
	if i >= 0 {
		m.queues[state] = slices.Delete(m.queues[state], i, i+1)
	}
	return i >= 0
}

// line is the queue that an op sees whose record state fits.
func (m *Master) line() []Place { return m.queues[m.State] }

func (m *Master) alive(now time.Duration, client string) bool { return m.signs[client].until > now }

// head drops places of clients without a sign of life, and returns the first that is left.
func (m *Master) head(now time.Duration) *Place {
	for len(m.line()) > 0 {
		first := &m.line()[0]
		if m.alive(now, first.Client) {
			return first
		}
		m.leave(m.State, first.Holder)
	}
	return nil
}

// try grants In if the lock is free and nobody waits for it.
func (m *Master) try(now time.Duration, op *Swap) Answer {
	if v := m.voteOf(op.In.Holder); v != nil {
		return Answer{Standing: Voted, Vote: m.told(v)}
	}
	if m.compatible(op.In) && m.head(now) == nil {
		return m.grant(now, op.In, op.Proposal)
	}
	return Answer{Standing: Gone, Held: m.held(now), Stranger: m.strange()}
}

// enqueue gives In a place and settles.
func (m *Master) enqueue(now time.Duration, op *Swap, hand bool) Answer {
	p := *op.In
	if v := m.voteOf(p.Holder); v != nil {
		// The op was executed before. It renews nothing, so the answer dates nothing: it has no TTL (rule H3).
		return Answer{Standing: Voted, Vote: m.told(v), Ahead: m.ahead(&p)}
	}
	m.Beat(now, p.Client, op.Sign)
	if m.placeOf(m.State, p.Holder) < 0 {
		i, _ := slices.BinarySearchFunc(m.line(), p, func(a, b Place) int { return a.compare(&b) })
		m.queues[m.State] = slices.Insert(m.line(), i, p)
	}
	return m.settled(now, &p, op.Proposal, hand)
}

// settled settles and says what came of it for p.
func (m *Master) settled(now time.Duration, p *Place, proposal int64, hand bool) Answer {
	if answer := m.settle(now, p, proposal, hand); answer.Standing == Voted {
		return answer
	}
	return Answer{Standing: Queued, Ahead: m.ahead(p), Held: m.held(now), Stranger: m.strange()}
}

// ahead is how many places have a smaller ticket. The first of them shows signs of life.
func (m *Master) ahead(p *Place) int {
	n := 0
	for n < len(m.line()) && m.line()[n].compare(p) < 0 {
		n++
	}
	return n
}

// held is how long the votes last that are there.
func (m *Master) held(now time.Duration) time.Duration {
	left := time.Duration(0)
	for i := range m.votes {
		left = max(left, m.votes[i].until-now)
	}
	return left
}

// told is what a claim, or an enqueue that is executed again, says of a vote that it finds: the counter, but to a reader
// its vote as it was stored (rule H15).
func (m *Master) told(v *vote) int64 {
	if v.read {
		return v.number
	}
	return m.Counter
}

// grant gives the vote to p in the reply, for the full TTL.
func (m *Master) grant(now time.Duration, p *Place, proposal int64) Answer {
	number := m.give(now, p, p.TTL, proposal)
	m.leave(m.State, p.Holder)
	return Answer{Standing: Voted, Vote: number, TTL: p.TTL, Ahead: m.ahead(p)}
}

func (m *Master) give(now time.Duration, p *Place, ttl time.Duration, proposal int64) int64 {
	m.Counter = max(m.Counter+1, proposal)
	m.votes = append(m.votes, vote{p.Holder, p.Read, m.Counter, now + ttl})
	return m.Counter
}
