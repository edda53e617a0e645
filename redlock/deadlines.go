// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"sync"
	"time"
)

// deadlines ends the waits for a client's quorum calls that are not decided in time. One timer
// serves them all. While anybody waits it is only ever set to end sooner: a timer for each
// wait would be put in order with those of the others, and taken out again, twice in each
// lock and unlock.
type deadlines struct {
	mu    sync.Mutex
	open  []*quorumCall // that are waited for, each at its pos
	timer *time.Timer
	next  time.Time // when timer ends; zero: it does not run
}

// add has b's wait end at a time, unless it is removed before.
func (d *deadlines) add(b *quorumCall, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b.deadline, b.pos = at, len(d.open)
	d.open = append(d.open, b)
	if d.next.IsZero() || at.Before(d.next) {
		d.setLocked(at)
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

// remove takes b out, if its time is not over. Its channel is sent nothing afterwards.
func (d *deadlines) remove(b *quorumCall) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removeLocked(b)
	if len(d.open) == 0 && !d.next.IsZero() {
		d.next = time.Time{}
		d.timer.Stop()
	}
}

func (d *deadlines) removeLocked(b *quorumCall) {
	if b.pos < 0 {
		return
	}
	last := len(d.open) - 1
	d.open[b.pos] = d.open[last]
	d.open[b.pos].pos = b.pos
	d.open[last] = nil
	d.open, b.pos = d.open[:last], -1
}

// expire is what the timer does: it ends what is over, and looks for what is next.
func (d *deadlines) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.next = time.Time{}
	for i := len(d.open) - 1; i >= 0; i-- { // what moves to i was looked at
		b := d.open[i]
		switch {
		case !b.deadline.After(now):
			d.removeLocked(b)
			b.decide()
		case d.next.IsZero() || b.deadline.Before(d.next):
			d.next = b.deadline
		}
	}
	if !d.next.IsZero() {
		d.setLocked(d.next)
	}
}
