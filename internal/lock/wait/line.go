// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"container/list"

	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// This file is the line of a process: the callers of one client that wait for one lock. The first of them has the turn: it makes
// the contender's rounds.

// joinLocked puts the caller into the line for its lock. Its turn has come when the channel is closed.
func (w *Lines) joinLocked(call *Caller) (*contender, *list.Element) {
	l := call.Lock
	k := lockKey{l.Name, l.Mode}
	ct := w.contenders[k]
	if ct == nil {
		ct = w.newContenderLocked(l)
		w.contenders[k] = ct
	}
	call.turn, call.ticket = readyTurn, w.ticketLocked()
	if ct.line.Len() > 0 {
		call.turn = make(chan struct{})
		if l.Mode == protocol.Read {
			call.ask = make(chan struct{})
		}
	} else {
		ct.turnLocked(call.ticket)
	}
	w.callers.Add(1)
	return ct, ct.line.PushBack(call)
}

// newContenderLocked returns a contender with an empty line.
//
//go:noinline // what it builds would be in the frame of every caller that waits
func (w *Lines) newContenderLocked(l *protocol.Lock) *contender {
	return &contender{w: w, l: l, offloaded: len(w.contenders) >= offloadAbove, machine: waiting.NewMachine(w.Masters.All)}
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

// leaveLine takes e, which the caller is, out of the line. If it was e's turn, the next caller gets it. When the last
// caller has left, nothing is left of the contender in this process or on the masters.
//
// mine says that it had its turn, and granted that it has the lock.
func (ct *contender) leaveLine(e *list.Element, mine, granted bool) {
	defer ct.w.callers.Done()
	call := ct.leave(e, mine, granted)
	if call.offer != nil { // it gave up before it came to it
		call.decline(ct.w.Masters.All)
	}
}

// leave is leaveLine but for what is left to do when nothing is locked any more.
func (ct *contender) leave(e *list.Element, mine, granted bool) *Caller {
	w := ct.w
	w.mu.Lock()
	defer w.mu.Unlock()
	call := e.Value.(*Caller)
	call.Trip = ct.trip
	if mine {
		call.Rounds += ct.rounds
	}
	first := ct.line.Front() == e
	ct.line.Remove(e)
	next := ct.line.Len() > 0
	if granted && ct.l.Mode == protocol.Read {
		ct.followReaderLocked()
	}
	if next && !first {
		return call
	}
	ct.call = nil
	if ct.timer != nil && (!next || ct.machine.State() != waiting.Passing) {
		ct.timer.Stop()
	}
	if !next {
		ct.stopListeningLocked()
		delete(w.contenders, lockKey{ct.l.Name, ct.l.Mode})
	}
	// Close gives every caller its turn.
	ct.nextLocked(waiting.Event{Kind: waiting.Left, Granted: granted, Next: next && !w.closed, Now: w.Masters.Clock.Elapsed()})
	return call
}

// together is how many readers that wait ask by themselves at a time.
const together = 64

// followReaderLocked has those behind the first ask by themselves, because a reader has the lock, each once: if each waited for its turn, each
// would wait for the trips of all before it, and readers hold a lock together. Their places in the line and in the order of all processes stay:
// a master refuses them while a writer waits.
func (ct *contender) followReaderLocked() {
	left := together
	for e := ct.line.Front(); e != nil && left > 0; e = e.Next() {
		if call := e.Value.(*Caller); !call.asked && call.ask != nil && e != ct.line.Front() {
			call.asked = true
			close(call.ask)
			left--
		}
	}
}

// passLocked gives the first in the line its turn. Its place in the masters' queues is where it would be had it joined them when
// it came, so the lines of all processes are one.
func (ct *contender) passLocked() {
	c := ct.line.Front().Value.(*Caller)
	ct.rounds = 0
	if c.offer == nil {
		ct.passes = passesMax
	}
	ct.turnLocked(c.ticket)
	close(c.turn)
}
