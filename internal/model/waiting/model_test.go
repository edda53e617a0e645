// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/needs"
)

type explorer = explore.Explorer[*world, Step, [2]uint64, Story]

// explored visits all states of a world, and looks for dead ends: from each state everybody must be served. In a world in which nothing is lost or
// jumps that happens by itself, without the long timer. Where a process dies, somebody must be served by itself: the dead one's votes need time.
func explored(c Config, most int, visited func(**world)) (explore.Result, error) {
	m := New(c)
	x := explorer{System: m, Most: most, Visited: visited, Live: m.Served, ByItself: byItself, DeadReason: deadEnd}
	switch {
	case c.Lost+c.Ticks+c.Cuts+c.Jumps > 0:
		x.ByItself, x.DeadReason = rightly, unserved
	case c.Crashes > 0:
		x.Live = m.Live
	}
	return x.Run()
}

var (
	one, two, three = []int{1}, []int{1, 1}, []int{1, 1, 1}
	turns           = []int{3} // one process: the turn is passed
	pair            = []int{2} // the same, of which one caller takes over from the other
)

// short is a TTL with which no vote is handed.
const short = ttl - time.Millisecond

// sound are worlds that are exhausted, with the number of their states.
var sound = []struct {
	c      Config
	states int
}{
	{Config{Lines: two, Attempts: 2, Prompt: true}, 34763},
	{Config{Lines: two, Attempts: 1}, 28749},
	{Config{Lines: two, Attempts: 1, Prompt: true, Twice: 1}, 16681},
	{Config{Lines: two, Attempts: 1, Prompt: true, Jumps: 1}, 29386},
	{Config{Lines: two, Attempts: 1, Prompt: true, Crashes: 1}, 6711},
	{Config{Lines: two, Attempts: 1, Prompt: true, Dally: true}, 8798},
	{Config{Lines: turns, Attempts: 3, Prompt: true}, 19746},
	{Config{Lines: pair, Attempts: 3, Brief: true}, 21623},
	{Config{Lines: pair, Attempts: 3, Brief: true, Prompt: true, Cancels: 2}, 12649},
}

// large are more of them, for CI.
var large = []struct {
	c      Config
	states int
}{
	{Config{Lines: two, Attempts: 1, Prompt: true, Cancels: 2}, 31224},
	{Config{Lines: two, Attempts: 1, Prompt: true, Lost: 1, Cancels: 1}, 31914},
	{Config{Lines: two, Attempts: 1, Prompt: true, Cuts: 1}, 59486},
	{Config{Lines: two, Attempts: 2, Prompt: true, TTL: short}, 39365},
	{Config{Lines: two, Attempts: 2, Prompt: true, Lost: 1}, 55721},
	{Config{Lines: turns, Attempts: 3, Prompt: true, Lost: 1}, 29280},
	{Config{Lines: pair, Attempts: 3, Brief: true, Prompt: true, Cuts: 1}, 53366},
	{Config{Lines: pair, Attempts: 3, Brief: true, Prompt: true, Jumps: 1}, 31046},
	{Config{Lines: pair, Attempts: 3, Brief: true, Prompt: true, Dally: true, Cancels: 1}, 18438},
	{Config{Lines: two, Attempts: 2, Prompt: true, Twice: 1}, 125658},
	{Config{Lines: two, Attempts: 3, Prompt: true}, 274434},
	{Config{Lines: two, Attempts: 2, Prompt: true, Cancels: 1}, 145092},
}

// The machine as it ships, with the calls as they ship, over masters that do what the scripts do: never two holders, tokens grow, nothing is
// left when nobody wants the lock, and nobody waits for a free lock until a long timer fires.
func TestMachine_asShipped_exhausted(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	visited := map[waiting.State]bool{}
	for _, w := range sound {
		m := New(w.c)
		r, err := explored(w.c, 0, func(s **world) {
			for _, state := range m.States(s) {
				visited[state] = true
			}
		})
		if err != nil || r.States != w.states {
			t.Errorf("%+v: %d states, want %d: %v", w.c, r.States, w.states, err)
		}
	}
	for s := waiting.Idle; s <= waiting.StepBack; s++ {
		if !visited[s] {
			t.Errorf("no machine was %v", s)
		}
	}
}

func TestMachine_largerWorlds_exhausted(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	needs.CI(t)
	for _, w := range large {
		r, err := explored(w.c, 0, nil)
		if err != nil || r.States != w.states {
			t.Errorf("%+v: %d states, want %d: %v", w.c, r.States, w.states, err)
		}
	}
}

// The page has the number of states of each world.
func TestMachine_worlds_asDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/internals/handoff.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range append(slices.Clone(sound), large...) {
		if row := fmt.Sprintf("| %d,%03d |", w.states/1000, w.states%1000); strings.Count(string(page), row) != 1 {
			t.Errorf("%+v: the page has no row that ends with %s", w.c, row)
		}
	}
}

// weight makes a walk meet what matters.
func weight(s *Step) int {
	switch s.Kind {
	case Executes, Answers, Hears, Runs, Unlocks:
		return 10
	case Ticks, Jumps, GivesUp:
		return 3
	}
	return 4
}

// walks makes that many random runs at most, until one breaks a property.
func walks(c Config, n int) (int, error) {
	m := New(c)
	for seed := range n {
		if _, err := explore.Walk[*world, Step, [2]uint64, Story](m, rand.New(rand.NewPCG(uint64(seed), 0)), m.Starts()[0], 120, weight); err != nil {
			return seed + 1, err
		}
	}
	return n, nil
}

