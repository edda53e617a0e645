// SPDX-License-Identifier: Apache-2.0

// Package explore visits every reachable state of a model, nearest first, or makes random runs of it. A model is a [System]: its starts, the
// steps that are possible in a state, and what is wrong with a step.
//
// A counter-example is a shortest one, because states are visited by their distance from a start. The counts of an exhausted model are always
// the same. A test of a sound model asserts them: a pass over few states proves little, and a change of the model that nobody noticed shows.
//
// Nothing here starts a goroutine.
package explore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrTooLarge is returned by a check when there are more states than it may visit.
var ErrTooLarge = errors.New("explore: too many states")

// maxStates is what a check visits at most unless a model says otherwise.
const maxStates = 8_000_000

// Move is one step and the state that it leads to.
type Move[S, T any] struct {
	Step T
	To   S
}

// System is what the explorer needs of a model. S is a state, T a step, and P a run as its model tells it. K is the canonical form of a state:
// two states of one K allow the same futures up to names. Next returns the same moves in the same order for the same state.
type System[S comparable, T any, K comparable, P fmt.Stringer] interface {
	Starts() []S
	Next(dst []Move[S, T], s *S) []Move[S, T]    // appends every move that is possible in s
	Judge(from *S, m *Move[S, T]) (wrong string) // what is wrong with the move, "" for nothing
	Key(s *S) K                                  // the canonical form
	Holders(s *S) int                            // who holds what the property is about, 0 to 3
	Path(start *S, moves []Move[S, T]) (path P)  // moves is the caller's again afterwards
}

// Told tells steps as a story, one a line.
func Told[T any](steps []T) string {
	var b strings.Builder
	for i, step := range steps {
		fmt.Fprintf(&b, "%3d. %v\n", i+1, step)
	}
	return b.String()
}

