// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/needs"
)

// The explorer's words for these models.
type (
	move = explore.Move[clockState, Step]
	// ViolationError is a counter-example.
	ViolationError = explore.ViolationError[Trace]
	// ImpossibleError says that a model does not allow a step of a trace where it stands.
	ImpossibleError = explore.ImpossibleError[Step]
)

// Trace is a run of a model, or the beginning of one.
type Trace struct{ Steps []Step }

// String tells the trace as a story, one line a step.
func (t Trace) String() string { return explore.Told(t.Steps) }

// TestExplorer_symmetry_losesNothing explores worlds without the reduction: every state must have the canonical form of
// one that Check visited, and Check must have visited no more.
func TestExplorer_symmetry_losesNothing(t *testing.T) {
	needs.NoRace(t, computes)
	for _, world := range []Clocks{
		{Masters: 3, Clients: 2, Attempts: 1, TTL: 1, Short: 1, Life: 1, Handed: true},
		{Masters: 2, Clients: 2, Attempts: 1, TTL: 2, Short: 1, Life: 1, Claims: true, Restarts: 1, Readers: 1},
		{Masters: 1, Clients: 2, Attempts: 2, TTL: 2, Short: 1, Life: 2, Delay: 1, Jumps: 1},
	} {
		raw(t, newClockSystem(world), world.Check)
	}
}

func raw(t *testing.T, sys *clockSystem, check func() (explore.Result, error)) {
	t.Helper()
	seen, classes := map[clockState]bool{}, map[clockKey]bool{}
	queue := sys.Starts()
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		classes[sys.Key(&s)] = true
		for _, m := range sys.Next(nil, &s) {
			queue = append(queue, m.To)
		}
	}
	result, err := check()
	t.Logf("%d raw states, %d classes", len(seen), len(classes))
	if err != nil || result.States != len(classes) {
		t.Errorf("Check visited %d states (%v), want %d", result.States, err, len(classes))
	}
}

func TestWalk_sameSeed_sameTrace(t *testing.T) {
	const seed = 7
	one, err := threeMasters.Walk(seed, 60)
	if err != nil {
		t.Fatal(err)
	}
	two, _ := threeMasters.Walk(seed, 60)
	other, _ := threeMasters.Walk(seed+1, 60)
	if !slices.Equal(one.Steps, two.Steps) || slices.Equal(one.Steps, other.Steps) {
		t.Errorf("walks of one seed differ, or walks of two seeds do not:\n%v%v%v", one, two, other)
	}
	if err := threeMasters.Run(one); err != nil {
		t.Errorf("the world does not follow its own walk: %v", err)
	}
}
