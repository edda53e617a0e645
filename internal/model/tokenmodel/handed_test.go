// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import (
	"errors"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// The tests of this file are about masters that grant by themselves.

// handed is a model of three masters and two attempts with clocks right, in which another lock raises a counter.
var handed = Model{Handed: true, Masters: 3, Attempts: 2, Raises: 1, Starts: Spread(3, 1), Properties: withOrder}

// TestTokens_soundWorlds_exhausted is the theorem of docs/safety.md for masters that grant by themselves. See
// TestCheck_soundModels_exhausted for the counts.
func TestTokens_soundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	exhausted(t, handedModels(), small)
}

func TestTokens_largeSoundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.CI(t)
	exhausted(t, handedModels(), large)
}

func TestTokens_largestSoundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.Soak(t)
	exhausted(t, handedModels(), soak)
}

func handedModels() []sound {
	starts := func(n int, most int64) func(*Model) {
		return func(w *Model) { w.Masters, w.Starts = n, Spread(n, most) }
	}
	noRaise := with(handed, func(w *Model) { w.Raises = 0 })
	five := with(noRaise, func(w *Model) { w.Masters, w.Starts = 5, [][]int64{{0, 0, 0, 0, 1}} })
	return []sound{
		{"clocks right", handed, 435_261, 69_718, large},
		{"proposals", with(noRaise, func(w *Model) { w.Floors = []int64{0, 2, 4} }), 218_780, 33_542, large},
		{"three attempts", with(noRaise, func(w *Model) { w.Attempts, w.Starts = 3, Spread(3, 0) }), 195_110, 70_778, large},
		{"five masters", five, 593_303, 62_942, large},
		{"votes vanish", anyClock(noRaise), 99_258, 14_552, small},
		{"votes vanish, proposals", with(anyClock(noRaise), func(w *Model) { w.Floors, w.Starts = []int64{0, 2, 4}, Spread(3, 0) }), 1_047_390, 163_000, large},
		{"one crash", with(noRaise, func(w *Model) { w.Amnesia = 1 }), 439_577, 58_541, large},
		{"two readers, votes vanish", with(anyClock(noRaise), func(w *Model) { w.Readers = true }), 299_550, 50_928, large},

		{"a counter that others raise, proposals", with(handed, func(w *Model) { w.Floors = []int64{0, 2, 4} }), 3_989_740, 674_970, soak},
		{"votes vanish, a counter that others raise", anyClock(handed), 2_420_176, 392_256, soak},
		{"one crash, a counter that others raise", with(handed, func(w *Model) { w.Amnesia, w.Starts = 1, Spread(3, 0) }), 1_369_587, 201_214, soak},
		{"two crashes", with(noRaise, func(w *Model) { w.Amnesia, w.Starts = 2, Spread(3, 0) }), 910_855, 112_190, soak},
		{"two readers, votes vanish, a counter that others raise", with(anyClock(handed), func(w *Model) { w.Readers = true }), 3_013_780, 520_288, soak},
		{"three attempts, votes vanish", with(anyClock(noRaise), func(w *Model) { w.Attempts, w.Starts = 3, Spread(3, 0) }), 4_599_134, 1_683_864, soak},
		{"five masters, one crash", with(with(noRaise, starts(5, 0)), func(w *Model) { w.Amnesia = 1 }), 7_567_371, 692_969, soak},
		{"five masters, votes vanish", with(anyClock(noRaise), starts(5, 0)), 3_164_505, 296_400, soak},
	}
}

// TestTokens_droppedRules_refuted finds the counter-example of every rule that tokens need.
func TestTokens_droppedRules_refuted(t *testing.T) {
	needs.NoRace(t, computes)
	noRaise := with(handed, func(w *Model) { w.Raises, w.Properties = 0, nil })
	zero := func(w *Model) { w.Starts = Spread(3, 0) }
	tests := []struct {
		rule   Rule
		world  Model
		reason string
		states int
	}{
		{H7, anyClock(noRaise), "is granted twice", 166_740},
		{H8Look, noRaise, "is granted twice", 9_014},
		{H8Confirm, noRaise, "is granted twice", 8_612},
		{H10Incarnation, with(with(noRaise, zero), func(w *Model) { w.Amnesia = 1 }), "is granted twice", 22_652},
		{H15, with(noRaise, func(w *Model) { w.Readers = true }), "is granted twice", 16_643},
		{H18, with(with(noRaise, zero), func(w *Model) { w.Amnesia = 1 }), "is granted twice", 6_789},
		{R4, anyClock(noRaise), "is granted", 23_247},
	}
	for _, test := range tests {
		t.Run(test.rule.String(), func(t *testing.T) {
			t.Parallel()
			world := with(test.world, func(w *Model) { w.Rule = test.rule })
			result, err := world.Check()
			var violation, again *ViolationError
			if !errors.As(err, &violation) || !strings.Contains(violation.Reason, test.reason) || result.States != test.states {
				t.Fatalf("%v after %d states, want %q after %d", err, result.States, test.reason, test.states)
			}
			t.Logf("%d states\n%v", result.States, violation)
			if err := world.Run(violation.Path); !errors.As(err, &again) || again.Reason != violation.Reason {
				t.Errorf("the trace does not lead there again: %v", err)
			}
			// The sound world does not have one of the steps, or nothing is wrong at the end.
			var impossible *ImpossibleError
			if err := test.world.Run(violation.Path); err != nil && !errors.As(err, &impossible) {
				t.Errorf("the sound world follows the counter-example: %v", err)
			}
		})
	}
}

