// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"container/heap"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	never = time.Duration(math.MaxInt64)
	// maxTick bounds how long the renewer sleeps while leases are held. Timers
	// stand still in a suspend, so this is how soon after it a lease that ran
	// out meanwhile is reported, to a holder that does not ask.
	maxTick = time.Second
	// maxBatch is how many votes one extend script renews. 128 take a master
	// about a millisecond, during which it answers nobody else.
	maxBatch = 128
)

// renewer looks after all leases of a client: it extends those that are due, in
// batches, and ends those whose validity is over. One timer serves them all; no
// goroutine runs between its ticks.
type renewer struct {
	c *Client

	mu     sync.Mutex
	leases leaseHeap
	timer  *time.Timer
	armed  time.Duration // when timer fires; never while it is not set
	closed bool
	ticks  sync.WaitGroup
}

func newRenewer(c *Client) *renewer { return &renewer{c: c, armed: never} }

// add begins to look after l, unless the client was closed meanwhile, or its clock is not
// to be believed for the time of the round.
func (r *renewer) add(l *hold) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.start < r.c.trusted() {
		return false // look, which comes after, would not find it
	}
	l.renewAt = l.renewalAt(l.start + l.ls.every())
	r.scheduleLocked(l, min(l.renewAt, l.grant.Until()-l.ls.margin()))
	return !r.closed
}

// renewalAt is at, or never when the lease is not to be renewed then.
func (l *hold) renewalAt(at time.Duration) time.Duration {
	if l.ls.fixed || l.ls.maxHold > 0 && at-l.start > l.ls.maxHold {
		return never
	}
	return at
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
	}
}

// scheduleLocked puts l where its next due time belongs and sees to it that the
// timer fires by then. A timer that fires too early, for a lease that is gone, is
// left alone: setting it back at each Unlock would cost more than one idle tick.
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
	for _, due := range renew {
		for len(due) > 0 {
			n := min(len(due), maxBatch)
			r.c.extend(beginExtend(due[:n]))
			due = due[n:]
		}
	}
}

// take picks what is due at now and sets the timer for the rest: leases whose
// validity is over, and those to be extended, by their TTL, which a batch shares.
// Leases that are due a little later go along with the batch. After close there is
// nothing to do; else the caller owes ticks a Done.
func (r *renewer) take(now time.Duration) (ended []*hold, renew map[time.Duration][]*hold, ok bool) {
	renew = make(map[time.Duration][]*hold)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, false
	}
	r.ticks.Add(1)
	r.armed = never
	for len(r.leases) > 0 {
		l := r.leases[0]
		if l.renewAt-now <= l.ls.ttl/50 && l.due == l.renewAt {
			renew[l.ls.ttl] = append(renew[l.ls.ttl], l)
			l.renewAt = never // until this one is decided
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
	return ended, renew, true
}

// endExpired ends leases whose validity was over when take looked. One that turns out to
// be held was extended in the last moment, and the extend that did it has it looked
// at again: it must be left as that set it.
func (r *renewer) endExpired(leases []*hold) {
	for _, l := range leases {
		_ = l.err()
	}
}

// endUntrusted ends the leases that are over for another reason than their time.
func (r *renewer) endUntrusted() {
	r.mu.Lock()
	leases := slices.Clone(r.leases)
	r.mu.Unlock()
	r.endExpired(leases)
}

// lastCall is when a lease is ended unless it was extended.
func (l *hold) lastCall() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant.Until() - l.ls.margin()
}

// reschedule looks at l again at renewAt, or when its validity ends.
func (r *renewer) reschedule(l *hold, renewAt time.Duration) {
	last := l.lastCall()
	r.mu.Lock()
	defer r.mu.Unlock()
	l.renewAt = l.renewalAt(renewAt)
	r.scheduleLocked(l, min(l.renewAt, last))
}

// close ends every lease. No lease is extended afterwards.
func (r *renewer) close() {
	r.mu.Lock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	leases := r.leases
	r.leases = nil
	for _, l := range leases {
		l.pos = -1 // their Unlocks are still to come
	}
	r.mu.Unlock()
	r.ticks.Wait()
	for _, l := range leases {
		l.end(ErrClosed)
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

// beginExtend keeps the leases that are held and have no extend in flight, and
// marks them.
func beginExtend(leases []*hold) []*hold {
	var begun []*hold
	for _, l := range leases {
		l.mu.Lock()
		if l.errLocked() == nil && !l.extending {
			l.extending = true
			begun = append(begun, l)
		}
		l.mu.Unlock()
	}
	return begun
}
