// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// contender stands for all callers in this process that wait for one side of a
// lock. They form a line, first come first served; the first of them tries, as
// one contender among those of other processes, and hands over to the second.
type contender struct {
	w    *waiters
	l    *protocol.Lock
	line list.List // of *caller

	// These belong to the caller whose turn it is. The next caller takes them over, but for open.
	place waiting.Place
	open  *round        // the last round, which gave no lease: its places may become votes; nil: none
	wake  chan struct{} // holds a token when a round may be of use; made at the first wait
	timer *time.Timer   // fires if no wake comes; made at the first wait
	// silence is when a quorum first failed to answer; 0 while a quorum answers. It belongs
	// to the line, because an outage concerns all callers at once.
	silence time.Duration
	// patience is how long the contender sleeps without a vote or a wake. trip is how long its last
	// round took. rounds is how many rounds it made in this turn, and retries how often it asked
	// again with some votes.
	patience, trip  time.Duration
	rounds, retries int
	// offloaded says that rounds run on goroutines of their own. A round needs a deep stack
	// for a moment, and the goroutine that waits would keep it.
	offloaded bool

	// Guarded by w.mu.
	// last is the last round of any caller in the line. The round of a caller whose time is
	// nearly over leaves the masters no time to answer. It does not replace an earlier
	// round, because a lock that is held must not look like masters that are gone.
	last    *RoundError
	naming  *naming      // nil: nobody asks who has the lock
	call    *quorum.Call // of the round under way, or of the open one
	listens bool         // the client hears the masters' wakes for this contender
	wakes   waiting.Wakes
	// few says that the timer is set for a moment only, because the open round has some votes or
	// is about to. vain says that it got them all in vain, by replies: when the timer fires they
	// are given back, which requeue says then. soon is few for a round that is under way.
	few, vain, requeue, soon bool
	// passing says that the first in the line has not got its turn yet, although the caller before it has its lease. If the line's
	// holds are brief, the turn is passed with the release: then one call of each master has both the release and the next acquire,
	// and the release need not wait until the acquire is answered. Else it is passed at once, and the place is in the queues
	// when the release comes.
	passing   bool
	brief     bool          // the last hold was
	grantedAt time.Duration // when the last lease was granted
}

// begin makes the contender's next round. If there is an open round, it is over, and the new one
// gives back what it has on each master right ahead of its own acquire. It asks under a holder id
// of its own, because a message for the old one may be on its way (H6 in docs/handoff.md), and with
// the same ticket.
func (ct *contender) begin(r round) *round {
	if open := ct.close(); open != nil {
		_, maybe, _ := open.Call.Sets()
		places := open.Call.Places()
		before := open.Releases(places != 0)
		before.Start = r.Start
		r.Call.Before(before, maybe|places)
		open.Call.Done()
	}
	return &r
}

// close ends the open round, and returns it or nil. Messages and wakes do not find its call any more: the call is used again
// once its round was given back.
func (ct *contender) close() *round {
	open := ct.open
	if open == nil {
		return nil
	}
	ct.open = nil
	open.Call.End()
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	if ct.call == open.Call {
		ct.call = nil
	}
	return open
}

// giveUp gives back what the open round has.
func (ct *contender) giveUp() {
	if open := ct.close(); open != nil {
		open.GiveBack()
	}
}

// leaveOpen keeps a round that gave no lease open while the caller sleeps: its places are acquires
// that the masters have not executed yet.
func (ct *contender) leaveOpen(r *round, end attempt.Lost) {
	ct.open = r
	if end.Verdict == counting.Won {
		r.Call.End() // it was too late, or its token was overtaken: not even new votes would do
	}
}

// takePlaces gives back what the open round has, and takes places in all queues under a new holder
// id, but no vote. A contender that slept on a few votes would keep others from a quorum.
func (ct *contender) takePlaces(ctx context.Context, m *Mutex) {
	r := ct.begin(m.c.newAttempt(ctx, m.l, &m.ls, &protocol.Request{Wait: &protocol.Wait{
		Ticket: ct.place.Ticket, Liveness: waiting.Liveness, Only: true}}))
	ct.w.mu.Lock()
	ct.useLocked(r.Call)
	ct.w.mu.Unlock()
	r.Call.Send(m.c.masters.All)
	ct.open = r
}

