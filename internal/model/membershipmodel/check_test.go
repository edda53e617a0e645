// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

// computes is why a test is run without the race detector, which makes a world six times slower.
const computes = "one goroutine that only computes"

// rare are the rows of the table of package membership that no small world shows.
var rare = []Move{{"R before", "R", "serve"}, {"V before", "V", "serve"}, {"X", "V", "serve"}}

// TestCheck_soundWorlds_exhausted visits every state of every small world and finds nothing.
//
// It also holds what the machine did in these worlds against the table: each row but the rare ones must have been seen.
func TestCheck_soundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	moves := exhausted(t, small)
	if t.Failed() {
		return
	}
	for m := range checkTable(t, moves) {
		if moves[m] == 0 && !slices.Contains(rare, m) {
			t.Errorf("the table has what the machine did in no small world: %+v", m)
		}
	}
}

// TestCheck_largeSoundWorlds_exhausted does the same with the large worlds. They show the rare rows.
func TestCheck_largeSoundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.CI(t)
	moves := exhausted(t, large)
	if t.Failed() {
		return
	}
	table := checkTable(t, moves)
	for _, m := range rare {
		if moves[m] == 0 || !table[m] {
			t.Errorf("%+v: %d times in the large worlds, in the table: %t", m, moves[m], table[m])
		}
	}
}

// TestCheck_largestSoundWorlds_exhausted does the same with worlds of up to 3 million states.
func TestCheck_largestSoundWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.Soak(t)
	if moves := exhausted(t, soak); !t.Failed() {
		checkTable(t, moves)
	}
}

// exhausted visits every state of the worlds of these sizes, and returns how often the machine made each move.
func exhausted(t *testing.T, sizes ...size) map[Move]int {
	var mu sync.Mutex
	moves := make(map[Move]int)
	t.Run("worlds", func(t *testing.T) {
		for _, test := range soundWorlds {
			if !slices.Contains(sizes, test.size) {
				continue
			}
			t.Run(test.Name, func(t *testing.T) {
				t.Parallel()
				result, err := test.Check()
				t.Log(result)
				if err != nil {
					t.Fatal(err)
				}
				if result.States != test.states || result.Cut != 0 {
					t.Errorf("%d states, want %d; %d steps left out", result.States, test.states, result.Cut)
				}
				mu.Lock()
				defer mu.Unlock()
				for m, n := range result.Moves {
					moves[m] += n
				}
			})
		}
	})
	return moves
}

// checkTable wants each move that the machine made in the table in the documentation of package membership, and returns the table.
func checkTable(t *testing.T, moves map[Move]int) (table map[Move]bool) {
	t.Helper()
	text, err := os.ReadFile("../../membership/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	table = make(map[Move]bool)
	for line := range strings.Lines(string(text)) {
		cells, isRow := strings.CutPrefix(line, "//\t| ")
		if f := strings.Split(cells, "|"); isRow && len(f) == 5 && strings.TrimSpace(f[0]) != "from" {
			table[Move{strings.TrimSpace(f[0]), strings.TrimSpace(f[1]), strings.TrimSpace(f[2])}] = true
		}
	}
	if len(table) < 20 {
		t.Fatalf("%d rows found in the table", len(table))
	}
	for _, m := range slices.SortedFunc(maps.Keys(moves), func(a, b Move) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		t.Logf("%-10s -> %-8s %-7s %d times", m.From, m.To, m.Goal, moves[m])
		if !table[m] {
			t.Errorf("the machine did what the table does not have: %+v", m)
		}
	}
	return table
}

// TestCheck_symmetry_losesNothing explores some worlds with and without exchanging masters. Every state of the raw
// exploration must be one of those that the reduced one has visited, up to the names of masters.
func TestCheck_symmetry_losesNothing(t *testing.T) {
	needs.NoRace(t, computes)
	for _, w := range []World{
		{Name: "recovery", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 2, Late: 1},
		{Name: "tokens", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA), Losses: 2, Late: 1, Tokens: true},
		{Name: "one by one", Lists: lists(listA), Procs: procs(clientA.stepwise()), Attempts: attempts(lockA), Losses: 1},
		{Name: "init", Lists: lists(listA), Procs: procs(initI, initJ), Start: Empty, Late: 1},
		{Name: "change", Lists: lists(listA, disjoint), Procs: procs(toB), Attempts: attempts(lockA, lockB)},
		{Name: "change, a master out of its reach", Lists: lists(listA, disjoint), Procs: procs(toB.cut(2)), Attempts: attempts(lockA)},
		{Name: "change, a loss", Lists: lists(listA, shares2), Procs: procs(clientA, toB), Losses: 1},
		{Name: "clocks", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA), Jumps: 1},
		{Name: "stamps", Lists: lists(listA), Procs: procs(clientA.brief()), Attempts: attempts(lockA), Losses: 1, Late: 1, Stamps: true},
		{Name: "stamps, a clock", Lists: lists(listA), Procs: procs(clientA.brief()), Jumps: 1, Stamps: true},
	} {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			reduced, y, err := w.explorer()
			if err != nil {
				t.Fatal(err)
			}
			few, err := reduced.Run()
			if err != nil {
				t.Fatal(err)
			}
			raw, z, _ := w.explorer()
			z.symmetry, z.seeds = false, y.seeds
			strangers := 0
			raw.Visited = func(s *state) {
				if !y.knows(reduced.Knows, s) {
					strangers++
				}
			}
			many, err := raw.Run()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d states, %d without exchanging masters", few.States, many.States)
			if strangers > 0 || many.States < few.States {
				t.Errorf("%d of %d raw states were not visited", strangers, many.States)
			}
		})
	}
}

// knows: the state was visited, perhaps under other names of its masters.
func (y *system) knows(visited func([2]uint64) bool, s *state) bool {
	if visited(y.Key(s)) {
		return true
	}
	var try func(order [maxMasters]int, from int) bool
	try = func(order [maxMasters]int, from int) bool {
		if from == len(y.w.masters) {
			c := *s
			y.w.exchange(&c, &order)
			return visited(y.Key(&c))
		}
		for k := from; k < len(y.w.masters); k++ {
			if next := order; y.w.groups[order[k]] == y.w.groups[from] {
				next[from], next[k] = order[k], order[from]
				if try(next, from+1) {
					return true
				}
			}
		}
		return false
	}
	var order [maxMasters]int
	for i := range order {
		order[i] = i
	}
	return try(order, 0)
}

// TestState_hasNoGaps: a state is hashed as memory only when no field is without a name and there is no gap between two.
func TestState_hasNoGaps(t *testing.T) {
	var within func(at string, of reflect.Type)
	within = func(at string, of reflect.Type) {
		switch of.Kind() {
		case reflect.Array:
			within(at+"[]", of.Elem())
		case reflect.Struct:
			end := uintptr(0)
			for i := range of.NumField() {
				f := of.Field(i)
				if f.Name == "_" || f.Offset != end {
					t.Errorf("%s.%s: at %d after %d", at, f.Name, f.Offset, end)
				}
				end = f.Offset + f.Type.Size()
				within(at+"."+f.Name, f.Type)
			}
			if end != of.Size() {
				t.Errorf("%s ends at %d of %d", at, end, of.Size())
			}
		}
	}
	within("state", reflect.TypeFor[state]())
	within("reads", reflect.TypeFor[reads]())
}
