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
	// blamed is the record state that the master had when it was blamed, until it has another one. A look takes one step, which may be for
	// another master, or lost.
	blamed membership.RecordState
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
// Until somebody is blamed, and where no other master answers that could tell, the master's votes stay out. A command has no votes,
// and to forget costs it a wait: it takes the jump for its own then.
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
		j, at := &d.jumps[k], &v.Masters[k]
		switch live := at.Record.State.Phase == membership.Voting || at.Record.State.Phase == membership.Quarantined; {
		case !at.Answered:
		case live && at.Record.State == j.blamed:
			at.Moved = true
		default:
			j.blamed = membership.RecordState{}
		}
		switch {
		case !j.open:
		case !at.Answered:
			pending[k] = true
		case at.Moved, still > 0 && v.Now-j.since >= after: // Moved: the clock notes say so as well
			at.Moved, j.open, j.blamed = true, false, at.Record.State
		case still == 0 && (answered >= max(d.cfg.Terms.Quorum(), 2) || d.cfg.Goal != membership.Serve):
			ours = true
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
