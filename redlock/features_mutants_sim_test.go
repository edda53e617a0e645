// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package redlock_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/needs"
)

// featureHunts are the mutants of what stands on the lock, with the checkers of which one finds each, and the parts of the world that are played. Those
// of the lock have schedules in chaos/mutants too; here they break a promise that is a feature's.
var featureHunts = []struct {
	mutant, parts string
	checkers      []string
	seed          uint64 // the first one: of 1, 2 and so on that which found it
	soak          bool   // it is hunted by a schedule in the gate
}{
	{"leads-on", "lead force", []string{"leaders"}, 1, false},
	{"same-leader", "lead", []string{"observed"}, 2, false},
	{"permit-reenters", "permit", []string{"permits"}, 1, false},
	{"turn-apart", "permit crowd", []string{"order"}, 1, false},
	{"giver-goes-on", "lock", []string{"exclusion"}, 1, false},
	{"adopter-keeps-token", "lock", []string{"exclusion"}, 1, true},
	{"extend-creates", "lock force", []string{"forced"}, 1, true},
	{"rest-lifted", "job", []string{"periods"}, 1, false},
	{"rest-not-looked-at", "job", []string{"periods"}, 1, true},
	{"no-second-read", "load", []string{"one load"}, 4, false},
	{"shared-queue", "team", []string{"namespaces"}, 1, false},
	{"keep-members", "several", []string{"all or nothing"}, 1, false},
	{"members-apart", "several force", []string{"all or nothing"}, 4, false},
}

// seedsEach is how many seeds a mutant is given.
const seedsEach = 8

// Each mutant of a feature is found by chance, by the checker of the promise that it breaks.
func TestFeatures_defenceRemoved_found(t *testing.T) {
	for _, hunt := range featureHunts {
		t.Run(hunt.mutant, func(t *testing.T) {
			if hunt.soak && !needs.InSoak(t) {
				t.Skip("in make soak: a schedule of chaos/mutants finds it in make test")
			}
			if err := mutants.Set(hunt.mutant); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = mutants.Set("") }()
			all := make(map[string]int)
			for seed := hunt.seed; seed < hunt.seed+seedsEach; seed++ {
				by, first := hunted(t, seed, hunt.parts)
				for _, checker := range hunt.checkers {
					if by[checker] > 0 {
						t.Logf("%s finds it with seed %d: %s", checker, seed, first[checker])
						return
					}
				}
				for checker, n := range by {
					all[checker] += n
				}
			}
			t.Errorf("not found by %q with %d seeds, but by %v", hunt.checkers, seedsEach, all)
		})
	}
}

// hunted runs a seed, and returns how often each checker found something, and what it said first.
func hunted(t *testing.T, seed uint64, parts string) (by map[string]int, first map[string]string) {
	by, first = make(map[string]int), make(map[string]string)
	simulate(t, func(t *testing.T, c *cluster) {
		var mu sync.Mutex
		w := newFeatures(t, c, seed, make(map[string]int), parts)
		w.hunted = func(checker, text string) {
			mu.Lock()
			defer mu.Unlock()
			if by[checker]++; by[checker] == 1 {
				first[checker] = text
			}
		}
		w.run()
	})
	return by, first
}

func TestFeatures_everySwitch_isHunted(t *testing.T) {
	for _, name := range mutants.Features() {
		n := 0
		for _, hunt := range featureHunts {
			if hunt.mutant == name {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is hunted %d times", name, n)
		}
	}
	if err := mutants.Set("no-such"); err == nil || slices.Contains(mutants.Names(), mutants.Features()[0]) {
		t.Errorf("%v; a switch has both lists", err)
	}
}
