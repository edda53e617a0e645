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

	// Of the one whose turn it is. The next takes them over.
	place   waiting.Place
	wake    chan struct{} // made when it first waits
	timer   *time.Timer   // as well; behind all wakes
	toldWhy bool          // the logger knows that it waits for masters that recover
	// silence is when answers of a quorum were first missing; 0 while they come. It is
	// the line's, not the caller's: an outage is everybody's at once.
	silence time.Duration
	// offloaded: its rounds run on goroutines of their own. A round needs a deep stack for a moment, and the
	// runtime would leave the goroutine that waits with it.
	offloaded bool

	// Guarded by w.mu.
	// last is the last round of anybody in the line. A round of a caller whose time is
	// nearly over has hardly time for an answer, and does not replace one that had: it
	// must not make a lock that is held look like masters that are gone.
	last    *RoundError
	round   *quorumCall // of the round under way
	listens bool
	wakes   waiting.Wakes
}

// leaveLine takes e out of the line, and gives the turn to the next if it was e's.
// After the last one nothing is left of the contender, here or on the masters.
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
		// The next in line queues anew, behind other processes. After a failure
		// it takes over the place instead.
		w.dequeueLocked(ct.l, ct.place.Queued)
		ct.place = waiting.Place{}
	}
	if next == nil {
		ct.stopListeningLocked()
		delete(w.contenders, lockKey{ct.l.Name, ct.l.Mode})
	} else if mine && !w.closed { // then all have been told
		ct.wakes.Turn()
		close(next.Value.(chan struct{}))
	}
}

// granted and lost note where the contender may be queued after a round. A master that
// granted has taken it out of its queue; one that was not asked has it there if it
// had it before.
func (ct *contender) granted(b *quorumCall) {
	ct.place.Granted(b.queued())
	ct.setLast(nil)
}

// lost also says which place the contender is to have on the masters that granted, or
// nil for none.
func (ct *contender) lost(replies []protocol.Reply) *protocol.Wait {
	if !ct.place.Refused(replies, ct.w.c.need) {
		return nil
	}
	return &protocol.Wait{Waiter: ct.w.c.waiter(ct.l.Mode), Ticket: ct.place.Ticket, Liveness: waiting.Liveness}
}

func (ct *contender) setLast(round *RoundError) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	if round == nil || !round.hurried || ct.last == nil || !errors.Is(round, ErrUnreachable) {
		ct.last = round
	}
}

func (ct *contender) lastRound() *RoundError {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	return ct.last
}

// outage is the error of the last round when a quorum has not answered for longer than
// the patience of a caller that has waited since joined; else nil.
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

// ask asks each master as soon as it has woken us, when it is free and the first answers
// are on their way before the last wakes come. Those that have not woken us by the time
// it is decided, or a little after the first, may be down, or their messages lost: they
// are asked then.
func (ct *contender) askWhenWoken(r *round) {
	c := ct.w.c
	asked := ct.due(r.b, 0)
	if asked == c.all {
		r.b.send(asked)
		return
	}
	r.b.req.Deadline += 2 * waiting.PauseMin // for those that are asked last
	r.b.send(asked)
	ct.armTimer(waiting.PauseMin + c.jitter(waiting.PauseMin))
	for asked != c.all {
		var set uint64
		select {
		case <-ct.wake:
			set = ct.due(r.b, asked)
		case <-r.b.decided:
			r.b.decide() // for wait
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
	case ct.wake <- struct{}{}: // one that was taken may have been of a master that was asked before
	default:
	}
}

// wait has the contender woken when d is over, whatever the masters say.
func (ct *contender) armTimer(d time.Duration) {
	if ct.timer == nil {
		ct.timer = time.AfterFunc(d, ct.timeout)
	} else {
		ct.timer.Reset(d)
	}
}

func (ct *contender) timeout() {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.wakes.Timer()
	ct.wakeLocked(0)
}

// decided is called when nobody is to be asked any more in the round under way.
func (ct *contender) decided(q *quorumCall) {
	ct.w.mu.Lock()
	ct.round = nil
	ct.w.mu.Unlock()
	q.close()
}
