// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// The explorer's words for these models.
type (
	move[S any] = explore.Move[S, Step]
	// ViolationError is a counter-example.
	ViolationError = explore.ViolationError[Trace]
	// ImpossibleError says that a model does not allow a step of a trace where it stands.
	ImpossibleError = explore.ImpossibleError[Step]
)

// Trace is a run of a model, or the beginning of one.
type Trace struct {
	Start []int64 // the counters to start from; of models with tokens only
	Steps []Step
}

// String tells the trace as a story, one line a step.
func (t Trace) String() string {
	var b strings.Builder
	if t.Start != nil {
		fmt.Fprintf(&b, "  counters start at %v\n", t.Start)
	}
	for i, step := range t.Steps {
		fmt.Fprintf(&b, "%3d. %v\n", i+1, step)
	}
	return b.String()
}

// trace is a run that starts with these counters.
func trace[S any](counters []int64, moves []move[S]) Trace {
	t := Trace{Start: counters}
	for i := range moves {
		t.Steps = append(t.Steps, moves[i].Step)
	}
	return t
}

// walk makes one random run of that many steps at most, the same for the same seed.
func walk[S, K comparable](sys explore.System[S, Step, K, Trace], seed uint64, steps int) (Trace, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	starts := sys.Starts()
	return explore.Walk(sys, random, starts[random.IntN(len(starts))], steps, (*Step).weight)
}
