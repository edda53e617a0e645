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
		ct = w.newContenderLocked(l)
		w.contenders[k] = ct
	}
	c := &caller{turn: readyTurn, ticket: w.ticketLocked(), began: w.c.began()}
	if ct.line.Len() > 0 {
		c.turn = make(chan struct{})
	} else {
		ct.turnLocked(c.ticket)
	}
	w.callers.Add(1)
	return ct, ct.line.PushBack(c)
}

// newContenderLocked returns a contender with an empty line.
//
//go:noinline // what it builds would be in the frame of every caller that waits
func (w *waiters) newContenderLocked(l *protocol.Lock) *contender {
	return &contender{w: w, l: l, offloaded: len(w.contenders) >= offloadAbove, machine: waiting.NewMachine(w.c.masters.All)}
}

// turnLocked tells the machine that the caller with the ticket has its turn.
//
//go:noinline // as newContenderLocked
func (ct *contender) turnLocked(ticket int64) {
	ct.nextLocked(waiting.Event{Kind: waiting.Turn, Ticket: ticket})
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
	recovers            bool // the Observers were told that it waits for masters that recover
	rounds              int
}

// leaveLine takes e out of the line. If it was e's turn, the next caller gets it. When the last
// caller has left, nothing is left of the contender in this process or on the masters.
func (ct *contender) leaveLine(e *list.Element, granted bool) {
	w := ct.w
	defer w.callers.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := ct.line.Front() == e
	ct.line.Remove(e)
	next := ct.line.Len() > 0
	if next && !mine {
		return
	}
	ct.call = nil
	if ct.timer != nil && (!next || ct.machine.State() != waiting.Passing) {
		ct.timer.Stop()
	}
	if !next {
		ct.stopListeningLocked()
		delete(w.contenders, lockKey{ct.l.Name, ct.l.Mode})
	}
	// waiters.close gives every caller its turn.
	ct.nextLocked(waiting.Event{Kind: waiting.Left, Granted: granted, Next: next && !w.closed, Now: w.c.clock.Elapsed()})
}

// passLocked gives the first in the line its turn. Its place in the masters' queues is where it would be had it joined them when
// it came, so the lines of all processes are one.
func (ct *contender) passLocked() {
	c := ct.line.Front().Value.(*caller)
	ct.rounds = 0
	ct.turnLocked(c.ticket)
	close(c.turn)
}
