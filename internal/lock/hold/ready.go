// SPDX-License-Identifier: Apache-2.0

package hold

import "time"

// ready are the holds that are due and wait to be sent, by TTL, because a batch has one TTL. It is guarded by the renewer's mutex.
//
// Invariant: a hold whose slot says ready is in the list of its TTL. Others may be in one, and are passed over.
type ready struct {
	holds   map[time.Duration][]*Hold // in the order in which they were due
	sent    int                       // batches that are under way
	sending bool                      // a goroutine sends what is there
}

// hasRoom says whether one more hold of the TTL makes no batch more.
func (q *ready) hasRoom(ttl time.Duration) bool { return len(q.holds[ttl])%MaxBatch != 0 }

func (q *ready) add(h *Hold) {
	if q.holds == nil {
		q.holds = make(map[time.Duration][]*Hold)
	}
	q.holds[h.Terms.TTL] = append(q.holds[h.Terms.TTL], h)
}

// next takes out the next batch. It is of the TTL whose first hold ends first: a short lease does not wait until all long ones are sent.
func (q *ready) next() []*Hold {
	ttl, first := time.Duration(0), never
	for t, list := range q.holds {
		if end := list[0].slot.due; end < first || end == first && t < ttl {
			ttl, first = t, end
		}
	}
	list := q.holds[ttl]
	n := min(len(list), MaxBatch)
	batch := list[:0:0]
	for _, h := range list[:n] {
		if h.slot.ready { // else its caller extended or released it meanwhile
			h.slot.ready = false
			batch = append(batch, h)
		}
	}
	if q.holds[ttl] = list[n:]; n == len(list) {
		delete(q.holds, ttl)
	}
	return batch
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
		r.ready.sent++
		r.mu.Unlock()
		r.extend(begin(due), r.sent)
		r.mu.Lock()
	}
	r.ready.sending = false
	r.ticks.Done()
}

// sent is called when a batch that send has sent is decided, or has no hold.
func (r *Renewer) sent() {
	r.mu.Lock()
	r.ready.sent--
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
