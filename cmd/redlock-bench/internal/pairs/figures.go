// SPDX-License-Identifier: Apache-2.0

package pairs

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
)

// NewLatencyCell sums up the lock and, if it was measured, the floor.
func NewLatencyCell(sides []*Side) *results.LatencyCell {
	lock := sides[0]
	cell := &results.LatencyCell{Callers: len(lock.callers), Figures: lock.Figures()}
	if len(sides) == 1 || sides[1].Pairs() == 0 {
		return cell
	}
	f := sides[1].Figures()
	cell.Floor = &f
	turns := make([]float64, 0, len(lock.Rates))
	for i, rate := range sides[1].Rates {
		turns = append(turns, Over(lock.Rates[i], rate))
	}
	slices.Sort(turns)
	cell.Ratio = &results.Ratio{
		PairsPerSecond: Over(cell.PairsPerSecond, f.PairsPerSecond),
		Low:            turns[len(turns)/4], Median: turns[len(turns)/2], High: turns[len(turns)*3/4],
		P50: Over(cell.P50, f.P50), P99: Over(cell.P99, f.P99), P999: Over(cell.P999, f.P999), Max: Over(cell.Max, f.Max),
		CPU: Over(cell.CPU, f.CPU),
	}
	if cell.MastersCPU != nil && f.MastersCPU != nil {
		r := Over(*cell.MastersCPU, *f.MastersCPU)
		cell.Ratio.MastersCPU = &r
	}
	return cell
}

// Over is a/b, and 0 where b is: JSON has no infinity.
func Over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Figures sums up a side that has a pair or more.
func (s *Side) Figures() results.Figures {
	took := NewHistogram()
	for _, c := range s.callers {
		took.Merge(c.took)
	}
	pairs := float64(took.TotalCount())
	us := func(q float64) float64 { return float64(took.ValueAtQuantile(q)) / 1e3 }
	f := results.Figures{
		PairsPerSecond: pairs / s.Elapsed.Seconds(),
		P50:            us(50), P99: us(99), P999: us(99.9), Max: float64(took.Max()) / 1e3,
		CPU: Micros(s.cpu.process) / pairs,
	}
	f.Errors, f.FirstErr = s.Errors()
	f.Turns, f.Bins = s.Turns(), Bins(took)
	if s.cpu.ok {
		m := Micros(s.cpu.masters) / pairs
		f.MastersCPU = &m
	}
	return f
}

// Turns are the rates of all turns, rounded to what can be said of them.
func (s *Side) Turns() []float64 {
	turns := make([]float64, len(s.Rates))
	for i, r := range s.Rates {
		turns[i] = math.Round(r*10) / 10
	}
	return turns
}

// Micros is d in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Bins are the times of a histogram by their logarithm.
func Bins(h *hdrhistogram.Histogram) []results.Bin {
	var at []results.Bin
	for _, b := range h.Distribution() {
		at = append(at, results.Bin{From: float64(b.To) / 1e3, N: b.Count})
	}
	return results.Bins(at)
}
