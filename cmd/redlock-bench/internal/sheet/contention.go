// SPDX-License-Identifier: Apache-2.0

package sheet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/page"
)

const introContention = "All waiters want one lock, hold it for a moment, give it back and want it again. From when a call had returned to when the release was about to be made, " +
	"each hold was written down on one clock, and compared with all others: two at once would be a violation."

const (
	howWaits  = "One row for each number of waiters, times by their logarithm: the thick bar goes from the wait of half of all acquisitions to that of 99 of 100, the thin line on to the longest."
	howHolds  = "A short part from the middle of the run, one row a waiter: the bar is the time in which it had the lock, the thin line before it is its wait."
	howWaited = "Waits by their logarithm from left to right, the height says how many waited so long; the dark lines are the half and 99 of 100."
	howShares = "One column a waiter: the height says how often it had the lock. Even columns are a fair lock."
	howRates  = "Time from left to right: how often the lock was taken."
)

func (s *sheet) contention(cells []*results.ContentionCell) {
	s.begin("No two waiters ever had the lock at once")
	s.Intro = joined(s.Intro, introContention)
	all := part{Title: "Waiting for one lock", How: "“Of the limit” compares with what physics allows: one lock in the time that a holder keeps it and one round trip.", Tables: []table{contentionTable(cells)}}
	var times []float64
	overlaps, failed := 0, failures{}
	for _, c := range cells {
		overlaps += c.Overlaps
		failed.add(c.Errors, c.FirstErr)
		s.say("%s: %s locks a second%s, half waited %s at most, 99 of 100 %s; fairness %s", plural(c.Waiters, "waiter"), rate(c.Rate), ofLimit(c), micros(c.WaitP50), micros(c.WaitP99), fixed(c.Jain, 3))
		times = append(times, c.WaitP50, c.WaitP99, c.WaitMax)
	}
	s.tell(failed)
	if overlaps > 0 {
		s.Verdict.Class, s.Verdict.Head = "illegal", "Two waiters had the lock at once"
		s.say("%s: the lock was broken", plural(overlaps, "overlap"))
	}
	axis := newScale(times...)
	overview := page.Figure{ID: "waits", Title: "All of them beside each other", How: howWaits, Ticks: axis.ticks(), Legend: []page.Key{{Class: "c0", Text: "from the half to 99 of 100"}, {Class: "waitkey", Text: "up to the longest"}}}
	for _, c := range cells {
		overview.Rows = append(overview.Rows, axis.spread(plural(c.Waiters, "waiter"), "c0", c.WaitP50, c.WaitP99, c.WaitMax))
	}
	all.Figures = []page.Figure{overview}
	s.Parts = append(s.Parts, all)
	for i, c := range cells {
		if c.Picture != nil {
			s.Parts = append(s.Parts, contentionPart(i, c))
		}
	}
	s.define("wait", "From asking for the lock to having it, once everybody has had it for the first time, or from the beginning if no later wait ended.",
		"limit", "One lock in the time that a holder has it on average, and one round trip from the holder to the masters and on to the next.",
		"fairness", "Jain’s index of how often each waiter had the lock: 1 is even, 1/waiters is one that had it always.",
		"rounds", "Questions to all masters for one acquisition.",
		"commands", "Scripts and subscriptions that one master executed for one acquisition.")
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}

func ofLimit(c *results.ContentionCell) string {
	if c.OfLimit == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s of the limit)", fixed(c.OfLimit, 2))
}

func contentionTable(cells []*results.ContentionCell) table {
	t := table{Head: []string{"", "locks a second", "of the limit", "wait p50", "p99", "longest", "fairness", "least share", "largest", "rounds", "commands", "lost", "errors", "overlaps"}}
	for _, c := range cells {
		limit, commands := "–", "–"
		if c.OfLimit > 0 {
			limit = fixed(c.OfLimit, 2)
		}
		if c.Commands != nil {
			commands = fixed(*c.Commands, 2)
		}
		t.Rows = append(t.Rows, []string{plural(c.Waiters, "waiter"), rate(c.Rate), limit, micros(c.WaitP50), micros(c.WaitP99), micros(c.WaitMax), fixed(c.Jain, 3), fixed(c.MinShare, 2), fixed(c.MaxShare, 2),
			fixed(c.Rounds, 2), commands, page.Count(c.Lost), page.Count(c.Errors), page.Count(c.Overlaps)})
	}
	return t
}

