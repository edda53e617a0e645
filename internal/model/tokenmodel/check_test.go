// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import (
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// computes is why a test is run without the race detector, which makes it six times slower.
const computes = "one goroutine that only computes"

var withOrder = []Property{Unique, RealTime, GrantOrder}

// ce1, order: A is granted 10, then B is granted 2, with perfect clocks. Five masters, two attempts.
var ce1 = Path{
	Start: []int64{9, 0, 0, 1, 1},
	Steps: []Step{
		{Kind: Start, Attempt: 0},
		{Kind: Acquire, Attempt: 0, Master: 0, Value: 10, OK: true},
		{Kind: Acquire, Attempt: 0, Master: 1, Value: 1, OK: true},
		{Kind: Acquire, Attempt: 0, Master: 2, Value: 1, OK: true},
		{Kind: Start, Attempt: 1},
		{Kind: Acquire, Attempt: 1, Master: 3, Value: 2, OK: true},
		{Kind: Acquire, Attempt: 1, Master: 4, Value: 2, OK: true},
		{Kind: Acquire, Attempt: 0, Master: 3}, // refused; CompareAndSet learns the counter from it
		{Kind: Acquire, Attempt: 0, Master: 4},
		{Kind: Count, Attempt: 0, Value: 10},
		{Kind: Confirm, Attempt: 0, Master: 3, Value: 10, OK: true}, // A has no vote on these two
		{Kind: Confirm, Attempt: 0, Master: 4, Value: 10, OK: true},
		{Kind: Grant, Attempt: 0, Value: 10},
		{Kind: End, Attempt: 0},
		{Kind: Release, Attempt: 0, Master: 2, OK: true},
		{Kind: Acquire, Attempt: 1, Master: 2, Value: 2, OK: true}, // slow
		{Kind: Count, Attempt: 1, Value: 2},                        // three votes that agree: no second round
		{Kind: Grant, Attempt: 1, Value: 2},
	},
}

// ce2, duplicate: A is granted 4, then B is granted 4. Three masters, two attempts.
var ce2 = Path{
	Start: []int64{3, 3, 0},
	Steps: []Step{
		{Kind: Start, Attempt: 0},
		{Kind: Acquire, Attempt: 0, Master: 0, Value: 4, OK: true},
		{Kind: Acquire, Attempt: 0, Master: 2, Value: 1, OK: true},
		{Kind: Count, Attempt: 0, Value: 4},
		{Kind: Start, Attempt: 1},
		{Kind: Acquire, Attempt: 1, Master: 1, Value: 4, OK: true},
		{Kind: Acquire, Attempt: 0, Master: 1},                     // refused
		{Kind: Confirm, Attempt: 0, Master: 1, Value: 4, OK: true}, // B has the vote there
		{Kind: Grant, Attempt: 0, Value: 4},
		{Kind: End, Attempt: 0},
		{Kind: Release, Attempt: 0, Master: 2, OK: true},
		{Kind: Acquire, Attempt: 1, Master: 2, Value: 2, OK: true},
		{Kind: Count, Attempt: 1, Value: 4},
		{Kind: Confirm, Attempt: 1, Master: 2, Value: 4, OK: true},
		{Kind: Grant, Attempt: 1, Value: 4},
	},
}

// TestCheck_soundModels_exhausted is the theorem for small N. The exact counts keep a broken explorer, or a change of the
// model that nobody noticed, from passing; who changes the model on purpose changes them. The large models run one after
// the other, for memory (about 1 GB), and not under the race detector, which makes them six times slower and has nothing
// to find in a single goroutine.
//
// The verdicts are those of the table in docs/safety.md, 3.3; the counts are of another encoding. This one has no state
// for a reply that arrived and was not yet used (see reply), which makes it smaller; it starts from every vector of
// counters in a range, which makes it larger. From 0 or 1 each: 23,029 states with clocks right (table: 18,182), 76,680
// with votes vanishing (334,805), 391,889 with one amnesia (442,185). From 0 only, S0, S1 and S3 hold for three masters and
// two attempts with clocks right: they need what a dead attempt left behind.
func TestCheck_soundModels_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	exhausted(t, soundModels(), small)
}

