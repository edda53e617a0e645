// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Suspension is the time of a run for which exclusion is not promised. A fault that may break exclusion suspends it from its strike until
// one TTL after its end. A claim rests on votes that masters gave less than a TTL before, so after that time no claim rests on a vote that
// the fault can have touched. A fault that never ended suspends exclusion for the rest of the run. A fault with an error counts too, because
// it may have been applied in part.
type Suspension struct {
	Run  time.Duration            // length of the run
	Time time.Duration            // how much of it is suspended
	By   map[string]time.Duration // the same for each nemesis alone; faults may last at the same time, so the sum may be more than Time

	spans []span // disjoint, in order
}

// span is the time [from, to).
type span struct{ from, to int64 }

// SuspendedExclusion returns when exclusion is not promised in h.
func SuspendedExclusion(h *history.History) Suspension {
	run := extent(h)
	s := Suspension{Run: time.Duration(run.to - run.from), By: map[string]time.Duration{}}
	byNemesis := map[string][]span{}
	for _, f := range h.Faults {
		if !f.MayBreak.Exclusion {
			continue
		}
		to := int64(history.Never)
		if f.End != history.Never {
			to = f.End + int64(h.Header.TTL)
		}
		s.spans = append(s.spans, span{f.Start, to})
		byNemesis[f.Nemesis] = append(byNemesis[f.Nemesis], span{f.Start, to})
	}
	s.spans = union(s.spans)
	s.Time = within(s.spans, run)
	for name, spans := range byNemesis {
		s.By[name] = within(union(spans), run)
	}
	return s
}

// extent returns the time from the first operation or fault to the last.
func extent(h *history.History) span {
	run := span{from: history.Never}
	add := func(from, to int64) {
		run.from = min(run.from, from)
		if to == history.Never {
			to = from
		}
		run.to = max(run.to, to)
	}
	for _, op := range h.Ops {
		add(op.Call, op.Return)
	}
	for _, f := range h.Faults {
		add(f.Start, f.End)
	}
	if run.from == history.Never {
		return span{}
	}
	return run
}

// union returns the spans joined where they overlap or touch, in order.
func union(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var joined []span
	for _, s := range spans {
		if n := len(joined); n > 0 && s.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, s.to)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

// within returns how much of run the spans cover. They are disjoint.
func within(spans []span, run span) (d time.Duration) {
	for _, s := range spans {
		d += time.Duration(max(0, min(s.to, run.to)-max(s.from, run.from)))
	}
	return d
}

// after returns the first span that ends after t.
func (s Suspension) after(t int64) (first span, ok bool) {
	i, _ := slices.BinarySearchFunc(s.spans, t, func(s span, t int64) int {
		if s.to <= t {
			return -1
		}
		return 1
	})
	if i == len(s.spans) {
		return span{}, false
	}
	return s.spans[i], true
}

// covers reports whether all of [from, to) is suspended.
func (s Suspension) covers(from, to int64) bool {
	first, ok := s.after(from)
	return ok && first.from <= from && to <= first.to
}

// meets reports whether some of [from, to] is suspended.
func (s Suspension) meets(from, to int64) bool {
	first, ok := s.after(from)
	return ok && first.from <= to
}

// String says how long exclusion was suspended and by which nemeses: "12.3 s of 60.0 s (step-clock 8.0 s, skew-clocks 5.1 s)".
func (s Suspension) String() string {
	names := sortedKeys(s.By)
	slices.SortFunc(names, history.CompareNemeses)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.1f s", name, s.By[name].Seconds())
	}
	return fmt.Sprintf("%.1f s of %.1f s (%s)", s.Time.Seconds(), s.Run.Seconds(), strings.Join(names, ", "))
}

// suspend takes violations out of the result that s covers, and leaves them in NotJudged.
func (r *Result) suspend(s Suspension) {
	r.Suspended = s
	judged := r.Violations[:0:0]
	for _, v := range r.Violations {
		if s.covers(v.From, v.To) {
			r.NotJudged = append(r.NotJudged, v)
		} else {
			judged = append(judged, v)
		}
	}
	r.Violations = judged
}

// concludeJudged is conclude for a check that may have been suspended. If nothing was judged the verdict is Unknown.
func (r Result) concludeJudged(held string, judged int) Result {
	r = r.observed(held, judged)
	if len(r.Suspended.spans) > 0 {
		r.Summary += fmt.Sprintf(" Not judged: %v", r.Suspended)
		if n := len(r.NotJudged); n > 0 {
			r.Summary += fmt.Sprintf("; overlaps in that time: %d", n)
		}
		r.Summary += "."
	}
	return r
}
