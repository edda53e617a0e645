// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// five is beyond exhaustion: 5 masters, 3 attempts.
var five = Model{Masters: 5, Attempts: 3, Starts: Spread(5, 3), Floors: []int64{0, 2, 7}}

// TestWalk_soundModels_hold asserts too that the walks of the list got somewhere: a tenth of them or more see two grants. A walk is the same in each
// run, so a correct build never misses that. In a soak it walks until the three models together have granted ten million tokens.
func TestWalk_soundModels_hold(t *testing.T) {
	needs.NoRace(t, computes)
	walks, grants := 3000, 0
	if needs.InSoak(t) {
		walks, grants = math.MaxInt, 10_000_000/3+1
	}
	for name, m := range map[string]Model{
		"clocks right": with(five, func(m *Model) { m.Properties = withOrder }),
		"votes vanish": anyClock(five),
		"two amnesias": with(five, func(m *Model) { m.Amnesia, m.Properties = 2, withOrder }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var byGrants [maxAttempts + 1]int
			granted, i := 0, 0
			for seed := range replay.Many(t, walks) {
				path, err := m.Walk(seed)
				if err != nil {
					t.Fatalf("walk %d: %v", seed, err)
				}
				i++
				n := 0
				for _, step := range path.Steps {
					if step.Kind == Grant {
						n++
					}
				}
				byGrants[n]++
				if granted += n; grants > 0 && granted >= grants {
					break
				}
			}
			t.Logf("%d grants in %d walks; walks by grants: %v", granted, i, byGrants)
			if replay.Listed() && (byGrants[2]+byGrants[3] < i/10 || byGrants[3] == 0) {
				t.Errorf("too few walks with two or three grants: %v of %d", byGrants, i)
			}
		})
	}
}

// TestWalk_brokenRules_refuted runs fixed seeds, so it cannot fail by luck.
func TestWalk_brokenRules_refuted(t *testing.T) {
	needs.NoRace(t, computes)
	const walks = 5000
	for name, rule := range map[string]Rule{
		"S0": NoWriteBack, "S1": Unconditional, "S3": CompareAndSet, "late vote": LateVote, "sent again": Resent,
	} {
		m := anyClock(Model{Masters: 5, Attempts: 3, Starts: Spread(5, 1), Rule: rule})
		var violation *ViolationError
		for i := uint64(0); i < walks && violation == nil; i++ {
			if _, err := m.Walk(i); errors.As(err, &violation) {
				t.Logf("%s: walk %d: %s", name, i, violation.Reason)
			}
		}
		if violation == nil {
			t.Errorf("%s: no violation in %d walks", name, walks)
		} else if err := m.Run(violation.Path); !errors.As(err, &violation) {
			t.Errorf("%s: the walk's path does not lead there again: %v", name, err)
		}
	}
}

func TestWalk_sameSeed_samePath(t *testing.T) {
	const seed = 7
	one, err := five.Walk(seed)
	if err != nil {
		t.Fatal(err)
	}
	two, _ := five.Walk(seed)
	other, _ := five.Walk(seed + 1)
	if !reflect.DeepEqual(one, two) || reflect.DeepEqual(one, other) {
		t.Errorf("walks of one seed differ, or walks of two seeds do not:\n%v%v%v", one, two, other)
	}
	if err := five.Run(one); err != nil {
		t.Errorf("the model does not follow its own walk: %v", err)
	}
}
