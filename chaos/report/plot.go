// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	"github.com/redlock-go/redlock/internal/page"
)

// figure starts a picture of the window, with the faults behind it.
func (s *story) figure(w page.Window, id string) page.Figure {
	zero := s.run.From
	f := page.Figure{ID: id, Ticks: w.Ticks(zero, time.Second), From: float64(w.From-zero) / 1e9, To: float64(w.To-zero) / 1e9}
	for _, b := range s.faultSpans(w, "") {
		f.Faults = append(f.Faults, w.Box(b.From, b.To, 0, 1000, 1, "", ""))
	}
	return f
}

// faultSpans gives when a nemesis (or any, if "") was at work in the window, with what touches merged.
func (s *story) faultSpans(w page.Window, nemesis string) []page.Window {
	var spans []page.Window
	near := (w.To - w.From) / page.Columns
	for _, f := range s.h.Faults { // ordered by start
		if f.Error != "" || nemesis != "" && f.Nemesis != nemesis || !w.Shows(f.Start, f.End) && f.Start != f.End {
			continue
		}
		if n := len(spans); n > 0 && f.Start <= spans[n-1].To+near {
			spans[n-1].To = max(spans[n-1].To, f.End)
		} else {
			spans = append(spans, page.Window{From: f.Start, To: f.End})
		}
	}
	return spans
}
