// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	ms "github.com/redlock-go/redlock/internal/membership"
)

// Lists of three masters, or of one where that is enough, and of four, of which q-1 have what a quorum was told. A is where every world begins.
var (
	listA    = List{Name: "A", Masters: []int{0, 1, 2}, TTL: 1}
	listA2   = List{Name: "A", Masters: []int{0, 1, 2}, TTL: 2}
	fixedA   = List{Name: "A", Masters: []int{0, 1, 2}, TTL: 1, Fixed: true}
	fourA    = List{Name: "A", Masters: []int{0, 1, 2, 3}, TTL: 1}
	fixed4A  = List{Name: "A", Masters: []int{0, 1, 2, 3}, TTL: 1, Fixed: true}
	longer   = List{Name: "B", Masters: []int{0, 1, 2}, TTL: 3} // the wait of A is too short for its leases
	shares2  = List{Name: "B", Masters: []int{1, 2, 3}, TTL: 1}
	shares1  = List{Name: "B", Masters: []int{2, 3, 4}, TTL: 1}
	disjoint = List{Name: "B", Masters: []int{3, 4, 5}, TTL: 1}
	single   = List{Name: "B", Masters: []int{3}, TTL: 1}
	singleC  = List{Name: "C", Masters: []int{4}, TTL: 1}
	single4  = List{Name: "B", Masters: []int{4}, TTL: 1}
	single4C = List{Name: "C", Masters: []int{5}, TTL: 1}
	pairC    = List{Name: "C", Masters: []int{3, 4}, TTL: 1}
)

// Processes: clients of A and B, changes from A to B, from A to C and back to A, and so on.
var (
	clientA = Proc{Name: "O", Goal: ms.Serve}
	clientB = Proc{Name: "N", Goal: ms.Serve, List: 1}
	toB     = Proc{Name: "P", Goal: ms.Change, Target: 1}
	toC     = Proc{Name: "R", Goal: ms.Change, Target: 2}
	backToA = Proc{Name: "P'", Goal: ms.Change, List: 1, Target: 0}
	onToC   = Proc{Name: "P'", Goal: ms.Change, List: 1, Target: 2}
	cancelA = Proc{Name: "Q", Goal: ms.Cancel}
	initI   = Proc{Name: "I", Goal: ms.Init}
	initJ   = Proc{Name: "J", Goal: ms.Init, Wall: 2}
)

// Attempts to lock: two with A, one each with B and C.
var (
	lockA  = Attempt{Name: "A"}
	lockA2 = Attempt{Name: "A2"}
	lockB  = Attempt{Name: "B", List: 1}
	lockB2 = Attempt{Name: "B2", List: 1}
	lockC  = Attempt{Name: "C", List: 2}
	longA  = Attempt{Name: "A", Extends: 1}
	floor4 = Attempt{Name: "A", Floors: []int{4}}
	floor8 = Attempt{Name: "A2", Floors: []int{8}}
)

func lists(l ...List) []List          { return l }
func procs(p ...Proc) []Proc          { return p }
func attempts(a ...Attempt) []Attempt { return a }

func (p Proc) cut(masters ...int) Proc { p.Cut = masters; return p }
func (p Proc) stepwise() Proc          { p.Stepwise = true; return p }
func (p Proc) mortal() Proc            { p.Mortal = true; return p }
func (p Proc) fast() Proc              { p.Fast = true; return p }
func (p Proc) abandons() Proc          { p.Abandon = true; return p }
func (p Proc) brief() Proc             { p.Brief = true; return p }
func (p Proc) informed() Proc          { p.Informed = true; return p }
func (p Proc) neverLocked() Proc       { p.NeverLocked = true; return p }

func with(w World, change func(*World)) World {
	change(&w)
	return w
}

// size says when a world is explored: always, in .ci/run, or, from 200,000 states on, in a soak.
type size uint8

const (
	small size = iota
	large
	soak
)

