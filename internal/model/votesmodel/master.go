// SPDX-License-Identifier: Apache-2.0

package votesmodel

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Redisson is a holder that is none of ours: a UUID of version 4.
const Redisson = "ffffffff-ffff-4fff-8fff-ffffffffffff:1"

// queueLives is the TTL that each enqueue gives the queue.
const queueLives = time.Minute

// Call is what one connection sends at once: acquires and releases, which are one call of votes.lua, or a single op of
// another kind. All ops are of one lock, and one acquire at most is among them.
type Call struct {
	State string // of the master's record, as the connection knows it
	Deaf  bool   // the connection says that its client hears no message; see protocol.Deaf
	Ops   []protocol.Request
}

// Message is what a master publishes.
type Message struct{ Channel, Text string }

// Master is one lock on one master. Make one with [NewMaster].
type Master struct {
	State    string // of the record
	Whole    string // the record state of a master that recovers, and still extends votes; see extend.lua
	Extender string // the state that a connection names whose votes Whole extends
	Counter  int64
	Listens  bool            // somebody hears Redisson's channels of the lock
	Hears    map[string]bool // the clients on whose channel somebody is subscribed

	lock     string
	now      time.Duration
	mode     string   // the hash's field mode
	fields   []string // the hash's other fields, oldest first
	until    time.Duration
	timeouts map[string]time.Duration // by reader: until when its timeout key is there
	queue    []place
	queueEnd time.Duration // until when the queue is there
	signs    map[string]sign
	rest     rest

	said  []Message
	deaf  bool // the call's
	knows bool // the call has read the record: at its beginning if an acquire is in it, else for a hand
}

// place is a member of the queue, in the order of ticket and member.
type place struct {
	ticket int64
	member string
	field  string // of the holder in the lock's hash
	reads  bool
	state  string // in which it may be handed the lock; empty: it may not
}

type sign struct {
	text  string // the stamp, and a mark if the client is to be waited for though it hears nothing
	until time.Duration
}

// NewMaster returns a master of that lock, without a record.
func NewMaster(lock string) *Master {
	return &Master{lock: lock, timeouts: map[string]time.Duration{}, signs: map[string]sign{}, Hears: map[string]bool{}}
}

// Clone returns a copy.
func (m *Master) Clone() *Master {
	c := *m
	c.fields, c.queue = slices.Clone(m.fields), slices.Clone(m.queue)
	c.timeouts, c.signs, c.Hears = maps.Clone(m.timeouts), maps.Clone(m.signs), maps.Clone(m.Hears)
	return &c
}

// At moves the time, never back, and forgets what has expired.
func (m *Master) At(now time.Duration) {
	m.now = now
	if m.until <= now {
		m.Empty()
	}
	if m.rest.until <= now {
		m.EndRest()
	}
	if m.queueEnd <= now {
		m.queue = nil
	}
	maps.DeleteFunc(m.timeouts, func(_ string, until time.Duration) bool { return until <= now })
	maps.DeleteFunc(m.signs, func(_ string, s sign) bool { return s.until <= now })
}

// Empty removes the lock's hash, as an expiry does.
func (m *Master) Empty() { m.mode, m.fields, m.until = "", nil, 0 }

// TimeOut removes the timeout key of a reader, and Lapse a client's sign of life.
func (m *Master) TimeOut(reader string) { delete(m.timeouts, reader) }
func (m *Master) Lapse(client string)   { delete(m.signs, client) }

// Take has a Redisson client take the lock that nobody holds, for ttl.
func (m *Master) Take(mode protocol.Mode, ttl time.Duration) {
	m.mode, m.until = "", m.now+ttl
	m.fields = []string{protocol.NewLock(m.lock, mode).Field(Redisson)}
	if mode == protocol.Write {
		m.mode = "write"
	}
}

// Has says for how long the holder's vote lasts; 0: it has none.
func (m *Master) Has(field string) time.Duration {
	if !slices.Contains(m.fields, field) {
		return 0
	}
	return m.until - m.now
}

// Queued says whether the holder has a place.
func (m *Master) Queued(field string) bool {
	return slices.ContainsFunc(m.queue, func(p place) bool { return p.field == field })
}

