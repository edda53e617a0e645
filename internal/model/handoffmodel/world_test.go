// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/model/explore"
)

// Bounds of a Clocks world. States are arrays of this size, so that they are comparable and cost no allocation.
const (
	maxMasters  = 5
	maxExplored = 3 // masters, of a world that is explored and not only walked
	maxClients  = 3
	maxIDs      = 6 // attempts, over all clients
	maxTicks    = 3
)

// Clocks is one world of the model with clocks. Time passes in ticks, the same for all; a step takes none. So a client
// is as slow as the explorer likes, and the clocks are exact: the drift is what a real client subtracts.
//
// It is looser than the protocol where that makes it larger: a free lock may go to any place at any moment, a client
// may give back, retry or claim whenever it likes, and any op may be executed late or never. What holds here rests
// neither on the order of the queue nor on who settles, nor on when a client decides what.
//
// In a world of one master every attempt counts that master's vote whenever it may. Any run of more masters, seen at
// one of them, is a run of that world. Two holders share a master that both count, so a world of one master in which
// two attempts never count the vote at once speaks for any number of masters.
type Clocks struct {
	Masters  int // 1 to 3; to 5 for Walk
	Clients  int // 1 to 3
	Attempts int // of each client, one after the other, each with a holder id of its own; 6 over all clients
	Drop     Rule

	TTL   int // ticks of a vote that a reply gives or a claim renews, 1 to 3
	Short int // ticks of a vote that a message hands
	Life  int // ticks of a sign of life
	Delay int // an op is executed up to so many ticks after it was sent

	Beats    bool // clients send signs of life, not only with the enqueue
	Claims   bool
	Strange  bool // a Redisson client takes the lock when it is free, and releases it without looking at a queue
	Readers  int  // so many of the clients, from the first on, take the lock together
	Handed   bool // an enqueue never votes at once, so that the stories are of places and messages
	Restarts int  // how often a master may lose its votes
	Keeps    bool // a restarted master has its queue still, an alternative that is not taken
	Jumps    int  // how often a master's clock may jump forward, so that its votes are gone too early
	// Epochs makes client A's masters the first one alone, and those of the others all three: the first leaves the old
	// epoch, waits, and begins the new one with the others.
	Epochs bool

	MaxStates int // of Check; 0 means 8 million
}

// at is what one master has of one attempt, and what the attempt knows of it.
type at struct {
	flags  flags
	vote   uint8 // ticks that the vote has left on the master; 0: there is none
	told   uint8 // an answer is on its way; read now, the vote would count for so many ticks
	counts uint8 // the attempt counts this vote for so many ticks more
}

type flags uint8

const (
	arrived flags = 1 << iota // the enqueue was executed
	placed                    // there is a place
	given                     // a vote was given to this id
	left                      // a give-back was executed
	again                     // H6: a leave and an enqueue of the same id are on their way
	dirty                     // the vote was given after the clock jumped, or its client has not seen the answer
	message                   // told is of a message, not of a reply
)

func (f flags) has(bits flags) bool { return f&bits == bits }

// phase is what a master does.
type phase uint8

const (
	voting phase = iota
	waiting
	blank // it has no epoch yet
)

// clockMaster is what a master has beside the attempts' votes and places.
type clockMaster struct {
	phase    phase
	wait     uint8             // waiting: ticks left
	life     [maxClients]uint8 // ticks that the sign of life has left
	age      [maxClients]uint8 // of its stamp, in ticks
	stranger bool              // a Redisson client holds the lock
	jumped   bool              // the clock jumped, and no client has noticed
	epoch    uint8
}

// stage is how far an attempt has come.
type stage uint8

const (
	idle stage = iota
	active
	over // the give-back is sent or owed
)

// clockState is one state of a Clocks world.
type clockState struct {
	stages   [maxIDs]stage
	at       [maxIDs][maxMasters]at
	masters  [maxMasters]clockMaster
	restarts uint8
	jumps    uint8
}

func (w *Clocks) ids() int             { return w.Clients * w.Attempts }
func (w *Clocks) client(id int) int    { return id / w.Attempts }
func (w *Clocks) reads(id int) bool    { return w.client(id) < w.Readers }
func (w *Clocks) epoch(id int) uint8   { return boolTo[uint8](w.Epochs && w.client(id) > 0) }
func (w *Clocks) shared(a, b int) bool { return w.reads(a) && w.reads(b) }

// members is how many masters the attempt's epoch has, the first ones.
func (w *Clocks) members(id int) int {
	if w.Epochs && w.client(id) == 0 {
		return 1
	}
	return w.Masters
}

func boolTo[T int | uint8 | uint64](b bool) T {
	if b {
		return 1
	}
	return 0
}

func (w *Clocks) validate(most int) error {
	between := func(v, low, high int) bool { return v >= low && v <= high }
	switch {
	case !between(w.Masters, 1, most):
		return fmt.Errorf("handoffmodel: %d masters, want 1 to %d", w.Masters, most)
	case !between(w.Clients, 1, maxClients) || !between(w.Attempts, 1, 3) || w.ids() > maxIDs:
		return fmt.Errorf("handoffmodel: %d clients with %d attempts, want up to %d and 3, and %d attempts in all", w.Clients, w.Attempts, maxClients, maxIDs)
	case !between(w.TTL, 1, maxTicks) || !between(w.Short, 1, w.TTL) || !between(w.Life, 1, maxTicks) || !between(w.Delay, 0, maxTicks):
		return fmt.Errorf("handoffmodel: %d, %d, %d and %d ticks, want 1 to %d, and a short TTL that is not the longer", w.TTL, w.Short, w.Life, w.Delay, maxTicks)
	case !between(w.Restarts, 0, 3) || !between(w.Jumps, 0, 3) || !between(w.Readers, 0, w.Clients):
		return fmt.Errorf("handoffmodel: %d restarts, %d jumps and %d readers, want up to 3, 3 and %d", w.Restarts, w.Jumps, w.Readers, w.Clients)
	case w.Epochs && (w.Masters != 3 || w.Clients < 2):
		return fmt.Errorf("handoffmodel: %d masters and %d clients, want 3 and 2 or more for two epochs", w.Masters, w.Clients)
	}
	return nil
}

