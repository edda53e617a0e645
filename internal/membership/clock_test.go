// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/replay"
)

// clocks are masters whose clocks are wide apart and run a little fast or slow, as a client sees them.
type clocks struct {
	random *rand.Rand
	offset []time.Duration
	rate   []float64 // 500 ppm at most
	notes  []Note
	now    time.Duration // true time, since 1970
}

func newClocks(random *rand.Rand, n int) *clocks {
	c := &clocks{random: random, now: 1000 * time.Hour, notes: make([]Note, n)}
	for range n {
		c.offset = append(c.offset, time.Duration(random.Int64N(int64(time.Minute))))
		c.rate = append(c.rate, (random.Float64()*2-1)*0.0005)
	}
	return c
}

func (c *clocks) pass(d time.Duration) {
	c.now += d
	for i := range c.offset {
		c.offset[i] += time.Duration(float64(d) * c.rate[i])
	}
}

// read is what a client with its own idea of time reads, with round trips of up to 1 ms. Masters in cut do not answer.
func (c *clocks) read(own time.Duration, cut ...int) []Reading {
	out := make([]Reading, len(c.offset))
	for i := range out {
		if slices.Contains(cut, i) {
			continue
		}
		trip := time.Duration(c.random.Int64N(int64(time.Millisecond)))
		at := time.Duration(c.random.Int64N(int64(trip) + 1))
		out[i] = Reading{Sent: c.now + own, Received: c.now + own + trip, Time: c.now + at + c.offset[i], Live: true, Note: c.notes[i]}
	}
	return out
}

func (c *clocks) write(j Judgement, only ...int) {
	for i := range j.Notes {
		if j.Due[i] && (only == nil || slices.Contains(only, i)) {
			c.notes[i] = j.Notes[i]
		}
	}
}

// TestJudge_honestClocks_nobodyAccused: clocks as far apart as they like, read by many clients that write some notes
// and not others.
func TestJudge_honestClocks_nobodyAccused(t *testing.T) {
	for seed := range replay.Many(t, 300) {
		c := newClocks(rand.New(rand.NewPCG(seed, 1)), 3+2*int(seed%2))
		for round := range 50 {
			own := time.Duration(c.random.Int64N(int64(time.Hour)))
			var cut []int
			if c.random.IntN(3) == 0 {
				cut = append(cut, c.random.IntN(len(c.offset)))
			}
			j := judge(c.read(own, cut...), len(c.offset)/2+1, Nonce(round+1), false)
			if slices.Contains(j.Moved, true) || j.Doubt != 0 {
				t.Fatalf("seed %d round %d: %+v", seed, round, j)
			}
			leftOut := c.random.IntN(4 * len(c.offset))
			for i := range c.offset {
				if i != leftOut {
					c.write(j, i)
				}
			}
			c.pass(time.Duration(c.random.Int64N(int64(20 * time.Second))))
		}
		frame := c.notes[0].Frame
		for i, n := range c.notes {
			if n.Frame != frame || frame == 0 {
				t.Errorf("seed %d: master %d has frame %v, the first has %v", seed, i, n.Frame, frame)
			}
		}
	}
}

// TestJudge_jump_told: a newcomer finds the master whose clock jumped, and nobody else. It finds it again when the note
// was not replaced, and no more when it was.
func TestJudge_jump_told(t *testing.T) {
	for seed := range replay.Many(t, 300) {
		c := newClocks(rand.New(rand.NewPCG(seed, 2)), 3+2*int(seed%2))
		q := len(c.offset)/2 + 1
		c.write(judge(c.read(0), q, 1, false))
		c.pass(time.Duration(c.random.Int64N(int64(11 * time.Second))))
		// 10 s at 0.001, and what round trips of 1 ms leave open.
		jump := 11*time.Millisecond + 8*time.Millisecond + time.Duration(c.random.Int64N(int64(time.Hour)))
		if seed%3 == 0 {
			jump = -jump
		}
		who := c.random.IntN(len(c.offset))
		c.offset[who] += jump
		for range 2 {
			j := judge(c.read(time.Hour), q, 2, false)
			for i := range j.Moved {
				if j.Moved[i] != (i == who) || j.Doubted[i] || j.Counts(i) != (i != who) || j.Due[who] {
					t.Fatalf("seed %d: master %d jumped by %v: %+v", seed, who, jump, j)
				}
			}
		}
		j := judge(c.read(0), q, 2, false)
		c.notes[who] = j.Notes[who] // it is quarantined
		if j = judge(c.read(0), q, 3, false); slices.Contains(j.Moved, true) {
			t.Fatalf("seed %d: accused for the same jump again: %+v", seed, j)
		}
	}
}

func TestJudge_belowTheTolerance_notTold(t *testing.T) {
	c := newClocks(rand.New(rand.NewPCG(1, 3)), 3)
	c.write(judge(c.read(0), 2, 1, false))
	c.offset[1] += time.Millisecond
	if j := judge(c.read(0), 2, 2, false); slices.Contains(j.Moved, true) {
		t.Errorf("a step of 1 ms: %+v", j)
	}
}

