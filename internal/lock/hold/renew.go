// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"container/heap"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/redlock/event"
)

const (
	// maxTick is the longest time that the renewer sleeps while leases are held. Timers do
	// not run while the host is suspended. So this is how soon after a suspend a lease that
	// ended meanwhile is reported to a holder that does not call Err.
	maxTick = time.Second
	// MaxBatch is how many votes one extend script renews. A master needs about a
	// millisecond for 128, and answers no other client meanwhile.
	MaxBatch = 128
	// maxSent is how many renewals are under way at most. Others of the masters' clients wait behind them, and an answer
	// that takes longer than the node timeout counts for nothing: all that is due at once may be a million. Not so many batches: where each lease
	// has a TTL of its own a batch has one.
	maxSent = 8 * MaxBatch
)

// Renewer extends the holds of a client in batches when they are due, and ends those whose
// validity is over. One timer serves all holds. No goroutine runs between its ticks: what cannot be sent at one of them
// is sent when a batch is decided.
type Renewer struct {
	Masters *quorum.Masters
	Events  Events
	// Propose is a token above all that the client has seen, for a vote that a release hands on.
	Propose func() int64

	Extends, Lost atomic.Uint64 // extends that were decided, and holds that were lost

	mu     sync.Mutex
	holds  byDue
	ready  ready
	timer  *time.Timer
	armed  time.Duration // when timer fires; never while the timer is not set
	closed bool
	ticks  sync.WaitGroup
	// empty is made when no hold is let in any more. It is closed when none is left, which drained says.
	empty   chan struct{}
	drained bool

	lateness lateness
}

// lateness is how late the renewer's timer came, for readers without its mutex. due is when it fires next, or 0. stood is how late it last
// came, and at when.
type lateness struct{ due, stood, at atomic.Int64 }

// slot is what the renewer knows of a hold, guarded by its mutex.
type slot struct {
	due     time.Duration // when the renewer looks at the hold again
	renewAt time.Duration // never, if it is not to be renewed again
	pos     int           // in the heap; -1 outside
	ready   bool          // it is due, and waits to be sent
	dropped bool          // the hold was released
}

// Start makes the renewer ready. Masters, Events and Propose are set before.
func (r *Renewer) Start() { r.armed = never }

// Add begins to renew h, at renewAt first. It returns false if the client was closed meanwhile, or if the
// client's clock has jumped since the round of h began, or if the client is being shut down. It returns false too if h was granted so
// late that its holder would be told of the end at once.
func (r *Renewer) Add(h *Hold, renewAt time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := h.lastCall()
	if h.Start <= r.Masters.Trusted() || r.empty != nil || h.Granted >= last {
		return false // EndUntrusted or Drain has run, and did not find h; or nothing is left of it
	}
	h.slot.renewAt = h.Terms.renewalAt(h.Start, renewAt)
	r.scheduleLocked(h, min(h.slot.renewAt, last))
	return !r.closed
}

// Drain lets no hold in from now on. It returns a channel that is closed when none is left.
func (r *Renewer) Drain() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.empty == nil {
		r.empty = make(chan struct{})
		r.leftLocked()
	}
	return r.empty
}

// leftLocked is called when holds have left.
func (r *Renewer) leftLocked() {
	if r.empty != nil && len(r.holds) == 0 && !r.drained {
		r.drained = true
		close(r.empty)
	}
}

// All returns the holds that are there.
func (r *Renewer) All() []*Hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.holds)
}

// Held is how many holds there are.
func (r *Renewer) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.holds)
}

// remove forgets h.
func (r *Renewer) remove(h *Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.slot.dropped, h.slot.ready = true, false
	if h.slot.pos >= 0 {
		heap.Remove(&r.holds, h.slot.pos)
		r.leftLocked()
	}
}

// scheduleLocked has the renewer look at h when it is due, and sets the timer if it would
// fire too late for that. A timer that fires too early, for a hold that was released, is left
// alone: to reset it at each Unlock would cost more than one idle tick.
func (r *Renewer) scheduleLocked(h *Hold, due time.Duration) {
	if h.slot.dropped || r.closed {
		return
	}
	h.slot.due, h.slot.ready = due, false
	if h.slot.pos >= 0 {
		heap.Fix(&r.holds, h.slot.pos)
	} else {
		heap.Push(&r.holds, h)
	}
	if due < r.armed {
		r.armLocked()
	}
}

