// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlock-go/redlock/chaos/history"
)

// mutex is what is known of one lock between two pieces.
type mutex struct {
	ended     []*life              // not judged yet
	fence     int64                // the last token that was judged
	writer    int64                // the last of one that is not a reader's
	reopened  []*life              // grants that were extended after they had lapsed
	ahead     *porcupine.Operation // of the pieces so far, the operation called last
	undecided bool
}

// judge judges the grants that have ended, as far as no open grant belongs among them, and none that is called at known or later. The others
// wait.
func (m *mutex) judge(f *found, open []*life, known int64, stop time.Time) {
	all := slices.Concat(m.ended, open)
	isOpen := map[*life]bool{}
	for _, l := range open {
		isOpen[l] = true
	}
	n := len(all)
	switch {
	case known == history.Never: // nothing follows
	case slices.ContainsFunc(all, func(l *life) bool { return l.grant.Token == 0 }):
		n = quiet(all, isOpen)
	default:
		n = turn(all, isOpen, known)
	}
	m.ended = slices.DeleteFunc(slices.Clone(all[n:]), func(l *life) bool { return isOpen[l] })
	if len(m.ended) > pieceMax { // it would grow until the end of the run, and porcupine is not asked then either
		m.ended, m.undecided = nil, true
	}
	if n > 0 && !m.check(f, all[:n], pieceGrants, stop) {
		m.undecided = true
	}
}

// reopen is called with a grant that lapsed and was extended after all. A perfect lock has not granted the lock to anybody else until then.
// What was judged before is in m.fence. What is judged from now on is compared by meet.
func (m *mutex) reopen(f *found, l *life) {
	next := m.fence
	if l.grant.Mode == history.Shared {
		next = m.writer
	}
	if next > l.grant.Token && l.grant.Token != 0 {
		f.report(Violation{
			Text: fmt.Sprintf("no place for the end of %s, after the grant of token %d", name(*l.grant), next), Ops: []history.Op{*l.grant}, From: l.end(), To: l.settled(),
		})
	}
	m.reopened = append(m.reopened, l)
}

// meet reports the grants of a piece that came before the end of a reopened one.
func (m *mutex) meet(f *found, piece []*life) {
	for _, a := range m.reopened {
		for _, b := range piece {
			readers := a.grant.Mode == history.Shared && b.grant.Mode == history.Shared
			if !readers && a.grant.Token != 0 && b.grant.Token > a.grant.Token && b.grant.Return < a.end() {
				f.both(*a.grant, *b.grant, "no place for %s, before the end of %s", name(*b.grant), name(*a.grant))
			}
		}
	}
}

// turn orders grants by token, and returns how many can be cut off: up to a grant that is not a reader's, and that has returned, so that no later
// grant has a smaller token.
func turn(all []*life, isOpen map[*life]bool, known int64) (n int) {
	slices.SortStableFunc(all, func(a, b *life) int { return cmp.Compare(a.grant.Token, b.grant.Token) })
	for i, l := range all {
		if l.grant.Mode != history.Shared && l.grant.Return < known {
			n = i
		}
		if isOpen[l] {
			break
		}
	}
	return n
}

// quiet orders grants by call, and returns how many can be cut off: up to an instant at which all of them had ended, and no other had been
// called.
func quiet(all []*life, isOpen map[*life]bool) (n int) {
	slices.SortStableFunc(all, func(a, b *life) int { return cmp.Compare(a.grant.Call, b.grant.Call) })
	ended := int64(history.Beginning)
	for i, l := range all {
		if ended < l.grant.Call {
			n = i
		}
		if isOpen[l] {
			return n
		}
		ended = max(ended, l.lapse(), l.grant.Return)
	}
	return len(all)
}

// Tokens only grow, so every legal order has the grants in the order of their tokens. Two things follow, both exact, without which
// a busy lock is out of porcupine's reach:
//   - a grant is legal only right after the one with the next smaller token. Otherwise a batch of n readers, let in together, has
//     2^n wrong beginnings;
//   - the history may be cut before a grant that is not a reader's, because it finds the lock free: every earlier grant has ended
//     before it. Nothing behind the cut may have returned before something ahead of it was called, which is checked.
//
// A lock with a grant that has no token gets neither.
const (
	pieceGrants = 2000   // a piece is cut after about so many grants
	pieceMax    = 20_000 // a piece that could not be cut is not tried: porcupine's memory grows with the square of the grants
)

// check judges grants of one lock in pieces of about size grants, and reports whether it could.
func (m *mutex) check(f *found, ls []*life, size int, stop time.Time) bool {
	decided := true
	tokens := !slices.ContainsFunc(ls, func(l *life) bool { return l.grant.Token == 0 })
	ps := [][]*life{ls}
	if tokens {
		ps = pieces(ls, size)
	}
	for _, piece := range ps {
		ops := operations(piece, m.fence, tokens)
		first := slices.MinFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
		if m.ahead != nil && first.Return < m.ahead.Call {
			f.noPlace(first, m.ahead)
		}
		decided = f.checkPiece(ops, m.fence, stop) && decided
		last := slices.MaxFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		if m.ahead == nil || last.Call > m.ahead.Call {
			m.ahead = &last
		}
		m.meet(f, piece)
		for _, l := range piece {
			m.fence = max(m.fence, l.grant.Token)
			if l.grant.Mode != history.Shared {
				m.writer = max(m.writer, l.grant.Token)
			}
		}
	}
	return decided
}

