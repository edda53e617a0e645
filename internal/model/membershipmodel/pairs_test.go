// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"errors"
	"slices"
	"testing"

	ms "github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// operators are what an operator can run. A client is what `status --wait` runs.
var operators = []struct {
	name string
	proc Proc
}{
	{"init", initI.abandons()}, {"change", toB}, {"back", backToA}, {"cancel", cancelA}, {"client", clientA}, {"client of B", clientB},
}

// operatorPairs are worlds with any two of the operators, from which another process takes over after a kill. In the
// middle of each there may be a kill, and the clock of a master may jump. Where neither is a change, a third process
// begins one and is killed, so that there is something unfinished.
func operatorPairs() (worlds []World) {
	for i, p := range operators {
		for _, q := range operators[i:] {
			w := World{Name: p.name + " and " + q.name, Lists: lists(listA, longer), Procs: procs(p.proc, q.proc), Attempts: attempts(lockA, lockB),
				Kills: 2, Jumps: 1, Numbers: 4, Stamps: true}
			if p.name != "change" && q.name != "change" {
				w.Procs = procs(p.proc, q.proc, toB.mortal())
				w.Kills++
			}
			worlds = append(worlds, w)
		}
	}
	return worlds
}

// faulty is a pair with more faults and a third attempt, too large for more than walks.
func faulty(w World, list List) World {
	w.Lists, w.Attempts = lists(listA, list), attempts(lockA, lockA2, lockB)
	w.Losses, w.Restarts, w.Downs, w.Blind, w.Late = 2, 1, 1, 2, 1
	return w
}

// TestCheck_operatorPairs_hold explores each pair breadth-first up to a bound, and says whether that was all. Then it
// walks at random with losses, late actions and masters out of reach on top, in lists of the same masters and in lists
// that share two.
func TestCheck_operatorPairs_hold(t *testing.T) {
	needs.NoRace(t, computes)
	if needs.InSoak(t) {
		pairsHold(t, 3_000_000, 3000)
	} else {
		pairsHold(t, 3_000, 5)
	}
}

func TestCheck_operatorPairsFurther_hold(t *testing.T) {
	needs.NoRace(t, computes)
	needs.CI(t)
	pairsHold(t, 30_000, 40)
}

func pairsHold(t *testing.T, limit, walks int) {
	for _, w := range operatorPairs() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			w.MaxStates = limit
			switch result, err := w.Check(); {
			case errors.Is(err, explore.ErrTooLarge):
				t.Logf("cut off: %v", result)
			case err != nil:
				t.Fatal(err)
			default:
				t.Logf("exhausted: %v", result)
			}
			for _, list := range []List{longer, shares2} {
				walk(t, faulty(w, list), walks, walkSteps)
			}
		})
	}
}

// TestWalk_operatorPairs_refuted: walks through the pairs find faults too, with fixed seeds, so that it cannot fail by
// luck.
func TestWalk_operatorPairs_refuted(t *testing.T) {
	needs.NoRace(t, computes)
	for _, test := range []struct {
		pair   string
		broken func(*World)
	}{
		{"change and change", off(ms.GuardWaitRetired)},
		{"change and client", off(ms.GuardWaitQuarantined)},
		{"change and cancel", off(ms.GuardWaitRetired)},
		{"init and change", off(ms.GuardWaitQuarantined)},
		{"init and client", off(ms.GuardNotDurable)},
		{"client and client of B", func(w *World) { w.Unwatch = true }},
	} {
		t.Run(test.pair, func(t *testing.T) {
			t.Parallel()
			worlds := operatorPairs()
			w := with(worlds[slices.IndexFunc(worlds, func(w World) bool { return w.Name == test.pair })], test.broken)
			w = faulty(w, shares2)
			var violation *ViolationError
			for seed := range uint64(4000) {
				if _, err := w.Walk(seed, walkSteps); errors.As(err, &violation) {
					t.Logf("walk %d: %s", seed, violation.Reason)
					return
				}
			}
			t.Error("no violation in 4000 walks")
		})
	}
}

// walk takes random walks, and returns how many of them took how many locks.
func walk(t *testing.T, w World, walks, steps int) (won [maxAttempts + 1]int) {
	t.Helper()
	for seed := range replay.Many(t, walks) {
		p, err := w.Walk(seed, steps)
		if err != nil {
			t.Fatalf("walk %d: %v", seed, err)
		}
		last, n := &p.states[len(p.states)-1], 0
		for a := range w.Attempts {
			if last.attempts[a].won {
				n++
			}
		}
		won[n]++
	}
	t.Logf("%d walks of %d steps; walks by locks taken: %v", walks, steps, won)
	return won
}
