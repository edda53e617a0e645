// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// ErrTooLarge is returned by Check when there are more states than MaxStates.
var ErrTooLarge = errors.New("handoffmodel: too many states")

// maxStates is what Check visits at most unless a model says otherwise.
const maxStates = 8_000_000

// Result counts what Check visited. The counts of an exhausted model are always the same: assert them, because a pass
// over few states proves little.
type Result struct {
	States int // distinct states, up to exchanging masters and exchanging clients
	Edges  int // transitions looked at
	// Holding counts the states by how many attempts hold the lock, or were granted a token: the property that is
	// checked can fail only next to states where that is 1 or more.
	Holding [4]int
}

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

// ViolationError is a counter-example: the last step of Trace breaks a property.
type ViolationError struct {
	Trace  Trace
	Reason string
}

// Error tells the counter-example as a story.
func (e *ViolationError) Error() string {
	return fmt.Sprintf("handoffmodel: %s\n%s", e.Reason, e.Trace)
}

// ImpossibleError says that a model does not allow a step of a trace where it stands.
type ImpossibleError struct {
	Index int // of the step in the trace
	Step  Step
}

func (e *ImpossibleError) Error() string {
	return fmt.Sprintf("handoffmodel: step %d is impossible here: %v", e.Index+1, e.Step)
}

// move is one step and the state that it leads to.
type move[S any] struct {
	Step Step
	To   S
}

// system is what the explorer needs of a model. S is a state, K its canonical form: two states of one K allow the same
// futures up to names.
type system[S any, K comparable] interface {
	starts() []S
	counters(s *S) []int64                       // of a start, for its trace
	next(dst []move[S], s *S) []move[S]          // every step that is possible in s
	judge(from *S, m *move[S]) (violated string) // what is wrong with the step, "" for nothing
	key(s *S) K
	holding(s *S) int
}

// node is a state that is not expanded yet.
type node[S any] struct {
	state S
	index int32
}

// explorer remembers of each state only its canonical form, and how it was reached first: the number of the step among
// its parent's. So a trace is found again by running it.
type explorer[S any, K comparable] struct {
	sys     system[S, K]
	starts  []S
	seen    map[K]struct{}
	parents []int32
	choices []uint16
	result  Result
}

// check visits every reachable state, nearest first. It returns a *ViolationError with a shortest counter-example, nil
// if all states were visited without one, or ErrTooLarge.
func check[S any, K comparable](sys system[S, K], most int) (Result, error) {
	if most == 0 {
		most = maxStates
	}
	x := explorer[S, K]{sys: sys, starts: sys.starts(), seen: map[K]struct{}{}}
	var layer, deeper []node[S]
	for i := range x.starts {
		layer = x.visit(layer, &x.starts[i], -1, i)
	}
	var moves []move[S]
	for len(layer) > 0 {
		deeper = deeper[:0]
		for i := range layer {
			at := &layer[i]
			moves = sys.next(moves[:0], &at.state)
			x.result.Edges += len(moves)
			for choice := range moves {
				if wrong := sys.judge(&at.state, &moves[choice]); wrong != "" {
					trace := x.trace(at.index)
					trace.Steps = append(trace.Steps, moves[choice].Step)
					return x.result, &ViolationError{trace, wrong}
				}
				deeper = x.visit(deeper, &moves[choice].To, at.index, choice)
			}
			if len(x.parents) > most {
				return x.result, ErrTooLarge
			}
		}
		layer, deeper = deeper, layer
	}
	return x.result, nil
}

// visit appends s to the nodes if it is new.
func (x *explorer[S, K]) visit(nodes []node[S], s *S, parent int32, choice int) []node[S] {
	k := x.sys.key(s)
	if _, ok := x.seen[k]; ok {
		return nodes
	}
	x.seen[k] = struct{}{}
	x.parents, x.choices = append(x.parents, parent), append(x.choices, uint16(choice))
	x.result.States++
	x.result.Holding[x.sys.holding(s)]++
	return append(nodes, node[S]{*s, int32(len(x.parents) - 1)})
}

// trace runs again what led to state i.
func (x *explorer[S, K]) trace(i int32) Trace {
	var choices []uint16
	for ; x.parents[i] >= 0; i = x.parents[i] {
		choices = append(choices, x.choices[i])
	}
	slices.Reverse(choices)
	s := x.starts[x.choices[i]]
	t := Trace{Start: x.sys.counters(&s)}
	var moves []move[S]
	for _, choice := range choices {
		moves = x.sys.next(moves[:0], &s)
		t.Steps = append(t.Steps, moves[choice].Step)
		s = moves[choice].To
	}
	return t
}

// run follows t from s. It returns nil, a *ViolationError whose trace ends with the first wrong step, or an
// *ImpossibleError for the first step that the model does not allow.
func run[S any, K comparable](sys system[S, K], s S, t Trace) error {
	var moves []move[S]
	for i, step := range t.Steps {
		moves = sys.next(moves[:0], &s)
		at := slices.IndexFunc(moves, func(m move[S]) bool { return m.Step == step })
		if at < 0 {
			return &ImpossibleError{i, step}
		}
		if wrong := sys.judge(&s, &moves[at]); wrong != "" {
			return &ViolationError{Trace{t.Start, t.Steps[:i+1]}, wrong}
		}
		s = moves[at].To
	}
	return nil
}

// walk makes one random run of that many steps at most, the same for the same seed. It ends early with a
// *ViolationError.
func walk[S any, K comparable](sys system[S, K], seed uint64, steps int) (Trace, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	starts := sys.starts()
	s := starts[random.IntN(len(starts))]
	t := Trace{Start: sys.counters(&s)}
	var moves []move[S]
	for range steps {
		moves = sys.next(moves[:0], &s)
		if len(moves) == 0 {
			break
		}
		m := choose(random, moves)
		t.Steps = append(t.Steps, m.Step)
		if wrong := sys.judge(&s, m); wrong != "" {
			return t, &ViolationError{t, wrong}
		}
		s = m.To
	}
	return t, nil
}

// choose draws a move by the weight of its step.
func choose[S any](random *rand.Rand, moves []move[S]) *move[S] {
	total := 0
	for i := range moves {
		total += moves[i].Step.weight()
	}
	at := random.IntN(total)
	for i := range moves {
		if at -= moves[i].Step.weight(); at < 0 {
			return &moves[i]
		}
	}
	return nil // unreachable
}

// permutations returns all orders of 0 to n-1, the natural one first.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, shorter := range permutations(n - 1) {
		for at := n - 1; at >= 0; at-- {
			all = append(all, slices.Insert(slices.Clone(shorter), at, n-1))
		}
	}
	return all
}
