// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/internal/waiting"
)

const (
	// dequeueFor is how long a dequeue is sent again to a master that does not answer.
	// The queue itself lives no longer.
	dequeueFor = time.Minute
	// offloadAbove is how many locks a client may wait for before the rounds of further
	// locks run on goroutines of their own. It is also how many such goroutines there are
	// at a time, because the runtime keeps the memory of all stacks that grew at once.
	offloadAbove = 128
)

// waiters is what all waiters of a client share: one contender for each lock and mode that is
// waited for, one channel on which the masters wake them, and one heartbeat for all their
// places in all queues.
type waiters struct {
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

func (w *waiters) init(c *Client) {
	w.c = c
	w.contenders = make(map[lockKey]*contender)
	w.foreignChannels = make(map[string]int)
	w.strays = make(map[string]uint64)
	w.offloaded = make(chan struct{}, offloadAbove)
}

// joinLocked puts the caller into the line for l. Its turn has come when the channel is closed.
func (w *waiters) joinLocked(l *protocol.Lock) (*contender, *list.Element) {
	k := lockKey{l.Name, l.Mode}
	ct := w.contenders[k]
	if ct == nil {
		ct = &contender{w: w, l: l, offloaded: len(w.contenders) >= offloadAbove}
		ct.wakes.Turn()
		w.contenders[k] = ct
	}
	turn := readyTurn
	if ct.line.Len() > 0 {
		turn = make(chan struct{})
	}
	w.callers.Add(1)
	return ct, ct.line.PushBack(turn)
}

// readyTurn is the turn of a caller that finds the line empty: a closed channel.
var readyTurn = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// dequeueLocked leaves l's queue on the masters in set. It is sent again to masters that do
// not answer.
func (w *waiters) dequeueLocked(l *protocol.Lock, set uint64) {
	now := w.c.clock.Elapsed()
	for i, n := range w.c.nodes {
		if set&(1<<i) != 0 {
			dequeue(n, l, w.c.waiter(l.Mode), 0, now)
		}
	}
}

// dequeue takes the waiter out of l's queue on the master of n, at the place with that ticket. 0
// is any place.
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

// close wakes all callers, and returns when they have left the lines and dequeued. The nodes
// must still take ops. Each caller dequeues for itself, because a round that is under way could
// queue it again.
func (w *waiters) close() {
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

// lock is Mutex.Lock. It waits for its turn in this process, then contends with other
// processes. After a round that gave no lease, the next round begins when a master has woken
// the contender (see askWhenWoken), or when the contender's timer fires, because any message
// may be lost.
//
// The waiting is in this one function, and everything else is called from it. So the stack of
// a goroutine that waits is small: one more frame would double it.
func (m *Mutex) lock(ctx context.Context) (lease *Lease, err error) {
	w := &m.c.waiting
	w.mu.Lock()
	if w.closed { // nobody would give this caller its turn
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
					continue // the callers before got the same error
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

// roundOffloaded runs round on a goroutine of its own.
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

// round makes one round of the contender, for a caller that has waited since joined. It returns
// a lease, or an error that waiting cannot cure, or neither if the caller is to wait.
func (m *Mutex) round(ctx context.Context, ct *contender, joined time.Duration) (*Lease, error) {
	lease, replies, err := m.c.acquire(ctx, m.l, &m.ls, &protocol.Request{Wait: &protocol.Wait{
		Waiter: m.c.waiter(m.l.Mode), Ticket: ct.place.Ticket, Liveness: waiting.Liveness, Unfair: m.ls.unfair}}, ct)
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
	behind := waiting.Behind(replies, m.c.need)
	ct.listen(replies, behind)
	ct.armTimer(ct.place.Patience(&waiting.Round{
		Replies: replies, Need: m.c.need, Behind: behind, RetryAfter: round.RetryAfter, Granted: round.Granted > 0,
		Held: errors.Is(round, ErrHeld), Recovering: errors.Is(round, ErrRecovering),
	}, m.c.jitter))
	return nil, nil
}
