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

// Linearizable is the checker linearizable: one fenced mutex that never fails could have answered as the history of each lock says. The
// library porcupine decides. If it cannot decide within the timeout the verdict is Unknown. Linearizable shares only the collecting of
// grants with the checkers exclusion and tokens, so it tests these checkers too.
//
// State of the mutex: who has it (one owner, or a number of readers) and the last token given out.
//   - a grant is legal if the lock is free for it and its token is larger than the last (of a grant without one, the token is
//     not judged);
//   - its end is legal if it is still there. It happens once, by release or by expiry, at some time after the client stopped
//     claiming, which is its unlock or its deadline, whichever comes first. An end hinders nobody, so if any order is legal, one
//     is in which every end comes at that very instant (or with its grant, if that returned later), and no other is searched.
//     Porcupine's intervals are closed, so an end at the instant of the next grant may come first: no epsilon is needed;
//   - refused and unknown lock calls are left out: the client never claims to hold, and in numbers they make the search explode;
//   - a grant is left out if exclusion was suspended at any time from its call to its end. A history that is legal stays legal without it.
func Linearizable(h *history.History, timeout time.Duration) Result {
	r := Result{ID: "linearizable", Question: "Could one perfect lock, giving out ever larger tokens, have answered like this?"}
	r.Suspended = SuspendedExclusion(h)
	byLock := map[string][]*life{}
	for _, l := range lives(h) {
		if r.Suspended.spans.meets(l.grant.Call, max(l.end(), l.grant.Return)) {
			continue
		}
		byLock[l.grant.Lock] = append(byLock[l.grant.Lock], l)
	}
	stop := time.Now().Add(timeout)
	n, undecided := 0, 0
	for _, lock := range sortedKeys(byLock) {
		n += len(byLock[lock])
		if !r.checkMutex(byLock[lock], pieceGrants, stop) {
			undecided++
		}
	}
	r.sort()
	r.Figures = []Figure{{"grants judged by porcupine", float64(n)}, {"locks undecided", float64(undecided)}}
	r = r.concludeJudged(fmt.Sprintf("Yes: porcupine found an order for %d grants on %d locks.", n, len(byLock)), n)
	if r.Verdict == Ok && undecided > 0 {
		r.Verdict, r.Summary = Unknown, fmt.Sprintf("%d of %d locks could not be decided within %v.", undecided, len(byLock), timeout)
	}
	return r
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

// checkMutex judges one lock in pieces of about size grants, and tells whether it could.
func (r *Result) checkMutex(ls []*life, size int, stop time.Time) bool {
	decided := true
	tokens := !slices.ContainsFunc(ls, func(l *life) bool { return l.grant.Token == 0 })
	ps := [][]*life{ls}
	if tokens {
		ps = pieces(ls, size)
	}
	var fence int64
	var ahead *porcupine.Operation // of the pieces so far, the operation called last
	for _, piece := range ps {
		ops := operations(piece, fence, tokens)
		first := slices.MinFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
		if ahead != nil && first.Return < ahead.Call {
			r.noPlace(first, ahead)
		}
		decided = r.checkPiece(ops, fence, stop) && decided
		last := slices.MaxFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		if ahead == nil || last.Call > ahead.Call {
			ahead = &last
		}
		fence = piece[len(piece)-1].grant.Token
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

func (r *Result) checkPiece(ops []porcupine.Operation, fence int64, stop time.Time) bool {
	left := time.Until(stop)
	if left <= 0 || len(ops) > 2*pieceMax {
		return false // porcupine would take 0 for no limit
	}
	result, info := porcupine.CheckOperationsVerbose(fencedMutex(fence), ops, left)
	if result == porcupine.Illegal {
		r.noPlace(stuck(ops, info))
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
		end := l.end()
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

func (r *Result) noPlace(op porcupine.Operation, after *porcupine.Operation) {
	s := op.Input.(step)
	v := Violation{Text: fmt.Sprintf("no place for %v", s), Ops: []history.Op{*s.life.grant}, From: op.Call, To: op.Return}
	if after != nil {
		a := after.Input.(step)
		v.Text += fmt.Sprintf(", after %v", a)
		v.Ops = append(v.Ops, *a.life.grant)
	}
	r.Violations = append(r.Violations, v)
}