// Do executes a call at the time now, and returns the replies and what was published, in its order.
func (m *Master) Do(now time.Duration, c Call) ([]protocol.Reply, []Message) {
	m.At(now)
	m.said, m.deaf = nil, c.Deaf
	m.knows = slices.ContainsFunc(c.Ops, func(op protocol.Request) bool { return op.Kind == protocol.Acquire })
	replies := make([]protocol.Reply, len(c.Ops))
	for i := range c.Ops {
		op := &c.Ops[i]
		switch op.Kind {
		case protocol.Acquire:
			replies[i] = m.acquire(c.State, op)
		case protocol.Release:
			replies[i] = m.release(c.State, op)
		case protocol.Extend:
			replies[i] = m.extend(c.State, op)
		case protocol.Confirm:
			replies[i] = m.confirm(c.State, op)
		case protocol.Adopt:
			replies[i] = m.adopt(c.State, op)
		case protocol.Heartbeat:
			m.signal(op.Holder, op.Start, op.TTL)
			replies[i].Outcome = protocol.Granted
		case protocol.Dequeue:
			replies[i].Outcome = protocol.Absent
			if m.drop(op.Place) {
				replies[i].Outcome = protocol.Granted
			}
		}
	}
	return replies, m.said
}

func (m *Master) refusal() protocol.Reply {
	return protocol.Reply{Outcome: protocol.Refused, Err: &protocol.RecordStateError{Got: m.State}}
}

func (m *Master) held() bool { return len(m.fields) > 0 }

func (m *Master) acquire(state string, op *protocol.Request) protocol.Reply {
	if state != m.State {
		return m.refusal()
	}
	contended := op.Wait != nil && (op.Wait.Again || op.Wait.Only) || m.held() || len(m.queue) > 0 || m.rest.until > 0
	if contended {
		if r := m.contend(op); r.Outcome != protocol.Unknown {
			return r
		}
	}
	field := op.Lock.Field(op.Holder)
	vote := m.raise(op.Token)
	m.grant(field, op.Lock.Mode, op.TTL)
	if contended && op.Wait != nil {
		m.dequeue(op)
	}
	return protocol.Reply{Outcome: protocol.Granted, Token: vote}
}

// tooFar is a proposal that is more than a minute ahead of any master's clock. A run's other proposals are far below.
const tooFar = 1 << 52

// raise numbers the next vote: above the counter, and the proposal at least unless that is too far ahead (R2).
func (m *Master) raise(proposal int64) int64 {
	m.Counter++
	if proposal < tooFar {
		m.Counter = max(m.Counter, proposal)
	}
	return m.Counter
}

// grant writes the vote.
func (m *Master) grant(field string, mode protocol.Mode, ttl time.Duration) {
	if mode == protocol.Read {
		m.timeouts[field] = m.now + ttl
	}
	if !m.held() {
		m.until = 0
		switch mode {
		case protocol.Read:
			m.mode = "read"
		case protocol.Write:
			m.mode = "write"
		}
	}
	m.fields = append(m.fields, field)
	m.until = max(m.until, m.now+ttl)
}

// contend is for a lock that is held or queued for. The outcome is Unknown if the caller may have the vote.
func (m *Master) contend(op *protocol.Request) protocol.Reply {
	field, mode := op.Lock.Field(op.Holder), op.Lock.Mode
	free := !m.held()
	if m.Has(field) > 0 {
		if mode != protocol.Read {
			m.until = max(m.until, m.now+op.TTL) // the answer dates the vote (H3)
		}
		return protocol.Reply{Outcome: protocol.Granted, Token: m.Counter}
	}
	if !free {
		free = m.joins(op) || m.ousts(op)
	}
	refused := protocol.Reply{Outcome: protocol.Held}
	if !free {
		refused.Remaining = m.until - m.now
	}
	left, rests := m.Rest(m.State)
	if left > 0 {
		free, refused.Remaining = false, max(refused.Remaining, left)
	} else {
		m.EndRest() // if there is one it is of an epoch that is over
	}
	if op.Wait == nil {
		if free && (op.JoinWrite != "" || m.head(true, "") == nil) {
			return protocol.Reply{}
		}
		if refused.Holder = m.holder(); left > 0 {
			refused.Holder = rests
		}
		return refused
	}
	p := m.placeOf(op)
	if op.Wait.Again && !slices.ContainsFunc(m.queue, func(q place) bool { return q.member == p.member }) {
		refused.Holder = m.holder() // what it had is gone, and must not come again (H7)
		return refused
	}
	if free && !op.Wait.Only && (len(m.queue) == 0 || !m.queue[0].before(&p)) {
		return protocol.Reply{}
	}
	m.enqueue(op, p)
	if free || asked(op.Wait) {
		m.head(true, p.member)
	}
	ahead := slices.IndexFunc(m.queue, func(q place) bool { return q.member == p.member })
	if free && !op.Wait.Only && (op.Wait.Unfair && !op.Wait.Again || m.turn(&p, ahead)) {
		return protocol.Reply{}
	}
	refused.Ticket, refused.Ahead = op.Wait.Ticket, ahead
	switch {
	case !free:
		refused.Foreign = m.foreign()
	case asked(op.Wait):
		if first := m.head(true, p.member); first.member != p.member {
			m.wake(first)
		}
	}
	return refused
}

