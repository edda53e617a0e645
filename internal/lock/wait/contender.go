// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"cmp"
	"container/list"
	"context"
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
//
// What is done next is decided by the machine. The contender tells it what happened, and does what it says.
type contender struct {
	w    *Lines
	l    *protocol.Lock
	line list.List // of *Caller

	// These belong to the caller whose turn it is. The next caller takes them over, but for open.
	open   *attempt.Attempt // the last round, which gave no lease: its places may become votes; nil: none
	wake   chan struct{}    // holds a token when a round may be of use; made at the first wait, when the client begins to hear the masters' wakes
	timer  *time.Timer      // fires if no wake comes; made at the first wait
	rounds int              // how many rounds the caller made in its turn
	// offloaded says that rounds run on goroutines of their own. A round needs a deep stack
	// for a moment, and the goroutine that waits would keep it.
	offloaded bool

	// Guarded by w.mu.
	machine waiting.Machine
	// passes is how many callers may still take the lock over from one another before other processes have their turn.
	passes int
	// last is the last round of any caller in the line. The round of a caller whose time is
	// nearly over leaves the masters no time to answer. It does not replace an earlier
	// round, because a lock that is held must not look like masters that are gone; unless they have been silent for long.
	last  error
	late  func() error  // [Failed.Late] of last, while its round is open
	heard error         // last with the late answers, for texts: the machine has counted last, and a caller fails for that
	call  *quorum.Call  // of the round under way, or of the open one
	trip  time.Duration // how long the masters took to answer the last round
}

// nextLocked tells the machine what happened, and does what it says. It returns what is left to do for the caller whose turn it is.
func (ct *contender) nextLocked(e waiting.Event) waiting.Do {
	e.Trip, e.Jitter = ct.trip, ct.w.Jitter
	do := ct.machine.Next(e)
	if do.Again != 0 && ct.call != nil {
		ct.call.Wake(do.Again)
	}
	if do.Arm > 0 {
		ct.armTimerLocked(do.Arm)
	}
	if do.Act == waiting.PassTurn {
		ct.passLocked()
	}
	if do.Wake {
		select {
		case ct.wake <- struct{}{}:
		default:
		}
	}
	return do
}

// next is nextLocked for who has not locked w.mu.
func (ct *contender) next(e waiting.Event) waiting.Do {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	return ct.nextLocked(e)
}

// votesLocked is what the attempt has that is open or under way.
func (ct *contender) votesLocked() (v waiting.Votes) {
	if ct.call != nil {
		v.Won, v.Told, v.Handable = ct.call.Won(), ct.call.Handed() != 0, ct.call.Handable(waiting.Liveness)
	}
	return v
}

// parkLocked is votesLocked as the caller falls asleep: from now on it is told of votes that come by replies.
func (ct *contender) parkLocked() waiting.Votes {
	v := waiting.Votes{Handable: ct.open.Call.Handable(waiting.Liveness)}
	v.Won, v.Some, v.Told = ct.open.Call.Park(ct)
	ct.open.Slept = true
	return v
}

// awake asks the machine what there is to do for the caller whose turn it is.
func (ct *contender) awake() waiting.Do {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	do := ct.nextLocked(waiting.Event{Kind: waiting.Awake, Votes: ct.votesLocked()})
	if do.Act == waiting.Ask {
		ct.call.ClearWoken(do.Set)
	}
	return do
}

// ready says whether awake is of use.
func (ct *contender) ready() bool {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	return ct.machine.Ready(ct.votesLocked())
}

// begin makes the contender's next round. If there is an open round, it is over, and the new one
// gives back what it has on each master right ahead of its own acquire. It asks under a holder id
// of its own, because a message for the old one may be on its way (H6 in docs/internals/handoff.md), and with
// the same ticket.
func (ct *contender) begin(r *attempt.Attempt) *attempt.Attempt {
	if open := ct.close(); open != nil {
		_, maybe, _ := open.Call.Sets()
		places := open.Call.Places()
		before := open.Releases(places != 0)
		before.Start = r.Start
		r.Call.Before(before, maybe|places)
		open.Call.Done()
	}
	return r
}

// close ends the open round, and returns it or nil. Messages and wakes do not find its call any more: the call is used again
// once its round was given back.
func (ct *contender) close() *attempt.Attempt {
	open := ct.open
	if open == nil {
		return nil
	}
	ct.open = nil
	open.Call.End()
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.settleLastLocked()
	if ct.call == open.Call {
		ct.call = nil
	}
	return open
}

// settleLastLocked takes the late answers of the open round, whose call is about to be another's, for the last time.
func (ct *contender) settleLastLocked() {
	ct.lastLocked()
	ct.late = nil
}

// giveUp gives back what the open round has.
func (ct *contender) giveUp() {
	if open := ct.close(); open != nil {
		open.GiveBack()
	}
}

// leaveOpen keeps a round that gave no lease open while the caller sleeps: its places are acquires
// that the masters have not executed yet.
func (ct *contender) leaveOpen(r *attempt.Attempt, end attempt.Lost) {
	ct.open = r
	if end.Verdict == counting.Won {
		r.Call.End() // it was too late, or its token was overtaken: not even new votes would do
	}
}

