// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"errors"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/tokenmodel"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// withOrder are the properties that hold while clocks are right.
var withOrder = []tokenmodel.Property{tokenmodel.Unique, tokenmodel.RealTime, tokenmodel.GrantOrder}

// threeTokens is a world of three masters and two attempts with clocks right, in which another lock raises a counter.
var threeTokens = Tokens{Masters: 3, Attempts: 2, Raises: 1, Starts: tokenmodel.Spread(3, 1), Properties: withOrder}

// anyClock drops the assumption about clocks, and with it the property that needs it.
func anyClock(w *Tokens) { w.VotesMayVanish, w.Properties = true, nil }

// TestTokens_soundWorlds_exhausted is the theorem of docs/safety.md for masters that grant by themselves. See
// TestClocks_soundWorlds_exhausted for the counts.
func TestTokens_soundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	tokensExhausted(t, small)
}

func TestTokens_largeSoundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.CI(t)
	tokensExhausted(t, large)
}

func TestTokens_largestSoundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.Soak(t)
	tokensExhausted(t, soak)
}

func tokensExhausted(t *testing.T, of size) {
	starts := func(n int, most int64) func(*Tokens) {
		return func(w *Tokens) { w.Masters, w.Starts = n, tokenmodel.Spread(n, most) }
	}
	noRaise := with(threeTokens, func(w *Tokens) { w.Raises = 0 })
	five := with(noRaise, func(w *Tokens) { w.Masters, w.Starts = 5, [][]int64{{0, 0, 0, 0, 1}} })
	tests := []struct {
		name          string
		world         Tokens
		states, twice int // all states, and those with two grants or more
		size          size
	}{
		{"clocks right", threeTokens, 435_261, 69_718, large},
		{"proposals", with(noRaise, func(w *Tokens) { w.Floors = []int64{0, 2, 4} }), 218_780, 33_542, large},
		{"three attempts", with(noRaise, func(w *Tokens) { w.Attempts, w.Starts = 3, tokenmodel.Spread(3, 0) }), 195_110, 70_778, large},
		{"five masters", five, 593_303, 62_942, large},
		{"votes vanish", with(noRaise, anyClock), 99_258, 14_552, small},
		{"votes vanish, proposals", with(with(noRaise, anyClock), func(w *Tokens) { w.Floors, w.Starts = []int64{0, 2, 4}, tokenmodel.Spread(3, 0) }), 1_047_390, 163_000, large},
		{"one crash", with(noRaise, func(w *Tokens) { w.Crashes = 1 }), 439_577, 58_541, large},
		{"two readers, votes vanish", with(with(noRaise, anyClock), func(w *Tokens) { w.Readers = true }), 299_550, 50_928, large},

		{"a counter that others raise, proposals", with(threeTokens, func(w *Tokens) { w.Floors = []int64{0, 2, 4} }), 3_989_740, 674_970, soak},
		{"votes vanish, a counter that others raise", with(threeTokens, anyClock), 2_420_176, 392_256, soak},
		{"one crash, a counter that others raise", with(threeTokens, func(w *Tokens) { w.Crashes, w.Starts = 1, tokenmodel.Spread(3, 0) }), 1_369_587, 201_214, soak},
		{"two crashes", with(noRaise, func(w *Tokens) { w.Crashes, w.Starts = 2, tokenmodel.Spread(3, 0) }), 910_855, 112_190, soak},
		{"two readers, votes vanish, a counter that others raise", with(with(threeTokens, anyClock), func(w *Tokens) { w.Readers = true }), 3_013_780, 520_288, soak},
		{"three attempts, votes vanish", with(with(noRaise, anyClock), func(w *Tokens) { w.Attempts, w.Starts = 3, tokenmodel.Spread(3, 0) }), 4_599_134, 1_683_864, soak},
		{"five masters, one crash", with(with(noRaise, starts(5, 0)), func(w *Tokens) { w.Crashes = 1 }), 7_567_371, 692_969, soak},
		{"five masters, votes vanish", with(with(noRaise, anyClock), starts(5, 0)), 3_164_505, 296_400, soak},
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
			if twice := result.Holding[2] + result.Holding[3]; result.States != test.states || twice != test.twice {
				t.Errorf("%d states, %d with two grants, want %d and %d", result.States, twice, test.states, test.twice)
			}
		})
	}
}

// TestTokens_droppedRules_refuted finds the counter-example of every rule that tokens need.
func TestTokens_droppedRules_refuted(t *testing.T) {
	needs.NoRace(t, computes)
	noRaise := with(threeTokens, func(w *Tokens) { w.Raises, w.Properties = 0, nil })
	zero := func(w *Tokens) { w.Starts = tokenmodel.Spread(3, 0) }
	tests := []struct {
		rule   Rule
		world  Tokens
		reason string
		states int
	}{
		{H7, with(noRaise, anyClock), "is granted twice", 166_740},
		{H8Look, noRaise, "is granted twice", 9_014},
		{H8Confirm, noRaise, "is granted twice", 8_612},
		{H10Incarnation, with(with(noRaise, zero), func(w *Tokens) { w.Crashes = 1 }), "is granted twice", 22_652},
		{H15, with(noRaise, func(w *Tokens) { w.Readers = true }), "is granted twice", 16_643},
		{H18, with(with(noRaise, zero), func(w *Tokens) { w.Crashes = 1 }), "is granted twice", 6_789},
		{R4, with(noRaise, anyClock), "is granted", 23_247},
	}
	for _, test := range tests {
		t.Run(test.rule.String(), func(t *testing.T) {
			t.Parallel()
			world := with(test.world, func(w *Tokens) { w.Drop = test.rule })
			result, err := world.Check()
			refuted(t, result, err, test.reason, test.states)
			var violation, again *ViolationError
			if !errors.As(err, &violation) {
				return
			}
			if err := world.Run(violation.Path); !errors.As(err, &again) || again.Reason != violation.Reason {
				t.Errorf("the trace does not lead there again: %v", err)
			}
			stopped(t, test.world.Run(violation.Path))
		})
	}
}

