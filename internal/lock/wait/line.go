// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"container/list"
	"errors"

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
	call.turn, call.alone = readyTurn, false
	if call.ticket == 0 { // else it was in the line before, and keeps its place in the order of all
		call.ticket = w.ticketLocked()
	}
	if ct.line.Len() > 0 {
		call.turn = make(chan struct{})
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
	w := ct.w
	defer w.callers.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	call := e.Value.(*Caller)
	call.Trip = ct.trip
	if call.alone {
		return
	}
	if mine {
		call.Rounds += ct.rounds
	}
	if granted && ct.l.Mode == protocol.Read && !w.closed {
		ct.followReaderLocked(e)
	}
	first := ct.line.Front() == e
	ct.line.Remove(e)
	next := ct.line.Len() > 0
	if next && !first {
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
	// Close gives every caller its turn.
	ct.nextLocked(waiting.Event{Kind: waiting.Left, Granted: granted, Next: next && !w.closed, Now: w.Masters.Clock.Elapsed()})
}

// together is how many readers follow one that has the lock.
const together = 64

// ErrAlone is no failure: the call has left the line, because a reader before it has the lock. It is to ask once by itself, as one that does not wait,
// and to call Lock again if others are before it. Readers hold a lock together: if each waited for its turn, each would wait for the trips of
// all before it.
var ErrAlone = errors.New("wait: a reader before has the lock")

// followReaderLocked has those behind e ask by themselves.
func (ct *contender) followReaderLocked(e *list.Element) {
	for range together {
		behind := e.Next()
		if behind == nil {
			return
		}
		call := ct.line.Remove(behind).(*Caller)
		call.alone = true
		close(call.turn)
	}
}

// passLocked gives the first in the line its turn. Its place in the masters' queues is where it would be had it joined them when
// it came, so the lines of all processes are one.
func (ct *contender) passLocked() {
	c := ct.line.Front().Value.(*Caller)
	ct.rounds = 0
	ct.turnLocked(c.ticket)
	close(c.turn)
}
