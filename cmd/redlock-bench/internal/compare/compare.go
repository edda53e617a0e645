// SPDX-License-Identifier: Apache-2.0

// Package compare says what differs between two sets of results of redlock-bench: medians, their intervals, and whether the difference is more
// than noise. Pure.
package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/stats"
	"github.com/redlock-go/redlock/internal/testbed"
)

// A Cell is what was measured in one cell of both.
type Cell struct {
	Name string
	Rows []Row
}

// A Row is one figure of a cell.
type Row struct {
	Name     string
	Old, New Side
	P        float64 // that noise alone makes so large a difference
	Turns    bool    // the samples are turns of one run, and not runs
}

// A Side is the figure in one of both.
type Side struct {
	Median    float64
	Low, High float64 // the interval, if Known
	Known     bool
	N         int // values
}

// Significant is the p below which a difference counts as one.
const Significant = 0.05

// Change is the new median against the old, as a share of the old. From 0 to something it is infinite.
func (r Row) Change() float64 {
	if r.Old.Median == r.New.Median { // 0 both, maybe
		return 0
	}
	return r.New.Median/r.Old.Median - 1
}

// Differs reports whether the difference is more than noise.
func (r Row) Differs() bool { return r.P < Significant }

// Compare compares the cells that both have, in the order in which the old ones have them. Notes say what makes the comparison doubtful, and what went wrong in
// the runs.
func Compare(before, after []*results.Result, confidence float64) (cells []Cell, notes []string) {
	a, b := collect(before), collect(after)
	single := len(before) == 1 && len(after) == 1
	for _, name := range a.order {
		if b.cells[name] == nil {
			notes = append(notes, "only the old results have "+name)
			continue
		}
		cells = append(cells, cellOf(name, a.cells[name], b.cells[name], single, confidence))
	}
	for _, name := range b.order {
		if a.cells[name] == nil {
			notes = append(notes, "only the new results have "+name)
		}
	}
	notes = slices.Concat(notes, a.wrong("old"), b.wrong("new"), differences(before, after))
	switch {
	case single:
		notes = append(notes, "one run each: rates are compared turn by turn, which shows the noise within a run and not that between runs. Measure ten times each, in turns, to be sure")
	case min(len(before), len(after)) < 6:
		notes = append(notes, fmt.Sprintf("%d and %d runs: an interval of 95 %% needs six values", len(before), len(after)))
	}
	return cells, notes
}

// Overlaps counts how often two holders had a lock at once in the runs.
func Overlaps(all []*results.Result) (n int) {
	for _, r := range all {
		for _, cell := range r.Cells {
			if c, ok := cell.(*results.ContentionCell); ok {
				n += c.Overlaps
			}
		}
	}
	return n
}

func cellOf(name string, a, b *samples, single bool, confidence float64) Cell {
	c := Cell{Name: name}
	for _, figure := range a.order {
		x, y, turns := a.runs[figure], b.runs[figure], false
		if single && len(a.turns[figure]) > 1 && len(b.turns[figure]) > 1 {
			x, y, turns = a.turns[figure], b.turns[figure], true
		}
		if len(x) == 0 || len(y) == 0 {
			continue
		}
		old, now := stats.New(x), stats.New(y)
		c.Rows = append(c.Rows, Row{Name: figure, Old: sideOf(old, confidence), New: sideOf(now, confidence), P: stats.Differ(old, now), Turns: turns})
	}
	return c
}

func sideOf(s stats.Sample, confidence float64) Side {
	side := Side{Median: s.Median(), N: len(s)}
	side.Low, side.High, side.Known = s.Interval(confidence)
	return side
}

// samples are the values of each figure of a cell: one a run, and of rates one a turn.
type samples struct {
	order       []string
	runs, turns map[string][]float64
}

func (s *samples) add(figure string, value float64) {
	if !slices.Contains(s.order, figure) {
		s.order = append(s.order, figure)
	}
	s.runs[figure] = append(s.runs[figure], value)
}

func (s *samples) addIf(figure string, value *float64) {
	if value != nil {
		s.add(figure, *value)
	}
}

func (s *samples) addTurns(figure string, turns []float64) {
	s.turns[figure] = append(s.turns[figure], turns...)
}

// collection is the cells of some results by name, and what went wrong in them.
type collection struct {
	order  []string
	cells  map[string]*samples
	faults []string // what went wrong, such as "latency, 4 callers: errors", in the order in which it was seen
	counts map[string]int
}

func (c *collection) fault(what string, n int) {
	if n > 0 && c.counts[what] == 0 {
		c.faults = append(c.faults, what)
	}
	c.counts[what] += n
}

// wrong is a note for each thing that went wrong in all runs of a build.
func (c *collection) wrong(build string) (notes []string) {
	for _, what := range c.faults {
		notes = append(notes, fmt.Sprintf("%s: %s: %d", build, what, c.counts[what]))
	}
	return notes
}

func (c *collection) cell(name string) *samples {
	if c.cells[name] == nil {
		c.order = append(c.order, name)
		c.cells[name] = &samples{runs: map[string][]float64{}, turns: map[string][]float64{}}
	}
	return c.cells[name]
}

func collect(all []*results.Result) *collection {
	c := &collection{cells: map[string]*samples{}, counts: map[string]int{}}
	for _, r := range all {
		for _, cell := range r.Cells {
			switch cell := cell.(type) {
			case *results.LatencyCell:
				c.latency(cell, r.Hurt)
			case *results.ContentionCell:
				c.contention(cell)
			case *results.PhaseCell:
				c.phase(cell)
			}
		}
		if r.Outage != nil {
			c.cell("outage, the master that returned").addIf("votes again s", r.Outage.Votes)
			for _, what := range r.Outage.Failed {
				c.fault("outage: runs in which this did not hold: "+what, 1)
			}
		}
	}
	return c
}

