// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
)

// ErrTooLarge is returned by Check when there are more states than World.MaxStates.
var ErrTooLarge = errors.New("membershipmodel: too many states")

// Result counts what Check visited.
type Result struct {
	States, Edges int
	Depth         int // of the farthest state
	Held          int // states in which an attempt holds the lock
	Dead          int // states from which no lock can ever be had again
	Cut           int // steps left out because a state had no room for one more plan
	Elapsed       time.Duration
	// Moves counts the compare-and-sets that were executed, by what they did: see Move.
	Moves map[Move]int
}

// Move is one transition of a record, as the table in package membership has it.
type Move struct{ From, To, Goal string }

func (r Result) String() string {
	s := fmt.Sprintf("%d states, %d edges, depth %d, %d with a holder, %.1f s", r.States, r.Edges, r.Depth, r.Held, r.Elapsed.Seconds())
	if r.Cut > 0 {
		s += fmt.Sprintf(", %d steps left out", r.Cut)
	}
	if r.Dead > 0 {
		s += fmt.Sprintf(", %d dead ends", r.Dead)
	}
	return s
}

// ViolationError is a counter-example: the last step of Path breaks the exclusion or the order of tokens, or leads to a
// state from which no lock can ever be had again.
type ViolationError struct {
	Reason string
	Path   Path
}

func (e *ViolationError) Error() string {
	return fmt.Sprintf("membershipmodel: %s: %s\n%s", e.Path.World.Name, e.Reason, e.Path)
}

// node is what is kept of a state: how it was reached. The state itself is found again by replaying.
type node struct {
	parent int32
	hash   [2]uint64
}

// explorer is the memory of one Check.
type explorer struct {
	d        *driver
	seen     map[[2]uint64]int32
	nodes    []node
	seeds    [2]maphash.Seed
	lively   []int32 // edges that a machine without faults makes, from and to in turn
	alive    []bool  // a lock can be had here
	result   Result
	symmetry bool
	visited  func(*state) // for tests
}

// Check visits every reachable state, nearest first. It returns a *ViolationError with a shortest counter-example, nil
// if the whole space was exhausted without one, or ErrTooLarge. With Recovered it also looks for states from which no
// lock can ever be had again without a further fault.
func (w World) Check() (Result, error) {
	start := time.Now()
	x, err := w.explorer()
	if err != nil {
		return Result{}, err
	}
	err = x.run()
	x.result.Cut = x.d.cut
	if err == nil && w.Recovered {
		err = x.deadEnds()
	}
	x.result.Elapsed = time.Since(start)
	return x.result, err
}

func (w World) explorer() (*explorer, error) {
	if err := w.init(); err != nil {
		return nil, err
	}
	return &explorer{
		d: newDriver(&w), seen: make(map[[2]uint64]int32), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		result: Result{Moves: make(map[Move]int)}, symmetry: true,
	}, nil
}

func (x *explorer) run() error {
	w := x.d.w
	limit := cmp.Or(w.MaxStates, 3_000_000)
	first := w.start()
	frontier, following := []state{first}, []state(nil)
	x.visit(&first, -1)
	ids, followingIDs := []int32{0}, []int32(nil)
	var next []transition
	for ; len(frontier) > 0; x.result.Depth++ {
		following, followingIDs = following[:0], followingIDs[:0]
		for k := range frontier {
			next = x.d.next(next[:0], &frontier[k])
			x.result.Edges += len(next)
			for t := range next {
				if next[t].step.wrong != "" {
					return x.violation(ids[k], &next[t])
				}
				x.count(&frontier[k], &next[t])
				id, isNew := x.visit(&next[t].to, ids[k])
				if w.Recovered && !fault[next[t].step.Kind] {
					x.lively = append(x.lively, ids[k], id)
				}
				if isNew {
					following, followingIDs = append(following, next[t].to), append(followingIDs, id)
				}
			}
			if len(x.nodes) > limit {
				return ErrTooLarge
			}
		}
		frontier, following = following, frontier
		ids, followingIDs = followingIDs, ids
	}
	return nil
}

