// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"slices"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/page"
)

// votes draws, for each master, when it gave votes.
func (s *story) votes() page.Figure {
	f := s.figure(s.run, "votes")
	f.Title = "Which masters gave their votes"
	f.How = "One row a master: the lock can be had while most of them are low and green; a master refuses for a while after it has lost its data, so that it cannot forget a holder."
	f.Legend = []page.Key{{Class: "up", Text: "gives its vote (low)"}, {Class: "refuses", Text: "answers, but refuses (half height)"}, {Class: "down", Text: "does not answer (full height)"}}
	worst := map[string][]float64{}
	for _, v := range s.h.Votes {
		if worst[v.Node] == nil {
			worst[v.Node] = make([]float64, page.Columns)
		}
		level := map[history.Outcome]float64{history.OK: 0.25, history.Failed: 0.6, history.Unknown: 1}[v.Outcome]
		if i, ok := s.run.Bin(v.Call, page.Columns); ok {
			worst[v.Node][i] = max(worst[v.Node][i], level)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(worst)) {
		levels := hold(worst[node])
		r := page.Row{Label: node, Tall: 20}
		for _, l := range []struct {
			class string
			level float64
		}{{"up", 0.25}, {"refuses", 0.6}, {"down", 1}} {
			only := make([]float64, page.Columns)
			for i, v := range levels {
				if v == l.level {
					only[i] = v
				}
			}
			r.Paths = append(r.Paths, page.Path{Class: l.class, D: page.Steps(only, 20)})
		}
		f.Rows = append(f.Rows, r)
	}
	f.Rows = append(f.Rows, s.nemesisRows(s.run)...)
	if len(worst) == 0 {
		f.Rows = nil
	}
	return f
}

// hold lets a probe stand until the next one: they may be rarer than columns. Before the first and after the last nothing is known.
func hold(levels []float64) []float64 {
	last := len(levels) - 1
	for last >= 0 && levels[last] == 0 {
		last--
	}
	for i := 1; i <= last; i++ {
		if levels[i] == 0 {
			levels[i] = levels[i-1]
		}
	}
	return levels
}
