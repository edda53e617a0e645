// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"context"
	"sync"
	"time"

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

// Lines is what all waiters of a client share: one contender for each lock and mode that is
// waited for, one channel on which the masters hand them the lock or wake them, and one heartbeat
// for all their places in all queues.
type Lines struct {
	Config

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

// New returns the lines of a client, of which all are empty.
func New(cfg Config) *Lines {
	return &Lines{Config: cfg, contenders: make(map[lockKey]*contender), foreignChannels: make(map[string]int),
		offloaded: make(chan struct{}, offloadAbove)}
}

// ticketLocked returns the ticket of a caller that comes now: see waiting.Ticket. It may be below that of a caller who came before: the
// masters' clocks may have been set back, and the callers of one client for one lock stand in a line of their own.
func (w *Lines) ticketLocked() int64 {
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

// Enter counts a round for l of a caller that does not wait, until Leave. It returns the error of the call if ctx is done or the client is over.
func (w *Lines) Enter(ctx context.Context, l *protocol.Lock) error {
	if ctx.Err() != nil {
		return w.GaveUp(ctx, l, nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.Over(); err != nil { // The client is over before its lines are closed.
		return err
	}
	w.callers.Add(1)
	return nil
}

// Leave ends what Enter began.
func (w *Lines) Leave() { w.callers.Done() }

// Close wakes all callers, and returns when they have left the lines and given back their rounds.
// It is called when the client is over, and may be called again. The nodes must still take ops. Each caller gives back its own, because a round that is under way
// could queue it again.
func (w *Lines) Close() {
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
				close(e.Value.(*Caller).turn)
			}
		}
	}
	if w.heartbeats != nil {
		w.heartbeats.Stop()
	}
}
