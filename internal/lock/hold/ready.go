// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"container/heap"
	"time"
)

// ready are the holds that are due and wait to be sent, by TTL, because a batch has one TTL. It is guarded by the renewer's mutex.
//
// Invariant: a hold whose slot says ready is in the heap of its TTL. Others may be in one, and are passed over.
type ready struct {
	holds   map[time.Duration]*byEnd
	sent    int  // holds that are under way
	sending bool // a goroutine sends what is there
}

// readyHold is a hold with its end as that was when the hold became ready: what is in a heap does not change.
type readyHold struct {
	hold *Hold
	end  time.Duration
}

// hasRoom says whether one more hold of the TTL makes no batch more.
func (q *ready) hasRoom(ttl time.Duration) bool {
	list := q.holds[ttl]
	return list != nil && len(*list)%MaxBatch != 0
}

// add adds h, which ends at end if it is not extended.
func (q *ready) add(h *Hold, end time.Duration) {
	list := q.holds[h.Terms.TTL]
	if list == nil {
		if q.holds == nil {
			q.holds = make(map[time.Duration]*byEnd)
		}
		list = new(byEnd)
		q.holds[h.Terms.TTL] = list
	}
	heap.Push(list, &readyHold{hold: h, end: end})
}

// next takes out the next batch: the holds that end first of the TTL whose first hold ends first. Neither a short lease waits until all
// long ones are sent, nor a lease that was handed, which ends soon whatever its TTL is.
func (q *ready) next() []*Hold {
	ttl, first := time.Duration(0), never
	for t, list := range q.holds {
		if end := (*list)[0].end; end < first || end == first && t < ttl {
			ttl, first = t, end
		}
	}
	list := q.holds[ttl]
	n := min(len(*list), MaxBatch)
	batch := make([]*Hold, 0, n)
	for range n {
		h := heap.Pop(list).(*readyHold).hold
		if h.slot.ready { // else its caller extended or released it meanwhile
			h.slot.ready = false
			batch = append(batch, h)
		}
	}
	if len(*list) == 0 {
		delete(q.holds, ttl)
	}
	return batch
}

// byEnd is a heap of holds by when they end.
type byEnd []*readyHold

func (b byEnd) Len() int           { return len(b) }
func (b byEnd) Less(i, j int) bool { return b[i].end < b[j].end }
func (b byEnd) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byEnd) Push(x any)        { *b = append(*b, x.(*readyHold)) }
func (b *byEnd) Pop() any {
	last := len(*b) - 1
	h := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return h
}

// send sends what is ready, as far as it may be under way.
func (r *Renewer) send() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready.sending || r.closed {
		return // the one that sends goes on until nothing is left to send
	}
	r.ready.sending = true
	r.ticks.Add(1)
	for !r.closed && r.ready.sent < maxSent && len(r.ready.holds) > 0 {
		due := r.ready.next()
		r.ready.sent += len(due)
		r.mu.Unlock()
		r.extend(begin(due), func() { r.sent(len(due)) })
		r.mu.Lock()
	}
	r.ready.sending = false
	r.ticks.Done()
}

// sent is called when a batch of n that send has sent is decided, or has no hold any more.
func (r *Renewer) sent(n int) {
	r.mu.Lock()
	r.ready.sent -= n
	r.mu.Unlock()
	r.send()
}

// begin returns the holds that are not over and have no extend in flight, and marks
// them as having one.
func begin(holds []*Hold) []*Hold {
	var begun []*Hold
	for _, h := range holds {
		h.mu.Lock()
		if h.errLocked() == nil && !h.extends.inFlight() {
			h.extends.begun++
			begun = append(begun, h)
		}
		h.unlock()
	}
	return begun
}
