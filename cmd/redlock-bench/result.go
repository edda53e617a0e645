// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
)

// newLatencyCell sums up the lock and, if it was measured, the floor.
func newLatencyCell(sides []*side) *results.LatencyCell {
	lock := sides[0]
	cell := &results.LatencyCell{Callers: len(lock.callers), Figures: lock.figures()}
	if len(sides) == 1 || sides[1].pairs() == 0 {
		return cell
	}
	f := sides[1].figures()
	cell.Floor = &f
	turns := make([]float64, 0, len(lock.rates))
	for i, rate := range sides[1].rates {
		turns = append(turns, over(lock.rates[i], rate))
	}
	slices.Sort(turns)
	cell.Ratio = &results.Ratio{
		PairsPerSecond: over(cell.PairsPerSecond, f.PairsPerSecond),
		Low:            turns[len(turns)/4], Median: turns[len(turns)/2], High: turns[len(turns)*3/4],
		P50: over(cell.P50, f.P50), P99: over(cell.P99, f.P99), P999: over(cell.P999, f.P999), Max: over(cell.Max, f.Max),
		CPU: over(cell.CPU, f.CPU),
	}
	if cell.MastersCPU != nil && f.MastersCPU != nil {
		r := over(*cell.MastersCPU, *f.MastersCPU)
		cell.Ratio.MastersCPU = &r
	}
	return cell
}

// over is a/b, and 0 where b is: JSON has no infinity.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// figures sums up a side that has a pair or more.
func (s *side) figures() results.Figures {
	took := newHistogram()
	for _, c := range s.callers {
		took.Merge(c.took)
	}
	pairs := float64(took.TotalCount())
	us := func(q float64) float64 { return float64(took.ValueAtQuantile(q)) / 1e3 }
	f := results.Figures{
		PairsPerSecond: pairs / s.elapsed.Seconds(),
		P50:            us(50), P99: us(99), P999: us(99.9), Max: float64(took.Max()) / 1e3,
		CPU: micros(s.cpu.process) / pairs,
	}
	f.Errors, f.FirstErr = s.errors()
	f.Turns, f.Bins = s.turns(), bins(took)
	if s.cpu.ok {
		m := micros(s.cpu.masters) / pairs
		f.MastersCPU = &m
	}
	return f
}

// turns are the rates of all turns, rounded to what can be said of them.
func (s *side) turns() []float64 {
	turns := make([]float64, len(s.rates))
	for i, r := range s.rates {
		turns[i] = math.Round(r*10) / 10
	}
	return turns
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// newContentionCell returns what the waiters saw. trip is how long a round trip takes when nobody waits.
func newContentionCell(saw sight, hold, trip time.Duration) *results.ContentionCell {
	cell := &results.ContentionCell{Waiters: len(saw.Waiters), Hold: micros(hold) / 1e3, Trip: micros(trip)}
	waits := newHistogram()
	var spans []span
	var got []int
	var longest, held time.Duration
	reads, settled := 0, saw.settled()
	for _, w := range saw.Waiters {
		for _, s := range w.Spans {
			if s.Asked >= settled {
				record(waits, s.From-s.Asked)
			}
			held += max(0, s.To-s.From)
			if s.Read {
				reads++
			}
		}
		spans = append(spans, w.Spans...)
		got = append(got, len(w.Spans))
		longest = max(longest, w.Cut)
		cell.Lost += w.Lost
		cell.Errors += w.Errors
		if cell.FirstErr == nil && w.First != "" {
			cell.FirstErr = errors.New(w.First)
		}
	}
	cell.Acquired = len(spans)
	cell.Rate = float64(cell.Acquired) / saw.Elapsed.Seconds()
	cell.ReadRate = float64(reads) / saw.Elapsed.Seconds()
	cell.Rounds = over(float64(saw.Rounds), float64(cell.Acquired))
	cell.WaitP50 = float64(waits.ValueAtQuantile(50)) / 1e3
	cell.WaitP99 = float64(waits.ValueAtQuantile(99)) / 1e3
	cell.WaitMax = max(float64(waits.Max())/1e3, micros(longest))
	cell.Held = over(micros(held), float64(cell.Acquired))
	if reads == 0 {
		turn := cell.Held + cell.Trip
		cell.Limit = over(1e6, turn)
		cell.OfLimit = over(cell.Rate, cell.Limit)
		cell.OfTurns = over(cell.WaitP99, float64(cell.Waiters)*turn)
	}
	cell.Jain = jain(got)
	cell.MinShare, cell.MaxShare = shares(got)
	cell.Overlaps = overlaps(spans)
	cell.Together = together(spans)
	cell.Picture, cell.Turns = picture(saw, waits)
	return cell
}
