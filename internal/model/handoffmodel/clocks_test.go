// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// with is w changed.
func with[T any](w T, change func(*T)) T {
	change(&w)
	return w
}

var (
	// threeMasters is a world of a quorum: two clients, ticks of their own for votes and signs of life.
	threeMasters = Clocks{Masters: 3, Clients: 2, Attempts: 1, TTL: 2, Short: 2, Life: 2}
	// oneMaster is the world of one master of any number: clients come back under fresh ids.
	oneMaster = Clocks{Masters: 1, Clients: 3, Attempts: 2, TTL: 3, Short: 2, Life: 2, Beats: true, Claims: true}
)

func oneTick(w *Clocks) { w.TTL, w.Short, w.Life = 1, 1, 1 }

// size says when a world is explored.
type size uint8

const (
	small size = iota // always, side by side
	large             // in .ci/run
	soak              // in a soak
)

// beside lets tests of small worlds run beside each other. Large ones take too much memory for that.
func beside(t *testing.T, s size) {
	if s == small {
		t.Parallel()
	}
}

// TestClocks_soundWorlds_exhausted visits every state of worlds in which the protocol is as it is specified. The counts
// keep a broken explorer, or a change of the model that nobody noticed, from passing.
func TestClocks_soundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	clocksExhausted(t, small)
}

func TestClocks_largeSoundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.CI(t)
	clocksExhausted(t, large)
}

func TestClocks_largestSoundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.Soak(t)
	clocksExhausted(t, soak)
}

func clocksExhausted(t *testing.T, of size) {
	tests := []struct {
		name            string
		world           Clocks
		states, holding int // all states, and those in which one attempt or more holds the lock
		size            size
	}{
		{"three masters", threeMasters, 227_600, 21_236, large},
		{"three masters, beats, claims, a restart, one tick", with(threeMasters, func(w *Clocks) { oneTick(w); w.Beats, w.Claims, w.Restarts = true, true, 1 }), 61_174, 2_930, large},
		{"three masters, beats, claims, TTL 3", with(threeMasters, func(w *Clocks) { w.TTL, w.Beats, w.Claims = 3, true, true }), 625_476, 145_110, large},
		{"three masters, an epoch ends, beats, claims", with(threeMasters, func(w *Clocks) { w.Epochs, w.TTL, w.Beats, w.Claims = true, 3, true, true }), 82_102, 23_357, large},
		{"three masters, a clock jumps, one tick", with(threeMasters, func(w *Clocks) { oneTick(w); w.Jumps, w.Beats, w.Claims = 1, true, true }), 60_132, 4_234, large},
		{"one master, a restart, Redisson", with(oneMaster, func(w *Clocks) { w.Restarts, w.Strange = 1, true }), 477_977, 121_525, large},
		{"one master, a clock jumps, late ops", with(oneMaster, func(w *Clocks) { w.Clients, w.Jumps, w.Restarts, w.Delay = 2, 1, 1, 1 }), 158_699, 52_787, large},
		{"one master, two readers and a writer", with(oneMaster, func(w *Clocks) { w.Attempts, w.Readers, w.Restarts = 1, 2, 1 }), 14_261, 6_095, small},

		{"three masters, beats, claims, a restart", with(threeMasters, func(w *Clocks) { w.Beats, w.Claims, w.Restarts = true, true, 1 }), 1_201_941, 156_426, soak},
		{"three masters, beats, claims, late ops", with(threeMasters, func(w *Clocks) { w.Beats, w.Claims, w.Delay = true, true, 1 }), 1_445_218, 133_338, soak},
		{"three masters, beats, claims, Redisson", with(threeMasters, func(w *Clocks) { w.Beats, w.Claims, w.Strange = true, true, true }), 547_268, 49_460, soak},
		{"three masters, a clock jumps, claims", with(threeMasters, func(w *Clocks) { w.Jumps, w.Claims = 1, true }), 718_913, 136_388, soak},
		{"three masters, a restart keeps the queue", with(threeMasters, func(w *Clocks) { w.Restarts, w.Keeps = 1, true }), 1_229_219, 104_467, soak},
		{"three masters, three clients, one tick", with(threeMasters, func(w *Clocks) { oneTick(w); w.Clients = 3 }), 1_031_972, 46_267, soak},
		{"three masters, a reader and a writer", with(threeMasters, func(w *Clocks) { w.Readers = 1 }), 454_754, 42_472, soak},
		{"one master, a clock jumps, a restart", with(oneMaster, func(w *Clocks) { w.TTL, w.Jumps, w.Restarts = 2, 1, 1 }), 1_470_829, 367_099, soak},
		{"one master, three attempts, late ops", with(oneMaster, func(w *Clocks) { w.Clients, w.Attempts, w.Delay, w.Restarts = 2, 3, 1, 1 }), 813_513, 200_655, soak},
		{"one master, a restart, late ops", with(oneMaster, func(w *Clocks) { w.Restarts, w.Delay = 1, 1 }), 1_481_137, 437_664, soak},
	}
	for _, test := range tests {
		if test.size != of {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			beside(t, of)
			result, err := test.world.Check()
			t.Logf("%+v", result)
			if err != nil {
				t.Fatal(err)
			}
			if holding := result.States - result.Holding[0]; result.States != test.states || holding != test.holding {
				t.Errorf("%d states, %d in which somebody holds the lock, want %d and %d", result.States, holding, test.states, test.holding)
			}
		})
	}
}

