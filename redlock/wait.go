// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
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

// waiters is what all waiters of a client share: one contender for each lock and mode that is
// waited for, one channel on which the masters hand them the lock or wake them, and one heartbeat
// for all their places in all queues.
type waiters struct {
	c *Client

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

	jitter    func(time.Duration) time.Duration
	offloaded chan struct{} // holds a token for each offloaded round that is under way
}

// lockKey is one way to hold one lock.
type lockKey struct {
	name string
	mode protocol.Mode
}

func (w *waiters) init(c *Client) {
	w.c, w.jitter = c, c.jitter
	w.contenders = make(map[lockKey]*contender)
	w.foreignChannels = make(map[string]int)
	w.offloaded = make(chan struct{}, offloadAbove)
}

// ticketLocked returns the ticket of a caller that comes now: see waiting.Ticket. It may be below that of a caller who came before: the
// masters' clocks may have been set back, and the callers of one client for one lock stand in a line of their own.
func (w *waiters) ticketLocked() int64 {
	now := w.c.clock.Elapsed()
	if len(w.ahead) < w.c.masters.Need || now-w.aheadAt > tellsTime {
		w.ahead, w.aheadAt = w.ahead[:0], now
		for _, n := range w.c.masters.Nodes {
			if ahead, ok := n.ClockOffset(); ok {
				w.ahead = append(w.ahead, ahead)
			}
		}
	}
	return waiting.Ticket(now, w.ahead)
}

// enter counts a round of a caller that does not wait, until callers.Done. It returns the error of the
// call if the client is over.
func (w *waiters) enter() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.c.over()
	}
	w.callers.Add(1)
	return nil
}

// close wakes all callers, and returns when they have left the lines and given back their rounds.
// It is called when the client is over, and may be called again. The nodes must still take ops. Each caller gives back its own, because a round that is under way
// could queue it again.
func (w *waiters) close() {
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
				close(e.Value.(*caller).turn)
			}
		}
	}
	if w.heartbeats != nil {
		w.heartbeats.Stop()
	}
}

// lock is Mutex.Lock. It waits for its turn in this process, then contends with other
// processes. A round that gave no lease stays open while the contender sleeps, because masters may
// hand it their votes: see takeOpen. If they do not, the next round begins when a master has woken
// the contender (see askWhenWoken), or when the contender's timer fires, because any message
// may be lost.
//
// The waiting is in this one function, and everything else is called from it. So the stack of
// a goroutine that waits is small: one more frame would double it, and so would a hundred bytes more in this one. What the
// waiting has to remember is in the caller.
func (m *Mutex) lock(ctx context.Context) (lease *Lease, err error) {
	w := &m.c.waiting
	w.mu.Lock()
	if w.closed { // nobody would give this caller its turn
		w.mu.Unlock()
		return nil, m.c.mayLock(ctx, m.l)
	}
	ct, e := w.joinLocked(m.l)
	w.mu.Unlock()
	call := e.Value.(*caller)
	next, mine := call.turn, false
	if next == readyTurn && !ct.offloaded { // nearly always
		mine = true
		lease, err = m.round(ctx, ct, call)
		next = ct.wake
	} else {
		m.waits(ctx, ct, call)
	}
	var free chan struct{} // takes a token when a round may begin on a goroutine of its own
	for lease == nil && err == nil {
		if ctx.Err() != nil { // select would choose at random, and two simulations of one seed would differ
			err = gaveUp(ctx, ct.l, ct.lastRound())
			continue
		}
		select {
		case <-next:
			switch {
			case m.c.over() != nil:
				err = m.c.over()
				continue
			case mine && !ct.ready():
				continue
			case !mine:
				mine = true
				if err = ct.outage(call.joined, m.ls.patience); err != nil {
					continue // the callers before got the same error
				}
			}
			if ct.offloaded {
				next, free = nil, w.offloaded
				continue
			}
			lease, err = m.round(ctx, ct, call)
			next = ct.wake
		case free <- struct{}{}:
			lease, err = m.roundOffloaded(ctx, ct, call)
			next, free = ct.wake, nil
		case <-ctx.Done():
		}
	}
	if mine {
		if err != nil {
			ct.giveUp()
		}
		call.rounds = ct.rounds
	}
	ct.leaveLine(e, lease != nil)
	ct.nameHolder(err)
	m.tellServed(ctx, lease, err, call)
	return lease, err
}

// waits notes that a call waits, and tells of it: when it begins to, and after each round.
func (m *Mutex) waits(ctx context.Context, ct *contender, call *caller) {
	if !call.waits {
		call.joined = m.c.clock.Elapsed()
	}
	m.tellWaits(ctx, ct, call)
	call.waits = true
}

