// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/tokenmodel"
)

// Bounds of a Tokens world.
const (
	maxAttempts = 3
	maxCrashes  = 2
	maxValue    = 20 // of starting counters and proposals: so far below 63 that no run needs more than six bits
)

// Tokens is one world of the model without clocks: how attempts win a token when masters grant by themselves. It is
// package tokenmodel with these differences. A place in a queue is an acquire that the master has not executed yet, so
// no acquire is refused: a master gives its vote to an attempt at any moment at which the lock is free, also after the
// attempt has left. The proposal is that of whoever settles, so it may be any of Floors at each grant. A claim looks at
// a vote and tells the counter, which another lock may have raised.
//
// A master that lost its data waits, reads the counters of a quorum of others, and votes. Where the clocks are right a
// vote of before the crash has run out when that wait is over; its attempt may live on, by votes that it renews.
//
// Rules H7, H8Look, H8Confirm, H10Incarnation, H15, H18 and R4 may be dropped.
type Tokens struct {
	Masters  int // 1 to 5
	Attempts int // 1 to 3, each with a holder of its own
	Drop     Rule

	// VotesMayVanish drops every assumption about clocks: any vote may vanish at any moment.
	VotesMayVanish bool
	Readers        bool // all attempts hold the lock together
	Crashes        int  // how often a master may lose all its data, 0 to 2; not with VotesMayVanish: see the table of docs/safety.md
	Raises         int  // how often another lock may raise a counter that it shares, 0 to 3

	Starts     [][]int64             // counters to start from, one slice of length Masters each; see tokenmodel.Spread
	Floors     []int64               // what may be proposed; empty means {0}
	Properties []tokenmodel.Property // judged at every grant; empty means Unique and RealTime, the theorem
	MaxStates  int                   // of Check; 0 means 8 million
}

// tokenPhase is what a master does: it votes, waits after a crash, or reads the others' counters.
type tokenPhase uint8

const (
	tokenVoting tokenPhase = iota
	tokenWaiting
	tokenLearning
)

type tokenMaster struct {
	counter uint8
	owners  uint8 // a bit for each attempt that has the vote
	phase   tokenPhase
	crash   uint8 // its last crash, counted from 1 over all masters; 0 for none
	readBy  uint8 // bit c: the recovery from crash c has read this counter
}

// ask is what passed between one attempt and one master. There is no mark for an answer that has arrived: an answer
// that is not used yet is the same as one on its way, and one that is lost the same as one that is never used.
type ask struct {
	vote   uint8 // as given; its message may be read, or not
	looked uint8 // what a claim told before the message was read; it is the first answer then
	joined bool  // a claim with the token made the master stand for it
	twice  bool  // H7, H10Incarnation: the vote was given a second time
	lost   bool  // the vote was given before the master's last crash
	stale  bool  // and the wait after that crash is over: the vote has run out
}

// told is the master's first answer to the attempt (rule R1) if it counts, else 0. An answer counts only while its vote
// does (rule H18).
func (k *ask) told() int64 {
	if k.stale {
		return 0
	}
	if k.looked > 0 {
		return int64(k.looked)
	}
	return int64(k.vote)
}

// tokenStage is how far an attempt has come.
type tokenStage uint8

const (
	unborn tokenStage = iota
	asking
	fixed // the token is
	granted
	released  // was granted, and let go or ran out of validity
	abandoned // gave up before
)

type tokenAttempt struct {
	stage tokenStage
	token uint8
	after uint8 // the largest token granted before this attempt began
	asks  [maxMasters]ask
}

func (a *tokenAttempt) ended() bool      { return a.stage == released || a.stage == abandoned }
func (a *tokenAttempt) wasGranted() bool { return a.stage == granted || a.stage == released }

type tokenState struct {
	masters  [maxMasters]tokenMaster
	attempts [maxAttempts]tokenAttempt
	crashes  uint8
	raises   uint8
}

func (w *Tokens) quorum() int { return w.Masters/2 + 1 }

func (w *Tokens) validate() error {
	switch {
	case w.Masters < 1 || w.Masters > maxMasters || w.Attempts < 1 || w.Attempts > maxAttempts:
		return fmt.Errorf("handoffmodel: %d masters and %d attempts, want 1 to %d and 1 to %d", w.Masters, w.Attempts, maxMasters, maxAttempts)
	case w.Crashes < 0 || w.Crashes > maxCrashes || w.Raises < 0 || w.Raises > 3:
		return fmt.Errorf("handoffmodel: %d crashes and %d raises, want up to %d and 3", w.Crashes, w.Raises, maxCrashes)
	case w.Crashes > 0 && (w.VotesMayVanish || w.Readers):
		return fmt.Errorf("handoffmodel: crashes need clocks that are right, and are not modelled with readers")
	case len(w.Starts) == 0:
		return fmt.Errorf("handoffmodel: no starting counters")
	}
	for i, values := range append(slices.Clone(w.Starts), w.Floors) {
		if i < len(w.Starts) && len(values) != w.Masters {
			return fmt.Errorf("handoffmodel: %d starting counters for %d masters", len(values), w.Masters)
		}
		for _, v := range values {
			if v < 0 || v > maxValue {
				return fmt.Errorf("handoffmodel: value %d, want 0 to %d", v, maxValue)
			}
		}
	}
	return nil
}