func (r *Renewer) armLocked() {
	now := r.Masters.Clock.Elapsed()
	wait := max(min(r.holds[0].slot.due-now, maxTick), 0)
	r.armed = now + wait
	r.lateness.due.Store(int64(r.armed))
	if r.timer == nil {
		r.timer = time.AfterFunc(wait, r.tick)
	} else {
		r.timer.Reset(wait)
	}
}

// tick runs when the timer fires.
func (r *Renewer) tick() {
	ended, ok := r.take(r.Masters.Clock.Elapsed())
	if !ok {
		return
	}
	defer r.ticks.Done()
	r.endExpired(ended)
	r.send()
}

// take makes ready what is due at now, and sets the timer for the rest. It returns the holds whose validity is over, which no extend can
// change any more: an extend reads the clock after now, with the hold locked. They are the only ones that leave here. A hold that is due
// a little later fills up a batch. If ok is false the client was closed; else the caller must call ticks.Done.
func (r *Renewer) take(now time.Duration) (ended []*Hold, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false
	}
	r.ticks.Add(1)
	if late := now - r.armed; late > 0 {
		r.lateness.stood.Store(int64(late))
		r.lateness.at.Store(int64(now))
	}
	r.armed = never
	r.lateness.due.Store(0)
	for len(r.holds) > 0 {
		h := r.holds[0]
		if h.slot.due == h.slot.renewAt && (h.slot.due <= now || h.slot.due-now <= h.Terms.TTL/50 && r.ready.hasRoom(h.Terms.TTL)) {
			h.slot.renewAt = never // until this extend is decided
			h.slot.due = h.lastCall()
			h.slot.ready = true
			r.ready.add(h, h.slot.due)
			heap.Fix(&r.holds, 0)
		} else if h.slot.due > now {
			break
		} else if last := h.lastCall(); last > now { // an extend was won, and says in a moment when to look again
			h.slot.due = last
			heap.Fix(&r.holds, 0)
		} else {
			ended = append(ended, h)
			heap.Pop(&r.holds)
		}
	}
	if len(r.holds) > 0 {
		r.armLocked()
	}
	r.leftLocked()
	return ended, true
}

// stoodStill is for how long this process stood still after since, as its own timer tells, which came late or is late.
func (r *Renewer) stoodStill(since, now time.Duration) (late time.Duration) {
	if due := time.Duration(r.lateness.due.Load()); due != 0 {
		late = now - due
	}
	if time.Duration(r.lateness.at.Load()) >= since {
		late = max(late, time.Duration(r.lateness.stood.Load()))
	}
	return late
}

// endExpired ends the holds in the list whose validity is over, or was measured by a clock that has jumped since.
func (r *Renewer) endExpired(holds []*Hold) {
	if mutants.NoNotice {
		return
	}
	for _, h := range holds {
		h.mu.Lock()
		err := h.errLocked()
		h.unlock()
		if errors.Is(err, errs.ErrLost) {
			r.remove(h)
		}
	}
}

// EndUntrusted ends the holds whose validity was measured by a clock that has jumped since.
func (r *Renewer) EndUntrusted() {
	r.endExpired(r.All())
}

// reschedule has the renewer look at h again at renewAt, or when its validity ends.
func (r *Renewer) reschedule(h *Hold, renewAt time.Duration) {
	last := h.lastCall()
	r.mu.Lock()
	defer r.mu.Unlock()
	h.slot.renewAt = h.Terms.renewalAt(h.Start, renewAt)
	r.scheduleLocked(h, min(h.slot.renewAt, last))
}

// Close ends every hold. No hold is extended afterwards.
func (r *Renewer) Close() {
	r.mu.Lock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	holds := r.holds
	r.holds, r.ready.holds = nil, nil
	for _, h := range holds {
		h.slot.pos = -1 // a Release will call remove
	}
	r.mu.Unlock()
	r.ticks.Wait()
	for _, h := range holds {
		h.end(event.EndClosed, errs.ErrClosed)
	}
}

// byDue is a heap of holds by when they are due.
type byDue []*Hold

func (b byDue) Len() int           { return len(b) }
func (b byDue) Less(i, j int) bool { return b[i].slot.due < b[j].slot.due }
func (b byDue) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].slot.pos, b[j].slot.pos = i, j
}
func (b *byDue) Push(x any) {
	h := x.(*Hold)
	h.slot.pos = len(*b)
	*b = append(*b, h)
}
func (b *byDue) Pop() any {
	old := *b
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*b = old[:len(old)-1]
	h.slot.pos = -1
	return h
}