// TestJudge_twoDiffer_neitherCounts until a third answers, or the doubt is overdue.
func TestJudge_twoDiffer_neitherCounts(t *testing.T) {
	c := newClocks(rand.New(rand.NewPCG(1, 4)), 3)
	c.write(judge(c.read(0), 2, 1, false))
	c.offset[1] += time.Minute
	j := judge(c.read(0, 2), 2, 2, false)
	if j.Doubt == 0 || j.Counts(0) || j.Counts(1) || slices.Contains(j.Moved, true) || slices.Contains(j.Due, true) {
		t.Fatalf("two differ: %+v", j)
	}
	if again := judge(c.read(time.Minute, 2), 2, 3, false); again.Doubt != j.Doubt {
		t.Errorf("the same doubt has two fingerprints: %v, %v", again.Doubt, j.Doubt)
	}
	third := judge(c.read(0), 2, 4, false)
	if third.Doubt != 0 || !third.Moved[1] || third.Moved[0] || third.Moved[2] || !third.Counts(0) {
		t.Errorf("a third answers: %+v", third)
	}
	over := judge(c.read(0, 2), 2, 5, true)
	if over.Doubt != 0 || !over.Counts(0) || !over.Counts(1) || !over.Due[0] || !over.Due[1] || over.Notes[0].Frame != 5 {
		t.Errorf("overdue: %+v", over)
	}
	c.write(over, 0) // one of two notes is written; the next client goes on
	next := judge(c.read(0, 2), 2, 6, false)
	c.write(next)
	if c.notes[0].Frame != c.notes[1].Frame {
		t.Errorf("the notes have frames %v and %v", c.notes[0].Frame, c.notes[1].Frame)
	}

	var m Memory
	tt := terms(t, "a", "b", "c")
	m.Doubt, m.Since = j.Doubt, time.Second
	if m.Overdue(tt, j.Doubt, time.Second+tt.Wait()-1) || !m.Overdue(tt, j.Doubt, time.Second+tt.Wait()) || m.Overdue(tt, j.Doubt+2, time.Hour) || m.Overdue(tt, 0, time.Hour) {
		t.Error("Overdue")
	}
}

func TestJudge_fewerThanAQuorum_accuseNobody(t *testing.T) {
	c := newClocks(rand.New(rand.NewPCG(1, 5)), 5)
	if j := judge(c.read(0, 0, 1, 2), 3, 1, false); slices.Contains(j.Due, true) {
		t.Errorf("two of five begin a frame: %+v", j)
	}
	c.write(judge(c.read(0), 3, 1, false))
	c.offset[4] += time.Minute
	if j := judge(c.read(0, 0, 1, 2), 3, 2, false); slices.Contains(j.Moved, true) || j.Doubt != 0 {
		t.Errorf("two of five accuse: %+v", j)
	}
	c.notes[0], c.notes[1], c.notes[2] = Note{}, Note{}, Note{}
	if j := judge(c.read(0), 3, 3, false); slices.Contains(j.Moved, true) || !j.Due[0] || j.Notes[0].Frame != 1 {
		t.Errorf("two notes of five: %+v", j)
	}
}

// TestJudge_tolerance_staysBelowTheDrift: while a client holds a lease of two seconds or more and reaches the masters,
// their notes are at most 1.2 s old. A step that Judge cannot see then is within the drift that the lease allows for.
func TestJudge_tolerance_staysBelowTheDrift(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute} {
		unseen, terms := time.Duration(0), &Terms{Masters: make([]string, 3), MaxTTL: 30 * time.Second, Factor: 0.01}
		for jump := time.Duration(0); jump < 2*time.Second; jump += 100 * time.Microsecond {
			r := make([]Reading, 3)
			for i := range r { // round trips of 1 ms, then and now
				r[i] = Reading{Sent: 0, Received: time.Millisecond, Time: 100*time.Hour + NoteAge + NoteAge/5, Live: true,
					Note: Note{Frame: 1, At: 100 * time.Hour, Offset: 0, Error: time.Millisecond}}
			}
			r[0].Time += jump
			if j := Judge(terms, r, 2, false); !j.Moved[0] {
				unseen = jump
			}
		}
		drift := time.Duration(0.01*float64(ttl)) + 2*time.Millisecond
		t.Logf("TTL %v: a step of %v is not seen, the drift is %v", ttl, unseen, drift)
		if unseen > drift {
			t.Errorf("TTL %v: a step of %v is not seen, the drift is %v", ttl, unseen, drift)
		}
	}
}

// judge is Judge for clocks that are promised not to run apart at all.
func judge(r []Reading, quorum int, fresh Nonce, overdue bool) Judgement {
	return Judge(&Terms{Masters: make([]string, 2*quorum-1), MaxTTL: 30 * time.Second}, r, fresh, overdue)
}

// Clocks that run apart no further than the drift are not accused while the notes are kept up, and a step of a second is
// seen however old the notes are.
func TestJudge_drift_allowedForAMaximumTTL(t *testing.T) {
	terms := &Terms{Masters: make([]string, 3), MaxTTL: 30 * time.Second, Factor: 0.01}
	for _, age := range []time.Duration{time.Second, 30 * time.Second, 10 * time.Minute} {
		for _, by := range []struct {
			step  time.Duration
			moved bool
		}{{time.Duration(0.008 * float64(min(age, 30*time.Second))), false}, {2 * time.Second, true}, {-2 * time.Second, true}} {
			at := func(i int, now time.Duration, note Note) Reading {
				return Reading{Sent: now, Received: now + time.Millisecond, Time: time.Hour + now + time.Duration(i)*time.Minute, Live: true, Note: note}
			}
			var readings []Reading
			for i := range 3 {
				readings = append(readings, at(i, 0, Note{}))
			}
			notes := Judge(terms, readings, 7, false).Notes
			for i := range readings {
				readings[i] = at(i, age, notes[i])
			}
			readings[1].Time += by.step
			if j := Judge(terms, readings, 8, false); j.Moved[1] != by.moved || j.Moved[0] || j.Moved[2] {
				t.Errorf("after %v a step of %v: %v, want %v", age, by.step, j.Moved, by.moved)
			}
		}
	}
}