// Check visits every reachable state: see Clocks.Check.
func (w Tokens) Check() (explore.Result, error) {
	if err := w.validate(); err != nil {
		return explore.Result{}, err
	}
	return explore.Check(newTokenSystem(w), w.MaxStates)
}

// Walk makes one random run, the same for the same seed.
func (w Tokens) Walk(seed uint64, steps int) (Trace, error) {
	if err := w.validate(); err != nil {
		return Trace{}, err
	}
	return walk(newTokenSystem(w), seed, steps)
}

// Run follows t: see Clocks.Run.
func (w Tokens) Run(t Trace) error {
	w.Starts = [][]int64{t.Start}
	if err := w.validate(); err != nil {
		return err
	}
	sys := newTokenSystem(w)
	return explore.Run(sys, sys.Starts()[0], t.Steps)
}

// tokenSystem makes a Tokens world a system.
type tokenSystem struct {
	Tokens
	orders [][]int
	floors []int64
}

func newTokenSystem(w Tokens) *tokenSystem {
	t := &tokenSystem{Tokens: w, orders: explore.Permutations(w.Attempts), floors: w.Floors}
	if len(t.floors) == 0 {
		t.floors = []int64{0}
	}
	if len(t.Properties) == 0 {
		t.Properties = []tokenmodel.Property{tokenmodel.Unique, tokenmodel.RealTime}
	}
	return t
}

func (t *tokenSystem) Starts() []tokenState {
	var all []tokenState
	for _, counters := range t.Tokens.Starts {
		var s tokenState
		for n, c := range counters {
			s.masters[n].counter = uint8(c)
		}
		all = append(all, s)
	}
	return all
}

// Path has the counters of the start.
func (t *tokenSystem) Path(start *tokenState, moves []move[tokenState]) Trace {
	var counters []int64
	for n := range t.Masters {
		counters = append(counters, int64(start.masters[n].counter))
	}
	return trace(counters, moves)
}

func (t *tokenSystem) Holders(s *tokenState) int {
	n := 0
	for a := range s.attempts {
		if s.attempts[a].wasGranted() {
			n++
		}
	}
	return n
}

// Judge applies the properties to a grant.
func (t *tokenSystem) Judge(from *tokenState, m *move[tokenState]) string {
	if m.Step.Kind != Grant {
		return ""
	}
	award := tokenmodel.Award{Token: m.Step.Value, After: int64(from.attempts[m.Step.Attempt.Client].after)}
	for a := range from.attempts {
		if from.attempts[a].wasGranted() {
			award.Granted = append(award.Granted, int64(from.attempts[a].token))
		}
	}
	for _, property := range t.Properties {
		if wrong := property(award); wrong != "" {
			return wrong
		}
	}
	return ""
}

// tokenKey is the smallest encoding of a state over all exchanges of masters and of attempts.
type tokenKey struct {
	attempts [maxAttempts]uint32
	masters  [maxMasters]uint64
	budget   uint16
}

func (t *tokenSystem) Key(s *tokenState) tokenKey {
	var best tokenKey
	for i, order := range t.orders {
		k := tokenKey{budget: uint16(s.crashes)<<8 | uint16(s.raises)}
		for j, a := range order {
			me := &s.attempts[a]
			k.attempts[j] = uint32(me.token)<<16 | uint32(me.after)<<8 | uint32(me.stage)
		}
		first := slices.Compare(k.attempts[:], best.attempts[:])
		if i > 0 && first > 0 {
			continue // most orders end here, before the dearer half of the encoding
		}
		t.encodeMasters(s, order, &k)
		if i == 0 || first < 0 || slices.Compare(k.masters[:], best.masters[:]) < 0 {
			best = k
		}
	}
	return best
}

// encodeMasters packs each master, with what passed between it and every attempt, into one word; sorting the words
// covers all exchanges of masters.
func (t *tokenSystem) encodeMasters(s *tokenState, order []int, k *tokenKey) {
	for n := range t.Masters {
		at := &s.masters[n]
		word := uint64(at.counter)<<6 | uint64(at.phase)<<4 | uint64(at.crash)<<2 | uint64(at.readBy)>>1
		for _, a := range order {
			x := &s.attempts[a].asks[n]
			word = word<<17 | uint64(x.vote)<<11 | uint64(x.looked)<<5 | boolTo[uint64](x.joined)<<4 | boolTo[uint64](x.twice)<<3 |
				boolTo[uint64](x.lost)<<2 | boolTo[uint64](x.stale)<<1 | uint64(at.owners>>a&1)
		}
		k.masters[n] = word
	}
	slices.Sort(k.masters[:t.Masters])
}