func TestCheck_largeSoundModels_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.CI(t)
	exhausted(t, soundModels(), large)
}

// size says when a model is explored.
type size uint8

const (
	small size = iota // always, side by side
	large             // in .ci/run
	soak              // in a soak
)

// sound is a model in which nothing is wrong.
type sound struct {
	name           string
	model          Model
	states, grants int // all states, and those with two grants or more
	size           size
}

func soundModels() []sound {
	three := Model{Masters: 3, Attempts: 2, Starts: Spread(3, 3), Properties: withOrder}
	starts := func(s ...[]int64) func(*Model) { return func(m *Model) { m.Starts = s } }
	floors := func(m *Model) { m.Starts, m.Floors = Spread(3, 1), []int64{0, 2, 4} }
	attempts3 := func(m *Model) { m.Attempts, m.Starts = 3, Spread(3, 0) }
	fiveMasters := with(three, func(m *Model) { m.Masters, m.Starts = 5, Spread(5, 0) })
	return []sound{
		{"clocks right", three, 136_953, 10_260, small},
		{"floors", with(three, floors), 76_392, 6_120, small},
		{"three attempts", with(three, attempts3), 358_512, 92_202, large},
		{"five masters", with(fiveMasters, starts([]int64{0, 0, 0, 0, 1})), 384_995, 29_216, large},
		{"one amnesia", with(three, func(m *Model) { m.Amnesia, m.Starts = 1, Spread(3, 1) }), 391_889, 29_034, large},
		{"votes vanish", anyClock(with(three, starts(Spread(3, 1)...))), 76_680, 7_112, small},
		{"votes vanish, floors", anyClock(with(three, floors)), 250_674, 23_768, large},
		{"votes vanish, five masters", anyClock(fiveMasters), 310_992, 24_496, large},

		{"two amnesias", with(three, func(m *Model) { m.Amnesia, m.Starts = 2, Spread(3, 0) }), 808_022, 55_752, large},
		{"votes vanish, wider start", anyClock(three), 457_518, 39_928, large},
		{"votes vanish, three attempts", anyClock(with(three, attempts3)), 3_154_760, 871_024, large},
		{"five masters, from the counters of CE-1", with(fiveMasters, starts(ce1.Start)), 2_813_524, 181_762, large},
	}
}

// exhausted visits every state of the models of that size.
func exhausted(t *testing.T, models []sound, of size) {
	for _, test := range models {
		if test.size != of {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			if of == small { // large ones take too much memory for that
				t.Parallel()
			}
			result, err := test.model.Check()
			t.Logf("%+v", result)
			if err != nil {
				t.Fatal(err)
			}
			if twice := result.Holding[2] + result.Holding[3]; result.States != test.states || twice != test.grants {
				t.Errorf("%d states, %d with two grants, want %d and %d", result.States, twice, test.states, test.grants)
			}
		})
	}
}

func with(m Model, change func(*Model)) Model {
	change(&m)
	return m
}

// anyClock drops the assumption about clocks, and with it the property that needs it.
func anyClock(m Model) Model {
	m.VotesMayVanish, m.Properties = true, nil
	return m
}