// roundOffloaded runs round on a goroutine of its own.
func (m *Mutex) roundOffloaded(ctx context.Context, ct *contender, call *caller) (lease *Lease, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		lease, err = m.round(ctx, ct, call)
		<-ct.w.offloaded
	}()
	<-done
	return lease, err
}

// round makes one round of the contender for the caller, unless the open round has won by now. It
// returns a lease, or an error that waiting cannot cure, or neither if the caller is to wait.
func (m *Mutex) round(ctx context.Context, ct *contender, call *caller) (*Lease, error) {
	lease, err := m.tryRound(ctx, ct, call.joined)
	if lease == nil && err == nil {
		m.waits(ctx, ct, call)
	}
	return lease, err
}

// tryRound is round for a caller that has waited since joined.
func (m *Mutex) tryRound(ctx context.Context, ct *contender, joined time.Duration) (*Lease, error) {
	if err := ct.mayTry(ctx); err != nil {
		return nil, err
	}
	do := ct.awake()
	switch do.Act {
	case waiting.Nothing:
		return nil, nil
	case waiting.QueueOnly:
		ct.takePlaces(ctx, m)
		return nil, nil
	case waiting.Take:
		if lease := m.takeOpen(ctx, ct); lease != nil {
			return lease, nil
		}
		if err := ct.mayTry(ctx); err != nil {
			return nil, err
		}
		do = ct.next(waiting.Event{Kind: waiting.Outvoted})
	}
	lease, err := m.ask(ctx, ct, do.Retry)
	if err == nil {
		return lease, nil
	}
	if last := ct.lastRound(); ctx.Err() != nil && last != nil {
		return nil, gaveUp(ctx, m.l, last)
	}
	round := failedRound(err)
	if round == nil || errors.Is(err, ErrRefused) {
		return nil, err
	}
	ct.setLast(round)
	if ct.refused(m, joined, round, errors.Is(err, ErrUnreachable)) == waiting.Fail {
		return nil, ct.lastRound()
	}
	return nil, nil
}

// mayTry returns why the caller whose turn it is may not try again, or nil.
func (ct *contender) mayTry(ctx context.Context) error {
	err := ct.w.c.mayLock(ctx, ct.l)
	if last := ct.lastRound(); ctx.Err() != nil && last != nil {
		err = gaveUp(ctx, ct.l, last)
	}
	return err
}

// takeOpen returns a lease of the open round, which has won while the caller slept, or nil.
func (m *Mutex) takeOpen(ctx context.Context, ct *contender) *Lease {
	open := ct.open
	open.Timeout = m.c.masters.RoundTimeout(ctx, m.ls.ttl)
	lease, _ := open.win(counting.Won)
	if lease == nil {
		open.Call.End()
		return nil
	}
	ct.open = nil
	ct.granted()
	return lease
}

// ask makes a round. If it gives no lease, it stays open. retry says that the caller, or one before it in vain, has asked before.
func (m *Mutex) ask(ctx context.Context, ct *contender, retry bool) (*Lease, error) {
	c := m.c
	r := ct.begin(c.prepare(ctx, m.l, &m.ls, &protocol.Request{Wait: &protocol.Wait{
		Ticket: ct.machine.Ticket(), Liveness: waiting.Liveness, Unfair: m.ls.unfair, Retry: retry, Oust: retry && m.ls.forOrder > 0}}))
	ct.rounds++
	ct.askWhenWoken(r)
	v := r.Call.Await(ctx, r.Timeout)
	r.Call.Close()
	lease, end := r.win(v)
	if lease != nil {
		ct.granted()
		return lease, nil
	}
	ct.took(end.Took - (r.Asked - r.Start))
	round := r.failed(end, true)
	ct.leaveOpen(r, end)
	return nil, r.why(end, round)
}

// refused tells the machine that a round of a caller that has waited since joined gave no lease, and has the caller sleep.
func (ct *contender) refused(m *Mutex, joined time.Duration, round *RoundError, silent bool) waiting.Act {
	c, w := m.c, ct.w
	replies := ct.open.Call.Replies()
	saw := waiting.Round{
		Replies: replies, Need: c.masters.Need, Behind: waiting.Behind(replies, c.masters.Need), Within: m.ls.forOrder, RetryAfter: round.RetryAfter,
		Granted: round.Granted > 0, MayVote: round.Granted + round.Held + round.silent,
		Held: errors.Is(round, ErrHeld), Recovering: errors.Is(round, ErrRecovering),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	followed := ct.machine.Foreign()
	do := ct.nextLocked(waiting.Event{Kind: waiting.Refused, Round: &saw, Votes: ct.parkLocked(), Silent: silent,
		Now: c.clock.Elapsed(), Joined: joined, Patience: m.ls.patience})
	if do.Act != waiting.Fail {
		ct.followLocked(followed, ct.machine.Foreign())
		ct.listenLocked()
	}
	return do.Act
}