// soundWorlds are explored to the end with every guard, as are the worlds of the variants. Each is named after who takes
// part and what goes wrong. The number of states keeps a broken explorer, and a change of the machine that nobody
// noticed, from passing. A change on purpose changes the numbers.
var soundWorlds = []struct {
	World
	size   size
	states int
}{
	// One list: recovery.
	{World{Name: "recovery: three losses, a late action", Lists: lists(listA2), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 3, Late: 1}, small, 18_640},
	{World{Name: "recovery: two losses, two late actions", Lists: lists(listA2), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 2, Late: 2}, small, 12_933},
	{World{Name: "recovery: two clients", Lists: lists(listA), Procs: procs(clientA, clientA), Attempts: attempts(lockA, lockA2), Losses: 3, Late: 1}, large, 128_644},
	{World{Name: "recovery: a kill, a client's clock jumps", Lists: lists(listA), Procs: procs(clientA, clientA), Attempts: attempts(lockA, lockA2), Losses: 2, OwnJumps: 1, Kills: 1}, small, 43_884},
	{World{Name: "recovery: masters restart with old data", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 1, Restarts: 2, Late: 1}, small, 16_524},
	{World{Name: "recovery: acquire and extend in steps", Lists: lists(listA2), Procs: procs(clientA), Attempts: attempts(longA, lockA2), Losses: 2, Steps: true}, small, 52_644},
	{World{Name: "recovery: reads one by one", Lists: lists(listA), Procs: procs(clientA.stepwise()), Attempts: attempts(lockA, lockA2), Losses: 2}, small, 26_256},
	{World{Name: "recovery: a fast clock", Lists: lists(List{Name: "A", Masters: listA.Masters, TTL: 2, Drift: 2}), Procs: procs(clientA.fast()), Attempts: attempts(lockA, lockA2), Losses: 2}, small, 1_588},
	{World{Name: "recovery: tokens", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 2, Late: 1, Tokens: true}, small, 44_410},
	{World{Name: "recovery: tokens, three losses", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 3, Late: 1, Tokens: true}, soak, 256_252},
	{World{Name: "recovery: tokens, a clock that is wrong", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(floor4, lockA2), Losses: 1, Downs: 1, Tokens: true, BadClock: true}, small, 24_532},
	{World{Name: "recovery: tokens, four masters, one out of reach", Lists: lists(fourA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 2, Downs: 1, Tokens: true, BadClock: true}, large, 129_860},
	{World{Name: "recovery: tokens, proposals ahead of the clock", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(floor4, floor8, lockA), Losses: 2, Tokens: true}, soak, 388_631},
	{World{Name: "fixed list: first use, two losses", Lists: lists(fixedA), Procs: procs(clientA, clientA), Attempts: attempts(lockA, lockA2), Start: Empty, Losses: 2}, small, 39_802},
	{World{Name: "fixed list: first use, two losses, a late action", Lists: lists(fixedA), Procs: procs(clientA, clientA), Attempts: attempts(lockA, lockA2), Start: Empty, Losses: 2, Late: 1}, soak, 342_986},

	// One list: stamps.
	{World{Name: "stamps: three losses, a late action", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 3, Late: 1, Stamps: true}, small, 17_736},
	{World{Name: "stamps: brief processes, two losses, two late actions", Lists: lists(listA), Procs: procs(clientA.brief()), Attempts: attempts(lockA, lockA2), Losses: 2, Late: 2, Stamps: true}, small, 7_536},
	{World{Name: "stamps: brief processes and one that stays, a client's clock jumps", Lists: lists(listA), Procs: procs(clientA, clientA.brief()), Attempts: attempts(lockA, lockA2), Losses: 2, OwnJumps: 1, Stamps: true}, small, 12_416},
	{World{Name: "stamps: fixed list, brief processes", Lists: lists(fixedA), Procs: procs(clientA.brief()), Attempts: attempts(lockA, lockA2), Start: Empty, Losses: 2, Stamps: true}, small, 1_639},
	{World{Name: "stamps: masters restart with old data", Lists: lists(listA), Procs: procs(clientA.brief()), Attempts: attempts(lockA, lockA2), Losses: 1, Restarts: 2, Late: 1, Stamps: true}, small, 18_180},
	{World{Name: "stamps: reads one by one", Lists: lists(listA), Procs: procs(clientA.stepwise().brief()), Attempts: attempts(lockA, lockA2), Losses: 2, Stamps: true}, small, 31_608},
	{World{Name: "stamps: tokens", Lists: lists(listA), Procs: procs(clientA.brief()), Attempts: attempts(lockA, lockA2), Losses: 2, Tokens: true, Stamps: true}, small, 8_064},
	{World{Name: "stamps: a clock jumps, a loss", Lists: lists(listA), Procs: procs(clientA.brief()), Attempts: attempts(lockA, lockA2), Jumps: 1, Losses: 1, Stamps: true}, large, 64_300},
	{World{Name: "stamps: two clocks jump", Lists: lists(listA), Procs: procs(clientA.brief()), Attempts: attempts(lockA, lockA2), Jumps: 2, Stamps: true}, large, 54_220},
	{World{Name: "stamps: init against brief processes", Lists: lists(listA), Procs: procs(clientA.brief(), initI), Attempts: attempts(lockA, lockA2), Losses: 2, Late: 1, Posts: 1, Stamps: true}, large, 46_588},
	{World{Name: "stamps: a change, two losses, a late action", Lists: lists(listA, longer), Procs: procs(clientA.brief(), toB), Attempts: attempts(lockA, lockB), Losses: 2, Late: 1, Posts: 1, Stamps: true}, large, 86_201},
	{World{Name: "stamps: a change, no master stays, two losses", Lists: lists(listA, disjoint), Procs: procs(clientA.brief(), toB), Attempts: attempts(lockA, lockB), Losses: 2, Stamps: true}, large, 16_473},
	{World{Name: "stamps: there and back, a loss", Lists: lists(listA, longer), Procs: procs(clientA.brief(), toB, backToA), Attempts: attempts(lockA, lockB), Losses: 1, Numbers: 3, Stamps: true}, large, 13_459},

	// One list: init.
	{World{Name: "init: two at once, a loss", Lists: lists(listA), Procs: procs(initI, initJ), Attempts: attempts(lockA, lockA2), Start: Empty, Losses: 1, Late: 1, Posts: 1}, small, 48_196},
	{World{Name: "init: two at once, two losses", Lists: lists(listA), Procs: procs(initI, initJ), Attempts: attempts(lockA, lockA2), Start: Empty, Losses: 2, Late: 1, Posts: 1}, soak, 333_178},
	{World{Name: "init: against a client that recovers", Lists: lists(listA), Procs: procs(clientA, initI), Attempts: attempts(lockA, lockA2), Losses: 2, Late: 1, Posts: 1}, small, 55_512},
	{World{Name: "init: nothing was ever locked, indeed", Lists: lists(listA), Procs: procs(clientA, initI.neverLocked()), Attempts: attempts(lockA, lockA2), Start: Empty}, small, 401},
	{World{Name: "init: gives up a change", Lists: lists(listA, single), Procs: procs(toB, initI.abandons()), Attempts: attempts(lockA), Losses: 1, Numbers: 4}, small, 107_901},

	// Two lists and more.
	{World{Name: "change: longer TTL, two losses", Lists: lists(listA, longer), Procs: procs(clientA, clientB, toB), Attempts: attempts(lockA, lockB), Losses: 2, Late: 1, Posts: 1}, soak, 207_139},
	{World{Name: "change: longer TTL, two losses, late actions", Lists: lists(listA, longer), Procs: procs(clientA, clientB, toB), Attempts: attempts(lockA, lockB), Losses: 2, Late: 1}, soak, 577_723},
	{World{Name: "change: two masters stay, two losses", Lists: lists(listA, shares2), Procs: procs(clientA, toB), Attempts: attempts(lockA, lockB), Losses: 2}, large, 59_518},
	{World{Name: "change: two masters stay, a late action", Lists: lists(listA, shares2), Procs: procs(clientA, clientB, toB), Attempts: attempts(lockA, lockB), Losses: 1, Late: 1, Posts: 1}, soak, 844_094},
	{World{Name: "change: two masters stay, old data", Lists: lists(listA, shares2), Procs: procs(clientA, clientB, toB), Attempts: attempts(lockA, lockB), Restarts: 2}, soak, 242_464},
	{World{Name: "change: two masters stay, tokens", Lists: lists(listA, shares2), Procs: procs(clientA, toB), Attempts: attempts(lockA, lockB), Losses: 1, Tokens: true}, large, 119_984},
	{World{Name: "change: one master stays, a loss", Lists: lists(listA, shares1), Procs: procs(clientA, clientB, toB), Attempts: attempts(lockA, lockB), Losses: 1}, large, 98_372},
	{World{Name: "change: no master stays, three losses", Lists: lists(listA, disjoint), Procs: procs(clientA, toB), Attempts: attempts(lockA, lockB), Losses: 3}, large, 90_269},
	{World{Name: "change: no master stays, a late action", Lists: lists(listA, disjoint), Procs: procs(clientA, clientB, toB), Attempts: attempts(lockA, lockB), Losses: 1, Late: 1, Posts: 1}, soak, 997_463},
	{World{Name: "change: clients of the new list are early", Lists: lists(listA, disjoint), Procs: procs(clientA, clientB, toB), Attempts: attempts(lockA, lockB)}, small, 7_090},
	{World{Name: "change: leases extended in steps", Lists: lists(listA, longer), Procs: procs(clientA, toB), Attempts: attempts(longA, lockB), Losses: 1, Steps: true}, small, 14_006},
	{World{Name: "change: a client reads one by one", Lists: lists(listA, longer), Procs: procs(clientA.stepwise(), toB), Attempts: attempts(lockA, lockB), Losses: 1}, large, 66_695},
	{World{Name: "change: the change reads one by one", Lists: lists(listA, longer), Procs: procs(clientA, toB.stepwise()), Attempts: attempts(lockA, lockB), Losses: 1}, large, 102_046},
	{World{Name: "change: two processes, a kill", Lists: lists(listA, longer), Procs: procs(clientA, toB, toB), Attempts: attempts(lockA, lockB), Losses: 1, Kills: 1}, large, 180_382},
	{World{Name: "change: two processes, a kill, a late action", Lists: lists(listA, longer), Procs: procs(clientA, toB, toB), Attempts: attempts(lockA, lockB), Losses: 1, Kills: 1, Late: 1, Posts: 1}, soak, 2_579_190},
	{World{Name: "change: two processes, a kill, two masters stay", Lists: lists(listA, shares2), Procs: procs(clientA, toB, toB), Attempts: attempts(lockA, lockB), Kills: 1, Late: 1, Posts: 1}, soak, 2_229_920},
	{World{Name: "change: two processes, a loss", Lists: lists(listA, shares2), Procs: procs(clientA, toB, toB), Attempts: attempts(lockA, lockB), Losses: 1}, soak, 388_123},
	{World{Name: "change: cancelled or not", Lists: lists(listA, disjoint), Procs: procs(toB, cancelA), Attempts: attempts(lockA, lockB)}, small, 25_619},
	{World{Name: "change: cancelled or not, a late action", Lists: lists(listA, disjoint), Procs: procs(toB.cut(2), cancelA), Attempts: attempts(lockA, lockB), Late: 1, Posts: 1}, soak, 2_167_939},
	{World{Name: "change: cancelled or not, a loss", Lists: lists(listA, longer), Procs: procs(clientA, toB, cancelA), Attempts: attempts(lockA, lockB), Losses: 1}, soak, 295_690},
	{World{Name: "change: there and back", Lists: lists(listA, shares2), Procs: procs(clientA, toB, backToA), Attempts: attempts(lockA, lockB), Numbers: 3}, small, 13_182},
	{World{Name: "change: there and back, a straggler", Lists: lists(listA, shares2), Procs: procs(clientA, toB.cut(0), backToA), Attempts: attempts(lockA, lockB), Numbers: 3}, small, 10_856},
	{World{Name: "change: there and back, a loss", Lists: lists(listA, longer), Procs: procs(clientA, toB, backToA), Attempts: attempts(lockA, lockB), Losses: 1, Numbers: 3}, small, 18_204},
	{World{Name: "change: on to a third list", Lists: lists(listA, shares2, pairC), Procs: procs(clientA, toB, onToC), Attempts: attempts(lockA, lockB, lockC)}, small, 29_166},
	{World{Name: "rivals: neither sees all", Lists: lists(listA, single, singleC), Procs: procs(toB.cut(2), toC.cut(0)), Attempts: attempts(lockB, lockC), Late: 1, Posts: 1, Nonces: 1}, small, 155_755},
	{World{Name: "rivals: a loss, the last master is shared", Lists: lists(listA, single, singleC), Procs: procs(clientA, toB.cut(0), toC.cut(1)), Attempts: attempts(lockB, lockC), Losses: 1, Nonces: 1}, large, 192_209},
	{World{Name: "rivals: a loss, nonces fall", Lists: lists(listA, single, singleC), Procs: procs(clientA, toB.cut(0), toC.cut(2)), Attempts: attempts(lockB, lockC), Losses: 1, Nonces: -1}, large, 193_649},
	{World{Name: "rivals: neither sees all, nonces fall", Lists: lists(listA, single, singleC), Procs: procs(toB.cut(2), toC.cut(0)), Attempts: attempts(lockB, lockC), Late: 1, Posts: 1, Nonces: -1}, large, 160_445},
	{World{Name: "rivals: a loss", Lists: lists(listA, single, singleC), Procs: procs(clientA, toB.cut(0), toC.cut(2)), Attempts: attempts(lockB, lockC), Losses: 1, Nonces: 1}, large, 192_209},
	{World{Name: "rivals: four masters, a loss", Lists: lists(fourA, single4, single4C), Procs: procs(clientA, toB.cut(0), toC.cut(2)), Attempts: attempts(lockB, lockC), Losses: 1, Nonces: 1}, soak, 1_316_394},

	// Clocks.
	{World{Name: "clocks: a jump", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(longA, lockA2), Jumps: 1}, small, 34_370},
	{World{Name: "clocks: a jump, a loss", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Jumps: 1, Losses: 1}, large, 150_044},
	{World{Name: "clocks: a jump, leases extended in steps", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(longA, lockA2), Jumps: 1, Losses: 1, Steps: true}, soak, 1_320_978},
	{World{Name: "clocks: a jump, a longer lease extended in steps", Lists: lists(listA2), Procs: procs(clientA), Attempts: attempts(longA, lockA2), Jumps: 1, Steps: true}, soak, 1_319_390},
	{World{Name: "clocks: two jumps, a master out of reach", Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Jumps: 2, Downs: 1}, soak, 821_540},

	// What comes back: no state is a dead end.
	{World{Name: "live: recovery, a kill, a late action", Lists: lists(listA), Procs: procs(clientA), Losses: 1, Kills: 1, Late: 2, Recovered: true}, small, 166},
	{World{Name: "live: brief processes", Lists: lists(listA), Procs: procs(clientA.brief()), Losses: 1, Late: 2, Stamps: true, Recovered: true, All: true}, small, 98},
	{World{Name: "live: brief processes, with init", Lists: lists(listA), Procs: procs(clientA.brief(), initI), Losses: 3, Stamps: true, Recovered: true, All: true}, small, 4_451},
	{World{Name: "live: brief processes, a clock jumps", Lists: lists(listA), Procs: procs(clientA.brief()), Jumps: 1, Stamps: true, Recovered: true, All: true}, small, 760},
	{World{Name: "live: recovery, a master is gone", Lists: lists(listA), Procs: procs(clientA), Downs: 1, Gone: true, Kills: 1, Recovered: true}, small, 18},
	{World{Name: "live: any losses, with init", Lists: lists(listA), Procs: procs(clientA, initI), Losses: 3, Kills: 1, Recovered: true}, small, 18_842},
	{World{Name: "live: init, two at once", Lists: lists(listA), Procs: procs(clientA, initI, initJ), Start: Empty, Late: 1, Recovered: true}, small, 63_682},
	{World{Name: "live: fixed list, any losses", Lists: lists(fixedA), Procs: procs(clientA), Start: Empty, Losses: 4, Kills: 1, Late: 1, Recovered: true}, small, 7_474},
	{World{Name: "live: fixed list of four, a master is gone", Lists: lists(fixed4A), Procs: procs(clientA), Losses: 1, Downs: 1, Gone: true, Kills: 1, Late: 1, Recovered: true}, small, 326},
	{World{Name: "live: change, two masters stay", Lists: lists(listA, shares2), Procs: procs(clientA, clientB, toB), Losses: 1, Kills: 1, Recovered: true}, large, 43_429},
	{World{Name: "live: change, two masters stay, a late action", Lists: lists(listA, shares2), Procs: procs(clientA, clientB, toB), Losses: 1, Late: 1, Posts: 1, Recovered: true}, soak, 265_364},
	{World{Name: "live: change, a master is gone", Lists: lists(listA, shares2), Procs: procs(clientA, clientB, toB), Downs: 1, Gone: true, Kills: 1, Recovered: true}, small, 29_046},
	{World{Name: "live: change, no master stays", Lists: lists(listA, disjoint), Procs: procs(clientA, clientB, toB), Losses: 1, Kills: 1, Recovered: true}, large, 57_836},
	{World{Name: "live: change, no master stays, one is gone", Lists: lists(listA, disjoint), Procs: procs(clientA, clientB, toB), Downs: 1, Gone: true, Recovered: true}, small, 15_888},
	{World{Name: "live: change, longer TTL", Lists: lists(listA, longer), Procs: procs(clientA, clientB, toB), Losses: 1, Kills: 1, Late: 1, Recovered: true}, large, 105_050},
	{World{Name: "live: change and cancel", Lists: lists(listA, longer), Procs: procs(clientA, clientB, toB, cancelA), Losses: 1, Recovered: true}, large, 88_761},
	{World{Name: "live: there and back", Lists: lists(listA, longer), Procs: procs(clientA, toB, backToA), Losses: 1, Numbers: 3, Recovered: true}, small, 3_266},
	{World{Name: "live: init gives up a change that has died", Lists: lists(listA, disjoint), Procs: procs(clientA, toB.mortal(), initI.abandons()), Losses: 1, Kills: 1, Numbers: 3, Recovered: true}, soak, 2_491_213},
	{World{Name: "live: change, a kill, a clock jumps", Lists: lists(listA, longer), Procs: procs(clientA, clientB, toB), Kills: 1, Jumps: 1, Recovered: true}, soak, 539_406},
	{World{Name: "live: rivals", Lists: lists(listA, single, singleC), Procs: procs(toB, toC), Late: 1, Posts: 1, Recovered: true}, small, 69_107},
	{World{Name: "live: rivals and cancel", Lists: lists(listA, single, singleC), Procs: procs(toB, toC, cancelA), Recovered: true}, soak, 661_567},
	{World{Name: "live: rivals that do not see all, and cancel", Lists: lists(listA, single, singleC), Procs: procs(toB.cut(2), toC.cut(0), cancelA), Recovered: true}, soak, 802_589},
	{World{Name: "live: clocks", Lists: lists(listA), Procs: procs(clientA), Jumps: 2, Recovered: true}, small, 7_515},
	{World{Name: "live: clocks, a master is gone", Lists: lists(listA), Procs: procs(clientA), Jumps: 1, Downs: 1, Gone: true, Recovered: true}, small, 6_312},
}