// takePlaces gives back what the open round has, and takes places in all queues under a new holder
// id, but no vote. A contender that slept on a few votes would keep others from a quorum.
func (ct *contender) takePlaces(ctx context.Context, call *Caller) {
	r := ct.begin(call.Face.Begin(ctx, &protocol.Wait{Ticket: ct.machine.Ticket(), Liveness: waiting.Liveness, Only: true}))
	ct.use(r.Call)
	r.Call.Send(ct.w.Masters.All)
	ct.open = r
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.nextLocked(waiting.Event{Kind: waiting.Placed, Votes: ct.parkLocked(), Set: r.Call.Free(), Now: ct.w.Masters.Clock.Elapsed()})
}

// Voted implements [quorum.Sleeper]: it takes a vote that has come for the call q while the contender sleeps.
func (ct *contender) Voted(q *quorum.Call) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	if ct.call == q {
		ct.votedLocked()
	}
}

// Freed implements [quorum.Sleeper].
func (ct *contender) Freed(q *quorum.Call, free uint64) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	if ct.call == q {
		ct.nextLocked(waiting.Event{Kind: waiting.Free, Set: free})
	}
}

func (ct *contender) votedLocked() {
	ct.nextLocked(waiting.Event{Kind: waiting.Vote, Votes: ct.votesLocked()})
}

// took notes how long the masters took to answer the last round.
func (ct *contender) took(d time.Duration) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.trip = d
}

// setLast keeps the error of a round that gave no lease.
func (ct *contender) setLast(failed *Failed) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	if failed.Hurried && failed.Silent && ct.last != nil &&
		(failed.Deaf || !ct.machine.Outage(ct.w.Masters.Clock.Elapsed(), 0, ct.w.Masters.Timeout())) { // many short rounds make a long one
		return
	}
	ct.last, ct.late, ct.heard = failed.Err, failed.Late, nil
}

// lastRound is the error of the last round that gave no lease, or nil, to tell what the caller waited for.
func (ct *contender) lastRound() error {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	return ct.lastLocked()
}

// decided is the error of the last round as it was decided.
func (ct *contender) decided() error {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	return ct.last
}

// lastLocked is lastRound with the answers that have come since the round was decided: a quorum decides it, and the others are not silent. The lines
// are locked meanwhile, because who has the turn may close the round, whose call is then used again.
func (ct *contender) lastLocked() error {
	if ct.late != nil {
		if err := ct.late(); err != nil {
			ct.heard = err
		}
	}
	return cmp.Or(ct.heard, ct.last)
}

// outage returns the error of the last round if no quorum has answered for longer than the
// patience of the caller. Else it returns nil.
func (ct *contender) outage(call *Caller) error {
	patience := call.Face.Terms().Patience
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	if ct.last == nil || !ct.machine.Outage(ct.w.Masters.Clock.Elapsed(), call.joined, patience) {
		return nil
	}
	return ct.last
}

// askWhenWoken asks each master as soon as that master has woken the contender: the lock is free
// there, and the first answers arrive before the last wakes. A master that has not woken the
// contender when the round is decided, or shortly after the first wake, may be down, or its
// message may be lost. Such a master is asked then.
func (ct *contender) askWhenWoken(r *attempt.Attempt) {
	all := ct.w.Masters.All
	ct.use(r.Call)
	asked := ct.awake().Set
	if asked != all {
		r.Call.Postpone(2 * waiting.PauseMin) // for the masters that are asked last
	}
	r.Call.Send(asked)
	if asked == all {
		return
	}
	for asked != all {
		var do waiting.Do
		wake := ct.wake
		if len(r.Call.Decided()) > 0 {
			wake = nil // select would choose at random, and two simulations of one seed would differ
		}
		select {
		case <-wake:
			do = ct.awake()
		case <-r.Call.Decided():
			r.Call.Decide() // await takes the token again
			do = ct.next(waiting.Event{Kind: waiting.Decided})
		case <-r.Ctx.Done():
			do = ct.next(waiting.Event{Kind: waiting.CtxDone})
		}
		if _, _, silent := r.Call.Sets(); silent&asked == 0 && len(r.Call.Decided()) == 0 {
			r.Asked = ct.w.Masters.Clock.Elapsed()
		}
		if do.Act == waiting.Skip {
			r.Call.Skip(do.Set)
		} else {
			r.Call.Send(do.Set)
		}
		asked |= do.Set
	}
	ct.timer.Stop()
	select {
	case ct.wake <- struct{}{}: // a token that the loop took may be of a master that was asked before
	default:
	}
}

// armTimerLocked has the timer fire when d is over.
func (ct *contender) armTimerLocked(d time.Duration) {
	if ct.timer == nil {
		ct.timer = time.AfterFunc(d, ct.timeout)
	} else {
		ct.timer.Reset(d)
	}
}

// timeout runs when the timer fires.
func (ct *contender) timeout() { ct.next(waiting.Event{Kind: waiting.Timer}) }

// granted ends the contender's use of a round that gave a lease.
func (ct *contender) granted() {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.last, ct.late, ct.heard, ct.call = nil, nil, nil, nil
}

// use has messages and wakes go to q, the call of the contender's next round. The timer of the round before is over.
func (ct *contender) use(q *quorum.Call) {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	if ct.timer != nil {
		ct.timer.Stop()
	}
	ct.call = q
}
