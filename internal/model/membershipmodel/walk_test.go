// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	ms "github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// weights make a walk meet what matters. Uniform choice would spend all faults at once and let time pass ever again.
var weights = [kinds]int{
	Tick: 5, Look: 4, Act: 12, Post: 2, Deliver: 4, Drop: 1, Read: 12, Lose: 1, Restart: 1, Down: 1, Up: 3, Kill: 1, OwnJump: 1,
	Jump: 1, WriteNote: 4, Vote: 12, Confirm: 12, Hold: 4, Extend: 4, TopUp: 3,
}

// Walk makes one random run of so many steps, the same for the same seed, or a shorter one when the last step breaks
// something: then it returns a *ViolationError. It does not look for dead ends.
func (w World) Walk(seed uint64, steps int) (Path, error) {
	if err := w.init(); err != nil {
		return Path{}, err
	}
	y := &system{driver: newDriver(&w)}
	return explore.Walk(y, rand.New(rand.NewPCG(seed, 0)), w.start(), steps, func(step *Step) int { return weights[step.Kind] })
}

// walkSteps is long enough for two changes of five masters one after the other.
const walkSteps = 200

// Lists of five masters.
var (
	five       = List{Name: "A", Masters: []int{0, 1, 2, 3, 4}, TTL: 2}
	fiveLonger = List{Name: "B", Masters: []int{0, 1, 2, 3, 4}, TTL: 4}
	fiveShared = List{Name: "B", Masters: []int{2, 3, 4, 5, 6}, TTL: 2}
	fiveOther  = List{Name: "B", Masters: []int{5, 6, 7, 8, 9}, TTL: 2}
)

// fiveWorlds are beyond exhaustion.
var fiveWorlds = []World{
	{Name: "recovery", Lists: lists(five), Procs: procs(clientA, clientA, initI), Attempts: attempts(longA, lockA2, lockA), Steps: true,
		Losses: 6, Restarts: 2, Downs: 2, Kills: 1, OwnJumps: 1, Blind: 2, Late: 2},
	{Name: "tokens", Lists: lists(five), Procs: procs(clientA, clientA), Attempts: attempts(lockA, lockA2, lockA), Tokens: true,
		Losses: 4, Downs: 2, Blind: 2, Late: 2},
	{Name: "clocks", Lists: lists(five), Procs: procs(clientA, clientA), Attempts: attempts(longA, lockA2, lockA), Steps: true,
		Losses: 1, Downs: 1, Jumps: 2, Late: 1},
	{Name: "longer TTL", Lists: lists(five, fiveLonger), Procs: procs(clientA, clientB, toB, toB), Attempts: attempts(longA, lockB, lockB2),
		Losses: 6, Restarts: 1, Downs: 2, Kills: 2, Blind: 3, Late: 2},
	{Name: "three stay", Lists: lists(five, fiveShared), Procs: procs(clientA, clientB, toB, toB), Attempts: attempts(longA, lockB, lockB2),
		Losses: 4, Restarts: 1, Downs: 2, Kills: 2, Blind: 3, Late: 2},
	{Name: "none stays", Lists: lists(five, fiveOther), Procs: procs(clientA, clientB, toB, toB), Attempts: attempts(lockA, lockB, lockB2),
		Losses: 4, Downs: 2, Kills: 2, Blind: 3, Late: 2},
	{Name: "cancel", Lists: lists(five, fiveShared), Procs: procs(clientA, toB, cancelA, initI.abandons()), Attempts: attempts(lockA, lockA2, lockB),
		Losses: 2, Downs: 1, Blind: 3, Late: 2, Numbers: 9},
	{Name: "there and back", Lists: lists(five, fiveShared), Procs: procs(clientA, clientB, toB, backToA), Attempts: attempts(lockA, lockA2, lockB),
		Losses: 2, Downs: 1, Kills: 1, Blind: 3, Late: 2, Numbers: 9},
	{Name: "rivals", Lists: lists(five, fiveShared, List{Name: "C", Masters: []int{0, 1, 7}, TTL: 1}), Procs: procs(clientA, toB, toC, cancelA),
		Attempts: attempts(lockA, lockB, lockC), Losses: 2, Downs: 1, Blind: 6, Late: 2},
}

// TestWalk_fiveMasters_holds takes random walks. It asserts too that those of the list got somewhere. They are the same in each run, so a correct
// build never misses that. .ci/run takes more (TestWalk_fiveMastersFurther_hold), and a soak fifty times as many as that.
func TestWalk_fiveMasters_holds(t *testing.T) {
	needs.NoRace(t, computes)
	if needs.InSoak(t) {
		fiveMastersHold(t, 7500)
	} else {
		fiveMastersHold(t, 20)
	}
}

func TestWalk_fiveMastersFurther_hold(t *testing.T) {
	needs.NoRace(t, computes)
	needs.CI(t)
	fiveMastersHold(t, 150)
}

func fiveMastersHold(t *testing.T, walks int) {
	for _, w := range fiveWorlds {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			w.Stamps = true
			won := walk(t, w, walks, walkSteps)
			if taken := won[0] + won[1] + won[2] + won[3]; replay.Listed() && taken >= 20 && won[2]+won[3] < taken/12 {
				t.Errorf("too few walks in which two attempts took the lock: %v", won)
			}
		})
	}
}

// TestWalk_variants_refuted shows that walks of five masters find faults: with fixed seeds, so that it cannot fail by
// luck.
func TestWalk_variants_refuted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.Test(t)
	for name, test := range map[string]struct {
		world  int
		broken func(*World)
	}{
		"sight":       {5, off(ms.GuardSight)},
		"wait in R":   {0, off(ms.GuardWaitQuarantined)},
		"wait in X":   {5, off(ms.GuardWaitRetired)},
		"look again":  {5, off(ms.GuardLookAgain)},
		"disk":        {0, off(ms.GuardNotDurable)},
		"clock notes": {2, func(w *World) { w.Unwatch = true }},
		"from nonce":  {5, off(ms.GuardFromNonce)},
		"remember":    {0, func(w *World) { w.Remember = true }},
		"listed":      {5, off(ms.GuardListed)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := with(fiveWorlds[test.world], test.broken)
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

func TestWalk_sameSeed_samePath(t *testing.T) {
	one, _ := fiveWorlds[0].Walk(7, walkSteps)
	two, _ := fiveWorlds[0].Walk(7, walkSteps)
	other, _ := fiveWorlds[0].Walk(8, walkSteps)
	if !reflect.DeepEqual(one.Steps, two.Steps) || reflect.DeepEqual(one.Steps, other.Steps) || one.String() != two.String() {
		t.Errorf("walks of one seed differ, or walks of two seeds do not:\n%v%v%v", one, two, other)
	}
}
