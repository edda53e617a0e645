// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

const (
	// liveness is how long a client's waiters stay in the masters' queues without
	// a sign of life, heartbeatEvery how often it gives one.
	liveness, heartbeatEvery = 3 * time.Second, time.Second
	// pauseMin and pauseMax bound the back-off after rounds that split the votes
	// or found too few masters.
	pauseMin, pauseMax = 2 * time.Millisecond, 100 * time.Millisecond
	// checkMax caps how long a waiter trusts in being woken.
	checkMax = 5 * time.Second
	// recoveryLook is how often a waiter looks at masters that recover, at the least:
	// another client may end the recovery without this one noticing.
	recoveryLook = 5 * time.Second
	// dequeueFor is how long a dequeue is sent again to a master that does not answer.
	// The queue itself lives no longer.
	dequeueFor = time.Minute
	// offloadAbove is how many locks a client may wait for before it runs the rounds of more
	// on goroutines of their own, and how many of those it has at a time: the runtime
	// keeps the memory of stacks that many goroutines needed at once.
	offloadAbove = 128
)

// waiting is what all waiters of a client share: one contender for each side of
// each lock that is waited for, one channel on which the masters wake them, and
// one sign of life for all their places in all queues.
type waiting struct {
	c *Client

	mu              sync.Mutex
	contenders      map[lockKey]*contender
	callers         sync.WaitGroup // all who are in a line
	listening       int            // contenders that hear the masters' wakes
	subscribed      bool
	foreignChannels map[string]int
	heartbeats      *time.Timer
	closed          bool
	strays          map[string]uint64 // locks that masters woke us for although nobody waits, since the last beat

	offloaded chan struct{} // holds a token for each offloaded round that is under way
}

// lockKey is one way to hold one lock.
type lockKey struct {
	name string
	mode protocol.Mode
}

// contender stands for all callers in this process that wait for one side of a
// lock. They form a line, first come first served; the first of them tries, as
// one contender among those of other processes, and hands over to the second.
type contender struct {
	w    *waiting
	l    *protocol.Lock
	line list.List // of chan struct{}, each closed when its turn has come

	// Of the one whose turn it is. The next takes them over.
	ticket  int64
	pause   time.Duration
	wake    chan struct{} // made when it first waits
	timer   *time.Timer   // as well; behind all wakes
	queued  uint64        // masters that may have us in their queue
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
	behind  bool   // somebody was ahead of it in too many queues, in the last round
	askAll  bool   // all masters are to be asked: the turn is new, the timer has ended, or the lock was given back here
	woken   uint64 // masters that woke us since they were asked
	heard   uint64 // masters that said something on Redisson's channel since then
	free    uint64 // masters that granted in the last round, in vain: the lock is free there
	foreign uint64 // masters where Redisson had the lock; follows Redisson's channel for them
}

func (w *waiting) init(c *Client) {
	w.c = c
	w.contenders = make(map[lockKey]*contender)
	w.foreignChannels = make(map[string]int)
	w.strays = make(map[string]uint64)
	w.offloaded = make(chan struct{}, offloadAbove)
}

// joinLocked lines up for l. The turn has come when the channel is closed.
func (w *waiting) joinLocked(l *protocol.Lock) (*contender, *list.Element) {
	k := lockKey{l.Name, l.Mode}
	ct := w.contenders[k]
	if ct == nil {
		ct = &contender{w: w, l: l, offloaded: len(w.contenders) >= offloadAbove, askAll: true}
		w.contenders[k] = ct
	}
	turn := readyTurn
	if ct.line.Len() > 0 {
		turn = make(chan struct{})
	}
	w.callers.Add(1)
	return ct, ct.line.PushBack(turn)
}

// readyTurn is the turn of one who is alone.
var readyTurn = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

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
		w.dequeueLocked(ct.l, ct.queued)
		ct.ticket, ct.pause, ct.queued = 0, 0, 0
	}
	if next == nil {
		ct.stopListeningLocked()
		delete(w.contenders, lockKey{ct.l.Name, ct.l.Mode})
	} else if mine && !w.closed { // then all have been told
		ct.askAll = true
		close(next.Value.(chan struct{}))
	}
}

// granted and lost note where the contender may be queued after a round. A master that
// granted has taken it out of its queue; one that was not asked has it there if it
// had it before.
func (ct *contender) granted(b *quorumCall) {
	queued, settled := b.queued()
	ct.queued = ct.queued&^settled | queued
	ct.setLast(nil)
}

