// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Walk makes one random run from start, of that many steps at most. It ends early with a *ViolationError, and where no step has a weight.
// The run is the same for the same random. weight makes a walk meet what matters: a uniform choice would spend all faults at once.
func Walk[S comparable, T any, K comparable, P fmt.Stringer](sys System[S, T, K, P], random *rand.Rand, start S, steps int, weight func(*T) int) (P, error) {
	s := start
	way := make([]Move[S, T], 0, steps)
	var moves []Move[S, T]
	for range steps {
		moves = sys.Next(moves[:0], &s)
		at := Draw(random, len(moves), func(i int) int { return weight(&moves[i].Step) })
		if at < 0 {
			break
		}
		m := &moves[at]
		way = append(way, *m)
		if wrong := sys.Judge(&s, m); wrong != "" {
			p := sys.Path(&start, way)
			return p, &ViolationError[P]{wrong, p}
		}
		s = m.To
	}
	return sys.Path(&start, way), nil
}

// Draw draws one of n things by their weights. It returns -1 if the weights are all 0.
func Draw(random *rand.Rand, n int, weight func(i int) int) int {
	total := 0
	for i := range n {
		total += weight(i)
	}
	if total == 0 {
		return -1
	}
	at := random.IntN(total)
	i := 0
	for ; at >= weight(i); i++ {
		at -= weight(i)
	}
	return i
}

// Run makes these steps from start. It returns nil, a *ViolationError whose path ends with the first wrong step, or an *ImpossibleError for the
// first step that the model does not allow.
func Run[S, T, K comparable, P fmt.Stringer](sys System[S, T, K, P], start S, steps []T) error {
	s := start
	var way, moves []Move[S, T]
	for i, step := range steps {
		moves = sys.Next(moves[:0], &s)
		at := slices.IndexFunc(moves, func(m Move[S, T]) bool { return m.Step == step })
		if at < 0 {
			return &ImpossibleError[T]{i, step}
		}
		way = append(way, moves[at])
		if wrong := sys.Judge(&s, &moves[at]); wrong != "" {
			return &ViolationError[P]{wrong, sys.Path(&start, way)}
		}
		s = moves[at].To
	}
	return nil
}
