// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"
	"time"
)

// Span is the time [from, to).
type Span struct{ From, To int64 }

// Spans is a part of a run's time. Invariant: its spans are disjoint and in order. See Union.
type Spans []Span

// Union returns the time of all spans: joined where they overlap or touch. It sorts all.
func Union(all []Span) (joined Spans) {
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range all {
		if n := len(joined); n > 0 && s.From <= joined[n-1].To {
			joined[n-1].To = max(joined[n-1].To, s.To)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

// within returns how much of run the spans cover.
func (ss Spans) within(run Span) (d time.Duration) {
	for _, s := range ss {
		d += time.Duration(max(0, min(s.To, run.To)-max(s.From, run.From)))
	}
	return d
}

// Numbers returns how many whole numbers are in the spans, and how many of those given.
func (ss Spans) Numbers(given []int64) (all, of int) {
	for _, s := range ss {
		all += int(s.To - s.From)
	}
	for _, n := range given {
		if ss.Meets(n, n) {
			of++
		}
	}
	return all, of
}

// Without returns what the other spans do not cover.
func (ss Spans) Without(other Spans) (rest Spans) {
	for _, s := range ss {
		for s.From < s.To {
			o, ok := other.after(s.From)
			if !ok || o.From >= s.To {
				rest = append(rest, s)
				break
			}
			if s.From < o.From {
				rest = append(rest, Span{s.From, o.From})
			}
			s.From = o.To
		}
	}
	return rest
}

// after returns the first span that ends after t.
func (ss Spans) after(t int64) (first Span, ok bool) {
	i, _ := slices.BinarySearchFunc(ss, t, func(s Span, t int64) int {
		if s.To <= t {
			return -1
		}
		return 1
	})
	if i == len(ss) {
		return Span{}, false
	}
	return ss[i], true
}

// covers reports whether the spans cover all of [from, to).
func (ss Spans) covers(from, to int64) bool {
	first, ok := ss.after(from)
	return ok && first.From <= from && to <= first.To
}

// Meets reports whether the spans cover some of [from, to].
func (ss Spans) Meets(from, to int64) bool {
	first, ok := ss.after(from)
	return ok && first.From <= to
}
