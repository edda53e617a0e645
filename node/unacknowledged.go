// SPDX-License-Identifier: Apache-2.0

package node

import (
	"container/list"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// maxUnacknowledged is how many releases and dequeues a node keeps for a master
// that does not acknowledge them. The oldest is dropped beyond that: its vote ends
// with its TTL.
const maxUnacknowledged = 16384

// repayPiece is how many of them go along with one pipeline: as many as one call of
// votes.lua takes, so that a caller's own op behind them waits for half a
// millisecond more and not for all of them.
const repayPiece = 64

// unacknowledged holds the releases and dequeues that a master has not
// acknowledged, oldest first, at most one for each vote and each place in a queue.
//
// An entry ends when the master acknowledges it; or when nothing that it undoes
// can be there any more, which is at its Until; or when there are too many. An
// entry whose acquire may still lie unread on a broken connection has no Until: a
// frozen master can execute it a long time later, with a whole TTL to live. Such
// entries end only on the next connection, on which the one before is killed
// (docs/safety.md A13).
//
// It is used under the node's mutex.
type unacknowledged struct {
	byKey map[undoKey]*list.Element // of *undo
	order list.List
	// unread are the votes and places that the broken connection may still have in
	// store for the master, each with the time it would live for.
	// Invariant: no more than those of one pipeline.
	unread  map[undoKey]time.Duration
	rest    time.Duration // nothing is sent before: the master has just refused
	dropped uint64        // entries that were given up because there were too many
}

// undoKey names what an entry undoes: a vote by its holder, a place in a queue by
// its waiter.
type undoKey struct {
	kind protocol.Kind // Release or Leave
	lock string
	mode protocol.Mode
	id   string
}

// undo is one entry.
type undo struct {
	key    undoKey
	req    protocol.Request
	unread time.Duration // not 0: what it undoes may yet be executed, and live for so long
	sent   bool          // in the pipeline that is on its way
}

// undoKeys are what r may leave on a master: a vote, a place in a queue. The
// second is the zero key when r takes no place.
func undoKeys(r *protocol.Request) (vote, place undoKey) {
	switch r.Kind {
	case protocol.Acquire, protocol.Release, protocol.TopUp:
		vote = undoKey{protocol.Release, r.Lock.Name, r.Lock.Mode, r.Holder}
	}
	if r.Wait != nil {
		place = undoKey{protocol.Dequeue, r.Lock.Name, r.Lock.Mode, r.Wait.Waiter}
	}
	return vote, place
}

func (u *unacknowledged) len() int { return u.order.Len() }

// add keeps r, a Release or Leave, until it is acknowledged. It is a copy: the
// submitter may use r again. A Release's place in the queue is not kept: the
// waiter may not want it any more.
func (u *unacknowledged) add(r *protocol.Request) {
	vote, place := undoKeys(r)
	key := vote
	kept := protocol.Request{Kind: r.Kind, Lock: r.Lock, Holder: r.Holder, Deadline: r.Deadline}
	if r.Kind == protocol.Dequeue {
		key, kept.Wait = place, r.Wait
	}
	if e := u.byKey[key]; e != nil {
		had := e.Value.(*undo)
		if r.Kind == protocol.Dequeue && had.req.Wait.Ticket != r.Wait.Ticket {
			kept.Wait = &protocol.Wait{Waiter: r.Wait.Waiter} // whichever place it has
		}
		kept.Deadline = max(kept.Deadline, had.req.Deadline)
		had.req = kept
		return
	}
	if u.byKey == nil {
		u.byKey = make(map[undoKey]*list.Element)
	}
	if u.order.Len() >= maxUnacknowledged {
		u.remove(u.order.Front())
		u.dropped++
	}
	u.byKey[key] = u.order.PushBack(&undo{key: key, req: kept, unread: u.unread[key]})
}

func (u *unacknowledged) remove(e *list.Element) {
	delete(u.byKey, e.Value.(*undo).key)
	u.order.Remove(e)
}

// broke notes what the ops of a broken connection, sent and not answered, may
// still do on the master.
func (u *unacknowledged) broke(r *protocol.Request) {
	if r.Kind != protocol.Acquire && r.Kind != protocol.TopUp {
		return
	}
	if u.unread == nil {
		u.unread = make(map[undoKey]time.Duration)
	}
	vote, place := undoKeys(r)
	u.unread[vote] = max(r.TTL, 1)
	if place != (undoKey{}) {
		u.unread[place] = placeLife
	}
}

// placeLife is how long a dequeue is sent again: as long as a queue that nobody
// touches lives.
const placeLife = time.Minute

// connected says that nothing of the connection before can be executed any more.
// What it may have executed until now is over after its own TTL, and as much again
// for a master whose clock is slow.
func (u *unacknowledged) connected(now time.Duration) {
	u.unread, u.rest = nil, 0
	for e := u.order.Front(); e != nil; e = e.Next() {
		if entry := e.Value.(*undo); entry.unread != 0 {
			entry.req.Deadline = max(entry.req.Deadline, now+2*entry.unread)
			entry.unread = 0
		}
	}
}

// expire drops the entries whose time is over at now.
func (u *unacknowledged) expire(now time.Duration) {
	for e := u.order.Front(); e != nil; {
		next := e.Next()
		if entry := e.Value.(*undo); entry.unread == 0 && !entry.sent && now >= entry.req.Deadline {
			u.remove(e)
		}
		e = next
	}
}

// piece takes the entries that are to go out ahead of ops: the oldest, and those
// that must not come after one of ops, because ops take the same place in a queue
// anew. It is empty while the master is given a rest.
func (u *unacknowledged) piece(now time.Duration, ops []*protocol.Op, piece []*undo) []*undo {
	if u.order.Len() == 0 || now < u.rest {
		return piece
	}
	for e := u.order.Front(); e != nil && len(piece) < repayPiece; e = e.Next() {
		piece = append(piece, e.Value.(*undo))
	}
	for _, entry := range piece {
		entry.sent = true
	}
	for _, op := range ops {
		if op.Wait == nil {
			continue
		}
		_, place := undoKeys(op.Request)
		if e := u.byKey[place]; e != nil && !e.Value.(*undo).sent {
			e.Value.(*undo).sent = true
			piece = append(piece, e.Value.(*undo))
		}
	}
	return piece
}

// answered takes the master's reply to an entry that was sent.
func (u *unacknowledged) answered(entry *undo, reply *protocol.Reply, now time.Duration) {
	entry.sent = false
	if reply.Outcome == protocol.Unknown || reply.Outcome == protocol.Refused && (entry.unread != 0 || now < entry.req.Deadline) {
		u.rest = now + restAfterRefusal
		return
	}
	if e := u.byKey[entry.key]; e != nil && e.Value.(*undo) == entry { // not dropped meanwhile
		u.remove(e)
	}
}

// replaced drops the dequeue of a place that op has just taken anew, although the
// master refused the dequeue itself.
func (u *unacknowledged) replaced(op *protocol.Op) {
	if op.Wait == nil || op.Kind == protocol.Dequeue || op.Reply.Outcome != protocol.Held && op.Reply.Outcome != protocol.Granted {
		return
	}
	_, place := undoKeys(op.Request)
	if e := u.byKey[place]; e != nil && !e.Value.(*undo).sent {
		u.remove(e)
	}
}
