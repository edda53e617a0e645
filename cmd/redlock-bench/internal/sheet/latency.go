// SPDX-License-Identifier: Apache-2.0

package sheet

import (
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/page"
)

const introLatency = "Each caller takes and gives back a lock of its own, again and again. Beside the lock stands the floor: the same masters, the same callers, and a script " +
	"that only sets or deletes a key. Lock and floor work in turns of 50 ms in the same run, so that a noisy machine is as unfair to one as to the other."

const howSpread = "One row for each number of callers, times by their logarithm from left to right: the thick bar goes from the time within which half of all pairs were done to that of 99 of 100, the thin line on to the longest."

const howCourse = "Time from left to right, one column a turn; both rows have the same scale. What dips in both is the machine."

const howPile = "Times by their logarithm from left to right, the height says how many pairs took so long; the dark lines are the half and 99 of 100."

func (s *sheet) latency(cells []*results.LatencyCell) {
	first := cells[0]
	s.begin(fmt.Sprintf("Half of all locks were taken and given back within %s", micros(first.P50)))
	s.Intro = introLatency
	var failed failures
	all := part{Title: "Time of a pair", How: "What is measured is one pair: acquire and release. “Ratio” is the lock divided by the floor.", Tables: []table{latencyTable(cells)}}
	var times []float64
	for _, c := range cells {
		failed.add(c.Errors, c.FirstErr)
		s.say("%s: %s locks a second, half within %s, 99 of 100 within %s%s", plural(c.Callers, "caller"), rate(c.PairsPerSecond), micros(c.P50), micros(c.P99), besideFloor(c))
		times = append(times, c.P50, c.P99, c.Max)
		if c.Floor != nil {
			times = append(times, c.Floor.P50, c.Floor.P99, c.Floor.Max)
		}
	}
	s.tell(failed)
	axis := newScale(times...)
	overview := page.Figure{ID: "times", Title: "All of them beside each other", How: howSpread, Ticks: axis.ticks(), Legend: legendOf(first)}
	for _, c := range cells {
		overview.Rows = append(overview.Rows, axis.spread(plural(c.Callers, "caller"), "c0", c.P50, c.P99, c.Max))
		if c.Floor != nil {
			overview.Rows = append(overview.Rows, axis.spread("floor", "c1", c.Floor.P50, c.Floor.P99, c.Floor.Max))
		}
	}
	all.Figures = []page.Figure{overview}
	s.Parts = append(s.Parts, all)
	for i, c := range cells {
		s.Parts = append(s.Parts, latencyPart(i, c, s.length))
	}
	s.define("pair", "One lock taken and given back.",
		"floor", "The least that a pair can cost: one pipelined connection to each master, and a script that sets or deletes a key, without any logic of a lock.",
		"p50, p99, p99.9", "The time within which 50, 99 and 99.9 of 100 pairs were done.",
		"CPU", "CPU time of this process, and of all masters together, for one pair.")
}

func besideFloor(c *results.LatencyCell) string {
	if c.Ratio == nil {
		return ""
	}
	return fmt.Sprintf("; %s of the floor’s rate", fixed(c.Ratio.PairsPerSecond, 2))
}

func legendOf(c *results.LatencyCell) []page.Key {
	keys := []page.Key{{Class: "c0", Text: "lock"}}
	if c.Floor != nil {
		keys = append(keys, page.Key{Class: "c1", Text: "floor"})
	}
	return append(keys, page.Key{Class: "waitkey", Text: "up to the longest"})
}

func latencyTable(cells []*results.LatencyCell) table {
	t := table{Head: []string{"", "pairs a second", "p50", "p99", "p99.9", "longest", "CPU", "CPU of masters", "errors"}}
	row := func(name string, f *results.Figures) {
		t.Rows = append(t.Rows, []string{name, rate(f.PairsPerSecond), micros(f.P50), micros(f.P99), micros(f.P999), micros(f.Max), micros(f.CPU),
			optional(f.MastersCPU), page.Count(f.Errors)})
	}
	for _, c := range cells {
		row(plural(c.Callers, "caller"), &c.Figures)
		if c.Floor == nil {
			continue
		}
		row("its floor", c.Floor)
		q, masters := c.Ratio, "–"
		if q == nil {
			continue
		}
		if q.MastersCPU != nil {
			masters = fixed(*q.MastersCPU, 2)
		}
		t.Rows = append(t.Rows, []string{fmt.Sprintf("ratio (turn by turn: median %.2f, half of them %.2f to %.2f)", q.Median, q.Low, q.High), fixed(q.PairsPerSecond, 2), fixed(q.P50, 2), fixed(q.P99, 2), fixed(q.P999, 2), fixed(q.Max, 2), fixed(q.CPU, 2), masters, ""})
	}
	return t
}

// latencyPart is one cell by itself: how the times are spread, and how the run went.
func latencyPart(i int, c *results.LatencyCell, length time.Duration) part {
	p := part{Title: plural(c.Callers, "caller"), How: fmt.Sprintf("%s pairs a second, half of them within %s.", rate(c.PairsPerSecond), micros(c.P50))}
	bins, most, fast := slices.Clone(ends(c.Bins)), tallest(c.Bins), highest(c.Turns)
	if c.Floor != nil {
		bins, most, fast = append(bins, ends(c.Floor.Bins)...), max(most, tallest(c.Floor.Bins)), max(fast, highest(c.Floor.Turns))
	}
	if most > 0 {
		axis := newScale(bins...)
		f := page.Figure{ID: fmt.Sprintf("pile%d", i), Title: "How long a pair took", How: howPile, Ticks: axis.ticks()}
		f.Rows = []page.Row{axis.pile("lock", "c0", c.Bins, most, c.P50, c.P99)}
		if c.Floor != nil {
			f.Rows = append(f.Rows, axis.pile("floor", "c1", c.Floor.Bins, most, c.Floor.P50, c.Floor.P99))
		}
		p.Figures = append(p.Figures, f)
	}
	if fast > 0 {
		f := courseFigure(fmt.Sprintf("course%d", i), length)
		f.Rows = []page.Row{course("lock", "c0", c.Turns, fast)}
		if c.Floor != nil {
			f.Rows = append(f.Rows, course("floor", "c1", c.Floor.Turns, fast))
		}
		p.Figures = append(p.Figures, f)
	}
	return p
}

// courseFigure is a picture of the time that a cell was measured for.
func courseFigure(id string, length time.Duration) page.Figure {
	w := page.Window{To: int64(length)}
	return page.Figure{ID: id, Title: "How the run went", How: howCourse, Ticks: w.Ticks(0, time.Second), To: float64(w.To) / 1e9}
}
