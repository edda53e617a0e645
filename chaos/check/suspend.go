// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
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

	spans Spans
}

// SuspendedExclusion returns when exclusion is not promised in h.
func SuspendedExclusion(h *history.History) Suspension {
	var run Span
	if from, to := h.Extent(); from != history.Never {
		run = Span{from, to}
	}
	s := Suspension{Run: time.Duration(run.To - run.From), By: map[string]time.Duration{}}
	var all []Span
	byNemesis := map[string][]Span{}
	for _, f := range h.Faults {
		if !f.MayBreak.Exclusion {
			continue
		}
		to := int64(history.Never)
		if f.End != history.Never {
			to = f.End + int64(h.Header.TTL)
		}
		all = append(all, Span{f.Start, to})
		byNemesis[f.Nemesis] = append(byNemesis[f.Nemesis], Span{f.Start, to})
	}
	s.spans = Union(all)
	s.Time = s.spans.within(run)
	for name, spans := range byNemesis {
		s.By[name] = Union(spans).within(run)
	}
	return s
}

// Covers reports whether exclusion is suspended for all of [from, to).
func (s Suspension) Covers(from, to int64) bool { return s.spans.covers(from, to) }

// Meets reports whether exclusion is suspended for some of [from, to].
func (s Suspension) Meets(from, to int64) bool { return s.spans.Meets(from, to) }

// String says how long exclusion was suspended and by which nemeses: "12.3 s of 60.0 s (step-clock 8.0 s, skew-clocks 5.1 s)".
func (s Suspension) String() string {
	names := slices.Sorted(maps.Keys(s.By))
	slices.SortFunc(names, history.CompareNemeses)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.1f s", name, s.By[name].Seconds())
	}
	return fmt.Sprintf("%.1f s of %.1f s (%s)", s.Time.Seconds(), s.Run.Seconds(), strings.Join(names, ", "))
}

// ConcludeJudged is Conclude for a check that may have been suspended. If nothing was judged the verdict is Unknown.
func (r Result) ConcludeJudged(held string, judged int) Result {
	r = r.ConcludeFrom(held, judged)
	if len(r.Suspended.spans) > 0 {
		r.Summary += fmt.Sprintf(" Not judged: %v", r.Suspended)
		if n := len(r.NotJudged) + r.MoreNotJudged; n > 0 {
			r.Summary += fmt.Sprintf("; overlaps in that time: %d", n)
		}
		r.Summary += "."
	}
	return r
}
