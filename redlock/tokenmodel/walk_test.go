// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import (
	"errors"
	"reflect"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

// five is beyond exhaustion: 5 masters, 3 attempts.
var five = Model{Masters: 5, Attempts: 3, Starts: Spread(5, 3), Floors: []int64{0, 2, 7}}

// TestWalk_soundModels_hold asserts too that the walks got somewhere: a fifth of them or more see two grants. In a
// soak it walks until the three models together have granted ten million tokens.
func TestWalk_soundModels_hold(t *testing.T) {
	needs.NoRace(t, computes)
	walks, grants := uint64(3000), 0
	if needs.InSoak(t) {
		walks, grants = 0, 10_000_000/3+1
	}
	for name, m := range map[string]Model{
		"clocks right": with(five, func(m *Model) { m.Properties = withOrder }),
		"votes vanish": anyClock(five),
		"two amnesias": with(five, func(m *Model) { m.Amnesia, m.Properties = 2, withOrder }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := seed(t)
			var byGrants [maxAttempts + 1]int
			granted, i := 0, uint64(0)
			for ; i < walks || granted < grants; i++ {
				path, err := m.Walk(first + i)
				if err != nil {
					t.Fatalf("walk %d: %v", first+i, err)
				}
				n := 0
				for _, step := range path.Steps {
					if step.Kind == Grant {
						n++
					}
				}
				byGrants[n]++
				granted += n
			}
			t.Logf("%d grants in %d walks from seed %d; walks by grants: %v", granted, i, first, byGrants)
			if byGrants[2]+byGrants[3] < int(i/10) || byGrants[3] == 0 {
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
	first := seed(t)
	one, err := five.Walk(first)
	if err != nil {
		t.Fatal(err)
	}
	two, _ := five.Walk(first)
	other, _ := five.Walk(first + 1)
	if !reflect.DeepEqual(one, two) || reflect.DeepEqual(one, other) {
		t.Errorf("walks of one seed differ, or walks of two seeds do not:\n%v%v%v", one, two, other)
	}
	if err := five.Run(one); err != nil {
		t.Errorf("the model does not follow its own walk: %v", err)
	}
}
