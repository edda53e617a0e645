// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/redlock-go/redlock/chaos/history"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// seen is a number observed at some instant of the closed interval [call, ret].
type seen struct {
	call, ret int64
	value     int64
	at        int // index of its record
}

// fallen returns the pairs (earlier, later) of records in which the earlier one returned before the later one was called, but saw the
// larger number. If the intervals of two records touch, either may have come first, so they are no pair. Each later record is in one pair,
// with the record before it that saw the largest number. Exact, O(n log n).
func fallen(s []seen) [][2]int {
	byReturn := slices.Clone(s)
	slices.SortStableFunc(byReturn, func(a, b seen) int { return cmp.Compare(a.ret, b.ret) })
	slices.SortStableFunc(s, func(a, b seen) int { return cmp.Compare(a.call, b.call) })
	var pairs [][2]int
	var top *seen
	next := 0
	for _, x := range s {
		for ; next < len(byReturn) && byReturn[next].ret < x.call; next++ {
			if top == nil || byReturn[next].value > top.value {
				top = &byReturn[next]
			}
		}
		if top != nil && top.value > x.value {
			pairs = append(pairs, [2]int{top.at, x.at})
		}
	}
	return pairs
}

// Tokens is the checker tokens: on each lock no token was issued twice, and a grant that was called after another had returned has the
// larger token. The same holds for readers. Grants without a token are counted as a figure; the checker effort judges how many tokens a run
// must have.
//
// Two grants that are in flight at the same time may return in either order, so the order of returns is not promised (docs/safety.md,
// "Fencing tokens"). A figure says how often it differed from the order of tokens.
func Tokens(h *history.History) Result {
	r := Result{ID: "tokens", Question: "Was every fencing token new, and larger than those of all grants before it?"}
	byLock := map[string][]seen{}
	issued, without, inverted := 0, 0, 0
	for i, op := range h.Ops {
		switch {
		case op.Kind != history.KindLock || op.Outcome != history.OK:
		case op.Token == 0:
			without++
		default:
			issued++
			byLock[op.Lock] = append(byLock[op.Lock], seen{op.Call, op.Return, op.Token, i})
		}
	}
	for _, lock := range sortedKeys(byLock) {
		grants := byLock[lock]
		for _, p := range twice(grants) {
			a, b := h.Ops[p[0]], h.Ops[p[1]]
			r.add(a, b, "token %d of %q was issued twice: %s, and %s", b.Token, lock, name(a), name(b))
		}
		for _, p := range fallen(grants) {
			a, b := h.Ops[p[0]], h.Ops[p[1]]
			r.add(a, b, "token went back from %d to %d: %s had returned before %s", a.Token, b.Token, name(a), name(b))
		}
		inverted += inversions(grants)
	}
	r.sort()
	r.Figures = []Figure{{"tokens issued", float64(issued)}, {"grants without a token", float64(without)}, {"grants returned out of token order", float64(inverted)}}
	return r.observed(fmt.Sprintf("Yes: %d tokens on %d locks, all different and in real-time order.", issued, len(byLock)), issued)
}

// twice returns the pairs of records that saw the same number.
func twice(s []seen) [][2]int {
	first := make(map[int64]int, len(s))
	var pairs [][2]int
	for _, x := range s {
		if i, ok := first[x.value]; ok {
			pairs = append(pairs, [2]int{i, x.at})
		} else {
			first[x.value] = x.at
		}
	}
	return pairs
}

// inversions counts the grants that returned after one with a larger token.
func inversions(s []seen) int {
	s = slices.Clone(s)
	slices.SortStableFunc(s, func(a, b seen) int { return cmp.Compare(a.ret, b.ret) })
	n, top := 0, int64(0)
	for _, x := range s {
		if x.value < top {
			n++
		}
		top = max(top, x.value)
	}
	return n
}

// Counters is the checker counters: in one incarnation of a master no fencing counter is ever read lower than before. A fall without a new
// incarnation means that the master was rolled back without a trace (docs/safety.md, A12).
func Counters(h *history.History) Result {
	r := Result{ID: "counters", Question: "Did a master's fencing counter ever fall without the master's being known to have lost its data?"}
	type key struct {
		node, incarnation string
		slot              int
	}
	byCounter := map[key][]seen{}
	for i, c := range h.Counters {
		k := key{c.Node, c.Incarnation, c.Slot}
		byCounter[k] = append(byCounter[k], seen{c.Call, c.Return, c.Value, i})
	}
	for k, s := range byCounter {
		for _, p := range fallen(s) {
			a, b := h.Counters[p[0]], h.Counters[p[1]]
			r.Violations = append(r.Violations, Violation{
				Text: fmt.Sprintf("counter %d of %s (incarnation %s) fell from %d, read at %d, to %d, read at %d", k.slot, k.node, k.incarnation, a.Value, a.Call, b.Value, b.Call),
				From: a.Call, To: b.Return,
			})
		}
	}
	r.sort()
	r.Figures = []Figure{{"counter readings", float64(len(h.Counters))}, {"counters of one incarnation", float64(len(byCounter))}}
	return r.observed(fmt.Sprintf("No: %d readings of %d counters, none falls.", len(h.Counters), len(byCounter)), len(h.Counters))
}

// add adds a violation that two operations show.
func (r *Result) add(a, b history.Op, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{
		Text: fmt.Sprintf(format, args...), Ops: []history.Op{a, b}, From: min(a.Call, b.Call), To: max(a.Return, b.Return),
	})
}

func (r *Result) sort() {
	slices.SortFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Text, b.Text))
	})
}