// joins says whether an acquire is of a reader that may have the vote beside those that have it.
func (m *Master) joins(op *protocol.Request) bool {
	return op.Lock.Mode == protocol.Read && (m.mode == "read" || m.mode == "write" && slices.Contains(m.fields, op.JoinWrite))
}

// ousts takes the lock away from holders that are not to be waited for, if the acquire says so.
func (m *Master) ousts(op *protocol.Request) bool {
	if op.Wait == nil || !op.Wait.Oust || op.Lock.Mode != protocol.Plain || m.mode != "" || slices.ContainsFunc(m.fields, m.stays) {
		return false
	}
	m.Empty()
	return true
}

// asked says whether an acquire is not the first of its caller. Such a one looks who is ahead.
func asked(w *protocol.Wait) bool { return w.Again || w.Only || w.Unfair || w.Retry || w.Oust }

// turn says whether a place with that many ahead, of which the first is waited for, may have a free lock: a reader may pass
// readers.
func (m *Master) turn(p *place, ahead int) bool {
	return !slices.ContainsFunc(m.queue[:ahead], func(q place) bool { return !(p.reads && q.reads) && m.listens(&q) })
}

// stays says whether a vote is one that Oust leaves: Redisson's, or of a client that would be waited for, or that gave no sign of life.
func (m *Master) stays(field string) bool {
	_, signed := m.signs[field[:36]]
	return field[14] != '8' || !signed || m.listens(&place{field: field})
}

// holder is the holder that one who does not wait is told.
func (m *Master) holder() string {
	switch {
	case m.mode == "read":
		return "*"
	case len(m.fields) == 0:
		return ""
	}
	return strings.TrimSuffix(m.fields[0], ":write")
}

func (m *Master) foreign() bool {
	return slices.ContainsFunc(m.fields, func(f string) bool { return f[14] != '8' })
}

func (m *Master) extend(state string, op *protocol.Request) protocol.Reply {
	if state != m.State && (m.State != m.Whole || state != m.Extender) {
		return m.refusal()
	}
	intact := make([]bool, len(op.Items))
	for i, item := range op.Items {
		field := item.Lock.Field(item.Holder)
		reads := item.Lock.Mode == protocol.Read
		_, timed := m.timeouts[field]
		if m.Has(field) == 0 || reads && !timed {
			continue
		}
		intact[i] = true
		if reads {
			m.timeouts[field] = m.now + op.TTL
		}
		if reads || len(m.fields) > 1 {
			m.until = max(m.until, m.now+op.TTL)
		} else {
			m.until = m.now + op.TTL
		}
	}
	return protocol.Reply{Outcome: protocol.Granted, Intact: intact}
}

func (m *Master) confirm(state string, op *protocol.Request) protocol.Reply {
	r := protocol.Reply{Outcome: protocol.Absent}
	switch {
	case state != m.State:
		return m.refusal()
	case m.Has(op.Lock.Field(op.Holder)) == 0:
		return r
	}
	if op.Rest > 0 {
		m.rest = rest{epochOf(state), op.Lock.Field(op.Holder), m.now + op.Rest}
	}
	if m.Counter < op.Token || op.Lock.Mode != protocol.Read {
		m.Counter = max(m.Counter, op.Token)
		r.Outcome = protocol.Granted
	}
	return r
}
