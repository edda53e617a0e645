// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"container/list"
	"time"

	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// This file is the line of a process: the callers of one client that wait for one lock. The first of them has the turn: it makes
// the contender's rounds.

// joinLocked puts the caller into the line for l. Its turn has come when the channel is closed.
func (w *waiters) joinLocked(l *protocol.Lock) (*contender, *list.Element) {
	k := lockKey{l.Name, l.Mode}
	ct := w.contenders[k]
	if ct == nil {
		ct = &contender{w: w, l: l, offloaded: len(w.contenders) >= offloadAbove}
		ct.wakes.Turn()
		w.contenders[k] = ct
	}
	c := &caller{turn: readyTurn, ticket: w.ticketLocked(), began: w.c.began()}
	if ct.line.Len() > 0 {
		c.turn = make(chan struct{})
	} else {
		ct.place.Ticket = c.ticket
	}
	w.callers.Add(1)
	return ct, ct.line.PushBack(c)
}

// readyTurn is the turn of a caller that finds the line empty: a closed channel.
var readyTurn = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// caller is one of those who wait in a line.
type caller struct {
	turn chan struct{} // closed when its turn has come
	// ticket is its place in the order of all callers of all processes: when it came, on the masters' clocks.
	ticket int64

	// The rest is its own. began is when it called, and told when the Observers were told of it last, if there are any. joined is when it
	// began to wait, and waits says that it did. rounds is how many rounds it made.
	began, told, joined time.Duration
	waits               bool
	rounds              int
}

// A hold of less than briefHold is over before a round trip is: see contender.passing. passAfter is how long the next caller
// waits for the end of a hold that was expected to be brief.
const briefHold, passAfter = 500 * time.Microsecond, 2 * time.Millisecond

// leaveLine takes e out of the line. If it was e's turn, the next caller gets it. When the last
// caller has left, nothing is left of the contender in this process or on the masters.
func (ct *contender) leaveLine(e *list.Element, granted bool) {
	w := ct.w
	defer w.callers.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := ct.line.Front() == e
	ct.line.Remove(e)
	next := ct.line.Front()
	ct.passing = ct.passing && next != nil
	if mine {
		ct.call = nil
		if ct.timer != nil && !ct.passing {
			ct.timer.Stop()
		}
	}
	if next == nil {
		ct.stopListeningLocked()
		delete(w.contenders, lockKey{ct.l.Name, ct.l.Mode})
	} else if mine && !w.closed && !ct.passing { // waiters.close gives every caller its turn
		ct.grantedAt = w.c.clock.Elapsed()
		if ct.passing = granted && ct.brief; ct.passing {
			ct.armTimerLocked(passAfter)
		} else {
			ct.passLocked(!granted && ct.place.Asked)
		}
	}
}

// passLocked gives the first in the line its turn. Its place in the masters' queues is where it would be had it joined them when
// it came, so the lines of all processes are one. asked says that the caller before it asked in vain.
func (ct *contender) passLocked(asked bool) {
	c := ct.line.Front().Value.(*caller)
	ct.passing = false
	ct.place, ct.rounds, ct.retries = waiting.Place{Ticket: c.ticket, Asked: asked}, 0, 0
	ct.wakes.Turn()
	close(c.turn)
}
