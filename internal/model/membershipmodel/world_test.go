// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
)

// tick is the unit of the abstract time. A maximum TTL is a number of ticks, W is one tick more.
const tick = 2 * time.Hour

// List is a list of masters that clients may have, by number.
type List struct {
	Name    string
	Masters []int // from 0 on, increasing
	TTL     int   // the maximum, in ticks
	Fixed   bool
	// Drift is how many ticks a clock may be off over a maximum TTL. 0 means half a tick.
	Drift int
}

// Proc is one process that runs membership.Next.
type Proc struct {
	Name        string
	Goal        membership.Goal
	List        int // index in World.Lists: what it serves, initialises, changes from or cancels
	Target      int // of a change
	Wall        int // its time of day, from which init takes a number
	NeverLocked bool
	Abandon     bool
	Fast        bool  // its clock runs twice as fast as the others'
	Stepwise    bool  // it reads the masters one by one; one process of a world may
	Cut         []int // masters that it never reaches
	Informed    bool  // it looks only while some master has a record: its operator has seen that the list was in use
	Brief       bool  // it lives for less than a tick: at each tick another one goes on, which remembers nothing
	Mortal      bool  // a kill ends it; else a kill makes it forget, as when another process goes on
}

// Attempt is one attempt to lock, by a client that has this list.
type Attempt struct {
	Name    string
	List    int
	Extends int   // rounds of extension that it may begin
	Floors  []int // tokens that it may propose, beside none
}

// Start is where a world begins.
type Start uint8

const (
	Running Start = iota // the masters of the first list vote, the others are empty
	Empty                // no master has a record
	Changed              // the change from the first list to the second is over
)

// World is one configuration to explore: who takes part, and what may go wrong how often.
type World struct {
	Name     string
	Lists    []List
	Procs    []Proc
	Attempts []Attempt
	Start    Start

	Losses   int  // a master loses its record (FLUSHALL, or a restart without data)
	Restarts int  // a master restarts with an old record: what it had, or the record state it began with; votes are gone
	Downs    int  // a master is out of reach for everybody, and may come back
	Gone     bool // a master that is out of reach stays so
	Kills    int  // a process is killed, and goes on without what it remembers
	OwnJumps int  // the clock of a process jumps
	Jumps    int  // the clock of a master jumps
	Blind    int  // a look misses one master that is in reach
	// Nonces orders ballots of one round: with 1 a later one has the larger nonce, with -1 the smaller. With 0 it has the larger one whose name comes later, which
	// may be the other one in the next state: that will do where no two changes make ballots of one round. A World whose masters may be exchanged has 0.
	Nonces    int
	Numbers   int  // no epoch gets a larger number than this; 0 means any
	Late      int  // at most so many actions are decided and not yet executed
	Posts     int  // so many actions are delayed at all; 0 means any number
	Tokens    bool // count tokens, with an acquire and a confirmation per master; else a grant is one step
	Stamps    bool // processes read the masters' clocks when they look at records, and stamp what waits
	Steps     bool // acquire and extend master by master
	All       bool // of Recovered: what can come back is that every master votes, and not only a quorum
	Recovered bool // only serve what can come back: see Check

	Off membership.Guard // guards taken out of the machine
	// What a driver or a script does wrong.
	Follow   bool // sends a refused compare-and-set again to the head that stands there instead
	Unwatch  bool // ignores clock notes
	Ratchet  bool // asks for TIME only when a proposal leaps the counter
	Remember bool // keeps its memory when its own clock jumps
	// CountMended counts the votes that a holder has on quarantined masters.
	CountMended bool

	// BadClock: the clock from which counters are taken stands at 0. Then tokens are in order while a quorum keeps its
	// counters, and not longer.
	BadClock bool

	MaxStates int // of Check; 0 means 3 million

	rules   *membership.Rules
	masters []membership.Master // names
	terms   []*membership.Terms
	groups  []uint16 // masters of one group are in the same lists, and in reach of the same processes
}

// tokenMinute is how far a proposal may be ahead of the clock, which stands at 0. leapFloor is what the clock says when
// counters are taken from it, after W and with that minute.
const tokenMinute, leapFloor = 4, 7

