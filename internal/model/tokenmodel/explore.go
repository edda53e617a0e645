// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import (
	"errors"
	"math/rand/v2"
	"slices"
)

// ErrTooLarge is returned by Check when there are more states than Model.MaxStates.
var ErrTooLarge = errors.New("tokenmodel: too many states")

// Result counts what Check visited. The counts of an exhausted model are always the same: assert them, since a pass over
// few states proves little.
type Result struct {
	States int // distinct states, up to exchanging masters and exchanging attempts
	Edges  int // transitions looked at
	// Granted counts the states by how many attempts have been granted: Granted[2] is where the theorem can fail at all.
	Granted [maxAttempts + 1]int
}

// Check visits every reachable state, nearest first. It returns a *ViolationError with a shortest counter-example, nil
// if the whole space was exhausted without one, ErrTooLarge, or an error of the model. The Result counts what was visited
// until then.
func (m Model) Check() (Result, error) {
	if err := m.validate(); err != nil {
		return Result{}, err
	}
	x := explorer{model: m, symmetries: permutations(m.Attempts), seen: map[key]struct{}{}}
	for _, counters := range m.Starts {
		x.visit(m.start(counters), -1)
	}
	var next []transition
	for i := 0; i < len(x.states); i++ {
		if len(x.states) > m.maxStates() {
			return x.result, ErrTooLarge
		}
		s := x.states[i]
		next = m.next(next[:0], s)
		x.result.Edges += len(next)
		for _, t := range next {
			if wrong := m.judge(&s, t.Step); wrong != "" {
				path := x.path(i)
				path.Steps = append(path.Steps, t.Step)
				return x.result, &ViolationError{Path: path, Reason: wrong}
			}
			if t.To != s {
				x.visit(t.To, i)
			}
		}
	}
	return x.result, nil
}

// explorer is the frontier and the memory of one Check. States are kept as they were reached, not in their canonical
// form, so that a path through them reads as one story.
type explorer struct {
	model      Model
	symmetries [][]int
	seen       map[key]struct{}
	states     []state
	parents    []int32
	result     Result
}

func (x *explorer) visit(s state, parent int) {
	k := x.canonical(&s)
	if _, ok := x.seen[k]; ok {
		return
	}
	x.seen[k] = struct{}{}
	x.states, x.parents = append(x.states, s), append(x.parents, int32(parent))
	x.result.States++
	count := 0
	for a := range s.attempts {
		if s.attempts[a].wasGranted() {
			count++
		}
	}
	x.result.Granted[count]++
}

// path rebuilds the steps to state i: the parent's transitions are listed again, which is cheaper than keeping them.
func (x *explorer) path(i int) Path {
	var steps []Step
	for x.parents[i] >= 0 {
		from := int(x.parents[i])
		next := x.model.next(nil, x.states[from])
		at := slices.IndexFunc(next, func(t transition) bool { return t.To == x.states[i] })
		steps = append(steps, next[at].Step)
		i = from
	}
	slices.Reverse(steps)
	start := make([]int64, x.model.Masters)
	for n := range start {
		start[n] = int64(x.states[i].masters[n].counter)
	}
	return Path{Start: start, Steps: steps}
}

// key is a state in canonical form: the smallest encoding over all exchanges of masters and of attempts. Nothing in a
// state or a property depends on which is which, so one of each class is enough.
type key struct {
	attempts [maxAttempts]uint32
	masters  [maxMasters]uint64
	crashes  uint8
}

func (x *explorer) canonical(s *state) key {
	var best key
	for i, order := range x.symmetries {
		k := key{crashes: s.crashes, attempts: encodeAttempts(s, order)}
		first := slices.Compare(k.attempts[:], best.attempts[:])
		if i > 0 && first > 0 {
			continue // most orders end here, before the dearer half of the encoding
		}
		k.masters = x.encodeMasters(s, order)
		if i == 0 || first < 0 || slices.Compare(k.masters[:], best.masters[:]) < 0 {
			best = k
		}
	}
	return best
}

// encodeAttempts packs what attempts know beside the masters, in the given order.
func encodeAttempts(s *state, order []int) (words [maxAttempts]uint32) {
	for i, a := range order {
		me := &s.attempts[a]
		words[i] = uint32(me.token)<<24 | uint32(me.after)<<16 | uint32(me.floor)<<8 | uint32(me.stage)
	}
	return words
}

// encodeMasters packs each master, with what every attempt knows of it, into one word: sorting the words covers all
// exchanges of masters.
func (x *explorer) encodeMasters(s *state, order []int) (words [maxMasters]uint64) {
	for n := range x.model.Masters {
		at := &s.masters[n]
		owner := uint64(0)
		word := uint64(at.counter)<<9 | uint64(at.phase)<<7 | uint64(at.crash)<<5 | uint64(at.readBy) // bits 1 to maxAmnesia
		for i, a := range order {
			ask := &s.attempts[a].asks[n]
			word = word<<11 | uint64(ask.value)<<3 | uint64(ask.reply)<<1 | uint64(ask.confirmed)
			if int(at.owner) == a+1 {
				owner = uint64(i + 1)
			}
		}
		words[n] = word<<2 | owner
	}
	slices.Sort(words[:x.model.Masters])
	return words
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

// weights make a walk meet contended grants. Uniform choice would start all attempts at once, have them refuse each
// other and end them early: one walk in a hundred would see two grants.
var weights = [kinds]int{
	Start: 2, Acquire: 16, Count: 8, Confirm: 16, Grant: 16, End: 2, Release: 16, Vanish: 1, Crash: 1, EndQuarantine: 8, Learn: 8,
}

// weight of a delivery that is refused is 1: it teaches little, but must happen.
func weight(step Step) int {
	switch step.Kind {
	case Acquire, Confirm, Release:
		if !step.OK {
			return 1
		}
	}
	return weights[step.Kind]
}

// walkSteps lets nearly every walk of 5 masters and 3 attempts come to its end: longer ones only repeat late releases.
const walkSteps = 60

// Walk makes one random run, the same for the same seed: 60 steps, or fewer when the last one breaks a property. It
// returns the path and in that case a *ViolationError; or an error of the model.
func (m Model) Walk(seed uint64) (Path, error) {
	if err := m.validate(); err != nil {
		return Path{}, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	path := Path{Start: slices.Clone(m.Starts[random.IntN(len(m.Starts))])}
	random.Shuffle(len(path.Start), func(i, j int) { path.Start[i], path.Start[j] = path.Start[j], path.Start[i] })
	s := m.start(path.Start)
	var next []transition
	for range walkSteps {
		next = m.next(next[:0], s)
		t := choose(random, next)
		path.Steps = append(path.Steps, t.Step)
		if wrong := m.judge(&s, t.Step); wrong != "" {
			return path, &ViolationError{Path: path, Reason: wrong}
		}
		s = t.To
	}
	return path, nil
}

// choose never finds next empty: an attempt can start or end, or its releases can arrive.
func choose(random *rand.Rand, next []transition) *transition {
	total := 0
	for i := range next {
		total += weight(next[i].Step)
	}
	at := random.IntN(total)
	for i := range next {
		if at -= weight(next[i].Step); at < 0 {
			return &next[i]
		}
	}
	return nil // unreachable
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
