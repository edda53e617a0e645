// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
)

// A clock that jumps does so by jump, which is far more than a note of any age in the model allows. epochOfClocks is
// what all clocks show at the time now before they jump.
const (
	jump          = 1000 * tick
	epochOfClocks = 100_000 * tick
	noteAges      = 4
)

// frameClock is by how many jumps the clock of the notes' frame is ahead: the median of what the notes say.
func (w *World) frameClock(s *state) int8 {
	var ahead []int8
	for i := range w.masters {
		if at := &s.masters[i]; at.note.frame != 0 && live(at) {
			ahead = append(ahead, int8(at.jumped)-int8(at.note.offset))
		}
	}
	if len(ahead) == 0 {
		return 0
	}
	slices.Sort(ahead)
	return ahead[len(ahead)/2]
}

// judge compares the clocks of the masters in answered for process p, which looks at its own lists only.
func (d *driver) judge(s *state, answered uint16, p int) membership.Judgement {
	me, list := &s.procs[p], d.w.Procs[p].List
	answered &= d.lists(p)
	j := d.w.compare(s, answered, list, false)
	if doubted := mask(j.Doubted); doubted != 0 && doubted == me.doubted && me.doubt > d.w.wait(list) {
		return d.w.compare(s, answered, list, true)
	}
	return j
}

func mask(of []bool) (m uint16) {
	for i, is := range of {
		if is {
			m |= 1 << i
		}
	}
	return m
}

// clock is what the clock of master i shows now.
func (w *World) clock(s *state, i int) time.Duration {
	return epochOfClocks + time.Duration(s.masters[i].jumped)*jump
}

// stampAge is from when on the age of a stamp does not matter any more.
func (w *World) stampAge() (most uint8) {
	for list := range w.Lists {
		most = max(most, w.wait(list))
	}
	return most
}

// tickStamps lets the stamps of a state grow older, those in delayed actions too.
func (w *World) tickStamps(s *state) {
	grow := func(r *record) {
		if r.stamped != 0 {
			r.stampAge = min(r.stampAge+1, w.stampAge())
		}
	}
	for i := range w.masters {
		grow(&s.masters[i].record)
	}
	for k := range s.messages {
		grow(&s.messages[k].to)
	}
}

// jumpStamps notes that the clock of master i is ahead of what the stamps of a state say.
func (s *state) jumpStamps(i int) {
	for k := range s.masters {
		s.masters[k].leapt |= s.masters[k].stamped & (1 << i)
	}
	for k := range s.messages {
		s.messages[k].to.leapt |= s.messages[k].to.stamped & (1 << i)
	}
}

// compare compares the clocks of the masters in answered, of which a quorum of this list is needed.
func (w *World) compare(s *state, answered uint16, list int, overdue bool) membership.Judgement {
	readings := make([]membership.Reading, len(w.masters))
	ahead := time.Duration(w.frameClock(s))
	for i := range w.masters {
		at := &s.masters[i]
		if answered&(1<<i) == 0 {
			continue
		}
		r := &readings[i]
		r.Sent, r.Received = now, now
		r.Live = live(at)
		r.Time = epochOfClocks + time.Duration(at.jumped)*jump
		if n := at.note; n.frame != 0 {
			r.Note = membership.Note{Frame: membership.Nonce(n.frame), Offset: time.Duration(int8(n.offset)) * jump,
				At: epochOfClocks + ahead*jump - time.Duration(n.age)*tick, Error: time.Microsecond}
		}
	}
	return membership.Judge(&membership.Terms{Masters: make([]string, 2*w.quorum(list)-1)}, readings, membership.Nonce(s.freshFrame()), overdue)
}

func (s *state) freshFrame() uint8 {
	most := uint8(0)
	for i := range s.masters {
		most = max(most, s.masters[i].note.frame)
	}
	return most + 1
}

func (w *World) packNote(s *state, n membership.Note) note {
	if n.Frame == 0 {
		return note{}
	}
	return note{frame: uint8(n.Frame), offset: uint8(int8(n.Offset.Round(jump) / jump))}
}

// setNote writes a clock note. A doubt that rests on the one before is another doubt from then on.
func (s *state) setNote(i int, n note) {
	s.masters[i].note = n
	for p := range s.procs {
		if s.procs[p].doubted&(1<<i) != 0 {
			s.procs[p].doubt, s.procs[p].doubted = 0, 0
		}
	}
}

// members are the masters of a list.
func (w *World) members(list int) (all uint16) {
	for i := range w.masters {
		if w.listed(list, i) {
			all |= 1 << i
		}
	}
	return all
}

func (w *World) reachable(s *state) uint16 {
	all := uint16(0)
	for i := range w.masters {
		if !s.masters[i].down {
			all |= 1 << i
		}
	}
	return all
}

func live(at *master) bool {
	return !at.state.stale && (at.state.phase == membership.Voting || at.state.phase == membership.Quarantined)
}

// suspect: a client of this list that looks at the clocks does not count the vote of master i.
func (d *driver) suspect(s *state, i, list int) bool {
	if d.w.Jumps == 0 || d.w.Unwatch {
		return false
	}
	j := d.w.compare(s, d.w.reachable(s)&d.w.members(list), list, false)
	return !j.Counts(i)
}

// told: it is promised that a jump of master i is told now, to clients of the list in whose epoch it votes. No clock
// stands against its note, for clocks that jump
// together cannot be told. And a quorum of clocks can be compared, this one among them.
func (d *driver) told(s *state, i int) bool {
	if !live(&s.masters[i]) {
		return false
	}
	list := d.w.listOf(s.masters[i].state.epoch)
	j := d.w.compare(s, d.w.members(list), list, false)
	noted := 0
	for k := range d.w.masters {
		if !d.w.listed(list, k) {
			continue
		}
		if !j.Counts(k) {
			return false
		}
		if d.compared(s, &j, k) {
			noted++
		}
	}
	return noted >= d.w.quorum(list) && d.compared(s, &j, i)
}

// compared: the clock of master i is in reach, and its note has the frame of the others.
func (d *driver) compared(s *state, j *membership.Judgement, i int) bool {
	at := &s.masters[i]
	return !at.down && live(at) && at.note.frame != 0 && membership.Nonce(at.note.frame) == j.Notes[i].Frame
}

// tidyFrames numbers the frames of clock notes, in their order.
func (w *World) tidyFrames(s *state) {
	var used [256]bool
	for i := range w.masters {
		used[s.masters[i].note.frame] = true
	}
	for k := range s.messages {
		used[s.messages[k].to.note.frame] = true
	}
	var to [256]uint8
	next := uint8(0)
	for f := 1; f < len(used); f++ {
		if used[f] {
			next++
			to[f] = next
		}
	}
	for i := range w.masters {
		f := &s.masters[i].note.frame
		*f = to[*f]
	}
	for k := range s.messages {
		f := &s.messages[k].to.note.frame
		*f = to[*f]
	}
}

// writeNotes appends the writing of each note that is due. It is a compare-and-set on the note, of a master that votes.
func (d *driver) writeNotes(dst []transition, s *state, p int) []transition {
	j := d.judge(s, d.w.reachable(s), p)
	for i := range d.w.masters {
		if j.Due[i] {
			dst = d.add(dst, s, Step{Kind: WriteNote, Proc: p, Master: i}, func(to *state) { to.setNote(i, d.w.packNote(s, j.Notes[i])) })
		}
	}
	return dst
}
