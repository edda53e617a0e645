// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import (
	"math/rand/v2"
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// The explorer's words for this model.
type (
	transition = explore.Move[state, Step]
	// ViolationError is a counter-example.
	ViolationError = explore.ViolationError[Path]
	// ImpossibleError says that a step of a path is not a transition of the model where it stands.
	ImpossibleError = explore.ImpossibleError[Step]
)

// Check visits every reachable state, nearest first. It returns a *ViolationError with a shortest counter-example, nil
// if the whole space was exhausted without one, explore.ErrTooLarge, or an error of the model. The Result counts what was
// visited until then.
func (m Model) Check() (explore.Result, error) {
	if err := m.validate(); err != nil {
		return explore.Result{}, err
	}
	return explore.Check(newSystem(m), m.MaxStates)
}

// system makes a Model one that can be explored.
type system struct {
	Model
	symmetries [][]int
}

func newSystem(m Model) *system { return &system{m, explore.Permutations(m.Attempts)} }

func (y *system) Starts() (all []state) {
	for _, counters := range y.Model.Starts {
		all = append(all, y.start(counters))
	}
	return all
}

// Holders counts the attempts that were granted a token.
func (y *system) Holders(s *state) (n int) {
	for a := range s.attempts {
		if s.attempts[a].wasGranted() {
			n++
		}
	}
	return n
}

// Path has the counters of the start.
func (y *system) Path(start *state, moves []transition) Path {
	var p Path
	for n := range y.Masters {
		p.Start = append(p.Start, int64(start.masters[n].counter))
	}
	for i := range moves {
		p.Steps = append(p.Steps, moves[i].Step)
	}
	return p
}

// weights make a walk meet contended grants. Uniform choice would start all attempts at once, have them refuse each
// other and end them early: one walk in a hundred would see two grants.
var weights = [kinds]int{
	Start: 2, Acquire: 16, Count: 8, Confirm: 16, Grant: 16, End: 2, Release: 16, Vanish: 1, Crash: 1, EndQuarantine: 8, Learn: 8, Look: 4, Join: 16, Raise: 1,
}

// weight of a delivery that is refused is 1: it teaches little, but must happen.
func weight(step *Step) int {
	switch step.Kind {
	case Acquire, Confirm, Release:
		if !step.OK {
			return 1
		}
	}
	return weights[step.Kind]
}

// weightHanded is the weight where masters grant by themselves and nothing is refused.
func weightHanded(step *Step) int {
	switch step.Kind {
	case Start:
		return 8
	case Release:
		return 12
	}
	return weights[step.Kind]
}

// walkSteps lets nearly every walk of 5 masters and 3 attempts come to its end: longer ones only repeat late releases.
const walkSteps, walkHanded = 60, 80

// Walk makes one random run, the same for the same seed: 60 steps, 80 with Handed, or fewer when the last one breaks a
// property. It returns the path and in that case a *ViolationError; or an error of the model.
func (m Model) Walk(seed uint64) (Path, error) {
	if err := m.validate(); err != nil {
		return Path{}, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	counters := slices.Clone(m.Starts[random.IntN(len(m.Starts))])
	if m.Handed {
		return explore.Walk(newSystem(m), random, m.start(counters), walkHanded, weightHanded)
	}
	random.Shuffle(len(counters), func(i, j int) { counters[i], counters[j] = counters[j], counters[i] })
	return explore.Walk(newSystem(m), random, m.start(counters), walkSteps, weight)
}

// Paths returns n random runs of m, for Replay; run i is Walk(seed+i). It stops with the first run that breaks a
// property, which a sound model never does.
func Paths(m Model, seed uint64, n int) ([]Path, error) {
	var paths []Path
	for i := range n {
		path, err := m.Walk(seed + uint64(i))
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