// TestCheck_brokenModels_refuted finds the counter-example of every variant. What a broken rule did, the sound one
// must not be able to do.
func TestCheck_brokenModels_refuted(t *testing.T) {
	needs.NoRace(t, computes)
	three := Model{Masters: 3, Attempts: 2, Starts: Spread(3, 1)}
	rule := func(r Rule) Model { return with(three, func(m *Model) { m.Rule = r }) }
	recovery := func(r Recovery) Model {
		return with(three, func(m *Model) { m.Starts, m.Amnesia, m.Recovery = Spread(3, 0), 1, r })
	}
	order := func(m Model) Model { return with(m, func(m *Model) { m.Properties = []Property{GrantOrder} }) }
	realTime := func(m Model) Model { return with(m, func(m *Model) { m.Properties = []Property{RealTime} }) }
	tests := []struct {
		name  string
		model Model
		sound Model // must not allow the counter-example; zero if there is none: the assumption itself is broken
	}{
		{"S0 no write-back", rule(NoWriteBack), rule(WhileHeld)},
		{"S0 no write-back, real time", realTime(rule(NoWriteBack)), rule(WhileHeld)},
		{"S1 unconditional", rule(Unconditional), rule(WhileHeld)},
		{"S1 unconditional, order", order(rule(Unconditional)), rule(WhileHeld)},
		{"S3 compare and set", rule(CompareAndSet), rule(WhileHeld)},
		{"S3 compare and set, order", order(rule(CompareAndSet)), rule(WhileHeld)},
		{"late vote", anyClock(rule(LateVote)), anyClock(rule(WhileHeld))},
		{"acquire sent again", anyClock(rule(Resent)), anyClock(rule(WhileHeld))},
		{"sound rule, votes vanish, order", order(anyClock(rule(WhileHeld))), Model{}},
		{"amnesia, vote at once", recovery(VoteAtOnce), recovery(QuarantineThenRelearn)},
		{"amnesia, quarantine only", recovery(QuarantineOnly), recovery(QuarantineThenRelearn)},
		{"amnesia, relearn then quarantine", recovery(RelearnThenQuarantine), recovery(QuarantineThenRelearn)},
		{
			"two amnesias, relearn from anyone",
			with(recovery(RelearnFromAnyone), func(m *Model) { m.Amnesia = 2 }),
			with(recovery(QuarantineThenRelearn), func(m *Model) { m.Amnesia = 2 }),
		},
		{"amnesia, any clock", anyClock(recovery(QuarantineThenRelearn)), recovery(QuarantineThenRelearn)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			result, err := test.model.Check()
			var violation *ViolationError
			if !errors.As(err, &violation) {
				t.Fatalf("no counter-example in %+v, error %v", result, err)
			}
			t.Logf("%+v\n%v", result, violation)
			var again *ViolationError
			if err := test.model.Run(violation.Path); !errors.As(err, &again) || again.Reason != violation.Reason {
				t.Errorf("the path does not lead there again: %v", err)
			}
			if test.sound.Masters == 0 {
				return
			}
			var impossible *ImpossibleError
			if err := test.sound.Run(violation.Path); !errors.As(err, &impossible) {
				t.Errorf("the sound model follows the counter-example: %v", err)
			} else {
				t.Logf("the sound model refuses: %v", impossible)
			}
		})
	}
}

// TestRun_counterExamples replays the two published schedules. Beside them stands the step the sound rule refuses: the
// first write-back to a master whose vote is not held.
func TestRun_counterExamples(t *testing.T) {
	tests := []struct {
		name    string
		path    Path
		rule    Rule
		reason  string
		refused int
	}{
		{"CE-1 unconditional", ce1, Unconditional, "token 2 is granted after token 10", 10},
		{"CE-1 compare and set", ce1, CompareAndSet, "token 2 is granted after token 10", 10},
		{"CE-2 unconditional", ce2, Unconditional, "token 4 is granted twice", 7},
		{"CE-2 compare and set", ce2, CompareAndSet, "token 4 is granted twice", 7},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := Model{Masters: len(test.path.Start), Attempts: 2, Rule: test.rule, Properties: withOrder}
			longer := Path{test.path.Start, append(slices.Clone(test.path.Steps), Step{Kind: End, Attempt: 1})}
			var violation *ViolationError
			if err := m.Run(longer); !errors.As(err, &violation) {
				t.Fatalf("no violation: %v", err)
			}
			if violation.Reason != test.reason || len(violation.Path.Steps) != len(test.path.Steps) {
				t.Errorf("%v, want %q at the last grant", violation, test.reason)
			}
			m.Rule = WhileHeld
			var impossible *ImpossibleError
			if err := m.Run(test.path); !errors.As(err, &impossible) || impossible.Index != test.refused {
				t.Errorf("%v, want step %d refused", err, test.refused+1)
			}
			// Without the refused write-backs the schedule stops at the first grant.
			rest := Path{Start: test.path.Start, Steps: slices.Clone(test.path.Steps)}
			rest.Steps = slices.DeleteFunc(rest.Steps, func(s Step) bool { return s.Kind == Confirm && s.Attempt == 0 })
			if err := m.Run(rest); !errors.As(err, &impossible) || impossible.Step.Kind != Grant {
				t.Errorf("%v, want the grant refused", err)
			}
		})
	}
}

