// SPDX-License-Identifier: Apache-2.0

package protocol

import "time"

const (
	// heldUp is by how much a timer is late if its process was held up. Timers of one that was not are late by 1 ms.
	heldUp = 2 * time.Millisecond
	// readMax is enough to read what lies there.
	readMax = 50 * time.Millisecond
)

// Limit is until when to listen for what masters answer.
//
// A process that was held up (stopped, throttled, without a processor) has not read the answers that came meanwhile, and Go runs the timers
// that are due before it looks at the network: the one that ends the wait too. So a wait whose timer fires late goes on once, for as long as the
// timer was late, for no longer than the wait was to be, and for 50 ms at most.
//
// It makes nothing valid for longer, because validity counts from before the requests. Its time is that of timers: a client's clock that jumps does not change it.
type Limit struct {
	At   time.Time     // when to ask Over
	more time.Duration // by how much Over may move At
}

// NewLimit is the limit of a wait that begins now.
func NewLimit(wait time.Duration) Limit { return Limit{time.Now().Add(wait), min(wait, readMax)} }

// Over says whether the wait is over at now. If it is not, At may have moved.
func (l *Limit) Over(now time.Time) bool {
	late := now.Sub(l.At)
	if late >= 0 && (late <= heldUp || l.more <= 0) {
		return true
	}
	if late > 0 {
		l.At, l.more = now.Add(min(late, l.more)), 0
	}
	return false
}
