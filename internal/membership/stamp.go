// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Stamp is what the masters' clocks showed when a process that vouches for a quarantined master had seen its record state.
// So a process that lives for a second finds what others saw: that somebody vouches, and how long ago that was. It is
// written after the record state and not with it, because a claim that arrives late would bring times from before the
// master lost its votes. Its text is nonce|times in microseconds, "-" for a clock that was not read. The zero Stamp,
// whose text is empty, is none.
type Stamp struct {
	Nonce Nonce           // of the record state: a stamp that is left from another one says nothing
	Times []time.Duration // by master, in the order of the sorted names; 0 for none
}

func (s Stamp) String() string {
	if s.Nonce == 0 {
		return ""
	}
	times := make([]string, len(s.Times))
	for i, at := range s.Times {
		if times[i] = "-"; at != 0 {
			times[i] = strconv.FormatInt(at.Microseconds(), 10)
		}
	}
	return s.Nonce.String() + "|" + strings.Join(times, ",")
}

// ParseStamp is the inverse of String, for times of whole microseconds.
func ParseStamp(s string) (Stamp, error) {
	if s == "" {
		return Stamp{}, nil
	}
	t := text{parts: strings.Split(s, "|")}
	stamp := Stamp{Nonce: t.nonce()}
	times := text{parts: strings.Split(t.next(), ",")}
	for _, word := range times.parts {
		at := time.Duration(0)
		if word == "-" {
			times.next()
		} else {
			at = time.Duration(times.number()) * time.Microsecond
		}
		stamp.Times = append(stamp.Times, at)
	}
	if t.wrong || times.wrong || stamp.String() != s {
		return Stamp{}, bad("its stamp", s)
	}
	return stamp, nil
}

// standing is how long the record state of master i has stood at least, as its stamp and the clocks of the masters say.
// With fewer than a quorum of clocks that were read both times it says nothing. Of those clocks it takes the one that a
// quorum agrees with or goes beyond. So a minority of clocks may have jumped.
func (r *Rules) standing(v *View, i int) (d time.Duration, ok bool) {
	times, old := v.Masters[i].Record.Stamp.Times, 0
	if v.Masters[i].state().Phase != Quarantined || len(times) != len(v.Terms.Masters) {
		return 0, false
	}
	var passed []time.Duration
	for j := range v.Masters {
		at := &v.Masters[j]
		if !at.Old {
			continue
		}
		if at.Answered && at.Time != 0 && times[old] != 0 {
			passed = append(passed, at.Time-times[old])
		}
		old++
	}
	if len(passed) < v.Terms.Quorum() {
		return 0, false
	}
	slices.Sort(passed)
	return max(passed[len(passed)-r.agree(v.Terms)], 0), true
}

// stamp writes down what the clocks show, so that a process that comes later can prove how long this record state stood,
// and that somebody vouches for it.
func (m *machine) stamp(i int, at *Master) *Action {
	if m.v.Goal != Serve || m.stamped(i) || !m.rules.mayStamp(m, i) {
		return nil
	}
	s := m.times(at.state().Nonce)
	if s == nil {
		return nil
	}
	return &Action{Kind: Swap, Master: i, From: at.Record.Head, To: at.Record.Head, Stamp: s}
}

// times are what the clocks of a quorum show at most when this look ends, or nil if fewer were read.
func (m *machine) times(n Nonce) *Stamp {
	s, read := &Stamp{Nonce: n}, 0
	for j := range m.v.Masters {
		at := &m.v.Masters[j]
		if !at.Old {
			continue
		}
		shown := time.Duration(0)
		if at.Answered && at.Time != 0 {
			shown = (at.Time + m.v.Now - at.Sent + time.Microsecond).Truncate(time.Microsecond)
			read++
		}
		s.Times = append(s.Times, shown)
	}
	if read < m.v.Terms.Quorum() {
		return nil
	}
	return s
}

// stamped: somebody who vouches for the record state of master i has stamped it.
func (m *machine) stamped(i int) bool {
	return m.v.Masters[i].state().Phase == Quarantined && m.v.Masters[i].Record.Stamp.Nonce != 0
}