// TestCheck_falseProperty_shortestRefutation proves that the properties are judged at all, and that breadth comes first.
func TestCheck_falseProperty_shortestRefutation(t *testing.T) {
	tests := []struct {
		name     string
		property Property
		steps    int // start, two votes, count, grant; then an end, two releases and the same again
	}{
		{"nobody is ever granted", func(Award) string { return "granted" }, 5},
		{"nobody is granted twice", func(a Award) string {
			if len(a.Granted) > 0 {
				return "again"
			}
			return ""
		}, 5 + 1 + 2 + 5},
	}
	for _, test := range tests {
		m := Model{Masters: 3, Attempts: 2, Starts: Spread(3, 0), Properties: []Property{Unique, test.property}}
		_, err := m.Check()
		var violation *ViolationError
		if !errors.As(err, &violation) {
			t.Errorf("%s: not refuted: %v", test.name, err)
		} else if len(violation.Path.Steps) != test.steps {
			t.Errorf("%s: refuted in %d steps, want %d: %v", test.name, len(violation.Path.Steps), test.steps, err)
		}
	}
}

func TestProperties_knownAwards(t *testing.T) {
	tests := []struct {
		award                     Award
		unique, realTime, inOrder bool // what is right with it
	}{
		{Award{Token: 1}, true, true, true},
		{Award{Token: 5, Granted: []int64{3, 4}, After: 4}, true, true, true},
		{Award{Token: 4, Granted: []int64{3, 4}}, false, true, false},
		{Award{Token: 4, Granted: []int64{3, 4}, After: 4}, false, false, false},
		{Award{Token: 2, Granted: []int64{3, 1}, After: 1}, true, true, false},
		{Award{Token: 2, Granted: []int64{3, 1}, After: 3}, true, false, false},
	}
	for _, test := range tests {
		for _, c := range []struct {
			name     string
			property Property
			right    bool
		}{{"Unique", Unique, test.unique}, {"RealTime", RealTime, test.realTime}, {"GrantOrder", GrantOrder, test.inOrder}} {
			if wrong := c.property(test.award); (wrong == "") != c.right {
				t.Errorf("%s(%+v) = %q", c.name, test.award, wrong)
			}
		}
	}
}

// TestCheck_symmetry_losesNothing explores one model without the reduction and compares: every raw state must be an
// image of a canonical one, and the classes must add up to the raw count. On the way it checks the invariant of a counter.
func TestCheck_symmetry_losesNothing(t *testing.T) {
	needs.NoRace(t, computes)
	for _, m := range []Model{
		{Masters: 3, Attempts: 2, Starts: [][]int64{{0, 0, 1}}, Floors: []int64{0, 2}},
		{Masters: 2, Attempts: 2, Starts: Spread(2, 0), Amnesia: 1, VotesMayVanish: true},
		{Masters: 1, Attempts: 3, Starts: Spread(1, 0), Rule: CompareAndSet},
		{Handed: true, Masters: 3, Attempts: 2, Starts: [][]int64{{0, 0, 1}}},
		{Handed: true, Masters: 2, Attempts: 2, Starts: Spread(2, 0), Amnesia: 1, Raises: 1},
	} {
		x := newSystem(m)
		classes, raw := map[key]bool{}, map[state]bool{}
		var queue []state
		push := func(s state) {
			if !raw[s] {
				raw[s] = true
				queue = append(queue, s)
			}
		}
		for _, start := range m.Starts {
			for _, order := range explore.Permutations(m.Masters) {
				push(exchange(m.start(start), order, explore.Permutations(m.Attempts)[0]))
			}
		}
		var next []transition
		images := 0
		for len(queue) > 0 {
			s := queue[0]
			queue = queue[1:]
			if k := x.Key(&s); !classes[k] {
				classes[k] = true
				images += len(orbit(m, s))
			}
			next = x.Next(next[:0], &s)
			for _, to := range next {
				push(to.To)
				for n := range to.To.masters {
					if to.To.masters[n].counter < s.masters[n].counter && to.Step.Kind != Crash {
						t.Fatalf("the counter falls: %v", to.Step)
					}
				}
			}
		}
		result, err := m.Check()
		t.Logf("%d raw states, %d classes", len(raw), len(classes))
		if err != nil || result.States != len(classes) || images != len(raw) {
			t.Errorf("Check saw %d states (%v), want %d; classes hold %d raw states, want %d", result.States, err, len(classes), images, len(raw))
		}
	}
}

