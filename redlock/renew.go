// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"container/heap"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/redlock/event"
)

const (
	never = time.Duration(math.MaxInt64)
	// maxTick is the longest time that the renewer sleeps while leases are held. Timers do
	// not run while the host is suspended. So this is how soon after a suspend a lease that
	// ended meanwhile is reported to a holder that does not call Err.
	maxTick = time.Second
	// maxBatch is how many votes one extend script renews. A master needs about a
	// millisecond for 128, and answers no other client meanwhile.
	maxBatch = 128
)

// renewer extends the holds of a client in batches when they are due, and ends those whose
// validity is over. One timer serves all holds. No goroutine runs between its ticks.
type renewer struct {
	c *Client

	mu     sync.Mutex
	leases leaseHeap
	timer  *time.Timer
	armed  time.Duration // when timer fires; never while the timer is not set
	closed bool
	ticks  sync.WaitGroup
	// due is armed, for readers without the mutex; 0 while the timer is not set. stood is how late the timer last came, and at when.
	due, stood, at atomic.Int64
	// empty is made when no hold is let in any more. It is closed when none is left, which drained says.
	empty   chan struct{}
	drained bool
}

func newRenewer(c *Client) *renewer { return &renewer{c: c, armed: never} }

// add begins to renew l, at renewAt first. It returns false if the client was closed meanwhile, or if the
// client's clock has jumped since the round of l began, or if the client is being shut down.
func (r *renewer) add(l *hold, renewAt time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.start < r.c.trusted() || r.empty != nil {
		return false // endUntrusted or drain has run, and did not find l
	}
	l.renewAt = l.renewalAt(renewAt)
	r.scheduleLocked(l, min(l.renewAt, l.grant.Until()-l.ls.margin()))
	return !r.closed
}

// renewalAt is at, or never if the lease is not to be renewed then.
func (l *hold) renewalAt(at time.Duration) time.Duration {
	if l.ls.fixed || l.ls.maxHold > 0 && at-l.start > l.ls.maxHold {
		return never
	}
	return at
}

// drain lets no hold in from now on. It returns a channel that is closed when none is left.
func (r *renewer) drain() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.empty == nil {
		r.empty = make(chan struct{})
		r.leftLocked()
	}
	return r.empty
}

// leftLocked is called when holds have left.
func (r *renewer) leftLocked() {
	if r.empty != nil && len(r.leases) == 0 && !r.drained {
		r.drained = true
		close(r.empty)
	}
}

// all returns the holds that are there.
func (r *renewer) all() []*hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.leases)
}

func (r *renewer) held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.leases)
}

// remove forgets l.
func (r *renewer) remove(l *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.dropped = true
	if l.pos >= 0 {
		heap.Remove(&r.leases, l.pos)
		r.leftLocked()
	}
}

// scheduleLocked has the renewer look at l when it is due, and sets the timer if it would
// fire too late for that. A timer that fires too early, for a hold that was released, is left
// alone: to reset it at each Unlock would cost more than one idle tick.
func (r *renewer) scheduleLocked(l *hold, due time.Duration) {
	if l.dropped || r.closed {
		return
	}
	l.due = due
	if l.pos >= 0 {
		heap.Fix(&r.leases, l.pos)
	} else {
		heap.Push(&r.leases, l)
	}
	if due < r.armed {
		r.armLocked()
	}
}

func (r *renewer) armLocked() {
	now := r.c.clock.Elapsed()
	wait := max(min(r.leases[0].due-now, maxTick), 0)
	r.armed = now + wait
	r.due.Store(int64(r.armed))
	if r.timer == nil {
		r.timer = time.AfterFunc(wait, r.tick)
	} else {
		r.timer.Reset(wait)
	}
}

// tick runs when the timer fires.
func (r *renewer) tick() {
	ended, renew, ok := r.take(r.c.clock.Elapsed())
	if !ok {
		return
	}
	defer r.ticks.Done()
	r.endExpired(ended)
	for _, ttl := range slices.Sorted(maps.Keys(renew)) { // not in the order of the map, so that a simulation repeats
		due := renew[ttl]
		for len(due) > 0 {
			n := min(len(due), maxBatch)
			r.c.extend(beginExtend(due[:n]))
			due = due[n:]
		}
	}
}