// TestTokens_assumptions_needed shows what the theorem's conditions are for: each world is sound, but a condition is
// missing.
func TestTokens_assumptions_needed(t *testing.T) {
	order := with(with(threeTokens, anyClock), func(w *Tokens) { w.Raises, w.Properties = 0, []tokenmodel.Property{tokenmodel.GrantOrder} })
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
	five := Tokens{Masters: 5, Attempts: 3, Raises: 3, Starts: tokenmodel.Spread(5, 3), Floors: []int64{0, 2, 7}, Properties: withOrder}
	walks := often(t, 3000, 1_000_000)
	for name, world := range map[string]Tokens{
		"clocks right": five,
		"votes vanish": with(five, anyClock),
		"two crashes":  with(five, func(w *Tokens) { w.Crashes = 2 }),
		"readers":      with(with(five, anyClock), func(w *Tokens) { w.Readers = true }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			twice := 0
			for seed := range replay.Many(t, walks) {
				trace, err := world.Walk(seed, 80)
				if err != nil {
					t.Fatalf("walk %d: %v", seed, err)
				}
				grants := 0
				for _, step := range trace.Steps {
					grants += boolTo[int](step.Kind == Grant)
				}
				twice += boolTo[int](grants > 1)
			}
			t.Logf("%d of %d walks with two grants or more", twice, walks)
			if replay.Listed() && twice < walks/10 {
				t.Errorf("only %d of %d walks have two grants", twice, walks)
			}
		})
	}
}

// TestTokens_walks_refuteToo runs fixed seeds, so it cannot fail by luck.
func TestTokens_walks_refuteToo(t *testing.T) {
	needs.NoRace(t, computes)
	for _, rule := range []Rule{H7, H8Look, H8Confirm, H15, H18, R4} {
		world := Tokens{Masters: 5, Attempts: 3, Starts: tokenmodel.Spread(5, 1), VotesMayVanish: true, Drop: rule}
		switch rule {
		case H15:
			world.Readers, world.Raises = true, 1
		case H18:
			world.Masters, world.Starts, world.VotesMayVanish, world.Crashes = 3, tokenmodel.Spread(3, 0), false, 2
		}
		var violation *ViolationError
		n := uint64(0)
		for ; n < 100_000 && violation == nil; n++ {
			_, err := world.Walk(n, 80)
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

func TestTokens_badWorlds_refused(t *testing.T) {
	for name, change := range map[string]func(*Tokens){
		"no masters":        func(w *Tokens) { w.Masters = 0 },
		"six masters":       func(w *Tokens) { w.Masters = 6 },
		"four attempts":     func(w *Tokens) { w.Attempts = 4 },
		"three crashes":     func(w *Tokens) { w.Crashes = 3 },
		"crash, any clock":  func(w *Tokens) { w.Crashes, w.VotesMayVanish = 1, true },
		"no starts":         func(w *Tokens) { w.Starts = nil },
		"short start":       func(w *Tokens) { w.Starts = [][]int64{{0, 0}} },
		"negative start":    func(w *Tokens) { w.Starts = [][]int64{{0, 0, -1}} },
		"proposal too high": func(w *Tokens) { w.Floors = []int64{maxValue + 1} },
	} {
		w := with(threeTokens, change)
		if _, err := w.Check(); err == nil {
			t.Errorf("%s: Check accepts it", name)
		}
		if _, err := w.Walk(1, 1); err == nil {
			t.Errorf("%s: Walk accepts it", name)
		}
	}
}

// TestExplorer_falseProperty_shortestRefutation proves that properties are judged at all, and that breadth comes first.
func TestExplorer_falseProperty_shortestRefutation(t *testing.T) {
	never := func(tokenmodel.Award) string { return "granted" }
	once := func(a tokenmodel.Award) string { return pick(len(a.Granted) > 0, "again", "") }
	for _, test := range []struct {
		name     string
		property tokenmodel.Property
		steps    int // begin, two votes, fix, grant; then an end, two give-backs and the same again
	}{{"nobody is ever granted", never, 5}, {"nobody is granted twice", once, 5 + 1 + 2 + 5}} {
		world := Tokens{Masters: 3, Attempts: 2, Starts: tokenmodel.Spread(3, 0), Properties: []tokenmodel.Property{test.property}}
		_, err := world.Check()
		var violation *ViolationError
		if !errors.As(err, &violation) || len(violation.Path.Steps) != test.steps {
			t.Errorf("%s: %v, want a refutation in %d steps", test.name, err, test.steps)
		}
	}
}

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
	for _, world := range []Tokens{
		{Masters: 3, Attempts: 2, Starts: [][]int64{{0, 0, 1}, {1, 0, 0}, {0, 1, 0}}},
		{Masters: 2, Attempts: 2, Starts: tokenmodel.Spread(2, 0), Crashes: 1, Raises: 1},
	} {
		raw(t, newTokenSystem(world), world.Check)
	}
}

func raw[S comparable, K comparable](t *testing.T, sys explore.System[S, Step, K, Trace], check func() (explore.Result, error)) {
	t.Helper()
	seen, classes := map[S]bool{}, map[K]bool{}
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