// init prepares what is derived.
func (w *World) init() error {
	n := 0
	for _, l := range w.Lists {
		for _, i := range l.Masters {
			n = max(n, i+1)
		}
	}
	if n == 0 || n > maxMasters || len(w.Procs) > maxProcs || len(w.Attempts) > maxAttempts || w.Late > maxMessages {
		return fmt.Errorf("membershipmodel: world %q is too large: %d masters, %d processes, %d attempts, %d late actions", w.Name, n, len(w.Procs), len(w.Attempts), w.Late)
	}
	w.rules = membership.Without(w.Off)
	w.masters = make([]membership.Master, n)
	w.groups = make([]uint16, n)
	for i := range w.masters {
		w.masters[i].Name = "m" + string("123456789A"[i])
	}
	w.terms = nil
	for k, l := range w.Lists {
		names := make([]string, len(l.Masters))
		for j, i := range l.Masters {
			names[j] = w.masters[i].Name
			w.groups[i] |= 1 << k
		}
		drift := tick / 2
		if l.Drift > 0 {
			drift = time.Duration(l.Drift) * tick
		}
		t, err := membership.NewTerms(names, time.Duration(l.TTL)*tick, 0, drift, l.Fixed)
		if err != nil {
			return err
		}
		t.ID = membership.ID(k + 1) // short, and told apart in a trace
		w.terms = append(w.terms, t)
	}
	for p := range w.Procs {
		for _, i := range w.Procs[p].Cut {
			w.groups[i] |= 1 << (8 + p)
		}
	}
	return nil
}

func (w *World) quorum(list int) int { return len(w.Lists[list].Masters)/2 + 1 }

// wait is W in ticks.
func (w *World) wait(list int) uint8 { return uint8(w.terms[list].Wait() / tick) }

func (w *World) ttl(list int) uint8 { return uint8(w.Lists[list].TTL) }

// epoch packs number and list of an epoch: index plus 1.
func (w *World) epoch(e membership.Epoch) uint8 {
	if e.Number == 0 {
		return 0
	}
	k := (int(e.Number)-1)*len(w.Lists) + int(e.ID)
	if e.Number < 0 || k > maxEpochs {
		panic(fmt.Sprintf("membershipmodel: epoch %v is out of range", e))
	}
	return uint8(k)
}

func (w *World) unpackEpoch(k uint8) membership.Epoch {
	if k == 0 {
		return membership.Epoch{}
	}
	n := int(k) - 1
	return membership.Epoch{Number: int64(n/len(w.Lists)) + 1, ID: membership.ID(n%len(w.Lists) + 1)}
}

// listOf is the list of an epoch.
func (w *World) listOf(k uint8) int { return (int(k) - 1) % len(w.Lists) }

func (w *World) listed(list, i int) bool { return w.groups[i]&(1<<list) != 0 }

// start is the first state.
func (w *World) start() state {
	var s state
	first := w.epoch(membership.Epoch{Number: 1, ID: 1})
	s.left = budget{uint8(w.Losses), uint8(w.Restarts), uint8(w.Downs), uint8(w.Kills), uint8(w.OwnJumps), uint8(w.Jumps), uint8(w.Blind), uint8(w.Posts)}
	for p := range w.Procs {
		s.procs[p].whole = w.never(p)
	}
	if w.Start == Empty {
		return s
	}
	for i := range w.masters {
		if w.listed(0, i) {
			s.masters[i].state = recordState{phase: membership.Voting, epoch: first}
			if w.Jumps > 0 {
				s.masters[i].note.frame = 1
			}
		}
	}
	for p, proc := range w.Procs {
		if proc.Goal == membership.Serve && proc.List == 0 {
			s.procs[p].number, s.procs[p].whole = 1, 0
		}
	}
	if w.Start == Changed {
		second := w.epoch(membership.Epoch{Number: 2, ID: 2})
		s.plans[0] = plan{round: 1, from: first, target: second}
		for i := range w.masters {
			at := &s.masters[i]
			switch {
			case w.listed(1, i):
				at.record = record{state: recordState{phase: membership.Voting, epoch: second}, plan: 1}
				if !w.listed(0, i) {
					s.plans[0].begin[i] = gone
				}
			case w.listed(0, i):
				at.record = record{state: recordState{phase: membership.Retired, epoch: first, nonce: uint8(i + 1), plan: 1}, plan: 1, intent: 1}
			}
		}
		for p := range w.Procs { // that was more than a maximum TTL ago
			s.procs[p].whole = w.never(p)
		}
	}
	w.tidy(&s)
	return s
}

// never is the age of what a process saw too long ago to matter.
func (w *World) never(p int) uint8 {
	list := w.Procs[p].List
	return w.wait(list) + w.ttl(list)
}

func count(mask uint16) int { return bits.OnesCount16(mask) }