// Pick chooses the words of a step that went one way or the other.
func Pick(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

// Result counts what a check visited.
type Result struct {
	States int // distinct states, up to names
	Edges  int // moves looked at
	Depth  int // of the farthest state
	Dead   int // states from which no live one is reached: see Explorer.Live
	// Holding counts the states by how many hold what the property is about. The property can fail only next to states where that is above 0.
	Holding [4]int
}

// ViolationError is a counter-example: the last step of Path breaks a property.
type ViolationError[P fmt.Stringer] struct {
	Reason string
	Path   P
}

// Error tells the counter-example as a story.
func (e *ViolationError[P]) Error() string { return e.Reason + "\n" + e.Path.String() }

// ImpossibleError says that a model does not allow a step of a run where it stands.
type ImpossibleError[T any] struct {
	Index int // of the step in the run
	Step  T
}

func (e *ImpossibleError[T]) Error() string {
	return fmt.Sprintf("step %d is impossible here: %v", e.Index+1, e.Step)
}

// Explorer is one check of a System. It remembers of each state only its canonical form, and how it was reached first: the number of the move
// among those of its parent. A path is found again by making those moves.
type Explorer[S comparable, T any, K comparable, P fmt.Stringer] struct {
	System System[S, T, K, P]
	Most   int // states to visit; 0 means 8 million

	Visited func(s *S)                             // called for each new state; may be nil
	Crossed func(from *S, m *Move[S, T], new bool) // called for each move that is not wrong; may be nil

	// Live has Run look for dead ends: states from which no live one is reached by moves that happen by themselves. A dead end is a violation.
	Live       func(s *S) bool
	ByItself   func(step *T) bool
	DeadReason string

	result   Result
	starts   []S
	seen     map[K]int32
	parents  []int32
	choices  []uint16
	alive    []bool  // by state: live
	byItself []int32 // moves that happen by themselves, from and to in turn
}

// node is a state that is not expanded yet.
type node[S any] struct {
	state S
	id    int32
}

// Check visits every reachable state of sys, as Explorer.Run does.
func Check[S comparable, T any, K comparable, P fmt.Stringer](sys System[S, T, K, P], most int) (Result, error) {
	x := Explorer[S, T, K, P]{System: sys, Most: most}
	return x.Run()
}

// Run visits every reachable state, nearest first. It returns a *ViolationError with a shortest counter-example, nil if all states were visited
// without one, or ErrTooLarge.
func (x *Explorer[S, T, K, P]) Run() (Result, error) {
	x.seen, x.starts = map[K]int32{}, x.System.Starts()
	most := cmp.Or(x.Most, maxStates)
	var layer, deeper []node[S]
	for i := range x.starts {
		layer, _ = x.visit(layer, &x.starts[i], -1, i)
	}
	var moves []Move[S, T]
	for ; len(layer) > 0; x.result.Depth++ {
		deeper = deeper[:0]
		for i := range layer {
			at := &layer[i]
			moves = x.System.Next(moves[:0], &at.state)
			x.result.Edges += len(moves)
			for choice := range moves {
				m := &moves[choice]
				if wrong := x.System.Judge(&at.state, m); wrong != "" {
					return x.result, &ViolationError[P]{wrong, x.path(at.id, *m)}
				}
				if m.To != at.state { // nothing but a test is faster than to find its canonical form
					deeper = x.cross(deeper, at, m, choice)
				}
			}
			if len(x.parents) > most {
				return x.result, ErrTooLarge
			}
		}
		layer, deeper = deeper, layer
	}
	return x.result, x.deadEnd()
}

// cross makes a move that is not wrong.
func (x *Explorer[S, T, K, P]) cross(nodes []node[S], from *node[S], m *Move[S, T], choice int) []node[S] {
	before := len(nodes)
	nodes, id := x.visit(nodes, &m.To, from.id, choice)
	if x.Live != nil && x.ByItself(&m.Step) {
		x.byItself = append(x.byItself, from.id, id)
	}
	if x.Crossed != nil {
		x.Crossed(&from.state, m, len(nodes) > before)
	}
	return nodes
}

// visit appends s to the nodes if it is new.
func (x *Explorer[S, T, K, P]) visit(nodes []node[S], s *S, parent int32, choice int) ([]node[S], int32) {
	k := x.System.Key(s)
	if id, ok := x.seen[k]; ok {
		return nodes, id
	}
	id := int32(len(x.parents))
	x.seen[k] = id
	x.parents, x.choices = append(x.parents, parent), append(x.choices, uint16(choice))
	x.result.States++
	x.result.Holding[x.System.Holders(s)]++
	if x.Visited != nil {
		x.Visited(s)
	}
	if x.Live != nil {
		x.alive = append(x.alive, x.Live(s))
	}
	return append(nodes, node[S]{*s, id}), id
}

// Knows reports whether a state of that canonical form was visited.
func (x *Explorer[S, T, K, P]) Knows(k K) bool {
	_, ok := x.seen[k]
	return ok
}

// path makes again the moves that led to state i, and then those that follow.
func (x *Explorer[S, T, K, P]) path(i int32, last ...Move[S, T]) P {
	var choices []uint16
	for ; x.parents[i] >= 0; i = x.parents[i] {
		choices = append(choices, x.choices[i])
	}
	slices.Reverse(choices)
	start := x.starts[x.choices[i]]
	var way, moves []Move[S, T]
	s := start
	for _, choice := range choices {
		moves = x.System.Next(moves[:0], &s)
		way = append(way, moves[choice])
		s = moves[choice].To
	}
	return x.System.Path(&start, append(way, last...))
}

// deadEnd looks for a state from which no live one is reached by moves that happen by themselves.
func (x *Explorer[S, T, K, P]) deadEnd() error {
	if x.Live == nil {
		return nil
	}
	first := make([]int32, len(x.parents)+1) // edges backwards, by where they lead
	for k := 1; k < len(x.byItself); k += 2 {
		first[x.byItself[k]+1]++
	}
	for k := range x.parents {
		first[k+1] += first[k]
	}
	back, at := make([]int32, len(x.byItself)/2), slices.Clone(first)
	for k := 1; k < len(x.byItself); k += 2 {
		to := x.byItself[k]
		back[at[to]] = x.byItself[k-1]
		at[to]++
	}
	var queue []int32
	for k, ok := range x.alive {
		if ok {
			queue = append(queue, int32(k))
		}
	}
	for len(queue) > 0 {
		to := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range back[first[to]:first[to+1]] {
			if !x.alive[from] {
				x.alive[from] = true
				queue = append(queue, from)
			}
		}
	}
	for _, ok := range x.alive {
		if !ok {
			x.result.Dead++
		}
	}
	if x.result.Dead == 0 {
		return nil
	}
	return &ViolationError[P]{x.DeadReason, x.path(int32(slices.Index(x.alive, false)))}
}

// Permutations returns all orders of 0 to n-1, the natural one first.
func Permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, shorter := range Permutations(n - 1) {
		for at := n - 1; at >= 0; at-- {
			all = append(all, slices.Insert(slices.Clone(shorter), at, n-1))
		}
	}
	return all
}
