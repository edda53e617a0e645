// SPDX-License-Identifier: Apache-2.0

// Package unacked keeps the releases that a master has not acknowledged, so that the lane can
// send them again.
//
// It knows whose vote or place each entry gives back, and when the entry may be forgotten. It
// is pure: it has no clock, no lock and no connection, and the caller passes the time. It
// imports internal/protocol only. The lane uses [List], and [KeyOf] to compare a release with
// its acquire.
package unacked

import (
	"cmp"
	"container/list"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Max is how many entries a list keeps. Beyond that the list drops the first entry that lifts no rest: its
// vote ends with its TTL.
const Max = 16384

// PerPipeline is how many entries go out with one pipeline, as many as one call of
// votes.lua takes. A caller's own op waits behind them for half a millisecond.
const PerPipeline = 64

// Pause is how long the list sends nothing after the master refused an entry (LOADING,
// MISCONF, BUSY...).
const Pause = 50 * time.Millisecond

// placeLife is how long the release of a holder that may have a place in a queue is sent
// again: as long as a queue lives that nobody touches.
const placeLife = time.Minute

// List holds unacknowledged releases, oldest first; one that the master refuses goes behind the others. It has
// at most one entry for each holder of a lock. The zero List is empty.
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
	// unread holds the acquires that the master may still read from the broken connection, each
	// with the time that its vote or place would live for.
	// Invariant: at most those of one pipeline.
	unread      map[Key]time.Duration
	pausedUntil time.Duration // nothing is sent before: the master has just refused
	dropped     uint64        // entries that were dropped because the list was full
}

// Key names what an entry gives back: the vote or the place of a holder.
type Key struct {
	lock   string
	mode   protocol.Mode
	holder string
}

// Entry is one release in a List.
type Entry struct {
	Req protocol.Request
	// Denied says that the master refused the entry because of the user's rights. The user may lack those to its keys, and then
	// the master refuses every call that names them, with whatever else is in the call: so the entry is to go out in a call of its own.
	Denied bool

	key    Key
	unread time.Duration // not 0: its acquire may still be executed, and its vote lives for so long then
	sent   bool          // it is in the pipeline that is on its way
}

// KeyOf is the key of what r asks for, restores, confirms or gives back. r is an Acquire, an Adopt, a Release,
// a TopUp or a Confirm.
func KeyOf(r *protocol.Request) Key { return Key{r.Lock.Name, r.Lock.Mode, r.Holder} }

// Len returns how many entries there are.
func (l *List) Len() int { return l.order.Len() }

// Dropped returns how many entries were dropped because there was no room for them.
func (l *List) Dropped() uint64 { return l.dropped }

// CountDropped counts a request that the caller dropped before it reached the list.
func (l *List) CountDropped() { l.dropped++ }

// Add keeps a copy of r, a Release, until the master acknowledges it, and returns the entry. The copy hands the lock to
// nobody: by the time that it is sent, the holder may have had the vote for the second time.
func (l *List) Add(r *protocol.Request) *Entry {
	key := KeyOf(r)
	kept := protocol.Request{Kind: r.Kind, Lock: r.Lock, Holder: r.Holder, Lift: r.Lift, Deadline: r.Deadline}
	if e := l.byKey[key]; e != nil {
		had := e.Value.(*Entry)
		kept.Deadline = max(kept.Deadline, had.Req.Deadline)
		kept.Lift = cmp.Or(kept.Lift, had.Req.Lift)
		had.Req = kept
		return had
	}
	if l.byKey == nil {
		l.byKey = make(map[Key]*list.Element)
	}
	if l.order.Len() >= Max {
		l.remove(l.oldest())
		l.dropped++
	}
	entry := &Entry{key: key, Req: kept, unread: l.unread[key]}
	l.byKey[key] = l.order.PushBack(entry)
	return entry
}

// oldest is what is dropped when there is no room: the oldest that lifts no rest, because a vote ends with its TTL, and a rest may last for a year.
// If all lift one, it is the oldest.
func (l *List) oldest() *list.Element {
	for e := l.order.Front(); e != nil; e = e.Next() {
		if e.Value.(*Entry).Req.Lift == "" {
			return e
		}
	}
	return l.order.Front()
}

func (l *List) remove(e *list.Element) {
	delete(l.byKey, e.Value.(*Entry).key)
	l.order.Remove(e)
}

// Broke records that r was sent on a connection that broke before the master answered:
// the master may still execute r, and give a vote, take a place or put a rest.
func (l *List) Broke(r *protocol.Request) {
	if r.Kind != protocol.Acquire && r.Kind != protocol.Adopt && r.Kind != protocol.TopUp && r.Rest == 0 {
		return
	}
	if l.unread == nil {
		l.unread = make(map[Key]time.Duration)
	}
	life := max(r.TTL, r.Rest, 1)
	if r.Wait != nil {
		life = max(life, placeLife)
	}
	l.unread[KeyOf(r)] = max(life, l.unread[KeyOf(r)])
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

// Take appends to entries those that the lane must send ahead of its queue: the first. During a
// pause it appends nothing.
func (l *List) Take(now time.Duration, entries []*Entry) []*Entry {
	if now < l.pausedUntil {
		return entries
	}
	for e := l.order.Front(); e != nil && len(entries) < PerPipeline; e = e.Next() {
		entry := e.Value.(*Entry)
		entry.sent = true
		entries = append(entries, entry)
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
	entry.sent, entry.Denied = false, errors.Is(reply.Err, protocol.ErrDenied)
	e := l.byKey[entry.key]
	there := e != nil && e.Value.(*Entry) == entry // it was not dropped meanwhile
	switch {
	case reply.Outcome == protocol.Unknown:
		l.PauseFrom(now)
	case reply.Outcome == protocol.Refused && (entry.unread != 0 || now < entry.Req.Deadline):
		l.PauseFrom(now)
		if there {
			l.order.MoveToBack(e) // the master may go on refusing it, and take those behind it
		}
	case there:
		l.remove(e)
	}
}

// PauseFrom makes Take return nothing until Pause after now.
func (l *List) PauseFrom(now time.Duration) { l.pausedUntil = now + Pause }