// TestTokens_assumptions_needed shows what the theorem's conditions are for: each world is sound, but a condition is
// missing.
func TestTokens_assumptions_needed(t *testing.T) {
	order := with(anyClock(handed), func(w *Model) { w.Raises, w.Properties = 0, []Property{GrantOrder} })
	result, err := order.Check()
	var violation *ViolationError
	if !errors.As(err, &violation) {
		t.Errorf("grants follow the order of tokens although votes vanish: %+v, %v", result, err)
	} else {
		t.Log(violation)
	}
}

// TestTokens_walks_hold makes random runs of worlds that are too large to explore. Those of the list must get
// somewhere: a tenth of them or more see two grants. They are the same in each run, so a correct build never misses that.
func TestTokens_walks_hold(t *testing.T) {
	needs.NoRace(t, computes)
	five := Model{Handed: true, Masters: 5, Attempts: 3, Raises: 3, Starts: Spread(5, 3), Floors: []int64{0, 2, 7}, Properties: withOrder}
	walks := 3000
	if needs.InSoak(t) {
		walks = 1_000_000
	}
	for name, world := range map[string]Model{
		"clocks right": five,
		"votes vanish": anyClock(five),
		"two crashes":  with(five, func(w *Model) { w.Amnesia = 2 }),
		"readers":      with(anyClock(five), func(w *Model) { w.Readers = true }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			twice, walked := 0, 0
			for seed := range replay.Many(t, walks) {
				walked++
				trace, err := world.Walk(seed)
				if err != nil {
					t.Fatalf("walk %d: %v", seed, err)
				}
				grants := 0
				for _, step := range trace.Steps {
					grants += int(bit(step.Kind == Grant))
				}
				twice += int(bit(grants > 1))
			}
			t.Logf("%d of %d walks with two grants or more", twice, walked)
			if replay.Listed() && twice < walked/10 {
				t.Errorf("only %d of %d walks have two grants", twice, walked)
			}
		})
	}
}

// TestTokens_walks_refuteToo runs fixed seeds, so it cannot fail by luck.
func TestTokens_walks_refuteToo(t *testing.T) {
	needs.NoRace(t, computes)
	for _, rule := range []Rule{H7, H8Look, H8Confirm, H15, H18, R4} {
		world := Model{Handed: true, Masters: 5, Attempts: 3, Starts: Spread(5, 1), VotesMayVanish: true, Rule: rule}
		switch rule {
		case H15:
			world.Readers, world.Raises = true, 1
		case H18:
			world.Masters, world.Starts, world.VotesMayVanish, world.Amnesia = 3, Spread(3, 0), false, 2
		}
		var violation *ViolationError
		n := uint64(0)
		for ; n < 100_000 && violation == nil; n++ {
			_, err := world.Walk(n)
			errors.As(err, &violation)
		}
		if violation == nil {
			t.Errorf("%v: no walk refutes it", rule)
			continue
		}
		t.Logf("%v: walk %d: %s", rule, n, violation.Reason)
		if err := world.Run(violation.Path); !errors.As(err, &violation) {
			t.Errorf("%v: the walk's trace does not lead there again: %v", rule, err)
		}
	}
}

func TestJoins_allAnswers(t *testing.T) {
	for _, test := range []struct {
		vote, token, answer int64
		want                bool
	}{
		{5, 7, 7, true},   // raised to the token
		{5, 7, 9, true},   // another lock has raised the counter further; the vote is known not to be above
		{5, 7, 6, false},  // a reader that did not raise the counter
		{8, 7, 9, false},  // R4
		{0, 7, 7, true},   // nothing was told before, and the vote cannot be above
		{0, 7, 8, false},  // it may be above
		{7, 7, 7, true},   // it stands for the token anyway
		{9, 7, 7, false},  // impossible, and no reason to count it
		{0, 7, 6, false},  // impossible but for a reader
		{-1, 7, 3, false}, // nonsense
	} {
		if got := Joins(test.vote, test.token, test.answer); got != test.want {
			t.Errorf("Joins(%d, %d, %d) = %t", test.vote, test.token, test.answer, got)
		}
	}
}