// visit returns the index of the state, and whether it is new.
func (x *explorer) visit(s *state, parent int32) (int32, bool) {
	h := x.hash(s)
	if id, ok := x.seen[h]; ok {
		return id, false
	}
	id := int32(len(x.nodes))
	x.seen[h] = id
	x.nodes = append(x.nodes, node{parent, h})
	x.result.States++
	if x.visited != nil {
		x.visited(s)
	}
	if x.d.w.Recovered {
		x.alive = append(x.alive, x.d.lockable(s))
	}
	for a := range s.attempts {
		if s.attempts[a].phase == holding {
			x.result.Held++
			break
		}
	}
	return id, true
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

// deadEnds looks for a state from which no lockable one is reached without a fault.
func (x *explorer) deadEnds() error {
	first := make([]int32, len(x.nodes)+1) // edges backwards, by where they lead
	for k := 1; k < len(x.lively); k += 2 {
		first[x.lively[k]+1]++
	}
	for k := range x.nodes {
		first[k+1] += first[k]
	}
	back := make([]int32, len(x.lively)/2)
	at := slices.Clone(first)
	for k := 1; k < len(x.lively); k += 2 {
		to := x.lively[k]
		back[at[to]] = x.lively[k-1]
		at[to]++
	}
	var queue []int32
	for k, ok := range x.alive {
		if ok {
			queue = append(queue, int32(k))
		}
	}
	for len(queue) > 0 {
		to := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range back[first[to]:first[to+1]] {
			if !x.alive[from] {
				x.alive[from] = true
				queue = append(queue, from)
			}
		}
	}
	dead := slices.Index(x.alive, false)
	for _, ok := range x.alive {
		if !ok {
			x.result.Dead++
		}
	}
	if dead < 0 {
		return nil
	}
	return &ViolationError{"from here no lock can ever be had again", x.path(int32(dead))}
}

// count notes what a compare-and-set did that a process decided and executed at once.
func (x *explorer) count(s *state, t *transition) {
	if t.step.Kind != Act {
		return
	}
	from, to := &s.masters[t.step.Master].record, &t.to.masters[t.step.Master].record
	if from.state.shape() == to.state.shape() && from.state.nonce == 0 && from.intent == to.intent {
		return // refused
	}
	goal := [...]string{membership.Serve: "serve", membership.Init: "init", membership.Change: "change", membership.Cancel: "cancel"}
	m := Move{stateWord(from.state), stateWord(to.state), goal[x.d.w.Procs[t.step.Proc].Goal]}
	if m.From != "lost" && from.state.epoch != to.state.epoch {
		m.From += " before"
	}
	x.result.Moves[m]++
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

// violation is the counter-example that ends with t.
func (x *explorer) violation(id int32, t *transition) error {
	p := x.path(id)
	p.Steps = append(p.Steps, t.step)
	p.states = append(p.states, t.to)
	return &ViolationError{t.step.wrong, p}
}

// path replays the way to a state: of each state's transitions it takes the one that leads to a state with the hash of
// the next one.
func (x *explorer) path(id int32) Path {
	var way []int32
	for ; id >= 0; id = x.nodes[id].parent {
		way = append(way, id)
	}
	slices.Reverse(way)
	s := x.d.w.start()
	p := Path{World: x.d.w, states: []state{s}}
	for _, id := range way[1:] {
		next := x.d.next(nil, &s)
		k := slices.IndexFunc(next, func(t transition) bool { return x.hash(&t.to) == x.nodes[id].hash })
		s = next[k].to
		p.Steps, p.states = append(p.Steps, next[k].step), append(p.states, s)
	}
	return p
}

// hash is that of the state in canonical form: masters of one group are put into an order that does not depend on how
// they are called. 128 bits tell any two states apart for all that matters here.
func (x *explorer) hash(s *state) [2]uint64 {
	c := *s
	if x.symmetry {
		x.d.w.sort(&c)
	}
	return [2]uint64{maphash.Comparable(x.seeds[0], c), maphash.Comparable(x.seeds[1], c)}
}
