// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// mutex is what is known of one lock between two pieces.
type mutex struct {
	ended     []*check.Life        // not judged yet
	fence     int64                // the last token that was judged
	writer    int64                // the last of one that is not a reader's
	reopened  []*check.Life        // grants that were extended after they had lapsed
	ahead     *porcupine.Operation // of the pieces so far, the operation called last
	undecided bool
}

// judge judges the grants that have ended, as far as no open grant belongs among them, and none that is called at known or later. The others
// wait.
func (m *mutex) judge(f *check.Found, open []*check.Life, known int64, stop time.Time) {
	all := slices.Concat(m.ended, open)
	isOpen := map[*check.Life]bool{}
	for _, l := range open {
		isOpen[l] = true
	}
	n := len(all)
	switch {
	case known == history.Never: // nothing follows
	case slices.ContainsFunc(all, func(l *check.Life) bool { return l.Grant.Token == 0 }):
		n = quiet(all, isOpen)
	default:
		n = turn(all, isOpen, known)
	}
	m.ended = slices.DeleteFunc(slices.Clone(all[n:]), func(l *check.Life) bool { return isOpen[l] })
	if len(m.ended) > pieceMax { // it would grow until the end of the run, and porcupine is not asked then either
		m.ended, m.undecided = nil, true
	}
	if n > 0 && !m.check(f, all[:n], pieceGrants, stop) {
		m.undecided = true
	}
}

// reopen is called with a grant that lapsed and was extended after all. A perfect lock has not granted the lock to anybody else until then.
// What was judged before is in m.fence. What is judged from now on is compared by meet.
func (m *mutex) reopen(f *check.Found, l *check.Life) {
	next := m.fence
	if l.Grant.Mode == history.Shared {
		next = m.writer
	}
	if next > l.Grant.Token && l.Grant.Token != 0 {
		f.Report(check.Violation{
			Text: fmt.Sprintf("no place for the end of %s, after the grant of token %d", check.Name(*l.Grant), next), Ops: []history.Op{*l.Grant}, From: l.End(), To: l.Settled(),
		})
	}
	m.reopened = append(m.reopened, l)
}

// meet reports the grants of a piece that came before the end of a reopened one.
func (m *mutex) meet(f *check.Found, piece []*check.Life) {
	for _, a := range m.reopened {
		for _, b := range piece {
			readers := a.Grant.Mode == history.Shared && b.Grant.Mode == history.Shared
			if !readers && a.Grant.Token != 0 && b.Grant.Token > a.Grant.Token && b.Grant.Return < a.End() {
				f.Both(*a.Grant, *b.Grant, "no place for %s, before the end of %s", check.Name(*b.Grant), check.Name(*a.Grant))
			}
		}
	}
}

// turn orders grants by token, and returns how many can be cut off: up to a grant that is not a reader's, and that has returned, so that no later
// grant has a smaller token.
func turn(all []*check.Life, isOpen map[*check.Life]bool, known int64) (n int) {
	slices.SortStableFunc(all, func(a, b *check.Life) int { return cmp.Compare(a.Grant.Token, b.Grant.Token) })
	for i, l := range all {
		if l.Grant.Mode != history.Shared && l.Grant.Return < known {
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
func quiet(all []*check.Life, isOpen map[*check.Life]bool) (n int) {
	slices.SortStableFunc(all, func(a, b *check.Life) int { return cmp.Compare(a.Grant.Call, b.Grant.Call) })
	ended := int64(history.Beginning)
	for i, l := range all {
		if ended < l.Grant.Call {
			n = i
		}
		if isOpen[l] {
			return n
		}
		ended = max(ended, l.Lapse(), l.Grant.Return)
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
func (m *mutex) check(f *check.Found, ls []*check.Life, size int, stop time.Time) bool {
	decided := true
	tokens := !slices.ContainsFunc(ls, func(l *check.Life) bool { return l.Grant.Token == 0 })
	ps := [][]*check.Life{ls}
	if tokens {
		ps = pieces(ls, size)
	}
	for _, piece := range ps {
		ops := operations(piece, m.fence, tokens)
		first := slices.MinFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
		if m.ahead != nil && first.Return < m.ahead.Call {
			f.Report(noPlace(first, m.ahead))
		}
		decided = checkPiece(f, ops, m.fence, stop) && decided
		last := slices.MaxFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		if m.ahead == nil || last.Call > m.ahead.Call {
			m.ahead = &last
		}
		m.meet(f, piece)
		for _, l := range piece {
			m.fence = max(m.fence, l.Grant.Token)
			if l.Grant.Mode != history.Shared {
				m.writer = max(m.writer, l.Grant.Token)
			}
		}
	}
	return decided
}

// pieces orders the grants of one lock by token, and cuts them after about size of them.
func pieces(ls []*check.Life, size int) [][]*check.Life {
	slices.SortStableFunc(ls, func(a, b *check.Life) int { return cmp.Compare(a.Grant.Token, b.Grant.Token) })
	var ps [][]*check.Life
	start := 0
	for i, l := range ls {
		if i-start >= size && l.Grant.Mode != history.Shared {
			ps = append(ps, ls[start:i])
			start = i
		}
	}
	return append(ps, ls[start:])
}

func checkPiece(f *check.Found, ops []porcupine.Operation, fence int64, stop time.Time) bool {
	left := time.Until(stop)
	if left <= 0 || len(ops) > 2*pieceMax {
		return false // porcupine would take 0 for no limit
	}
	result, info := porcupine.CheckOperationsVerbose(fencedMutex(fence), ops, left)
	if result == porcupine.Illegal {
		f.Report(noPlace(stuck(ops, info)))
	}
	return result != porcupine.Unknown
}

// step is an operation of the model: a grant, or its end.
type step struct {
	life *check.Life
	end  bool
	prev int64 // the token of the grant before this one; unordered if tokens do not tell
}

const unordered = -1

func (s step) String() string {
	if s.end {
		return "the end of " + check.Name(*s.life.Grant)
	}
	return fmt.Sprintf("%s with token %d", check.Name(*s.life.Grant), s.life.Grant.Token)
}

// operations gives the grants of a piece, and their ends. prev is the last token of the piece before.
func operations(ls []*check.Life, prev int64, tokens bool) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, 2*len(ls))
	for _, l := range ls {
		if !tokens {
			prev = unordered
		}
		end := l.Lapse()
		ops = append(ops,
			porcupine.Operation{Input: step{life: l, prev: prev}, Call: l.Grant.Call, Return: l.Grant.Return},
			porcupine.Operation{Input: step{life: l, end: true}, Call: end, Return: max(end, l.Grant.Return)},
		)
		prev = l.Grant.Token
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
				return st.end(in.life.Grant)
			}
			return st.grant(in.life.Grant, in.prev)
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

func noPlace(op porcupine.Operation, after *porcupine.Operation) check.Violation {
	s := op.Input.(step)
	v := check.Violation{Text: fmt.Sprintf("no place for %v", s), Ops: []history.Op{*s.life.Grant}, From: op.Call, To: op.Return}
	if after != nil {
		a := after.Input.(step)
		v.Text += fmt.Sprintf(", after %v", a)
		v.Ops = append(v.Ops, *a.life.Grant)
	}
	return v
}