// pieces orders the grants of one lock by token, and cuts them after about size of them.
func pieces(ls []*life, size int) [][]*life {
	slices.SortStableFunc(ls, func(a, b *life) int { return cmp.Compare(a.grant.Token, b.grant.Token) })
	var ps [][]*life
	start := 0
	for i, l := range ls {
		if i-start >= size && l.grant.Mode != history.Shared {
			ps = append(ps, ls[start:i])
			start = i
		}
	}
	return append(ps, ls[start:])
}

func (f *found) checkPiece(ops []porcupine.Operation, fence int64, stop time.Time) bool {
	left := time.Until(stop)
	if left <= 0 || len(ops) > 2*pieceMax {
		return false // porcupine would take 0 for no limit
	}
	result, info := porcupine.CheckOperationsVerbose(fencedMutex(fence), ops, left)
	if result == porcupine.Illegal {
		f.noPlace(stuck(ops, info))
	}
	return result != porcupine.Unknown
}

// step is an operation of the model: a grant, or its end.
type step struct {
	life *life
	end  bool
	prev int64 // the token of the grant before this one; unordered if tokens do not tell
}

const unordered = -1

func (s step) String() string {
	if s.end {
		return "the end of " + name(*s.life.grant)
	}
	return fmt.Sprintf("%s with token %d", name(*s.life.grant), s.life.grant.Token)
}

// operations gives the grants of a piece, and their ends. prev is the last token of the piece before.
func operations(ls []*life, prev int64, tokens bool) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, 2*len(ls))
	for _, l := range ls {
		if !tokens {
			prev = unordered
		}
		end := l.lapse()
		ops = append(ops,
			porcupine.Operation{Input: step{life: l, prev: prev}, Call: l.grant.Call, Return: l.grant.Return},
			porcupine.Operation{Input: step{life: l, end: true}, Call: end, Return: max(end, l.grant.Return)},
		)
		prev = l.grant.Token
	}
	return ops
}

type mutexState struct {
	owner   string // holder, unless there are readers or nobody
	readers int
	fence   int64
}

func fencedMutex(fence int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return mutexState{fence: fence} },
		Step: func(state, input, _ any) (bool, any) {
			st, in := state.(mutexState), input.(step)
			if in.end {
				return st.end(in.life.grant)
			}
			return st.grant(in.life.grant, in.prev)
		},
		Hash: func(state any) uint64 { return uint64(state.(mutexState).fence) },
	}
}

func (st mutexState) grant(g *history.Op, prev int64) (bool, any) {
	if st.owner != "" || g.Token != 0 && g.Token <= st.fence || prev != unordered && prev != st.fence {
		return false, st
	}
	st.fence = max(st.fence, g.Token)
	if g.Mode == history.Shared {
		st.readers++
		return true, st
	}
	if st.readers > 0 {
		return false, st
	}
	st.owner = g.Holder
	return true, st
}

// end relies on each grant having one end, called after it: so readers need only be counted.
func (st mutexState) end(g *history.Op) (bool, any) {
	if g.Mode == history.Shared {
		st.readers--
		return st.readers >= 0, st
	}
	ok := st.owner == g.Holder
	st.owner = ""
	return ok, st
}

// stuck gives the operation for which porcupine found no place, and the one it had placed last: of its longest attempt, the
// first operation to return that is missing. It is where to look, not always what went wrong.
func stuck(ops []porcupine.Operation, info porcupine.LinearizationInfo) (porcupine.Operation, *porcupine.Operation) {
	var longest []porcupine.Operation
	for _, attempt := range info.PartialLinearizationsOperations()[0] {
		if len(attempt) > len(longest) {
			longest = attempt
		}
	}
	placed := make(map[step]bool, len(longest))
	for _, op := range longest {
		placed[op.Input.(step)] = true
	}
	missing := slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool { return placed[op.Input.(step)] })
	first := slices.MinFunc(missing, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	if len(longest) == 0 {
		return first, nil
	}
	return first, &longest[len(longest)-1]
}

func (f *found) noPlace(op porcupine.Operation, after *porcupine.Operation) {
	s := op.Input.(step)
	v := Violation{Text: fmt.Sprintf("no place for %v", s), Ops: []history.Op{*s.life.grant}, From: op.Call, To: op.Return}
	if after != nil {
		a := after.Input.(step)
		v.Text += fmt.Sprintf(", after %v", a)
		v.Ops = append(v.Ops, *a.life.grant)
	}
	f.report(v)
}