// handed is threeMasters in which every vote comes by message, so that the stories are of places and messages.
var handed = with(threeMasters, func(w *Clocks) { w.Handed = true })

// TestClocks_droppedRules_refuted finds the counter-example of every rule that time is needed for. What happens in it
// the sound world must not allow.
func TestClocks_droppedRules_refuted(t *testing.T) {
	needs.NoRace(t, computes)
	clocksRefuted(t, small)
}

// TestClocks_droppedRules_largeWorlds_refuted finds what TestClocks_droppedRules_refuted finds, in larger worlds too.
func TestClocks_droppedRules_largeWorlds_refuted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.Soak(t) // each of these rules has a small world as well
	clocksRefuted(t, soak)
}

func clocksRefuted(t *testing.T, of size) {
	const two, behind = "hold the lock at once", "something of it is there still"
	one := with(oneMaster, func(w *Clocks) { w.Clients, w.Attempts, w.TTL, w.Handed = 2, 1, 2, true })
	tests := []struct {
		rule   Rule
		world  Clocks
		reason string
		states int // visited until the counter-example
		size   size
	}{
		{H1, with(handed, oneTick), two, 22_338, small},
		{H2, one, two, 537, small},
		{H2, with(handed, func(w *Clocks) { w.Beats = true }), two, 2_696_154, soak},
		{H3, one, two, 259, small},
		{H3, handed, two, 643_299, soak},
		{H4Leave, handed, behind, 34, small},
		{H4Unlock, handed, behind, 13, small},
		{H5, with(handed, oneTick), two, 19_383, small},
		{H6, one, two, 867, small},
		{H6, with(handed, oneTick), two, 397_324, soak},
		{H9Settle, with(handed, func(w *Clocks) { oneTick(w); w.Restarts, w.Keeps = 1, true }), two, 53_089, small},
		{H9Claim, with(handed, func(w *Clocks) { w.Epochs, w.Claims = true, true }), two, 23_080, small},
		{H10Epoch, with(handed, func(w *Clocks) { oneTick(w); w.Epochs, w.Beats = true, true }), two, 3_998, small},
		{H13, with(handed, func(w *Clocks) { oneTick(w); w.Restarts = 1 }), two, 28_772, small},
		{H14, handed, behind, 17, small},
		{H16, with(threeMasters, func(w *Clocks) { oneTick(w); w.Jumps = 1 }), two, 75_456, small},
		{H17, with(oneMaster, func(w *Clocks) { w.Clients, w.TTL, w.Jumps = 2, 2, 1 }), two, 5_880, small},
	}
	for _, test := range tests {
		if test.size != of {
			continue
		}
		t.Run(test.rule.String(), func(t *testing.T) {
			beside(t, of)
			world := with(test.world, func(w *Clocks) { w.Drop = test.rule })
			result, err := world.Check()
			refuted(t, result, err, test.reason, test.states)
			var violation *ViolationError
			if !errors.As(err, &violation) {
				return
			}
			var again *ViolationError
			if err := world.Run(violation.Path); !errors.As(err, &again) || again.Reason != violation.Reason {
				t.Errorf("the trace does not lead there again: %v", err)
			}
			trace := violation.Path
			// The sound world leaves out signs of life that make no difference.
			trace.Steps = slices.DeleteFunc(slices.Clone(trace.Steps), func(s Step) bool { return test.rule == H2 && s.Kind == Beat })
			stopped(t, test.world.Run(trace))
		})
	}
}

// refuted wants a counter-example with that reason after so many states.
func refuted(t *testing.T, result explore.Result, err error, reason string, states int) {
	t.Helper()
	var violation *ViolationError
	if !errors.As(err, &violation) {
		t.Fatalf("no counter-example in %+v, error %v", result, err)
	}
	t.Logf("%d states\n%v", result.States, violation)
	if !strings.Contains(violation.Reason, reason) || result.States != states {
		t.Errorf("%q after %d states, want %q after %d", violation.Reason, result.States, reason, states)
	}
}

