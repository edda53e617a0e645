// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"math"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
)

const (
	longAgo = time.Duration(math.MinInt64) / 2
	// sameJump is within what time the jumps of all masters are taken for one of ours.
	sameJump = time.Second
	// blameAfter is how long the others are looked at before one master is blamed. A clock of ours that does not jump,
	// but runs fast or slow, is not seen at all masters in the same moment. Where the clock notes of a quorum say that
	// the master's clock kept pace with the others, it takes longer: then our clock is the likely one.
	blameAfter, blameAgainstNotes = 100 * time.Millisecond, sameJump
)

// jump is what a process knows of a master whose clock moved against its own.
type jump struct {
	last  time.Duration // when it was seen last
	open  bool          // nobody was blamed yet
	since time.Duration // while open: when it was seen first
}

// Jumped notes that the clock of node i moved against this process's own. Any goroutine may call it.
func (d *Driver) Jumped(i int) {
	now := d.cfg.Clock.Elapsed()
	d.mu.Lock()
	defer d.mu.Unlock()
	j := &d.jumps[d.Place(i)]
	if !j.open {
		j.since = now
	}
	j.last, j.open = now, true
}

// blame says whose clock has jumped, where a jump was seen. A master that has not jumped against our clock corroborates
// it, and the master that has is taken for moved. When all that answer have jumped, a quorum or more, it was our clock.
// Until somebody is blamed, and where no other master answers that could tell, the master's votes stay out.
func (d *Driver) blame(v *membership.View) (ours bool, pending []bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	pending = make([]bool, len(d.jumps))
	answered, still := 0, 0 // of the masters of Terms; those of them that have not jumped
	for k := range v.Masters {
		if at := &v.Masters[k]; at.Answered && at.Old {
			answered++
			if v.Now-d.jumps[k].last > sameJump {
				still++
			}
		}
	}
	after := blameAfter
	if d.compared >= d.cfg.Terms.Quorum() {
		after = blameAgainstNotes
	}
	for k := range d.jumps {
		j := &d.jumps[k]
		switch {
		case !j.open:
		case !v.Masters[k].Answered:
			pending[k] = true
		case v.Masters[k].Moved: // the clock notes say so as well
			j.open = false
		case still == 0 && answered >= max(d.cfg.Terms.Quorum(), 2):
			ours = true
		case still > 0 && v.Now-j.since >= after:
			v.Masters[k].Moved, j.open = true, false
		default:
			pending[k] = true
		}
	}
	if ours {
		for k := range d.jumps {
			d.jumps[k].open, pending[k] = false, false
		}
	}
	return ours, pending
}
