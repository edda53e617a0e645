// SPDX-License-Identifier: Apache-2.0

// Package unacked keeps the releases and dequeues that a master has not acknowledged, so
// that the lane can send them again.
//
// It knows which vote or place each entry undoes, and when the entry may be forgotten. It
// is pure: it has no clock, no lock and no connection, and the caller passes the time. It
// imports internal/protocol only. The lane uses [List], and [VoteKey] to compare a release
// with its acquire.
package unacked

import (
	"container/list"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Max is how many entries a list keeps. Beyond that the list drops the oldest entry, whose
// vote ends with its TTL.
const Max = 16384

// PerPipeline is how many entries go out with one pipeline, as many as one call of
// votes.lua takes. A caller's own op waits behind them for half a millisecond.
const PerPipeline = 64

// Pause is how long the list sends nothing after the master refused an entry (LOADING,
// MISCONF, BUSY...).
const Pause = 50 * time.Millisecond

// placeLife is how long a dequeue is sent again: as long as a queue lives that nobody
// touches.
const placeLife = time.Minute

// List holds unacknowledged releases and dequeues, oldest first. It has at most one entry
// for each vote and each place in a queue. The zero List is empty.
//
// An entry ends when the master acknowledges it, when its Deadline has passed, or when the
// list is full. At the Deadline everything that the entry undoes has expired by itself.
//
// If the entry's acquire may lie unread on a broken connection, the entry has no Deadline:
// a frozen master can execute that acquire much later, and the vote then lives for its
// whole TTL. Such entries end on the next connection only, after the lane has killed the
// broken one (docs/safety.md A13).
//
// The caller serialises all calls.
type List struct {
	byKey map[Key]*list.Element // of *Entry
	order list.List
	// unread holds the votes and places that the master may still read from the broken
	// connection, each with the time that it would live for.
	// Invariant: at most those of one pipeline.
	unread      map[Key]time.Duration
	pausedUntil time.Duration // nothing is sent before: the master has just refused
	dropped     uint64        // entries that were dropped because the list was full
}

// Key names what an entry undoes: a vote by its holder, or a place in a queue by its
// waiter.
type Key struct {
	kind protocol.Kind // Release or Dequeue
	lock string
	mode protocol.Mode
	id   string
}

// Entry is one release or dequeue in a List.
type Entry struct {
	Req protocol.Request

	key    Key
	unread time.Duration // not 0: its acquire may still be executed, and its vote lives for so long then
	sent   bool          // it is in the pipeline that is on its way
}

// VoteKey is the key of the vote that r asks for, restores or releases.
func VoteKey(r *protocol.Request) Key {
	vote, _ := keysOf(r)
	return vote
}

// keysOf returns the keys of what r may leave on a master: a vote and a place in a queue.
// place is the zero Key if r takes no place.
func keysOf(r *protocol.Request) (vote, place Key) {
	switch r.Kind {
	case protocol.Acquire, protocol.Release, protocol.TopUp:
		vote = Key{protocol.Release, r.Lock.Name, r.Lock.Mode, r.Holder}
	}
	if r.Wait != nil {
		place = Key{protocol.Dequeue, r.Lock.Name, r.Lock.Mode, r.Wait.Waiter}
	}
	return vote, place
}

// Len returns how many entries there are.
func (l *List) Len() int { return l.order.Len() }

// Dropped returns how many entries were dropped because there was no room for them.
func (l *List) Dropped() uint64 { return l.dropped }

// CountDropped counts a request that the caller dropped before it reached the list.
func (l *List) CountDropped() { l.dropped++ }

// Add keeps a copy of r, a Release or Dequeue, until the master acknowledges it. It does
// not keep the place in the queue that a Release asks for, because the waiter may no
// longer want that place.
func (l *List) Add(r *protocol.Request) {
	vote, place := keysOf(r)
	key := vote
	kept := protocol.Request{Kind: r.Kind, Lock: r.Lock, Holder: r.Holder, Deadline: r.Deadline}
	if r.Kind == protocol.Dequeue {
		key, kept.Wait = place, r.Wait
	}
	if e := l.byKey[key]; e != nil {
		had := e.Value.(*Entry)
		if r.Kind == protocol.Dequeue && had.Req.Wait.Ticket != r.Wait.Ticket {
			kept.Wait = &protocol.Wait{Waiter: r.Wait.Waiter} // ticket 0: whichever place the waiter has
		}
		kept.Deadline = max(kept.Deadline, had.Req.Deadline)
		had.Req = kept
		return
	}
	if l.byKey == nil {
		l.byKey = make(map[Key]*list.Element)
	}
	if l.order.Len() >= Max {
		l.remove(l.order.Front())
		l.dropped++
	}
	l.byKey[key] = l.order.PushBack(&Entry{key: key, Req: kept, unread: l.unread[key]})
}

func (l *List) remove(e *list.Element) {
	delete(l.byKey, e.Value.(*Entry).key)
	l.order.Remove(e)
}

// Broke records that r was sent on a connection that broke before the master answered:
// the master may still execute r.
func (l *List) Broke(r *protocol.Request) {
	if r.Kind != protocol.Acquire && r.Kind != protocol.TopUp {
		return
	}
	if l.unread == nil {
		l.unread = make(map[Key]time.Duration)
	}
	vote, place := keysOf(r)
	l.unread[vote] = max(r.TTL, 1)
	if place != (Key{}) {
		l.unread[place] = placeLife
	}
}

// Connected records that the master can no longer execute anything of the previous
// connection. A vote that it executed until now expires after its TTL. The list waits
// twice as long, for a master whose clock is slow.
func (l *List) Connected(now time.Duration) {
	l.unread, l.pausedUntil = nil, 0
	for e := l.order.Front(); e != nil; e = e.Next() {
		if entry := e.Value.(*Entry); entry.unread != 0 {
			entry.Req.Deadline = max(entry.Req.Deadline, now+2*entry.unread)
			entry.unread = 0
		}
	}
}

// Expire removes the entries whose Deadline has passed at now.
func (l *List) Expire(now time.Duration) {
	for e := l.order.Front(); e != nil; {
		next := e.Next()
		if entry := e.Value.(*Entry); entry.unread == 0 && !entry.sent && now >= entry.Req.Deadline {
			l.remove(e)
		}
		e = next
	}
}

// Take appends to entries those that the lane must send ahead of ops: the oldest, and each
// dequeue of a place that one of ops takes anew, because that dequeue must not arrive
// after the op. During a pause it appends nothing.
func (l *List) Take(now time.Duration, ops []*protocol.Op, entries []*Entry) []*Entry {
	if l.order.Len() == 0 || now < l.pausedUntil {
		return entries
	}
	for e := l.order.Front(); e != nil && len(entries) < PerPipeline; e = e.Next() {
		entries = append(entries, e.Value.(*Entry))
	}
	for _, entry := range entries {
		entry.sent = true
	}
	for _, op := range ops {
		if op.Wait == nil {
			continue
		}
		_, place := keysOf(op.Request)
		if e := l.byKey[place]; e != nil && !e.Value.(*Entry).sent {
			e.Value.(*Entry).sent = true
			entries = append(entries, e.Value.(*Entry))
		}
	}
	return entries
}

// PutBack undoes Take: the lane did not send entries.
func (l *List) PutBack(entries []*Entry) {
	for _, entry := range entries {
		entry.sent = false
	}
}

// Answered records the master's reply to an entry that was sent.
func (l *List) Answered(entry *Entry, reply *protocol.Reply, now time.Duration) {
	entry.sent = false
	if reply.Outcome == protocol.Unknown || reply.Outcome == protocol.Refused && (entry.unread != 0 || now < entry.Req.Deadline) {
		l.PauseFrom(now)
		return
	}
	if e := l.byKey[entry.key]; e != nil && e.Value.(*Entry) == entry { // it was not dropped meanwhile
		l.remove(e)
	}
}

// PauseFrom makes Take return nothing until Pause after now.
func (l *List) PauseFrom(now time.Duration) { l.pausedUntil = now + Pause }

// PlaceTaken removes the dequeue of the place that op has just taken anew. That is needed
// when the master refused the dequeue itself.
func (l *List) PlaceTaken(op *protocol.Op) {
	if op.Wait == nil || op.Kind == protocol.Dequeue || op.Reply.Outcome != protocol.Held && op.Reply.Outcome != protocol.Granted {
		return
	}
	_, place := keysOf(op.Request)
	if e := l.byKey[place]; e != nil && !e.Value.(*Entry).sent {
		l.remove(e)
	}
}