// stopped wants the sound world to refuse a counter-example: by a step that it does not have, or because the story ends
// in nothing wrong.
func stopped(t *testing.T, err error) {
	t.Helper()
	var impossible *ImpossibleError
	switch {
	case err == nil:
		t.Log("the sound world follows, and nothing is wrong at its end")
	case errors.As(err, &impossible):
		t.Logf("the sound world refuses: %v", impossible)
	default:
		t.Errorf("the sound world follows the counter-example: %v", err)
	}
}

// TestClocks_walks_hold makes random runs of a world that is too large to explore. Those of the list must get somewhere: four votes are counted in
// each. They are the same in each run, so a correct build never misses that.
func TestClocks_walks_hold(t *testing.T) {
	needs.NoRace(t, computes)
	worlds := map[string]Clocks{
		"five masters":               {Masters: 5, Clients: 3, Attempts: 2, TTL: 3, Short: 2, Life: 2, Delay: 1, Beats: true, Claims: true, Strange: true, Restarts: 2},
		"three masters, clocks jump": {Masters: 3, Clients: 3, Attempts: 2, TTL: 3, Short: 2, Life: 3, Beats: true, Claims: true, Restarts: 1, Jumps: 2},
		"three masters, readers":     {Masters: 3, Clients: 3, Attempts: 2, TTL: 3, Short: 3, Life: 3, Beats: true, Claims: true, Readers: 2, Restarts: 1},
	}
	walks := often(t, 1500, 300_000)
	for name, world := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard := 0
			for seed := range replay.Many(t, walks) {
				trace, err := world.Walk(seed, 150)
				if err != nil {
					t.Fatalf("walk %d: %v", seed, err)
				}
				for _, step := range trace.Steps {
					heard += boolTo[int](step.Kind == Hear)
				}
			}
			t.Logf("%d votes counted in %d walks", heard, walks)
			if replay.Listed() && heard < 4*walks {
				t.Errorf("only %d votes counted in %d walks", heard, walks)
			}
		})
	}
}

// TestClocks_walks_refuteToo makes sure that walks get where things go wrong. Fixed seeds: it cannot fail by luck.
func TestClocks_walks_refuteToo(t *testing.T) {
	needs.NoRace(t, computes)
	for _, rule := range []Rule{H1, H2, H3, H4Leave, H4Unlock, H5, H6, H9Settle, H13, H14, H16, H17} {
		world := Clocks{Masters: 3, Clients: 3, Attempts: 2, TTL: 2, Short: 2, Life: 2, Beats: true, Drop: rule}
		switch rule {
		case H9Settle, H13:
			world.Restarts, world.Keeps = 1, true
		case H16, H17:
			world.Jumps = 1
		}
		var violation *ViolationError
		n := uint64(0)
		for ; n < 60_000 && violation == nil; n++ {
			_, err := world.Walk(n, 150)
			errors.As(err, &violation)
		}
		if violation == nil {
			t.Errorf("%v: no walk refutes it", rule)
		} else {
			t.Logf("%v: walk %d: %s", rule, n, violation.Reason)
		}
	}
}

func TestClocks_badWorlds_refused(t *testing.T) {
	for name, change := range map[string]func(*Clocks){
		"no masters":       func(w *Clocks) { w.Masters = 0 },
		"six masters":      func(w *Clocks) { w.Masters = 6 },
		"four clients":     func(w *Clocks) { w.Clients = 4 },
		"seven attempts":   func(w *Clocks) { w.Clients, w.Attempts = 3, 3 },
		"no TTL":           func(w *Clocks) { w.TTL = 0 },
		"short is longer":  func(w *Clocks) { w.Short = 3 },
		"no life":          func(w *Clocks) { w.Life = 0 },
		"four restarts":    func(w *Clocks) { w.Restarts = 4 },
		"too many readers": func(w *Clocks) { w.Readers = 3 },
		"epochs of one":    func(w *Clocks) { w.Masters, w.Epochs = 1, true },
	} {
		w := with(threeMasters, change)
		if _, err := w.Check(); err == nil {
			t.Errorf("%s: Check accepts it", name)
		}
		if _, err := w.Walk(1, 1); err == nil {
			t.Errorf("%s: Walk accepts it", name)
		}
	}
	if _, err := with(threeMasters, func(w *Clocks) { w.Masters = 5 }).Check(); err == nil {
		t.Error("Check accepts five masters")
	}
	if result, err := with(threeMasters, func(w *Clocks) { w.MaxStates = 100 }).Check(); !errors.Is(err, explore.ErrTooLarge) {
		t.Errorf("%+v, %v, want explore.ErrTooLarge", result, err)
	}
}