// orbit returns all images of s.
func orbit(m Model, s state) map[state]bool {
	images := map[state]bool{}
	for _, masters := range explore.Permutations(m.Masters) {
		for _, attempts := range explore.Permutations(m.Attempts) {
			images[exchange(s, masters, attempts)] = true
		}
	}
	return images
}

// exchange puts master masters[n] at n and attempt attempts[a] at a.
func exchange(s state, masters, attempts []int) state {
	to := state{crashes: s.crashes, raises: s.raises}
	for n, from := range masters {
		to.masters[n] = s.masters[from]
		to.masters[n].owners = 0
		for a, was := range attempts {
			to.masters[n].owners |= s.masters[from].owners >> was & 1 << a
		}
	}
	for a, from := range attempts {
		to.attempts[a] = s.attempts[from]
		for n, master := range masters {
			to.attempts[a].asks[n] = s.attempts[from].asks[master]
		}
	}
	return to
}

func TestCheck_badModel_refused(t *testing.T) {
	good := Model{Masters: 3, Attempts: 2, Starts: Spread(3, 0)}
	for name, change := range map[string]func(*Model){
		"no masters":       func(m *Model) { m.Masters = 0 },
		"six masters":      func(m *Model) { m.Masters = 6 },
		"no attempts":      func(m *Model) { m.Attempts = 0 },
		"four attempts":    func(m *Model) { m.Attempts = 4 },
		"four amnesias":    func(m *Model) { m.Amnesia = 4 },
		"unknown rule":     func(m *Model) { m.Rule = H18 + 1 },
		"rule of hands":    func(m *Model) { m.Rule = H18 },
		"raises":           func(m *Model) { m.Raises = 1 },
		"readers":          func(m *Model) { m.Readers = true },
		"handed, S1":       func(m *Model) { m.Handed, m.Rule = true, Unconditional },
		"handed, recovery": func(m *Model) { m.Handed, m.Recovery = true, VoteAtOnce },
		"three crashes":    func(m *Model) { m.Handed, m.Amnesia = true, 3 },
		"crash, any clock": func(m *Model) { m.Handed, m.Amnesia, m.VotesMayVanish = true, 1, true },
		"crash, readers":   func(m *Model) { m.Handed, m.Amnesia, m.Readers = true, 1, true },
		"four raises":      func(m *Model) { m.Handed, m.Raises = true, 4 },
		"unknown recovery": func(m *Model) { m.Recovery = RelearnFromAnyone + 1 },
		"no starts":        func(m *Model) { m.Starts = nil },
		"short start":      func(m *Model) { m.Starts = [][]int64{{0, 0}} },
		"negative start":   func(m *Model) { m.Starts = [][]int64{{0, 0, -1}} },
		"floor too large":  func(m *Model) { m.Floors = []int64{maxValue + 1} },
	} {
		m := with(good, change)
		if _, err := m.Check(); err == nil {
			t.Errorf("%s: Check accepts it", name)
		}
		if _, err := m.Walk(1); err == nil {
			t.Errorf("%s: Walk accepts it", name)
		}
	}
	good.MaxStates = 100
	if result, err := good.Check(); !errors.Is(err, explore.ErrTooLarge) {
		t.Errorf("%+v, %v, want ErrTooLarge", result, err)
	}
}