// sleep sets the timer for the time until the contender asks again by itself. If the open round has
// votes by now, that is in a moment: the others should come with them.
func (ct *contender) sleep(patience time.Duration) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.patience, ct.open.Slept = patience, true
	ct.armTimerLocked(patience)
	won, votes, handed := ct.open.Call.Park(ct)
	switch {
	case won:
		ct.wakeLocked(0)
	case votes && !handed && (ct.wakes.Foreign() || !ct.open.Call.Handable(waiting.Liveness)):
		ct.requeue = true // no message can complete them, and others want those masters
		ct.wakeLocked(0)
	case votes:
		ct.vain = !handed
		ct.fewLocked()
	case ct.soon && !ct.wakes.Behind():
		ct.fewLocked()
	}
	ct.soon = false
}

// took notes how long the masters took to answer the last round.
func (ct *contender) took(d time.Duration) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.trip = d
}

// takeRequeue says whether the open round's votes are to be given back, and nothing better is to
// be done.
func (ct *contender) takeRequeue() bool {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	requeue := ct.requeue && !ct.wakes.Ready()
	ct.requeue = false
	return requeue
}

// fewLocked has the contender ask again soon: it has a vote, and those of the others should come
// within the same moment. Their messages may be lost, or other waiters have those votes.
//
// The pause is a trip at least, and doubles each time in a turn: on a slow way, or a busy machine, the
// messages take their time, and to ask before they come would throw them away.
func (ct *contender) fewLocked() {
	if !ct.few {
		ct.few = true
		d := min(max(waiting.PauseMin, ct.trip)<<min(ct.retries, 10), waiting.PauseMax)
		ct.armTimerLocked(d + ct.w.c.jitter(d))
	}
}

// Voted implements [quorum.Sleeper]: it takes a vote that has come for the call q while the contender sleeps.
func (ct *contender) Voted(q *quorum.Call) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	if ct.call == q {
		ct.votedLocked()
	}
}

func (ct *contender) votedLocked() {
	ct.vain = false
	if ct.call.Won() {
		ct.wakeLocked(0)
	} else if ct.call.Sleeps() {
		ct.fewLocked()
	}
}

// setLast keeps a round that gave no lease.
func (ct *contender) setLast(round *RoundError) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	if !round.hurried || ct.last == nil || !errors.Is(round, ErrUnreachable) {
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

// askWhenWoken asks each master as soon as that master has woken the contender: the lock is free
// there, and the first answers arrive before the last wakes. A master that has not woken the
// contender when the round is decided, or shortly after the first wake, may be down, or its
// message may be lost. Such a master is asked then.
func (ct *contender) askWhenWoken(r *round) {
	c := ct.w.c
	asked := ct.due(r.Call, 0)
	if asked != c.masters.All {
		r.Call.Postpone(2 * waiting.PauseMin) // for the masters that are asked last
	}
	r.Call.Send(asked)
	if asked == c.masters.All {
		return
	}
	ct.armTimer(waiting.PauseMin + c.jitter(waiting.PauseMin))
	for asked != c.masters.All {
		var set uint64
		wake := ct.wake
		if len(r.Call.Decided()) > 0 {
			wake = nil // select would choose at random, and two simulations of one seed would differ
		}
		select {
		case <-wake:
			set = ct.due(r.Call, asked)
		case <-r.Call.Decided():
			r.Call.Decide() // await takes the token again
			set = c.masters.All &^ asked
		case <-r.Ctx.Done():
			r.Call.Skip(c.masters.All &^ asked)
			asked = c.masters.All
		}
		r.Call.Send(set)
		asked |= set
	}
	ct.timer.Stop()
	r.Asked = c.clock.Elapsed()
	select {
	case ct.wake <- struct{}{}: // a token that the loop took may be of a master that was asked before
	default:
	}
}

// armTimer wakes the contender when d is over, if no master does before.
func (ct *contender) armTimer(d time.Duration) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.armTimerLocked(d)
}

func (ct *contender) armTimerLocked(d time.Duration) {
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
	if ct.passing {
		ct.brief = false
		ct.passLocked(false)
		return
	}
	if ct.few {
		ct.retries++
	}
	if ct.vain {
		ct.vain, ct.requeue = false, true
	} else {
		ct.wakes.Timer()
	}
	ct.wakeLocked(0)
}

// granted ends the contender's use of a round that gave a lease.
func (ct *contender) granted() {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.last, ct.call = nil, nil
}

// useLocked has messages and wakes go to q, the call of the contender's next round. What was to be
// done about the round before is over.
func (ct *contender) useLocked(q *quorum.Call) {
	if ct.timer != nil {
		ct.timer.Stop()
	}
	ct.call, ct.few, ct.vain, ct.requeue = q, false, false, false
}
