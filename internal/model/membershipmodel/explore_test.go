// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/model/explore"
)

// The explorer's words for this model.
type (
	transition = explore.Move[state, Step]
	// ViolationError is a counter-example: the last step of Path breaks the exclusion or the order of tokens, or leads to a
	// state from which no lock can ever be had again.
	ViolationError = explore.ViolationError[Path]
)

// Result counts what Check visited.
type Result struct {
	explore.Result
	Cut     int // steps left out because a state had no room for one more plan
	Elapsed time.Duration
	// Moves counts the compare-and-sets that were executed, by what they did: see Move.
	Moves map[Move]int
}

// Move is one transition of a record, as the table in package membership has it.
type Move struct{ From, To, Goal string }

func (r Result) String() string {
	s := fmt.Sprintf("%d states, %d edges, depth %d, %d with a holder, %.1f s", r.States, r.Edges, r.Depth, r.States-r.Holding[0], r.Elapsed.Seconds())
	if r.Cut > 0 {
		s += fmt.Sprintf(", %d steps left out", r.Cut)
	}
	if r.Dead > 0 {
		s += fmt.Sprintf(", %d dead ends", r.Dead)
	}
	return s
}

// system makes a World one that can be explored.
type system struct {
	*driver
	symmetry  bool
	canonical state // of Key: to allocate one for each call is a twentieth of an exploration
}

// Check visits every reachable state, nearest first. It returns a *ViolationError with a shortest counter-example, nil
// if the whole space was exhausted without one, or explore.ErrTooLarge. With Recovered it also looks for states from which
// no lock can ever be had again without a further fault.
func (w World) Check() (Result, error) {
	begun := time.Now()
	x, y, err := w.explorer()
	if err != nil {
		return Result{}, err
	}
	result := Result{Moves: make(map[Move]int)}
	x.Crossed = func(s *state, t *transition, _ bool) { y.count(result.Moves, s, t) }
	if w.Recovered {
		x.Live, x.ByItself = y.lockable, func(step *Step) bool { return !fault[step.Kind] }
		x.DeadReason = "from here no lock can ever be had again"
	}
	result.Result, err = x.Run()
	result.Cut, result.Elapsed = y.cut, time.Since(begun)
	return result, err
}

func (w World) explorer() (*explore.Explorer[state, Step, [2]uint64, Path], *system, error) {
	if err := w.init(); err != nil {
		return nil, nil, err
	}
	y := &system{driver: newDriver(&w), symmetry: true}
	y.seeds, y.looked = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, map[[2]uint64][]decision{}
	return &explore.Explorer[state, Step, [2]uint64, Path]{System: y, Most: cmp.Or(w.MaxStates, 3_000_000)}, y, nil
}

func (y *system) Starts() []state { return []state{y.w.start()} }

func (y *system) Judge(_ *state, t *transition) string { return t.Step.wrong }

// Holders counts the attempts that hold the lock.
func (y *system) Holders(s *state) (n int) {
	for a := range s.attempts {
		if s.attempts[a].phase == holding {
			n++
		}
	}
	return n
}

// Path has the states too: nonces are told by what they were called before.
func (y *system) Path(start *state, moves []transition) Path {
	p := Path{World: y.w, states: []state{*start}}
	for i := range moves {
		p.Steps, p.states = append(p.Steps, moves[i].Step), append(p.states, moves[i].To)
	}
	return p
}

// Key is the hash of the state in canonical form: masters of one group are put into an order that does not depend on how
// they are called.
func (y *system) Key(s *state) [2]uint64 {
	c := &y.canonical
	*c = *s
	if y.symmetry {
		y.w.sort(c)
	}
	return hash(&y.seeds, c)
}

// hash has 128 bits: they tell any two states apart for all that matters here.
func hash[T comparable](seeds *[2]maphash.Seed, v *T) [2]uint64 {
	return [2]uint64{maphash.Comparable(seeds[0], *v), maphash.Comparable(seeds[1], *v)}
}

// lockable: a quorum of some list votes in one epoch. Any client with that list can lock then. With All every master does.
func (d *driver) lockable(s *state) bool {
	found := false
	for list := range d.w.Lists {
		d.epochs(s, list, func(epoch uint8) {
			n := 0
			for i := range d.w.masters {
				if d.w.listed(list, i) && votes(&s.masters[i], epoch, false) && !d.suspect(s, i, list) {
					n++
				}
			}
			found = found || n >= d.w.quorum(list) && (!d.w.All || n == len(d.w.Lists[list].Masters))
		})
	}
	return found
}

// count notes what a compare-and-set did that a process decided and executed at once.
func (d *driver) count(moves map[Move]int, s *state, t *transition) {
	if t.Step.Kind != Act {
		return
	}
	from, to := &s.masters[t.Step.Master].record, &t.To.masters[t.Step.Master].record
	if from.state.shape() == to.state.shape() && from.state.nonce == 0 && from.intent == to.intent {
		return // refused
	}
	goal := [...]string{membership.Serve: "serve", membership.Init: "init", membership.Change: "change", membership.Cancel: "cancel"}
	m := Move{stateWord(from.state), stateWord(to.state), goal[d.w.Procs[t.Step.Proc].Goal]}
	if m.From != "lost" && from.state.epoch != to.state.epoch {
		m.From += " before"
	}
	moves[m]++
}

// stateWord is how the table in package membership calls a record state.
func stateWord(rs recordState) string {
	switch {
	case rs.phase == membership.None || rs.stale:
		return "lost"
	case rs.phase == membership.Quarantined && rs.whole:
		return "R whole"
	}
	return string(rune(rs.phase))
}
