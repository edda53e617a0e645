// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// deadlines ends the waits for quorum calls that are not decided in time. One timer serves all
// waits of a client. add sets the timer only to fire sooner, and remove leaves it as it is: it fires
// when the wait that it was set for would have ended, and serves those that have come since. Most waits
// last a trip, so most change no timer.
type deadlines struct {
	mu    sync.Mutex
	open  []*Call // the calls with a caller that waits; pos of a call is its index
	timer *time.Timer
	next  time.Time // when timer fires; zero while the timer does not run
}

// add makes deadlines end the wait for b after timeout, unless remove is called before.
func (d *deadlines) add(b *Call, timeout time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b.limit, b.pos = protocol.NewLimit(timeout), len(d.open)
	d.open = append(d.open, b)
	if d.next.IsZero() || b.limit.At.Before(d.next) {
		d.setLocked(b.limit.At)
	}
}

func (d *deadlines) setLocked(at time.Time) {
	d.next = at
	if in := time.Until(at); d.timer == nil {
		d.timer = time.AfterFunc(in, d.expire)
	} else {
		d.timer.Reset(in)
	}
}

// remove takes b out, if expire has not done so. After remove, deadlines does not decide b.
func (d *deadlines) remove(b *Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removeLocked(b)
}

func (d *deadlines) removeLocked(b *Call) {
	if b.pos < 0 {
		return
	}
	last := len(d.open) - 1
	d.open[b.pos] = d.open[last]
	d.open[b.pos].pos = b.pos
	d.open[last] = nil
	d.open, b.pos = d.open[:last], -1
}

// expire runs when the timer fires. It ends the waits whose time is over, and sets the timer for
// the next one.
func (d *deadlines) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.next = time.Time{}
	for i := len(d.open) - 1; i >= 0; i-- { // removeLocked moves the last call to i, and that call was handled before
		b := d.open[i]
		switch {
		case b.limit.Over(now):
			d.removeLocked(b)
			b.Decide()
		case d.next.IsZero() || b.limit.At.Before(d.next):
			d.next = b.limit.At
		}
	}
	if !d.next.IsZero() {
		d.setLocked(d.next)
	}
}
