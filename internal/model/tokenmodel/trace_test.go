// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import (
	"fmt"
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// Kind names a transition.
type Kind uint8

// Start, Count, Grant and End happen in the client, the others at a master.
const (
	Start         Kind = iota // the attempt begins, proposing Floor in every acquire
	Acquire                   // an acquire is executed: OK and the vote Value, or refused
	Count                     // the first q votes are in; the token Value is fixed
	Confirm                   // the write-back of token Value is executed: OK if the master now stands for it
	Grant                     // the attempt is granted token Value
	End                       // the attempt gives up, is released or runs out of validity
	Release                   // a release of an ended attempt is executed: OK if it removed the vote
	Vanish                    // a vote disappears: a clock jumped, a key was evicted or deleted
	Crash                     // the master restarts without its data: OK if it votes at once
	EndQuarantine             // the master's waiting is over: OK if it votes again, with counter Value
	Learn                     // the master reads the counter of From: OK if it votes again, with counter Value
	Look                      // a claim without a token is answered: the counter is Value
	Join                      // a claim with the token is answered: the counter is Value, OK if the master stands for the token now
	Raise                     // another lock raises the counter that it shares, to Value
	kinds
)

// Step is one transition with its parameters and, where a message is executed, the reply. Fields that its Kind does not
// use are zero. Masters and attempts count from 0; String shows them as 1, 2, 3 and A, B, C.
type Step struct {
	Kind                  Kind
	Attempt, Master, From int
	Floor, Value          int64
	OK                    bool
}

// String tells the step as one sentence of a story.
func (s Step) String() string {
	who, master := string(rune('A'+s.Attempt)), s.Master+1
	switch s.Kind {
	case Start:
		return fmt.Sprintf("%s starts, floor %d", who, s.Floor)
	case Acquire:
		return fmt.Sprintf("master %d %s", master, explore.Pick(s.OK, fmt.Sprintf("votes %d for %s", s.Value, who), "refuses "+who))
	case Count:
		return fmt.Sprintf("%s counts a quorum of votes: token %d", who, s.Value)
	case Confirm:
		return fmt.Sprintf("master %d %s token %d of %s", master, explore.Pick(s.OK, "confirms", "does not confirm"), s.Value, who)
	case Grant:
		return fmt.Sprintf("%s is GRANTED token %d", who, s.Value)
	case End:
		return who + " ends: released, given up or out of validity"
	case Release:
		return fmt.Sprintf("a release of %s reaches master %d and %s", who, master, explore.Pick(s.OK, "removes the vote", "finds no vote"))
	case Vanish:
		return fmt.Sprintf("the vote on master %d vanishes", master)
	case Crash:
		return fmt.Sprintf("master %d restarts without its data%s", master, explore.Pick(s.OK, " and votes at once", ""))
	case EndQuarantine:
		return fmt.Sprintf("the quarantine of master %d is over%s", master, explore.Pick(s.OK, fmt.Sprintf(", it votes from counter %d", s.Value), ""))
	case Learn:
		return fmt.Sprintf("master %d reads master %d, its counter is %d%s", master, s.From+1, s.Value, explore.Pick(s.OK, ", it votes", ""))
	}
	return s.handed(who)
}

// handed tells the steps of masters that grant by themselves.
func (s Step) handed(who string) string {
	switch s.Kind {
	case Look:
		return fmt.Sprintf("master %d answers a claim of %s: %d", s.Master+1, who, s.Value)
	case Join:
		return fmt.Sprintf("master %d executes the claim of %s with its token, answers %d and %s", s.Master+1, who, s.Value, explore.Pick(s.OK, "joins", "does not join"))
	case Raise:
		return fmt.Sprintf("another lock raises the counter of master %d to %d", s.Master+1, s.Value)
	}
	return fmt.Sprintf("step of unknown kind %d", s.Kind)
}

// Path is a run of a Model: the counters it starts from and its steps.
type Path struct {
	Start []int64
	Steps []Step
}

// String tells the path as a story, one line per step.
func (p Path) String() string {
	return fmt.Sprintf("  counters start at %v\n%s", p.Start, explore.Told(p.Steps))
}

// Award is what a Property judges: one attempt about to be granted its token.
type Award struct {
	Token   int64
	Granted []int64 // tokens granted so far to other attempts, in no order
	After   int64   // the largest token granted before this attempt started, 0 for none
}

// Property returns what is wrong with an award, or "" if nothing is.
type Property func(Award) string

// Unique demands that no token is granted twice.
func Unique(a Award) string {
	if slices.Contains(a.Granted, a.Token) {
		return fmt.Sprintf("token %d is granted twice", a.Token)
	}
	return ""
}

// RealTime demands a larger token of an attempt than those granted before it started.
func RealTime(a Award) string {
	if a.Token <= a.After {
		return fmt.Sprintf("token %d is granted to an attempt that started after token %d was granted", a.Token, a.After)
	}
	return ""
}

// GrantOrder demands that tokens grow in the order of the grants. It needs clocks: see Model.VotesMayVanish.
func GrantOrder(a Award) string {
	for _, earlier := range a.Granted {
		if a.Token <= earlier {
			return fmt.Sprintf("token %d is granted after token %d", a.Token, earlier)
		}
	}
	return ""
}

// Judge applies the model's properties to a step from s.
func (y *system) Judge(s *state, t *transition) string {
	step := &t.Step
	if step.Kind != Grant {
		return ""
	}
	award := Award{Token: step.Value, After: int64(s.attempts[step.Attempt].after)}
	for a := range s.attempts {
		if s.attempts[a].wasGranted() {
			award.Granted = append(award.Granted, int64(s.attempts[a].token))
		}
	}
	properties := y.Properties
	if len(properties) == 0 {
		properties = []Property{Unique, RealTime}
	}
	for _, property := range properties {
		if wrong := property(award); wrong != "" {
			return wrong
		}
	}
	return ""
}

// Run follows p through the model. It returns nil, a *ViolationError whose path ends with the first bad grant, an
// *ImpossibleError for the first step the model does not allow (a reply that differs included), or an error of the model.
func (m Model) Run(p Path) error {
	m.Starts = [][]int64{p.Start}
	if err := m.validate(); err != nil {
		return err
	}
	return explore.Run(newSystem(m), m.start(p.Start), p.Steps)
}
