// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import (
	"fmt"
	"slices"
)

// Bounds of a Model. States are arrays of this size, so that they are comparable and cost no allocation.
const (
	maxMasters  = 5
	maxAttempts = 3
	maxAmnesia  = 3
	maxValue    = 40 // of starting counters and floors: so far below 63 that no run needs more than six bits
)

// Rule says when a master counts towards the majority a token needs. S0 to S3 are the names of docs/safety.md, section 3.
type Rule uint8

const (
	// WhileHeld (S2) is the sound rule and the product's: the master's vote equals the token, or a script there found
	// the vote still held by the attempt and raised the counter to the token. Only a vote below the token is confirmed.
	WhileHeld Rule = iota
	// NoWriteBack (S0) grants the largest of a majority of votes as it is.
	NoWriteBack
	// Unconditional (S1) raises the counter of any master, whether or not the attempt has its vote.
	Unconditional
	// CompareAndSet (S3) raises the counter of any master that answered, if it still is what the answer said.
	CompareAndSet
	// LateVote is WhileHeld, but a vote that arrived late and lies above the token is confirmed too.
	LateVote
	// Resent is WhileHeld over a client that may execute one acquire again on a master where its vote is gone.
	Resent

	H8Look         // Handed: a claim tells the counter also where it does not find the vote held
	H8Confirm      // Handed: a claim raises the counter also where it does not find the vote held
	H10Incarnation // Handed: a restart keeps the queue
	H15            // Handed: a reader's claim tells the counter, and not the vote as it was stored
	H18            // Handed: an answer counts towards the token for ever, and not only while its vote counts

	R4 = LateVote // in docs/internals/handoff.md
	H7 = Resent   // in docs/internals/handoff.md: a claim that finds nothing queues again
)

// String is the rule's short name.
func (r Rule) String() string {
	return [...]string{"sound", "S0", "S1", "S3", "R4", "H7", "H8 look", "H8 confirm", "H10 incarnation", "H15", "H18"}[r]
}

// Recovery says what a master that lost its data does before it votes again.
type Recovery uint8

const (
	// QuarantineThenRelearn is the product's: wait until no attempt can be counting an old vote, then read the counters
	// of a majority of other voting masters, then vote.
	QuarantineThenRelearn Recovery = iota
	// VoteAtOnce votes with an empty counter.
	VoteAtOnce
	// QuarantineOnly waits, then votes with an empty counter.
	QuarantineOnly
	// RelearnThenQuarantine reads the counters first and waits then.
	RelearnThenQuarantine
	// RelearnFromAnyone is QuarantineThenRelearn, but counts the counter of a master that is itself recovering.
	RelearnFromAnyone
)

// Model is one configuration to explore. The zero value is not usable: Masters, Attempts and Starts must be set.
type Model struct {
	Masters  int // 1 to 5
	Attempts int // 1 to 3, each with a holder of its own
	Rule     Rule
	Handed   bool // masters grant by themselves
	Readers  bool // Handed: all attempts hold the lock together
	Raises   int  // Handed: how often another lock may raise a counter that it shares, 0 to 3

	// VotesMayVanish drops every assumption about clocks: any vote may vanish at any moment, and a quarantine may end
	// at any moment. Without it a vote goes only when its attempt has ended, and a quarantine lasts until every attempt
	// that had a vote on that master has ended.
	VotesMayVanish bool

	// Amnesia is how many times a master may lose its data, 0 to 3, counted over all masters. It loses all of it: one
	// that comes back with an older counter is better off. With Handed 0 to 2, not with readers, and only where votes do
	// not vanish: see the table of docs/safety.md.
	Amnesia  int
	Recovery Recovery

	// Starts are the counters to start from, one slice of length Masters each: what earlier, dead attempts left behind.
	// Every vector is reachable by attempts that died after a vote or two. 0 to 40 each. See Spread.
	Starts [][]int64

	// Floors are the values an attempt may propose when it starts, or with Handed at each grant, 0 to 40 each. Empty means {0}, no proposal.
	Floors []int64

	// Properties are judged at every grant. Empty means Unique and RealTime, the theorem.
	Properties []Property

	// MaxStates bounds a Check. 0 means 8 million.
	MaxStates int
}

// Spread returns every vector of n counters between 0 and most, up to the order of the masters: Starts of a Model.
// Each holds a 0: adding a constant to all counters and floors changes no run but by that constant.
func Spread(n int, most int64) [][]int64 {
	vectors := [][]int64{{0}}
	for range n - 1 {
		var longer [][]int64
		for _, v := range vectors {
			for c := v[len(v)-1]; c <= most; c++ {
				longer = append(longer, append(slices.Clone(v), c))
			}
		}
		vectors = longer
	}
	return vectors
}

func (m Model) validate() error {
	switch {
	case m.Masters < 1 || m.Masters > maxMasters:
		return fmt.Errorf("tokenmodel: %d masters, want 1 to %d", m.Masters, maxMasters)
	case m.Attempts < 1 || m.Attempts > maxAttempts:
		return fmt.Errorf("tokenmodel: %d attempts, want 1 to %d", m.Attempts, maxAttempts)
	case m.Amnesia < 0 || m.Amnesia > maxAmnesia:
		return fmt.Errorf("tokenmodel: amnesia %d, want 0 to %d", m.Amnesia, maxAmnesia)
	case m.Rule > H18 || m.Recovery > RelearnFromAnyone:
		return fmt.Errorf("tokenmodel: rule %d, recovery %d unknown", m.Rule, m.Recovery)
	case m.Handed && (m.Rule > WhileHeld && m.Rule < LateVote || m.Recovery > 0), !m.Handed && (m.Rule > Resent || m.Readers || m.Raises > 0):
		return fmt.Errorf("tokenmodel: rule %v, recovery %d, readers %t, %d raises: not with Handed %t", m.Rule, m.Recovery, m.Readers, m.Raises, m.Handed)
	case m.Raises < 0 || m.Raises > 3:
		return fmt.Errorf("tokenmodel: %d raises, want 0 to 3", m.Raises)
	case m.Handed && m.Amnesia > 0 && (m.Amnesia > 2 || m.VotesMayVanish || m.Readers):
		return fmt.Errorf("tokenmodel: with Handed up to 2 amnesias are modelled, with clocks that are right, and not with readers")
	case len(m.Starts) == 0:
		return fmt.Errorf("tokenmodel: no starting counters")
	}
	for _, values := range append(slices.Clone(m.Starts), m.Floors) {
		for _, v := range values {
			if v < 0 || v > maxValue {
				return fmt.Errorf("tokenmodel: value %d, want 0 to %d", v, maxValue)
			}
		}
	}
	for _, start := range m.Starts {
		if len(start) != m.Masters {
			return fmt.Errorf("tokenmodel: %d starting counters for %d masters", len(start), m.Masters)
		}
	}
	return nil
}

func (m *Model) quorum() int { return m.Masters/2 + 1 }

func (m *Model) floors() []int64 {
	if len(m.Floors) == 0 {
		return []int64{0}
	}
	return m.Floors
}