// take takes out what is due at now, and sets the timer for the rest. ended are the holds
// whose validity is over. renew are the holds to be extended, by TTL, because a batch has one
// TTL. Holds that are due a little later join the batch. If ok is false the client was
// closed; else the caller must call ticks.Done.
func (r *renewer) take(now time.Duration) (ended []*hold, renew map[time.Duration][]*hold, ok bool) {
	renew = make(map[time.Duration][]*hold)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, false
	}
	r.ticks.Add(1)
	if late := now - r.armed; late > 0 {
		r.stood.Store(int64(late))
		r.at.Store(int64(now))
	}
	r.armed = never
	r.due.Store(0)
	for len(r.leases) > 0 {
		l := r.leases[0]
		if l.renewAt-now <= l.ls.ttl/50 && l.due == l.renewAt {
			renew[l.ls.ttl] = append(renew[l.ls.ttl], l)
			l.renewAt = never // until this extend is decided
			l.due = l.lastCall()
			heap.Fix(&r.leases, 0)
		} else if l.due <= now {
			ended = append(ended, l)
			heap.Pop(&r.leases)
		} else {
			break
		}
	}
	if len(r.leases) > 0 {
		r.armLocked()
	}
	r.leftLocked()
	return ended, renew, true
}

// stoodStill is for how long this process stood still after since, as its own timer tells, which came late or is late. It is 0 if
// that was shorter than least.
func (r *renewer) stoodStill(since, now, least time.Duration) time.Duration {
	late := time.Duration(0)
	if due := time.Duration(r.due.Load()); due != 0 {
		late = now - due
	}
	if time.Duration(r.at.Load()) >= since {
		late = max(late, time.Duration(r.stood.Load()))
	}
	if late < least {
		return 0
	}
	return late
}

// endExpired ends the holds among leases whose validity is over. A hold may have been
// extended since take found it. Such a hold is left alone: the extend has rescheduled it.
func (r *renewer) endExpired(leases []*hold) {
	if mutants.NoNotice {
		return
	}
	for _, l := range leases {
		_ = l.err()
	}
}

// endUntrusted ends the holds whose validity was measured by a clock that has jumped since.
func (r *renewer) endUntrusted() {
	r.endExpired(r.all())
}

// lastCall is when the hold ends if it is not extended.
func (l *hold) lastCall() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant.Until() - l.ls.margin()
}

// reschedule has the renewer look at l again at renewAt, or when its validity ends.
func (r *renewer) reschedule(l *hold, renewAt time.Duration) {
	last := l.lastCall()
	r.mu.Lock()
	defer r.mu.Unlock()
	l.renewAt = l.renewalAt(renewAt)
	r.scheduleLocked(l, min(l.renewAt, last))
}

// close ends every hold. No hold is extended afterwards.
func (r *renewer) close() {
	r.mu.Lock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	leases := r.leases
	r.leases = nil
	for _, l := range leases {
		l.pos = -1 // an Unlock will call remove
	}
	r.mu.Unlock()
	r.ticks.Wait()
	for _, l := range leases {
		l.end(event.EndClosed, ErrClosed)
	}
}

// leaseHeap orders leases by due.
type leaseHeap []*hold

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
func (h *leaseHeap) Push(x any) {
	l := x.(*hold)
	l.pos = len(*h)
	*h = append(*h, l)
}
func (h *leaseHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.pos = -1
	return l
}

// beginExtend returns the holds that are not over and have no extend in flight, and marks
// them as having one.
func beginExtend(leases []*hold) []*hold {
	var begun []*hold
	for _, l := range leases {
		l.mu.Lock()
		if l.errLocked() == nil && !l.extending {
			l.extending = true
			begun = append(begun, l)
		}
		l.unlock()
	}
	return begun
}
