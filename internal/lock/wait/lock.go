// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"context"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Lock waits for the caller's turn in this process, then contends with other processes. It returns nil when the caller's Face has the lock.
//
// A round that gave no lease stays open while the contender sleeps, because masters may hand it their votes: see takeOpen. If they do not,
// the next round begins when a master has woken the contender (see askWhenWoken), or when the contender's timer fires, because any message
// may be lost.
//
// The waiting is in this one function, and everything else is called from it. So the stack of
// a goroutine that waits is small: one more frame would double it, and so would a hundred bytes more in this one. What the
// waiting has to remember is in the Caller.
func (w *Lines) Lock(ctx context.Context, call *Caller) (err error) {
	w.mu.Lock()
	if w.closed { // nobody would give this caller its turn
		w.mu.Unlock()
		return w.mayTry(ctx, call.Lock, nil)
	}
	ct, e := w.joinLocked(call)
	w.mu.Unlock()
	next, mine, won := call.turn, false, false
	if next == readyTurn && !ct.offloaded { // nearly always
		mine = true
		won, err = ct.round(ctx, call)
		next = ct.wake
	} else if next != readyTurn { // else its first round says whether it waits
		ct.waits(ctx, call)
	}
	var free chan struct{} // takes a token when a round may begin on a goroutine of its own
	ask := call.ask
	for !won && err == nil {
		if ctx.Err() != nil { // select would choose at random, and two simulations of one seed would differ
			err = ct.mayTry(ctx)
			continue
		}
		select {
		case <-ask:
			ask = nil
			won = call.Face.Alone(ctx)
		case <-next:
			switch {
			case w.Over() != nil:
				err = w.Over()
				continue
			case mine && !ct.ready():
				continue
			case !mine:
				mine, ask = true, nil // its rounds have a place
				if err = ct.outage(call); err != nil {
					continue // the callers before got the same error
				}
			}
			if ct.offloaded {
				next, free = nil, w.offloaded
				continue
			}
			won, err = ct.round(ctx, call)
			next = ct.wake
		case free <- struct{}{}:
			won, err = ct.roundOffloaded(ctx, call)
			next, free = ct.wake, nil
		case <-ctx.Done():
		}
	}
	if mine && err != nil {
		ct.giveUp()
	}
	ct.leaveLine(e, mine, won)
	return err
}

// waits notes that a call waits, and tells of it: when it begins to, and after each round.
func (ct *contender) waits(ctx context.Context, call *Caller) {
	if !call.Waited {
		call.joined = ct.w.Masters.Clock.Elapsed()
	}
	if ct.w.Waits != nil {
		ct.w.Waits(ctx, call, ct.lastRound())
	}
	call.Waited = true
}

// roundOffloaded runs round on a goroutine of its own.
func (ct *contender) roundOffloaded(ctx context.Context, call *Caller) (won bool, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		won, err = ct.round(ctx, call)
		<-ct.w.offloaded
	}()
	<-done
	return won, err
}

// round makes one round of the contender for the caller, unless the open round has won by now. It
// says whether the caller has the lock, or returns an error that waiting cannot cure, or neither if the caller is to wait.
func (ct *contender) round(ctx context.Context, call *Caller) (won bool, err error) {
	won, err = ct.tryRound(ctx, call)
	if !won && err == nil {
		ct.waits(ctx, call)
	}
	return won, err
}

// tryRound is round without the telling.
func (ct *contender) tryRound(ctx context.Context, call *Caller) (won bool, err error) {
	if err := ct.mayTry(ctx); err != nil {
		return false, err
	}
	if call.offer != nil {
		if won, err := ct.takeOver(ctx, call); won || err != nil {
			return won, err
		}
		if err := ct.mayTry(ctx); err != nil {
			return false, err
		}
	}
	do := ct.awake()
	switch do.Act {
	case waiting.Nothing:
		return false, nil
	case waiting.QueueOnly:
		ct.takePlaces(ctx, call)
		return false, nil
	case waiting.Take:
		if ct.takeOpen(call) {
			return true, nil
		}
		if err := ct.mayTry(ctx); err != nil {
			return false, err
		}
		do = ct.next(waiting.Event{Kind: waiting.Outvoted})
	}
	failed, won := ct.ask(ctx, call, do.Retry)
	if won {
		return true, nil
	}
	if last := ct.lastRound(); ctx.Err() != nil && last != nil {
		return false, ct.w.GaveUp(ctx, ct.l, last)
	}
	if failed.Final {
		return false, failed.Err
	}
	ct.setLast(&failed)
	if ct.refused(call, &failed) == waiting.Fail {
		return false, ct.decided()
	}
	return false, nil
}

// mayTry returns why the caller whose turn it is may not try again, or nil.
func (ct *contender) mayTry(ctx context.Context) error {
	return ct.w.mayTry(ctx, ct.l, ct)
}

// mayTry returns why no round may begin for a lock of which last was the last one, or nil.
func (w *Lines) mayTry(ctx context.Context, l *protocol.Lock, ct *contender) error {
	if ctx.Err() == nil {
		return w.Over()
	}
	var last error
	if ct != nil {
		last = ct.lastRound()
	}
	return w.GaveUp(ctx, l, last)
}

// takeOpen takes the lock with the open round, which has won while the caller slept. It says whether the caller has it.
func (ct *contender) takeOpen(call *Caller) bool {
	open := ct.open
	ct.w.mu.Lock()
	ct.settleLastLocked() // if the lock is lost again at once, the call may be another's before granted
	ct.w.mu.Unlock()
	open.Retime()
	if _, won := call.Face.Win(open, counting.Won); !won {
		open.Call.End()
		return false
	}
	ct.open = nil
	ct.granted()
	return true
}

// ask makes a round. If it gives no lease, it stays open. retry says that the caller, or one before it in vain, has asked before.
func (ct *contender) ask(ctx context.Context, call *Caller, retry bool) (failed Failed, won bool) {
	terms := call.Face.Terms()
	r := ct.begin(call.Face.Begin(ctx, &protocol.Wait{
		Ticket: ct.machine.Ticket(), Liveness: waiting.Liveness, Unfair: terms.Unfair, Retry: retry, Oust: retry && terms.Within > 0}))
	ct.rounds++
	ct.askWhenWoken(r)
	v := r.Call.Await(ctx, r.Timeout)
	r.Call.Close()
	end, won := call.Face.Win(r, v)
	if won {
		ct.granted()
		return failed, true
	}
	ct.took(end.Took - (r.Asked - r.Start))
	failed = call.Face.Failed(r, end)
	ct.leaveOpen(r, end)
	return failed, false
}

// refused tells the machine that a round of the caller gave no lease, and has the caller sleep.
func (ct *contender) refused(call *Caller, failed *Failed) waiting.Act {
	w, terms := ct.w, call.Face.Terms()
	saw := failed.Saw
	saw.Replies, saw.Need, saw.Within = ct.open.Call.Replies(), w.Masters.Need, terms.Within
	saw.Behind = waiting.Behind(saw.Replies, saw.Need)
	w.mu.Lock()
	defer w.mu.Unlock()
	followed := ct.machine.Foreign()
	do := ct.nextLocked(waiting.Event{Kind: waiting.Refused, Round: &saw, Votes: ct.parkLocked(), Silent: failed.Silent,
		Now: w.Masters.Clock.Elapsed(), Joined: call.joined, Patience: terms.Patience})
	if do.Act != waiting.Fail {
		ct.followLocked(followed, ct.machine.Foreign())
		ct.listenLocked()
	}
	return do.Act
}