func (c *collection) latency(cell *results.LatencyCell, hurt string) {
	name := plural(cell.Callers, "caller")
	if hurt != "" {
		name += ", a master hurt (" + hurt + ")"
	}
	name = "latency, " + name
	c.fault(name+": errors", cell.Errors)
	s := c.cell(name)
	s.add("locks/s", cell.PairsPerSecond)
	s.addTurns("locks/s", cell.Turns)
	if cell.Floor != nil {
		c.fault(name+", floor: errors", cell.Floor.Errors)
		s.add("floor/s", cell.Floor.PairsPerSecond)
		s.addTurns("floor/s", cell.Floor.Turns)
	}
	if cell.Ratio != nil {
		s.add("of floor", cell.Ratio.PairsPerSecond)
		s.addTurns("of floor", ratios(cell.Turns, cell.Floor))
	}
	s.add("p50 us", cell.P50)
	s.add("p99 us", cell.P99)
	s.add("p99.9 us", cell.P999)
	s.add("cpu us", cell.CPU)
	s.addIf("masters us", cell.MastersCPU)
}

// ratios divides each turn of the lock by the turn of the floor after it.
func ratios(turns []float64, floor *results.Figures) (rs []float64) {
	if floor == nil {
		return nil
	}
	for i, v := range turns[:min(len(turns), len(floor.Turns))] {
		if floor.Turns[i] > 0 {
			rs = append(rs, v/floor.Turns[i])
		}
	}
	return rs
}

func (c *collection) contention(cell *results.ContentionCell) {
	name := fmt.Sprintf("contention, %s of %s, held %g ms", plural(cell.Waiters, "waiter"), plural(cell.Clients, "client"), cell.Hold)
	if cell.Processes > 0 {
		name += ", in processes"
	}
	if cell.Readers > 0 {
		name += fmt.Sprintf(", %d read", cell.Readers)
	}
	if cell.Unfair {
		name += ", unfair"
	}
	c.fault(name+": VIOLATION: times that two holders had the lock at once", cell.Overlaps)
	c.fault(name+": leases lost, whose holders outlived their validity", cell.Lost)
	c.fault(name+": errors", cell.Errors)
	s := c.cell(name)
	s.add("locks/s", cell.Rate)
	s.addTurns("locks/s", cell.Turns)
	if cell.OfLimit > 0 {
		s.add("of limit", cell.OfLimit)
	}
	s.add("wait p50 us", cell.WaitP50)
	s.add("wait p99 us", cell.WaitP99)
	s.add("fairness", cell.Jain)
	s.add("rounds", cell.Rounds)
	s.addIf("commands", cell.Commands)
	s.addIf("cpu us", cell.ClientCPU)
}

func (c *collection) phase(cell *results.PhaseCell) {
	c.fault("outage, "+cell.Phase+": errors", cell.Errors)
	s := c.cell("outage, " + cell.Phase)
	s.add("locks/s", cell.Median)
	s.addTurns("locks/s", cell.Turns)
	if cell.Pairs > 0 { // else no pair was timed
		s.add("p50 us", cell.P50)
		s.add("p99 us", cell.P99)
		s.add("cpu us", cell.CPU)
	}
	s.add("heap MB", float64(cell.Heap)/(1<<20))
}

// differences are what was not the same when both were measured.
func differences(before, after []*results.Result) (notes []string) {
	for _, what := range []struct {
		name string
		of   func(r *results.Result) string
	}{
		{"masters", func(r *results.Result) string { return fmt.Sprint(r.Masters) }},
		{"kind of masters", func(r *results.Result) string { return r.Backend }},
		{"TTL in ms", func(r *results.Result) string { return fmt.Sprint(r.TTL) }},
		{"seconds a cell", func(r *results.Result) string { return fmt.Sprint(r.Duration) }},
		{"machine", func(r *results.Result) string { return run(r).Machine }},
		{"servers", func(r *results.Result) string { return run(r).Masters }},
		{"Go", func(r *results.Result) string { return run(r).Go }},
	} {
		a, b := values(before, what.of), values(after, what.of)
		if a != b || strings.Contains(a, " and ") {
			notes = append(notes, fmt.Sprintf("not the same, %s: old %s; new %s", what.name, a, b))
		}
	}
	for _, command := range []string{"tour", "latency", "contention", "outage"} { // the load, and what a cell's name does not say of it
		line := func(r *results.Result) string { return run(r).Command }
		a, b := values(only(before, command), line), values(only(after, command), line)
		if a != "" && b != "" && (a != b || strings.Contains(a, " and ")) {
			notes = append(notes, fmt.Sprintf("not the same, command: old %s; new %s", a, b))
		}
	}
	if slices.ContainsFunc(slices.Concat(before, after), func(r *results.Result) bool { return r.Interrupted }) {
		notes = append(notes, "some runs were interrupted: their last cell is short")
	}
	if slices.ContainsFunc(slices.Concat(before, after), func(r *results.Result) bool { return r.Broke != "" }) {
		notes = append(notes, "some runs broke off: cells are missing, and their last may be short")
	}
	return notes
}

func run(r *results.Result) testbed.Run {
	if r.Run == nil {
		return testbed.Run{}
	}
	return *r.Run
}

// only are the results of one command.
func only(all []*results.Result, command string) (some []*results.Result) {
	for _, r := range all {
		if r.Command == command {
			some = append(some, r)
		}
	}
	return some
}

// values are what the results have, each once.
func values(all []*results.Result, of func(*results.Result) string) string {
	var seen []string
	for _, r := range all {
		if v := of(r); !slices.Contains(seen, v) {
			seen = append(seen, v)
		}
	}
	return strings.Join(seen, " and ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
