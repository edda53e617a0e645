// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// offloadAbove is how many locks a client may wait for before the rounds of further
// locks run on goroutines of their own. It is also how many such goroutines there are
// at a time, because the runtime keeps the memory of all stacks that grew at once.
const offloadAbove = 128

// tellsTime is how long an estimate of the masters' clocks is used. Good clocks run apart by less
// than a millisecond in that time.
const tellsTime = time.Second

// waitLines is what all waiters of a client share: one contender for each lock and mode that is
// waited for, one channel on which the masters hand them the lock or wake them, and one heartbeat
// for all their places in all queues.
type waitLines struct {
	waitConfig

	mu              sync.Mutex
	contenders      map[lockKey]*contender
	callers         sync.WaitGroup // all who are in a line, and all rounds of callers that do not wait
	listening       int            // contenders that hear the masters' wakes
	subscribed      bool
	foreignChannels map[string]int
	heartbeats      *time.Timer
	closed          bool
	ahead           []time.Duration // how far the masters' clocks are ahead of the client's, sorted
	aheadAt         time.Duration   // when that was read; ahead is nil before

	offloaded chan struct{} // holds a token for each offloaded round that is under way
}

// lockKey is one way to hold one lock.
type lockKey struct {
	name string
	mode protocol.Mode
}

// newWaitLines returns the lines of a client, of which all are empty.
func newWaitLines(cfg waitConfig) *waitLines {
	return &waitLines{waitConfig: cfg, contenders: make(map[lockKey]*contender), foreignChannels: make(map[string]int),
		offloaded: make(chan struct{}, offloadAbove)}
}

// ticketLocked returns the ticket of a caller that comes now: see waiting.Ticket. It may be below that of a caller who came before: the
// masters' clocks may have been set back, and the callers of one client for one lock stand in a line of their own.
func (w *waitLines) ticketLocked() int64 {
	now := w.Masters.Clock.Elapsed()
	if len(w.ahead) < w.Masters.Need || now-w.aheadAt > tellsTime {
		w.ahead, w.aheadAt = w.ahead[:0], now
		for _, n := range w.Masters.Nodes {
			if ahead, ok := n.ClockOffset(); ok {
				w.ahead = append(w.ahead, ahead)
			}
		}
	}
	return waiting.Ticket(now, w.ahead)
}

// Enter counts a round of a caller that does not wait, until Leave. It returns the error of the
// call if the client is over.
func (w *waitLines) Enter() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.Over()
	}
	w.callers.Add(1)
	return nil
}

// Leave ends what Enter began.
func (w *waitLines) Leave() { w.callers.Done() }

// Close wakes all callers, and returns when they have left the lines and given back their rounds.
// It is called when the client is over, and may be called again. The nodes must still take ops. Each caller gives back its own, because a round that is under way
// could queue it again.
func (w *waitLines) Close() {
	defer w.callers.Wait() // each has at most a round left
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	for _, ct := range w.inOrderLocked(func(*contender) bool { return true }) {
		passing := ct.machine.State() == waiting.Passing
		ct.nextLocked(waiting.Event{Kind: waiting.Closed})
		for e := ct.line.Front(); e != nil; e = e.Next() {
			if e != ct.line.Front() || passing {
				close(e.Value.(*waitCaller).turn)
			}
		}
	}
	if w.heartbeats != nil {
		w.heartbeats.Stop()
	}
}

// Lock waits for the caller's turn in this process, then contends with other
// processes, until it returns nil, and the caller's Face has the lock, or an error. A round that gave no lease stays open while the
// contender sleeps, because masters may
// hand it their votes: see takeOpen. If they do not, the next round begins when a master has woken
// the contender (see askWhenWoken), or when the contender's timer fires, because any message
// may be lost.
//
// The waiting is in this one function, and everything else is called from it. So the stack of
// a goroutine that waits is small: one more frame would double it, and so would a hundred bytes more in this one. What the
// waiting has to remember is in the Caller.
func (w *waitLines) Lock(ctx context.Context, call *waitCaller) (err error) {
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
	} else {
		ct.waits(ctx, call)
	}
	var free chan struct{} // takes a token when a round may begin on a goroutine of its own
	for !won && err == nil {
		if ctx.Err() != nil { // select would choose at random, and two simulations of one seed would differ
			err = ct.mayTry(ctx)
			continue
		}
		select {
		case <-next:
			switch {
			case w.Over() != nil:
				err = w.Over()
				continue
			case mine && !ct.ready():
				continue
			case !mine:
				mine = true
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
func (ct *contender) waits(ctx context.Context, call *waitCaller) {
	if !call.Waited {
		call.joined = ct.w.Masters.Clock.Elapsed()
	}
	if ct.w.Waits != nil {
		ct.w.Waits(ctx, call, ct.lastRound())
	}
	call.Waited = true
}

// roundOffloaded runs round on a goroutine of its own.
func (ct *contender) roundOffloaded(ctx context.Context, call *waitCaller) (won bool, err error) {
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
func (ct *contender) round(ctx context.Context, call *waitCaller) (won bool, err error) {
	won, err = ct.tryRound(ctx, call)
	if !won && err == nil {
		ct.waits(ctx, call)
	}
	return won, err
}

// tryRound is round without the telling.
func (ct *contender) tryRound(ctx context.Context, call *waitCaller) (won bool, err error) {
	if err := ct.mayTry(ctx); err != nil {
		return false, err
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
		return false, ct.lastRound()
	}
	return false, nil
}

// mayTry returns why the caller whose turn it is may not try again, or nil.
func (ct *contender) mayTry(ctx context.Context) error {
	return ct.w.mayTry(ctx, ct.l, ct)
}

// mayTry returns why no round may begin for a lock of which last was the last one, or nil.
func (w *waitLines) mayTry(ctx context.Context, l *protocol.Lock, ct *contender) error {
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
func (ct *contender) takeOpen(call *waitCaller) bool {
	open := ct.open
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
func (ct *contender) ask(ctx context.Context, call *waitCaller, retry bool) (failed waitFailed, won bool) {
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
func (ct *contender) refused(call *waitCaller, failed *waitFailed) waiting.Act {
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