// The same at random, in worlds that are too large: three processes, and everything goes wrong.
func TestMachine_randomWalks_sound(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	n := 150
	if needs.InSoak(t) {
		n = 4000
	}
	for _, c := range []Config{
		{Lines: three, Attempts: 4, Ticks: 2, Lost: 1, Twice: 1, Cuts: 1, Cancels: 1, Dally: true},
		{Lines: []int{2, 2, 1}, Attempts: 4, Ticks: 4, Lost: 1, Twice: 1, Cuts: 1, Crashes: 1, Cancels: 1},
		{Lines: three, Attempts: 3, Prompt: true, Still: true},
		{Lines: []int{2, 2, 1}, Attempts: 4, Crashes: 1, Ticks: 4, TTL: 2 * ttl},
		{Lines: []int{1, 2}, Attempts: 3, Crashes: 1, Prompt: true, Still: true},
		{Lines: []int{2, 2, 1}, Attempts: 4, Crashes: 1, Still: true},
		{Lines: []int{2, 2, 1}, Attempts: 4, Jumps: 1, Twice: 1, Cuts: 1, Cancels: 1},
		{Lines: []int{2, 2, 1}, Attempts: 4, TTL: short, Ticks: 3, Twice: 1, Cuts: 1, Cancels: 1},
		{Lines: []int{2, 2, 1}, Attempts: 4, Brief: true, Ticks: 4, Lost: 1, Twice: 1, Cuts: 1, Crashes: 1, Cancels: 1},
		{Lines: []int{3, 2, 1}, Attempts: 4, Brief: true, Ticks: 3, Jumps: 1, Twice: 1, Cuts: 1, Cancels: 1, Dally: true},
		{Lines: []int{2, 2, 1}, Attempts: 4, Brief: true, Crashes: 1, Still: true},
	} {
		runs := n
		if c.Still { // each step looks for what may follow it
			runs = n / 4
		}
		if _, err := walks(c, runs); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

const (
	twoHold = "two hold the lock"
	again   = "token"
	left    = "something is left"
)

// dropped are the defences on the client's side, each with a world in which its lack is found.
var dropped = []struct {
	rule   Rule
	c      Config
	walks  int // 0: the world is explored
	reason string
}{
	{Stamp, Config{Lines: three, Attempts: 3, Prompt: true, Ticks: 2}, 4000, twoHold},
	{Leave, Config{Lines: two, Attempts: 2, Prompt: true, Cancels: 1}, 4000, left},
	{Over, Config{Lines: []int{2, 2, 1}, Attempts: 3, Prompt: true, Cancels: 1}, 4000, again},
	{FreshID, Config{Lines: three, Attempts: 3, Prompt: true, Twice: 1}, 4000, ""},
	{Order, Config{Lines: one, Attempts: 1, Prompt: true, Cancels: 1}, 0, left},
	{Believed, Config{Lines: three, Attempts: 2, Prompt: true, Jumps: 1, Cancels: 1}, 20000, twoHold},
	{Yields, Config{Lines: three, Attempts: 2, Prompt: true, Still: true}, 4000, deadEnd},
	{ShortHand, Config{Lines: two, Attempts: 2, Prompt: true, Crashes: 1, Ticks: 2, TTL: 2 * ttl}, 4000, "outlive"},
	{PassedBy, Config{Lines: []int{1, 2}, Attempts: 2, Prompt: true, Crashes: 1, Still: true}, 4000, deadEnd},
	{Confirmed, Config{Lines: three, Attempts: 2, Prompt: true}, 4000, again},
	{Gathers, Config{Lines: two, Attempts: 2, Prompt: true}, 0, deadEnd},
	{Woken, Config{Lines: two, Attempts: 2, Prompt: true, TTL: short}, 0, deadEnd},
	{Votes, Config{Lines: two, Attempts: 2, Prompt: true}, 0, deadEnd},
	{FreeTold, Config{Lines: two, Attempts: 2, Prompt: true}, 0, deadEnd},
	{Asks, Config{Lines: two, Attempts: 2, Prompt: true, Lost: 1}, 0, unserved},
	{Offered, Config{Lines: pair, Attempts: 3, Brief: true, Prompt: true, Cancels: 1, Dally: true}, 0, left},
	{Remains, Config{Lines: pair, Attempts: 3, Brief: true, Prompt: true, Cuts: 1}, 0, left},
	{Passes, Config{Lines: turns, Attempts: 3, Prompt: true}, 0, deadEnd},
}

// Each defence of the waiter can be dropped, and its lack is found.
func TestMachine_defenceDropped_found(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	needs.Test(t)
	for _, d := range dropped {
		t.Run(string(d.rule), func(t *testing.T) {
			d.c.Drop = d.rule
			var err error
			how := ""
			if d.walks > 0 {
				var n int
				n, err = walks(d.c, d.walks)
				how = fmt.Sprintf("%d walks", n)
			} else {
				var r explore.Result
				r, err = explored(d.c, 400_000, nil)
				how = fmt.Sprintf("%d states", r.States)
			}
			var v *explore.ViolationError[Story]
			if !errors.As(err, &v) || !strings.Contains(v.Reason, d.reason) {
				t.Fatalf("%s: %v, want %q", how, err, d.reason)
			}
			t.Logf("%s: %s", how, v.Reason)
		})
	}
}
