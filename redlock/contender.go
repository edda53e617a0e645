// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/internal/waiting"
)

// contender stands for all callers in this process that wait for one side of a
// lock. They form a line, first come first served; the first of them tries, as
// one contender among those of other processes, and hands over to the second.
type contender struct {
	w    *waiters
	l    *protocol.Lock
	line list.List // of chan struct{}, each closed when its turn has come

	// These belong to the caller whose turn it is. The next caller takes them over.
	place   waiting.Place
	wake    chan struct{} // holds a token when a round may be of use; made at the first wait
	timer   *time.Timer   // fires if no wake comes; made at the first wait
	toldWhy bool          // the logger was told that the contender waits for masters that recover
	// silence is when a quorum first failed to answer; 0 while a quorum answers. It belongs
	// to the line, because an outage concerns all callers at once.
	silence time.Duration
	// offloaded says that rounds run on goroutines of their own. A round needs a deep stack
	// for a moment, and the goroutine that waits would keep it.
	offloaded bool

	// Guarded by w.mu.
	// last is the last round of any caller in the line. The round of a caller whose time is
	// nearly over leaves the masters no time to answer. It does not replace an earlier
	// round, because a lock that is held must not look like masters that are gone.
	last    *RoundError
	round   *quorumCall // of the round under way
	listens bool        // the client hears the masters' wakes for this contender
	wakes   waiting.Wakes
}

// leaveLine takes e out of the line. If it was e's turn, the next caller gets it. When the last
// caller has left, nothing is left of the contender in this process or on the masters.
func (ct *contender) leaveLine(e *list.Element, granted bool) {
	w := ct.w
	defer w.callers.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := ct.line.Front() == e
	if mine && ct.timer != nil {
		ct.timer.Stop()
	}
	ct.line.Remove(e)
	next := ct.line.Front()
	if mine && (granted || next == nil) {
		// After a lease the next caller joins the queues anew, behind other processes.
		// After a failure it takes over the place.
		w.dequeueLocked(ct.l, ct.place.Queued)
		ct.place = waiting.Place{}
	}
	if next == nil {
		ct.stopListeningLocked()
		delete(w.contenders, lockKey{ct.l.Name, ct.l.Mode})
	} else if mine && !w.closed { // waiters.close gives every caller its turn
		ct.wakes.Turn()
		close(next.Value.(chan struct{}))
	}
}

// granted notes where the contender may be queued after a round that gave a lease.
func (ct *contender) granted(b *quorumCall) {
	ct.place.Granted(b.queued())
	ct.setLast(nil)
}

// lost notes where the contender may be queued after a round that gave no lease. It returns the
// place that the contender is to get on the masters that granted in vain, or nil for none.
func (ct *contender) lost(replies []protocol.Reply) *protocol.Wait {
	if !ct.place.Refused(replies, ct.w.c.need) {
		return nil
	}
	return &protocol.Wait{Waiter: ct.w.c.waiter(ct.l.Mode), Ticket: ct.place.Ticket, Liveness: waiting.Liveness}
}

// setLast keeps a round that gave no lease, or nil after one that did.
func (ct *contender) setLast(round *RoundError) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	if round == nil || !round.hurried || ct.last == nil || !errors.Is(round, ErrUnreachable) {
		ct.last = round
	}
}

// lastRound is the last round that gave no lease, or nil.
func (ct *contender) lastRound() *RoundError {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	return ct.last
}

// outage returns the error of the last round if no quorum has answered for longer than the
// patience of a caller that has waited since joined. Else it returns nil.
func (ct *contender) outage(joined, patience time.Duration) error {
	last := ct.lastRound()
	if ct.silence == 0 || last == nil || ct.w.c.clock.Elapsed()-max(ct.silence, joined) < patience {
		return nil
	}
	return last
}

// tellWhy tells the logger once that the contender waits for masters that recover.
func (ct *contender) tellWhy(ctx context.Context, round *RoundError) {
	recovers := errors.Is(round, ErrRecovering)
	if log := ct.w.c.logger; log != nil && recovers && !ct.toldWhy {
		log.InfoContext(ctx, "redlock: waiting for masters that recover", "lock", round.Name, "for", round.RetryAfter, "why", round.Error())
	}
	ct.toldWhy = recovers
}

// askWhenWoken asks each master as soon as that master has woken the contender: the lock is free
// there, and the first answers arrive before the last wakes. A master that has not woken the
// contender when the round is decided, or shortly after the first wake, may be down, or its
// message may be lost. Such a master is asked then.
func (ct *contender) askWhenWoken(r *round) {
	c := ct.w.c
	asked := ct.due(r.b, 0)
	if asked != c.all {
		r.b.req.Deadline += 2 * waiting.PauseMin // for the masters that are asked last
	}
	for i := range c.nodes {
		if ticket := ct.place.TicketAt(i); ticket != ct.place.Ticket {
			r.b.present(i, ticket)
		}
	}
	r.b.send(asked)
	if asked == c.all {
		return
	}
	ct.armTimer(waiting.PauseMin + c.jitter(waiting.PauseMin))
	for asked != c.all {
		var set uint64
		select {
		case <-ct.wake:
			set = ct.due(r.b, asked)
		case <-r.b.decided:
			r.b.decide() // await takes the token again
			set = c.all &^ asked
		case <-r.ctx.Done():
			r.b.skip(c.all &^ asked)
			asked = c.all
		}
		r.b.send(set)
		asked |= set
	}
	ct.timer.Stop()
	select {
	case ct.wake <- struct{}{}: // a token that the loop took may be of a master that was asked before
	default:
	}
}

// armTimer wakes the contender when d is over, if no master does before.
func (ct *contender) armTimer(d time.Duration) {
	if ct.timer == nil {
		ct.timer = time.AfterFunc(d, ct.timeout)
	} else {
		ct.timer.Reset(d)
	}
}

// timeout runs when the timer fires.
func (ct *contender) timeout() {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.wakes.Timer()
	ct.wakeLocked(0)
}

// decided says that no master is to be asked any more in the round under way.
func (ct *contender) decided(q *quorumCall) {
	ct.w.mu.Lock()
	ct.round = nil
	ct.w.mu.Unlock()
	q.close()
}
