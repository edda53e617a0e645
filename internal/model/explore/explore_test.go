// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// counter counts up by 1 or 2 and may stop for good. A number above wrong is a violation.
type counter struct{ most, wrong int }

type step struct {
	by   int
	stop bool
}

type told []step

func (t told) String() string { return strings.Trim(fmt.Sprint([]step(t)), "[]") }

// place is a state. Its name does not matter.
type place struct {
	at      int
	stopped bool
	name    string
}

func (c counter) Starts() []place { return []place{{name: "first"}, {name: "twin"}} }

func (c counter) Next(dst []Move[place, step], s *place) []Move[place, step] {
	if s.stopped {
		return dst
	}
	for _, by := range []int{0, 1, 2} {
		if s.at+by <= c.most {
			dst = append(dst, Move[place, step]{step{by: by}, place{at: s.at + by, name: s.name}})
		}
	}
	return append(dst, Move[place, step]{step{stop: true}, place{s.at, true, s.name}})
}

func (c counter) Judge(_ *place, m *Move[place, step]) string {
	if c.wrong > 0 && m.To.at >= c.wrong {
		return "too far"
	}
	return ""
}

func (c counter) Key(s *place) place   { return place{at: s.at, stopped: s.stopped} }
func (c counter) Holders(s *place) int { return s.at % 2 }
func (c counter) Path(_ *place, moves []Move[place, step]) (t told) {
	for _, m := range moves {
		t = append(t, m.Step)
	}
	return t
}

func TestCheck_everyStateOnce(t *testing.T) {
	result, err := Check(counter{most: 5}, 0)
	// 0 to 5, running and stopped; 3 moves and a stop from each that runs, but for the two at the end.
	want := Result{States: 12, Edges: 6*4 - 3, Depth: 5, Holding: [4]int{6, 6}}
	if err != nil || result != want {
		t.Errorf("%+v, %v, want %+v", result, err, want)
	}
	if result, err := Check(counter{most: 50}, 20); !errors.Is(err, ErrTooLarge) || result.States < 20 || result.States > 25 {
		t.Errorf("%+v, %v, want ErrTooLarge after 20 states", result, err)
	}
}

func TestCheck_violation_shortestPath(t *testing.T) {
	c := counter{most: 9, wrong: 7}
	_, err := Check(c, 0)
	var violation *ViolationError[told]
	if !errors.As(err, &violation) || len(violation.Path) != 4 || violation.Error() != "too far\n"+violation.Path.String() {
		t.Fatalf("%v, want a counter-example of 4 steps", err)
	}
	var again *ViolationError[told]
	if err := Run(c, place{}, append(violation.Path, step{by: 1})); !errors.As(err, &again) || len(again.Path) != 4 {
		t.Errorf("the path does not lead there again: %v", err)
	}
	if err := Run(counter{most: 9}, place{}, violation.Path); err != nil {
		t.Errorf("nothing is wrong there without the property: %v", err)
	}
	var impossible *ImpossibleError[step]
	if err := Run(c, place{}, []step{{stop: true}, {by: 1}}); !errors.As(err, &impossible) || impossible.Index != 1 {
		t.Errorf("%v, want step 2 impossible", err)
	}
}

func TestRun_deadEnds(t *testing.T) {
	x := Explorer[place, step, place, told]{System: counter{most: 4}, DeadReason: "stuck"}
	x.Live = func(s *place) bool { return s.at == 4 }
	x.ByItself = func(s *step) bool { return !s.stop }
	result, err := x.Run()
	var violation *ViolationError[told]
	if !errors.As(err, &violation) || violation.Reason != "stuck" || len(violation.Path) != 1 || result.Dead != 4 {
		t.Errorf("%+v, %v: want 4 dead ends, the nearest after a stop", result, err)
	}
	if !x.Knows(place{at: 3, stopped: true}) || x.Knows(place{at: 5}) {
		t.Error("it does not know what it has visited")
	}
	x = Explorer[place, step, place, told]{System: counter{most: 4}}
	x.Live, x.ByItself = func(s *place) bool { return s.at == 4 || s.stopped }, func(s *step) bool { return !s.stop }
	if result, err := x.Run(); err != nil || result.Dead != 0 {
		t.Errorf("%+v, %v: want no dead end", result, err)
	}
}

func TestWalk_byWeight(t *testing.T) {
	walk := func(seed uint64, weight func(*step) int) (told, error) {
		return Walk(counter{most: 40, wrong: 30}, rand.New(rand.NewPCG(seed, 0)), place{}, 100, weight)
	}
	forward := func(s *step) int { return s.by }
	path, err := walk(1, forward)
	var violation *ViolationError[told]
	if !errors.As(err, &violation) || len(path) != len(violation.Path) || len(path) < 15 || len(path) > 30 {
		t.Errorf("%v, %v: want a violation after 15 to 30 steps of 1 and 2", path, err)
	}
	if again, _ := walk(1, forward); fmt.Sprint(again) != fmt.Sprint(path) {
		t.Errorf("one seed, two walks: %v and %v", path, again)
	}
	if other, _ := walk(2, forward); fmt.Sprint(other) == fmt.Sprint(path) {
		t.Errorf("two seeds, one walk: %v", path)
	}
	if path, err := walk(1, func(*step) int { return 0 }); err != nil || len(path) != 0 {
		t.Errorf("%v, %v: want no step where none has a weight", path, err)
	}
}

func TestPermutations_all(t *testing.T) {
	seen := map[string]bool{}
	for _, order := range Permutations(4) {
		seen[fmt.Sprint(order)] = true
	}
	if len(seen) != 24 || fmt.Sprint(Permutations(3)[0]) != "[0 1 2]" || len(Permutations(0)) != 1 {
		t.Errorf("%v", seen)
	}
}