// Check visits every reachable state, nearest first. It returns a *ViolationError with a shortest counter-example, nil
// if there is none, explore.ErrTooLarge, or an error of the world. The Result counts what was visited until then.
func (w Clocks) Check() (explore.Result, error) {
	if err := w.validate(maxExplored); err != nil {
		return explore.Result{}, err
	}
	return explore.Check(newClockSystem(w), w.MaxStates)
}

// Walk makes one random run, the same for the same seed.
func (w Clocks) Walk(seed uint64, steps int) (Trace, error) {
	if err := w.validate(maxMasters); err != nil {
		return Trace{}, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	sys := newClockSystem(w)
	starts := sys.Starts()
	return explore.Walk(sys, random, starts[random.IntN(len(starts))], steps, (*Step).weight)
}

// Run follows t. It returns nil, a *ViolationError, or an *ImpossibleError for the first step that this world does not
// allow.
func (w Clocks) Run(t Trace) error {
	if err := w.validate(maxMasters); err != nil {
		return err
	}
	sys := newClockSystem(w)
	return explore.Run(sys, sys.Starts()[0], t.Steps)
}

// clockSystem makes a Clocks world a system.
type clockSystem struct {
	Clocks
	orders [][]int // of clients that are exchangeable
}

func newClockSystem(w Clocks) *clockSystem {
	c := &clockSystem{Clocks: w}
	for _, order := range explore.Permutations(w.Clients) {
		same := true
		for i, from := range order {
			same = same && (i < w.Readers) == (from < w.Readers) && !(w.Epochs && (i == 0) != (from == 0))
		}
		if same {
			c.orders = append(c.orders, order)
		}
	}
	return c
}

func (c *clockSystem) Starts() []clockState {
	var s clockState
	if c.Epochs {
		s.masters[1].phase, s.masters[2].phase = blank, blank
	}
	return []clockState{s}
}

// Path is the moves alone.
func (*clockSystem) Path(_ *clockState, moves []move) (t Trace) {
	for i := range moves {
		t.Steps = append(t.Steps, moves[i].Step)
	}
	return t
}

// holdsFor is for how many ticks more the attempt has a quorum of votes that count. It holds the lock if it is above 0:
// nothing that could keep a client from taking it then is worth modelling.
func (c *clockSystem) holdsFor(s *clockState, id int) int {
	if s.stages[id] != active {
		return 0
	}
	var until [maxMasters]time.Duration
	n := c.members(id)
	for m := range n {
		until[m] = time.Duration(s.at[id][m].counts)
	}
	return int(counting.Until(until[:n], n/2+1))
}

func (c *clockSystem) Holders(s *clockState) int {
	n := 0
	for id := range c.ids() {
		if c.holdsFor(s, id) > 0 {
			n++
		}
	}
	return n
}

// clockKey is the smallest encoding of a state over all exchanges of masters and of clients: nothing depends on which
// is which.
type clockKey struct {
	stages, budget uint32
	words          [maxExplored][2]uint64
}

func (c *clockSystem) Key(s *clockState) clockKey {
	var best clockKey
	for i, order := range c.orders {
		k := c.encode(s, order)
		if i == 0 || k.less(&best) {
			best = k
		}
	}
	return best
}

func (k *clockKey) less(other *clockKey) bool {
	if k.stages != other.stages {
		return k.stages < other.stages
	}
	for m := range k.words {
		if k.words[m] != other.words[m] {
			return wordLess(k.words[m], other.words[m])
		}
	}
	return false
}

func wordLess(a, b [2]uint64) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

// encode packs a state with its clients in the given order. Each master, with what every attempt has there, is one
// word; sorting the words covers all exchanges of masters.
func (c *clockSystem) encode(s *clockState, order []int) (k clockKey) {
	k.budget = uint32(s.restarts)<<8 | uint32(s.jumps)
	for _, client := range order {
		for a := range c.Attempts {
			k.stages = k.stages<<2 | uint32(s.stages[client*c.Attempts+a])
		}
	}
	for m := range c.Masters {
		at := &s.masters[m]
		word := [2]uint64{uint64(at.phase)<<2 | uint64(at.wait), uint64(at.epoch)<<2 | boolTo[uint64](at.stranger)<<1 | boolTo[uint64](at.jumped)}
		for _, client := range order {
			word[0] = word[0]<<4 | uint64(at.life[client])<<2 | uint64(at.age[client])
		}
		for i, client := range order {
			half := &word[min(i, 1)] // 16 bits and 3 x 13; 3 bits and 4 x 13
			for a := range c.Attempts {
				x := &s.at[client*c.Attempts+a][m]
				*half = *half<<13 | uint64(x.flags)<<6 | uint64(x.vote)<<4 | uint64(x.told)<<2 | uint64(x.counts)
			}
		}
		words := k.words[:m]
		i := m
		for ; i > 0 && !c.Epochs && wordLess(word, words[i-1]); i-- {
			k.words[i] = words[i-1]
		}
		k.words[i] = word
	}
	return k
}