// lost also says which place the contender is to have on the masters that granted, or
// nil for none.
func (ct *contender) lost(replies []protocol.Reply) *protocol.Wait {
	place := ct.place(replies)
	for i := range replies {
		switch {
		case mayQueue(&replies[i]), place != nil && replies[i].Outcome == protocol.Granted:
			ct.queued |= 1 << i
		case replies[i].Outcome == protocol.Granted:
			ct.queued &^= 1 << i
		}
	}
	return place
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

// dequeueLocked leaves l's queue on the masters in set; they owe it to us if they do
// not answer.
func (w *waiting) dequeueLocked(l *protocol.Lock, set uint64) {
	now := w.c.clock.Elapsed()
	for i, n := range w.c.nodes {
		if set&(1<<i) != 0 {
			dequeue(n, l, w.c.waiter(l.Mode), 0, now)
		}
	}
}

// dequeue has waiter leave its place with that ticket, or any with 0.
func dequeue(n node.Node, l *protocol.Lock, waiter string, ticket int64, now time.Duration) {
	n.Submit(&protocol.Op{To: ignore{}, Request: &protocol.Request{Kind: protocol.Dequeue, Lock: l, Wait: &protocol.Wait{Waiter: waiter, Ticket: ticket},
		Start: now, Deadline: now + dequeueFor}})
}

// ignore is the receiver of ops whose answer changes nothing.
type ignore struct{}

func (ignore) Receive(*protocol.Op) {}

// waiter is the client's name in a lock's queue.
func (c *Client) waiter(m protocol.Mode) string {
	switch m {
	case protocol.Read:
		return c.id + "/r"
	case protocol.Write:
		return c.id + "/w"
	}
	return c.id
}

// close wakes everybody and returns when they have left all lines and queues, while the
// nodes still take ops. It does not leave the queues for them: a round that is under way
// would queue them again.
func (w *waiting) close() {
	w.mu.Lock()
	w.closed = true
	for _, ct := range w.contenders {
		ct.wakeLocked(0)
		for e := ct.line.Front().Next(); e != nil; e = e.Next() {
			close(e.Value.(chan struct{}))
		}
	}
	if w.heartbeats != nil {
		w.heartbeats.Stop()
	}
	w.mu.Unlock()
	w.callers.Wait() // each has at most a round left
}

// lock is Mutex.Lock: it waits for its turn in this process, then contends with
// others. After a round that gave no lease a next one begins when a master has woken
// us, see ask; or when the timer behind all pushes ends, for any message may be lost.
//
// All waiting is in one place, and what is done in between is called from there, so
// that the stacks of those who wait are small: one more frame would double them.
func (m *Mutex) lock(ctx context.Context) (lease *Lease, err error) {
	w := &m.c.waiting
	w.mu.Lock()
	if w.closed { // nobody would hand us our turn
		w.mu.Unlock()
		return nil, m.c.mayLock(ctx, m.l)
	}
	ct, e := w.joinLocked(m.l)
	w.mu.Unlock()
	next, mine := e.Value.(chan struct{}), false
	var joined time.Duration                // when the caller began to wait
	if next == readyTurn && !ct.offloaded { // nearly always
		mine = true
		lease, err = m.round(ctx, ct, 0)
		next = ct.wake
	}
	if lease == nil && err == nil {
		joined = m.c.clock.Elapsed()
	}
	var free chan struct{} // takes a token when a round may begin on a goroutine of its own
	for lease == nil && err == nil {
		select {
		case <-next:
			switch {
			case m.c.closed.Load():
				err = ErrClosed
				continue
			case mine && !ct.wokenUp():
				continue
			case !mine:
				mine = true
				if err = ct.outage(joined, m.ls.patience); err != nil {
					continue // it was told to those before as well
				}
			}
			if ct.offloaded {
				next, free = nil, w.offloaded
				continue
			}
			lease, err = m.round(ctx, ct, joined)
			next = ct.wake
		case free <- struct{}{}:
			lease, err = m.roundOffloaded(ctx, ct, joined)
			next, free = ct.wake, nil
		case <-ctx.Done():
			err = gaveUp(ctx, ct.l, ct.lastRound())
		}
	}
	ct.leaveLine(e, lease != nil)
	return lease, err
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

// roundOffloaded is round on a goroutine of its own.
func (m *Mutex) roundOffloaded(ctx context.Context, ct *contender, joined time.Duration) (lease *Lease, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		lease, err = m.round(ctx, ct, joined)
		<-ct.w.offloaded
	}()
	<-done
	return lease, err
}

// round is one round of the contender, for a caller that has waited since joined: a
// lease, or neither that nor an error when it is to wait, or an error that no waiting
// mends.
func (m *Mutex) round(ctx context.Context, ct *contender, joined time.Duration) (*Lease, error) {
	lease, replies, err := m.c.acquire(ctx, m.l, &m.ls, &protocol.Request{Wait: &protocol.Wait{
		Waiter: m.c.waiter(m.l.Mode), Ticket: ct.ticket, Liveness: liveness, Unfair: m.ls.unfair}}, ct)
	if err == nil {
		ct.silence = 0
		return lease, nil
	}
	if last := ct.lastRound(); ctx.Err() != nil && last != nil {
		return nil, gaveUp(ctx, m.l, last)
	}
	var round *RoundError
	if !errors.As(err, &round) || errors.Is(err, ErrRefused) {
		return nil, err
	}
	ct.setLast(round)
	if !errors.Is(err, ErrUnreachable) {
		ct.silence = 0
	} else {
		if ct.silence == 0 {
			ct.silence = m.c.clock.Elapsed()
		}
		if err := ct.outage(joined, m.ls.patience); err != nil {
			return nil, err
		}
	}
	ct.tellWhy(ctx, round)
	behind := ct.w.c.behind(replies)
	ct.listen(replies, behind)
	ct.armTimer(ct.patience(round, replies, behind))
	return nil, nil
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
	r.b.req.Deadline += 2 * pauseMin // for those that are asked last
	r.b.send(asked)
	ct.armTimer(pauseMin + c.jitter(pauseMin))
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
	ct.askAll = true
	ct.wakeLocked(0)
}

// decided is called when nobody is to be asked any more in the round under way.
func (ct *contender) decided(q *quorumCall) {
	ct.w.mu.Lock()
	ct.round = nil
	ct.w.mu.Unlock()
	q.close()
}

// place is the contender's in all queues, once it is known. It keeps the ticket that
// the masters gave at first: the median of their stamps, so that no client's clock,
// and no single master's, decides the order. It is told to all of them from then on,
// which makes the order the same everywhere.
func (ct *contender) place(replies []protocol.Reply) *protocol.Wait {
	if ct.ticket == 0 {
		var stamps []int64
		for _, r := range replies {
			if r.Ticket > 0 {
				stamps = append(stamps, r.Ticket)
			}
		}
		if len(stamps) < ct.w.c.need {
			return nil
		}
		slices.Sort(stamps)
		ct.ticket = stamps[len(stamps)/2]
	}
	return &protocol.Wait{Waiter: ct.w.c.waiter(ct.l.Mode), Ticket: ct.ticket, Liveness: liveness}
}

// behind says whether others wait before us on so many masters that we are not next.
func (c *Client) behind(replies []protocol.Reply) bool {
	head := 0
	for _, r := range replies {
		if r.Outcome == protocol.Granted || r.Outcome == protocol.Held && r.Ahead == 0 {
			head++
		}
	}
	return head < c.need
}

// patience is how long to wait without being woken.
func (ct *contender) patience(round *RoundError, replies []protocol.Reply, behind bool) time.Duration {
	taken := 0
	ahead := checkMax
	for _, r := range replies {
		if r.Outcome == protocol.Held && r.Remaining > 0 {
			taken++
		}
		if r.Outcome == protocol.Held && r.Ahead != 0 {
			// The one right behind a dead head finds it out; those further back
			// give it time to.
			ahead = min(ahead, time.Duration(min(r.Ahead, 4))*(heartbeatEvery-heartbeatEvery/4))
		}
	}
	// Not split: a quorum is taken. Masters that granted then lack the holder's vote,
	// and to ask again before they have woken us would be polling.
	split := taken < ct.w.c.need &&
		(round.Granted > 0 || !errors.Is(round, ErrHeld) || round.RetryAfter == 0 && !behind)
	switch {
	case errors.Is(round, ErrRecovering) && round.RetryAfter > 0:
		// The masters say when; each that votes sooner wakes us.
		ct.pause = 0
		return min(round.RetryAfter, recoveryLook) + ct.w.c.jitter(10*time.Millisecond)
	case split:
		// Half fixed, half random: contenders that split the votes must not meet
		// again (docs/safety.md A23).
		ct.pause = min(max(2*ct.pause, pauseMin), pauseMax)
		return ct.pause/2 + ct.w.c.jitter(ct.pause/2)
	case !behind:
		ct.pause = 0
		return min(round.RetryAfter, checkMax) + time.Millisecond + ct.w.c.jitter(time.Millisecond)
	}
	ct.pause = 0
	return ahead + ct.w.c.jitter(heartbeatEvery/8)
}
