// SPDX-License-Identifier: Apache-2.0

package sheet

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/page"
)

const introOutage = "Callers take and give back locks of their own at full speed, while one master is killed, comes back, and then all masters but a quorum are frozen. " +
	"This page shows what that cost while it lasted, when the master that had returned was counted on again, and what was left when all was over."

const howPhases = "Time from left to right. The columns are locks a second in turns of 250 ms; a gap is the time between two phases, in which nothing is measured. Violet: the fault at work, shaded behind the other rows too."

// phases says what was done in each phase; "" is none, which has no row among the faults.
var phases = map[string]string{
	"before": "", "killed": "one master was killed", "returned": "it was started again", "frozen": "all but a quorum stopped", "after": "",
}

func (s *sheet) outage(cells []*results.PhaseCell, o *results.Outage) {
	s.begin("Masters failed, and locks were had all the time")
	s.Intro = introOutage
	for _, c := range cells {
		if c.Ratio != nil && (c.Phase == "killed" || c.Phase == "frozen") {
			s.say("%s: %s locks a second, %s of before; 99 of 100 within %s", c.Phase, rate(c.Median), fixed(c.Ratio.Median, 2), micros(c.P99))
		}
	}
	if o != nil {
		if o.Up != nil { // else the run broke off before the master answered again
			s.say("%s", comeback(o))
		}
		for _, f := range o.Failed {
			s.say("%s", f)
		}
		if len(o.Failed) > 0 {
			s.Verdict.Class, s.Verdict.Head = "illegal", "Something does not hold that must"
		}
	}
	s.Parts = append(s.Parts,
		part{Title: "Locks while masters fail", Figures: []page.Figure{outageFigure(cells, o)}},
		part{Title: "Phases", How: "Rates are the median of turns of 250 ms; “of before” divides by the first phase. Calls that failed are counted and not timed.", Tables: []table{outageTable(cells)}})
	if o != nil && o.Owed != nil {
		s.Parts = append(s.Parts, owedPart(o.Owed))
	}
	s.define("returned", "The master that was killed is started again, without its data unless it is told to keep it. It waits for the maximum TTL, so that it cannot forget a holder.",
		"votes", "A lock is had when a majority of the masters gave its vote.",
		"heap", "What a garbage collection leaves at the end of the phase.",
		"owed", "What a client has still to give back: keys on masters, and releases that no master acknowledged.")
}

// comeback says when the master that returned was counted on again.
func comeback(o *results.Outage) string {
	switch {
	case o.Voting == nil:
		return fmt.Sprintf("the master that returned had to wait %s, and did not vote while it was watched", seconds(o.Wait))
	case o.Votes == nil:
		return fmt.Sprintf("the master that returned could vote after %s, %s of them its wait; no vote of it was seen", seconds(*o.Voting), seconds(o.Wait))
	}
	return fmt.Sprintf("the master that returned voted again after %s, %s of them its wait", seconds(*o.Votes), seconds(o.Wait))
}

// outageFigure draws the locks of the whole run above the state of the master that is killed, and the faults.
func outageFigure(cells []*results.PhaseCell, o *results.Outage) page.Figure {
	last := cells[len(cells)-1]
	w := page.Window{To: max(1, since(last.At+last.Seconds))}
	f := page.Figure{ID: "phases", How: howPhases, Ticks: w.Ticks(0, time.Second), To: float64(w.To) / 1e9,
		Legend: []page.Key{{Class: "up", Text: "gives its vote"}, {Class: "refuses", Text: "answers, but must not vote yet"}, {Class: "down", Text: "does not answer"}}}
	most := 0.0
	for _, c := range cells {
		most = max(most, highest(c.Turns))
	}
	locks := page.Row{Label: "locks", Note: "up to " + rate(most) + " a second", Tall: 90}
	var faults []page.Row
	for _, c := range cells {
		for i, r := range c.Turns {
			turn := c.Seconds / float64(len(c.Turns))
			from, h := c.At+float64(i)*turn, 90*r/max(most, 1)
			locks.Bars = append(locks.Bars, w.Box(since(from), since(from+turn), 90-h, h, 0.5, "c0", fmt.Sprintf("%s: %s locks a second", c.Phase, rate(r))))
		}
		if what := phases[c.Phase]; what != "" {
			bar := w.Box(since(c.At), since(c.At+c.Seconds), 1, 10, 1.5, "fault", c.Phase+": "+what)
			faults = append(faults, page.Row{Label: c.Phase, Note: what, Tall: 12, Class: "nemesis", Bars: []page.Bar{bar}})
			if c.Phase != "returned" {
				f.Faults = append(f.Faults, w.Box(since(c.At), since(c.At+c.Seconds), 0, 1000, 1, "", ""))
			}
		}
	}
	f.Rows = append(f.Rows, locks)
	if o != nil && o.Up != nil {
		f.Rows = append(f.Rows, returnedRow(w, cells, o))
	}
	f.Rows = append(f.Rows, faults...)
	return f
}

// returnedRow is the life of the master that was killed.
func returnedRow(w page.Window, cells []*results.PhaseCell, o *results.Outage) page.Row {
	r := page.Row{Label: "the killed master", Tall: spreadTall}
	up := since(*o.Up)
	add := func(from, to int64, class, title string) {
		if to > from {
			r.Bars = append(r.Bars, w.Box(from, to, 4, spreadTall-8, 1, class, title))
		}
	}
	for _, c := range cells {
		if c.Phase == "killed" {
			add(0, since(c.At), "up", "gives its vote")
			add(since(c.At), up, "down", "does not answer for "+page.Span(time.Duration(up-since(c.At))))
		}
	}
	again := w.To
	if o.Voting != nil {
		again = up + since(*o.Voting)
	}
	add(up, again, "refuses", "answers, and must not vote yet, for "+page.Span(time.Duration(again-up)))
	add(again, w.To, "up", "gives its vote")
	return r
}

func outageTable(cells []*results.PhaseCell) table {
	t := table{Head: []string{"phase", "locks a second", "of before", "p50", "p99", "of before", "CPU of a pair", "heap", "goroutines", "errors"}}
	for _, c := range cells {
		q := results.PhaseRatio{Median: 1, P99: 1}
		if c.Ratio != nil {
			q = *c.Ratio
		}
		t.Rows = append(t.Rows, []string{c.Phase, rate(c.Median), fixed(q.Median, 2), micros(c.P50), micros(c.P99), fixed(q.P99, 2), micros(c.CPU),
			fixed(float64(c.Heap)/(1<<20), 1) + " MB", page.Count(c.Goroutines), page.Count(c.Errors)})
	}
	return t
}

func owedPart(o *results.Owed) part {
	return part{Title: "What was left", How: "Seen from outside, when the load had stopped: a client that owes nothing has left no key, and sends nothing but its clock notes.",
		Tables: []table{{Head: []string{"", "count"}, Rows: [][]string{
			{"keys of locks that nobody holds, on all masters", page.Count(o.Keys)},
			{"releases that no master has acknowledged", page.Count(o.Releases)},
			{"scripts in the last second, of a client with nothing to do", page.Count(o.Scripts)},
		}}}}
}
