// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// NoteAge is the age at which a client replaces a clock note.
	NoteAge = time.Second
	// slewRate is how fast two clocks may run apart between two readings: two hosts slewed by 500 ppm each.
	slewRate = 0.001
	// resolution is allowed in each comparison: a millisecond of each master's expiry.
	resolution = 2 * time.Millisecond
)

// Note is what a record keeps of its master's clock. Its text is frame|at|offset|error, the times in microseconds. The
// zero Note, whose text is empty, is none.
//
// A frame is a time scale that the masters of a list share. Whoever first reads the clocks makes the frame from their
// median. Every later reader finds the frame again from the notes, and writes its notes in the same frame. So notes
// that were written at different times by different clients can be compared.
type Note struct {
	Frame  Nonce
	At     time.Duration // when it was read, in time of the frame since 1970
	Offset time.Duration // the master's clock less the frame's
	Error  time.Duration // of the offset, at most
}

func (n Note) String() string {
	if n == (Note{}) {
		return ""
	}
	return fmt.Sprintf("%s|%d|%d|%d", n.Frame, n.At.Microseconds(), n.Offset.Microseconds(), n.Error.Microseconds())
}

// ParseNote is the inverse of String, for times of whole microseconds.
func ParseNote(s string) (Note, error) {
	if s == "" {
		return Note{}, nil
	}
	t := text{parts: strings.Split(s, "|")}
	n := Note{Frame: t.nonce()}
	for _, d := range []*time.Duration{&n.At, &n.Offset, &n.Error} {
		*d = time.Duration(t.number()) * time.Microsecond
	}
	if t.wrong || n.String() != s {
		return Note{}, bad("its clock note", s)
	}
	return n, nil
}

// Reading is one answer to TIME. The zero Reading is that of a master that did not answer.
type Reading struct {
	Sent, Received time.Duration // on the client's elapsed clock
	Time           time.Duration // of the master, since 1970
	Live           bool          // the master votes or is quarantined; else its note is not believed
	Note           Note          // as its record has it
}

func (r *Reading) answered() bool { return r.Time != 0 }

func (r *Reading) noted(frame Nonce) bool {
	return r.answered() && r.Live && frame != 0 && r.Note.Frame == frame
}

// offset is the master's clock less the client's elapsed clock, and half of what is not known of it.
func (r *Reading) offset() (middle, half time.Duration) {
	half = (r.Received - r.Sent) / 2
	return r.Time - r.Sent - half, half
}

// Judgement is what one reading of all clocks says.
type Judgement struct {
	// Moved: the master's clock moved against the others'. Its vote does not count, and it is quarantined.
	Moved []bool
	// Doubted: as many clocks say one thing as say another, so that nobody can tell which of them moved. No vote of
	// these masters counts until another clock can be compared, or the doubt has stood for W.
	Doubted []bool
	// Doubt is a fingerprint of the doubted masters and their notes, 0 where there is no doubt. The same doubt has the
	// same one.
	Doubt uint64
	// Notes are what the records are to keep. A zero Note says that nothing is known of the clock.
	Notes []Note
	// Due: the note is missing or old. It is to be replaced, by compare-and-set on the text of the note.
	Due []bool
}

// Counts: the vote of master i counts.
func (j *Judgement) Counts(i int) bool { return !j.Moved[i] && !j.Doubted[i] }

// Judge compares the clocks of the masters with their notes. The client's own clock cancels out. fresh is used when a
// new frame begins. overdue says that this client has seen the same doubt for W: then every lease is over that began
// before, for no vote of a doubted master was counted since, and the notes begin anew.
//
// The change of master i is c(i) = its offset now - its offset noted. Its clock has moved when c(i) is further from the
// median of all c than the readings, the notes, the drift and slewRate allow. Judge takes the median of the changes, and not
// the change of the median, which would accuse good clocks if the clocks are far apart. With fewer than a quorum of
// clocks, Judge accuses none.
func Judge(t *Terms, readings []Reading, fresh Nonce, overdue bool) Judgement {
	n, quorum := len(readings), t.Quorum()
	j := Judgement{Moved: make([]bool, n), Doubted: make([]bool, n), Notes: make([]Note, n), Due: make([]bool, n)}
	frame := sharedFrame(readings)
	if overdue {
		frame = 0
	}
	var changes, offsets []time.Duration
	var maxHalf, maxError time.Duration
	for i := range readings {
		if r := &readings[i]; r.answered() {
			middle, half := r.offset()
			offsets, maxHalf = append(offsets, middle), max(maxHalf, half)
			if r.noted(frame) {
				changes, maxError = append(changes, middle-r.Note.Offset), max(maxError, r.Note.Error)
			}
		}
	}
	low, high := middles(changes)
	if frame == 0 {
		if len(offsets) < quorum {
			return j
		}
		frame = fresh
		low, _ = middles(offsets)
		high = low
	}
	base := low + (high-low)/2 // the frame's clock less the client's
	var oldest time.Duration
	for i := range readings {
		if r := &readings[i]; r.noted(frame) {
			oldest = max(oldest, r.Received+base-r.Note.At)
		}
	}
	slew := time.Duration(slewRate * float64(max(oldest, 0)))
	allow := maxError + maxHalf + slew + t.drift(oldest) + resolution
	doubt := len(changes) >= quorum && high-low > allow+maxError+maxHalf
	for i := range readings {
		r := &readings[i]
		if !r.answered() {
			continue
		}
		if doubt {
			if j.Doubted[i] = r.noted(frame); j.Doubted[i] {
				j.Doubt = (j.Doubt*1099511628211^uint64(i))*1099511628211 ^ uint64(r.Note.At) ^ uint64(r.Note.Offset) | 1
			}
			continue
		}
		middle, half := r.offset()
		moved := (middle - r.Note.Offset - base).Abs()
		j.Moved[i] = r.noted(frame) && len(changes) >= quorum && moved > allow+r.Note.Error+half
		at := (r.Received + base).Truncate(time.Microsecond)
		j.Notes[i] = Note{frame, at, (middle - base).Truncate(time.Microsecond), (half + maxHalf + slew/2 + time.Microsecond).Truncate(time.Microsecond)}
		j.Due[i] = r.Live && !j.Moved[i] && (!r.noted(frame) || at-r.Note.At > NoteAge)
	}
	return j
}

// drift is how far the clocks may run apart that clients promised each other: over the age of a note, but no longer than
// a maximum TTL, for no lease needs more. Without that end a step of 10 s would pass after 17 idle minutes.
func (t *Terms) drift(age time.Duration) time.Duration {
	return time.Duration(t.Factor * float64(min(max(age, 0), t.MaxTTL)))
}

// sharedFrame is the frame that most notes have.
func sharedFrame(readings []Reading) Nonce {
	var best Nonce
	most := 0
	for i := range readings {
		n := 0
		for k := range readings {
			if readings[k].noted(readings[i].Note.Frame) {
				n++
			}
		}
		if n > most || n == most && n > 0 && readings[i].Note.Frame < best {
			best, most = readings[i].Note.Frame, n
		}
	}
	return best
}

// middles are the two values in the middle, which are one when the number is odd.
func middles(values []time.Duration) (low, high time.Duration) {
	if len(values) == 0 {
		return 0, 0
	}
	slices.Sort(values)
	return values[(len(values)-1)/2], values[len(values)/2]
}