// contentionPart is one cell by itself: who had the lock, how long they waited, what each got.
func contentionPart(i int, c *results.ContentionCell) part {
	p, who := c.Picture, part{Title: plural(c.Waiters, "waiter"), How: fmt.Sprintf("%s locks a second, each held for %s.", rate(c.Rate), micros(c.Held))}
	if len(p.Holds) > 0 {
		who.Figures = append(who.Figures, holdsFigure(fmt.Sprintf("holds%d", i), p))
	}
	if most := tallest(p.Waits); most > 0 {
		axis := newScale(ends(p.Waits)...)
		who.Figures = append(who.Figures, page.Figure{ID: fmt.Sprintf("waited%d", i), Title: "How long they waited", How: howWaited, Ticks: axis.ticks(),
			Rows: []page.Row{axis.pile("wait", "c0", p.Waits, most, c.WaitP50, c.WaitP99)}})
	}
	if most := highest(p.Shares); most > 0 {
		who.Figures = append(who.Figures, sharesFigure(fmt.Sprintf("shares%d", i), p.Shares, most))
	}
	if most := highest(c.Turns); most > 0 {
		f := courseFigure(fmt.Sprintf("rates%d", i), p.Elapsed)
		f.How, f.Rows = howRates, []page.Row{course("locks", "c0", c.Turns, most)}
		who.Figures = append(who.Figures, f)
	}
	return who
}

// rowsMax is how many waiters a picture of holds has a row for.
const rowsMax = 16

// holdsFigure draws the holds near the middle of the run. Readers are of another colour than writers.
func holdsFigure(id string, p *results.Picture) page.Figure {
	holds, left := rowsOf(p.Holds)
	w := page.Window{From: int64(p.From), To: int64(p.From) + 1}
	for _, h := range holds {
		w.To = max(w.To, int64(h.To))
	}
	f := page.Figure{ID: id, Title: "Who had the lock", How: howHolds, Ticks: w.Ticks(w.From, w.Unit()), From: float64(w.From) / 1e9, To: float64(w.To) / 1e9,
		Legend: []page.Key{{Class: "holdkey", Text: "has the lock (colour: waiter)"}, {Class: "waitkey", Text: "waits for it"}}}
	rows := map[int]*page.Row{}
	var order []int
	colours := page.Colours{}
	for _, h := range holds {
		name := fmt.Sprintf("waiter %d", h.Waiter+1)
		r := rows[h.Waiter]
		if r == nil {
			r = &page.Row{Label: name, Tall: spreadTall}
			rows[h.Waiter], order = r, append(order, h.Waiter)
		}
		what := "had the lock"
		if h.Read {
			what = "had the lock to read"
		}
		if int64(h.Asked) < w.To {
			r.Bars = append(r.Bars, w.Box(int64(h.Asked), int64(h.From), 10, 2, 1, "wait", fmt.Sprintf("%s waited for %s", name, page.Span(h.From-h.Asked))))
		}
		r.Bars = append(r.Bars, w.Box(int64(h.From), int64(h.To), 3, spreadTall-6, 1.5, colours.Of(name), fmt.Sprintf("%s %s for %s", name, what, page.Span(h.To-h.From))))
	}
	slices.SortFunc(order, cmp.Compare[int])
	for _, i := range order {
		f.Rows = append(f.Rows, *rows[i])
	}
	if left {
		f.How += fmt.Sprintf(" These are the first %d that had it; later holds, of others too, are left out.", rowsMax)
	}
	return f
}

// rowsOf returns the holds up to the one that would need a row too many, and whether there is one.
func rowsOf(holds []results.Hold) (fit []results.Hold, left bool) {
	seen := map[int]bool{}
	for i, h := range holds {
		if !seen[h.Waiter] && len(seen) == rowsMax {
			return holds[:i], true
		}
		seen[h.Waiter] = true
	}
	return holds, false
}

func sharesFigure(id string, shares []float64, most float64) page.Figure {
	heights := make([]float64, len(shares))
	for i, v := range shares {
		heights[i] = v / most
	}
	n := len(shares)
	f := page.Figure{ID: id, Title: "What each got", How: howShares, Ticks: []page.Tick{{At: page.Num(50 / float64(n)), Text: "1"}}}
	if n > 1 {
		f.Ticks = append(f.Ticks, page.Tick{At: page.Num(100 - 50/float64(n)), Text: page.Count(n)})
	}
	f.Rows = []page.Row{{Label: "share", Note: fmt.Sprintf("%s to %s; 1 is even", fixed(slices.Min(shares), 2), fixed(most, 2)), Tall: rateTall,
		Paths: []page.Path{{Class: "held", D: page.Steps(heights, rateTall)}}}}
	return f
}

// since is an instant of a run, in nanoseconds.
func since(s float64) int64 { return int64(s * float64(time.Second)) }
