// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlock-go/redlock/chaos/check"
)

// span is one hold, from when Lock had returned to when Unlock was about to be called, on CLOCK_MONOTONIC, which all processes of a host
// share. Both ends lie inside the time in which the lock promised exclusion, so two spans that overlap are two holders, never an effect of
// when the clock was read. Spans of readers may overlap each other. The end is before the beginning if the holder was stopped before it read the
// clock, and its lease was over when it went on: it never held the lock knowing so.
type span struct {
	Asked time.Duration `json:"asked"` // when Lock was called
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
	Read  bool          `json:"read,omitempty"`
}

// Monotonic is CLOCK_MONOTONIC. Go's own monotonic readings do not leave their process.
func Monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail with these arguments
	return time.Duration(ts.Nano())
}

// never says that the span was over before it began.
func (s span) never() bool { return s.To < s.From }

// overlaps is how many spans began while an earlier one, of a writer or for a writer, had not ended.
func overlaps(spans []span) (n int) {
	spans = slices.DeleteFunc(slices.Clone(spans), span.never)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.From, b.From) })
	check.Overlaps(spans, func(s *span) (int64, int64, bool) { return int64(s.From), int64(s.To), s.Read }, func(_, _ *span) { n++ })
	return n
}

// together is the largest number of readers that held the lock at one time.
func together(spans []span) (most int) {
	type edge struct {
		at   time.Duration
		step int
	}
	var edges []edge
	for _, s := range spans {
		if s.Read && !s.never() {
			edges = append(edges, edge{s.From, 1}, edge{s.To, -1})
		}
	}
	// Ends before beginnings: a span does not contain its end.
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	now := 0
	for _, e := range edges {
		now += e.step
		most = max(most, now)
	}
	return most
}
