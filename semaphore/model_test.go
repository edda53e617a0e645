// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// This file explores every course of clients that want permits of masters, for two rules by which a
// master votes. By counting, a master votes for a client as long as it has fewer than k votes. With
// slots, a client wants a slot that it chooses, and a master has one vote for each slot. A client
// has a permit when a quorum of masters has voted for it.

type rules struct {
	masters, k, clients int
	counting            bool
}

func (r rules) quorum() int { return r.masters/2 + 1 }

// modelClient is one client in a state. Its phases come in this order, and again.
type modelClient struct {
	phase        uint8
	slot         uint8
	asked, voted uint8 // masters
}

const (
	idle uint8 = iota
	asking
	leaving // it has given up, or its permit back: its votes end one after the other
)

// state is that of all clients, as an array so that it can be a key.
type state [3]modelClient

// Holders counts the clients that have a permit.
func (r rules) Holders(s *state) (n int) {
	for i := range r.clients {
		if s[i].phase == asking && bits.OnesCount8(s[i].voted) >= r.quorum() {
			n++
		}
	}
	return n
}

// grants says whether master m votes for client c.
func (r rules) grants(s *state, c, m int) bool {
	votes := 0
	for i := range r.clients {
		if s[i].voted>>m&1 == 1 && (r.counting || s[i].slot == s[c].slot) {
			votes++
		}
	}
	return r.counting && votes < r.k || votes == 0
}

// event is what happened to a client, at a master or not.
type event struct {
	text           string
	client, master int
}

func (e event) String() string {
	words := []any{'A' + e.client, e.master}
	if !strings.Contains(e.text, "[2]") {
		words = words[:1]
	}
	return fmt.Sprintf(e.text, words...)
}

// Next lists each state that can follow one, and what happened.
func (r rules) Next(dst []explore.Move[state, event], at *state) []explore.Move[state, event] {
	s := *at
	fn := func(next state, what event) { dst = append(dst, explore.Move[state, event]{Step: what, To: next}) }
	for c := range r.clients {
		switch s[c].phase {
		case idle:
			slots := r.k
			if r.counting {
				slots = 1
			}
			for slot := range slots {
				next := s
				next[c] = modelClient{phase: asking, slot: uint8(slot)}
				fn(next, event{"%c begins", c, 0})
			}
			continue
		case asking: // it may give up at any time: not every master need be asked
			next := s
			next[c].phase = leaving
			fn(next, event{"%c gives back", c, 0})
		case leaving:
			if s[c].voted == 0 {
				next := s
				next[c] = modelClient{}
				fn(next, event{"%c has left", c, 0})
			}
		}
		for m := range r.masters {
			next, bit := s, uint8(1)<<m
			switch {
			case s[c].phase == asking && s[c].asked&bit == 0:
				next[c].asked |= bit
				if r.grants(&s, c, m) {
					next[c].voted |= bit
					fn(next, event{"m%[2]d votes for %[1]c", c, m})
				} else {
					fn(next, event{"m%[2]d refuses %[1]c", c, m})
				}
			case s[c].phase == leaving && s[c].voted&bit != 0:
				next[c].voted &^= bit
				fn(next, event{"m%[2]d drops the vote for %[1]c", c, m})
			}
		}
	}
	return dst
}

// Key is the same for states that differ only in which client is which.
func (rules) Key(s *state) (k key) {
	for i, c := range s {
		word := uint32(c.phase)<<24 | uint32(c.slot)<<16 | uint32(c.asked)<<8 | uint32(c.voted)
		for ; i > 0 && k[i-1] > word; i-- {
			k[i] = k[i-1]
		}
		k[i] = word
	}
	return k
}

// key is the clients of a state, in order.
type key [len(state{})]uint32

func (rules) Starts() []state { return []state{{}} }

func (r rules) Judge(_ *state, m *explore.Move[state, event]) string {
	if r.Holders(&m.To) > r.k {
		return "more than k holders"
	}
	return ""
}

// course is what happened, in order.
type course []event

func (c course) String() string {
	words := make([]string, len(c))
	for i, e := range c {
		words[i] = e.String()
	}
	return strings.Join(words, ", ")
}

func (rules) Path(_ *state, moves []explore.Move[state, event]) (c course) {
	for _, m := range moves {
		c = append(c, m.Step)
	}
	return c
}

// explore visits every state, but for states that are alike. It returns how many there are, and the
// shortest course to one with more than k holders, if there is one.
func (r rules) explore() (states int, shortest course) {
	result, err := explore.Check(r, 0)
	var violation *explore.ViolationError[course]
	if errors.As(err, &violation) {
		shortest = violation.Path
	}
	return result.States, shortest
}

// If masters count, more than k get a majority as soon as the votes suffice for k+1 majorities. The
// smallest case is three masters and two permits.
func TestModel_counting_letsMoreIn(t *testing.T) {
	for _, r := range []rules{{1, 1, 2, true}, {1, 2, 3, true}, {3, 1, 2, true}, {3, 2, 3, true}, {5, 2, 3, true}} {
		states, course := r.explore()
		t.Logf("%d masters that count to %d: %d states; %s", r.masters, r.k, states, course)
		if enough := r.masters*r.k >= (r.k+1)*r.quorum(); (course != nil) != enough {
			t.Errorf("%d masters that count to %d: enough votes for %d majorities is %v, a course to that: %q", r.masters, r.k, r.k+1, enough, course)
		}
	}
	const smallest = "A begins, m0 votes for A, m1 votes for A, B begins, m0 votes for B, m2 votes for B, C begins, m1 votes for C, m2 votes for C"
	if _, course := (rules{3, 2, 3, true}).explore(); course.String() != smallest {
		t.Errorf("the course in docs/semaphore.md is not the one found:\n%s", course)
	}
}

// With numbered slots, no course lets more than k in, whatever slots the clients choose.
func TestModel_slots_neverMoreThanK(t *testing.T) {
	for _, r := range []rules{{1, 2, 3, false}, {3, 1, 2, false}, {3, 2, 3, false}} {
		states, course := r.explore()
		t.Logf("%d masters, %d slots, %d clients: %d states", r.masters, r.k, r.clients, states)
		if course != nil {
			t.Errorf("%d masters, %d slots: %s", r.masters, r.k, course)
		}
	}
}

// The locks of a semaphore are those that the model has: k of them, no two the same.
func TestNew_slots_areDistinctLocks(t *testing.T) {
	s := New(open(t), "db", 12)
	names := map[string]bool{s.turn.Name(): true}
	for _, m := range s.slots {
		names[m.Name()] = true
	}
	if len(names) != 13 {
		t.Errorf("names %v", names)
	}
}
