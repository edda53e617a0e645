// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"
	"time"
)

// span is the time [from, to).
type span struct{ from, to int64 }

// spans is a part of a run's time. Invariant: its spans are disjoint and in order. See union.
type spans []span

// union returns the time of all spans: joined where they overlap or touch. It sorts all.
func union(all []span) (joined spans) {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range all {
		if n := len(joined); n > 0 && s.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, s.to)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

// within returns how much of run the spans cover.
func (ss spans) within(run span) (d time.Duration) {
	for _, s := range ss {
		d += time.Duration(max(0, min(s.to, run.to)-max(s.from, run.from)))
	}
	return d
}

// numbers returns how many whole numbers are in the spans, and how many of those given.
func (ss spans) numbers(given []int64) (all, of int) {
	for _, s := range ss {
		all += int(s.to - s.from)
	}
	for _, n := range given {
		if ss.meets(n, n) {
			of++
		}
	}
	return all, of
}

// without returns what the other spans do not cover.
func (ss spans) without(other spans) (rest spans) {
	for _, s := range ss {
		for s.from < s.to {
			o, ok := other.after(s.from)
			if !ok || o.from >= s.to {
				rest = append(rest, s)
				break
			}
			if s.from < o.from {
				rest = append(rest, span{s.from, o.from})
			}
			s.from = o.to
		}
	}
	return rest
}

// after returns the first span that ends after t.
func (ss spans) after(t int64) (first span, ok bool) {
	i, _ := slices.BinarySearchFunc(ss, t, func(s span, t int64) int {
		if s.to <= t {
			return -1
		}
		return 1
	})
	if i == len(ss) {
		return span{}, false
	}
	return ss[i], true
}

// covers reports whether the spans cover all of [from, to).
func (ss spans) covers(from, to int64) bool {
	first, ok := ss.after(from)
	return ok && first.from <= from && to <= first.to
}

// meets reports whether the spans cover some of [from, to].
func (ss spans) meets(from, to int64) bool {
	first, ok := ss.after(from)
	return ok && first.from <= to
}
