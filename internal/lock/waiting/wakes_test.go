// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"testing"

	"github.com/redlock-go/redlock/internal/replay"
)

const (
	masters = 5
	all     = 1<<masters - 1
)

// happened is one event that the contender was told of.
type happened struct {
	kind byte
	set  uint64
}

// The kinds of events.
const (
	wake    = iota // of the masters in set
	heard          // on the channel of the masters in set
	asked          // the masters in set
	asking         // a turn began, the timer ended or this process released
	granted        // the masters in set, in vain; replaces those of the round before
	foreign        // Redisson holds the lock on the masters in set; likewise
	behind         // others are ahead
	ahead          // no others are
)

// due says by the words of the definition which masters are to be asked. It reads the whole
// history each time.
func due(history []happened) uint64 {
	var set, free, foreignOn uint64
	for _, e := range history {
		switch e.kind {
		case granted:
			free = e.set
		case foreign:
			foreignOn = e.set
		}
	}
	for i := range masters {
		bit := uint64(1) << i
		for _, e := range history {
			switch {
			case e.kind == asked && e.set&bit != 0:
				set &^= bit
			case e.set&bit == 0:
			case e.kind == wake, e.kind == heard && foreignOn&bit != 0:
				set |= bit
			}
		}
	}
	if set != 0 {
		set |= free
	}
	everybody := false
	for _, e := range history {
		switch e.kind {
		case asking:
			everybody = true
		case behind:
			everybody = false
		case asked:
			if e.set == all {
				everybody = false
			}
		}
	}
	if everybody {
		return all
	}
	return set
}

// Each byte is an event, and the one after it says of which masters. The contender asks the
// masters that the model names, and loses no wake.
func FuzzWakes(f *testing.F) {
	f.Add([]byte{2, 0, 3, 0, 0, 0b101, 3, 0, 3, 0})
	f.Add([]byte{5, 0b11, 0, 0b100, 3, 0, 1, 0b10, 6, 0b10, 3, 0})
	f.Add([]byte{7, 0, 4, 0, 3, 0, 5, 0, 4, 0, 3, 0})
	f.Fuzz(walk)
}

// The same steps, drawn at random.
func TestWakes_randomWalks_asksWhomTheModelNames(t *testing.T) {
	for seed := range replay.Many(t, 5000) {
		walk(t, replay.Bytes(seed, 60))
	}
}

// contenderModel is a contender's wakes, with their history.
type contenderModel struct {
	t       *testing.T
	w       Wakes
	history []happened
	behind  bool
}

func (c *contenderModel) log(kind byte, set uint64) {
	c.history = append(c.history, happened{kind, set})
}

// walk tells a contender of steps.
func walk(t *testing.T, steps []byte) {
	c := &contenderModel{t: t}
	for len(steps) >= 2 && len(c.history) < 200 {
		step, set := steps[0], uint64(steps[1])&all
		steps = steps[2:]
		switch step % 8 {
		case 0:
			c.w.Wake(set)
			c.log(wake, set)
		case 1:
			for i := range masters {
				if set&(1<<i) != 0 {
					c.w.Heard(i)
				}
			}
			c.log(heard, set)
		case 2:
			if set&1 == 0 {
				c.w.Turn()
			} else {
				c.w.Timer()
			}
			c.log(asking, 0)
		case 3:
			c.ask()
		case 4:
			if c.w.HandOver() == c.behind {
				t.Fatalf("behind %v, and handed over", c.behind)
			} else if !c.behind {
				c.log(asking, 0)
			}
		case 5, 6, 7:
			on := uint64(0)
			if step%8 == 6 {
				on = uint64(step) >> 3 & all
			}
			c.refused(set, on, step%8 == 7)
		}
	}
}

// ask begins a round: it asks the masters that the model names.
func (c *contenderModel) ask() {
	want := due(c.history)
	if c.w.Ready() != (want != 0) {
		c.t.Fatalf("ready: %v, want %b due, after %v", c.w.Ready(), want, c.history)
	}
	if got := c.w.Due(all, 0); got != want {
		c.t.Fatalf("due: %b, want %b, after %v", got, want, c.history)
	}
	c.log(asked, want)
}

// refused is the end of a round that gave no lease.
func (c *contenderModel) refused(free, on uint64, isBehind bool) {
	c.behind = isBehind
	c.w.Refused(free, on, isBehind)
	c.log(granted, free)
	c.log(foreign, on)
	if isBehind {
		c.log(behind, 0)
	}
	if c.w.Foreign() != (on != 0) {
		c.t.Fatalf("foreign on %b: %v", on, c.w.Foreign())
	}
}

// A round that goes on asks each master once, and keeps the wakes of those it has asked.
func TestWakes_dueWhileARoundGoesOn_eachMasterOnce(t *testing.T) {
	var w Wakes
	w.Wake(0b00011)
	if got := w.Due(all, 0); got != 0b00011 {
		t.Fatalf("first %b", got)
	}
	w.Wake(0b00110) // master 1 woke again after it was asked
	if got := w.Due(all, 0b00011); got != 0b00100 {
		t.Fatalf("then %b", got)
	}
	if got := w.Due(all, 0); got != 0b00010 {
		t.Fatalf("in the next round %b", got)
	}
}
