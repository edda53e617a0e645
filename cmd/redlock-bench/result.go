// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"time"
)

// result is what --json writes. Fields may be added, but none renamed.
type result struct {
	Command     string  `json:"command"`
	Backend     string  `json:"backend"`
	Masters     int     `json:"masters"`
	TTL         int64   `json:"ttl_ms"`
	Duration    float64 `json:"duration_s"`     // of a cell
	Hurt        string  `json:"hurt,omitempty"` // what was done to one master
	Interrupted bool    `json:"interrupted,omitempty"`
	Cells       []any   `json:"cells"` // *latencyCell, *contentionCell or *phaseCell; a tour has the first two

	Outage *outageResult `json:"outage,omitempty"` // what is not of one phase
}

// figures is what was measured of the lock or of the floor. A pointer is null where it is not available.
type figures struct {
	PairsPerSecond float64  `json:"pairs_per_second"`
	P50            float64  `json:"p50_us"`
	P99            float64  `json:"p99_us"`
	P999           float64  `json:"p999_us"`
	Max            float64  `json:"max_us"`
	CPU            float64  `json:"cpu_us_per_pair"`         // of this process
	MastersCPU     *float64 `json:"masters_cpu_us_per_pair"` // of all masters together
	Errors         int      `json:"errors"`

	firstErr error
}

// latencyCell is one row of latency.
type latencyCell struct {
	Callers int `json:"callers"`
	figures
	Floor *figures `json:"floor"`
	Ratio *ratio   `json:"ratio"` // lock divided by floor
}

type ratio struct {
	PairsPerSecond float64 `json:"pairs_per_second"`
	// The same ratio turn by turn: its quartiles.
	Low        float64  `json:"pairs_per_second_p25"`
	Median     float64  `json:"pairs_per_second_p50"`
	High       float64  `json:"pairs_per_second_p75"`
	P50        float64  `json:"p50"`
	P99        float64  `json:"p99"`
	P999       float64  `json:"p999"`
	Max        float64  `json:"max"`
	CPU        float64  `json:"cpu"`
	MastersCPU *float64 `json:"masters_cpu"`
}

// newLatencyCell sums up the lock and, if it was measured, the floor.
func newLatencyCell(sides []*side) *latencyCell {
	lock := sides[0]
	cell := &latencyCell{Callers: len(lock.callers), figures: lock.figures()}
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
	cell.Ratio = &ratio{
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
func (s *side) figures() figures {
	took := newHistogram()
	for _, c := range s.callers {
		took.Merge(c.took)
	}
	pairs := float64(took.TotalCount())
	us := func(q float64) float64 { return float64(took.ValueAtQuantile(q)) / 1e3 }
	f := figures{
		PairsPerSecond: pairs / s.elapsed.Seconds(),
		P50:            us(50), P99: us(99), P999: us(99.9), Max: float64(took.Max()) / 1e3,
		CPU: micros(s.cpu.process) / pairs,
	}
	f.Errors, f.firstErr = s.errors()
	if s.cpu.ok {
		m := micros(s.cpu.masters) / pairs
		f.MastersCPU = &m
	}
	return f
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// contentionCell is one row of contention.
type contentionCell struct {
	Waiters   int      `json:"waiters"`
	Clients   int      `json:"clients"`
	Processes int      `json:"processes"` // 0: all in one
	Readers   int      `json:"readers"`
	Unfair    bool     `json:"unfair"`
	Hold      float64  `json:"hold_ms"`
	Rate      float64  `json:"acquisitions_per_second"`
	ReadRate  float64  `json:"reads_per_second"` // those of the readers
	Together  int      `json:"readers_at_once"`  // at most
	WaitP50   float64  `json:"wait_p50_us"`
	WaitP99   float64  `json:"wait_p99_us"`
	WaitMax   float64  `json:"wait_max_us"`
	Held      float64  `json:"held_us"`          // on average; a sleep of hold_ms takes longer
	Trip      float64  `json:"trip_us"`          // a release of a lock that nobody else wants: one round trip
	Limit     float64  `json:"limit_per_second"` // one lock in held_us + trip_us; 0 with readers
	OfLimit   float64  `json:"of_limit"`
	OfTurns   float64  `json:"p99_of_turns"` // wait_p99_us in waiters x (held_us + trip_us); 0 with readers
	Jain      float64  `json:"jain"`
	MinShare  float64  `json:"min_share"` // 1 is an even share
	MaxShare  float64  `json:"max_share"`
	Commands  *float64 `json:"commands_per_acquisition"` // on one master; null where not available
	Rounds    float64  `json:"rounds_per_acquisition"`
	ClientCPU *float64 `json:"client_cpu_us_per_acquisition"` // null where not available
	Overlaps  int      `json:"overlaps"`
	Lost      int      `json:"lost"` // leases whose validity ended during the hold
	Errors    int      `json:"errors"`

	acquired int
	firstErr error
}

// newContentionCell returns what the waiters saw. trip is how long a round trip takes when nobody waits.
func newContentionCell(saw sight, hold, trip time.Duration) *contentionCell {
	cell := &contentionCell{Waiters: len(saw.Waiters), Hold: micros(hold) / 1e3, Trip: micros(trip)}
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
			held += s.To - s.From
			if s.Read {
				reads++
			}
		}
		spans = append(spans, w.Spans...)
		got = append(got, len(w.Spans))
		longest = max(longest, w.Cut)
		cell.Lost += w.Lost
		cell.Errors += w.Errors
		if cell.firstErr == nil && w.First != "" {
			cell.firstErr = errors.New(w.First)
		}
	}
	cell.acquired = len(spans)
	cell.Rate = float64(cell.acquired) / saw.Elapsed.Seconds()
	cell.ReadRate = float64(reads) / saw.Elapsed.Seconds()
	cell.Rounds = over(float64(saw.Rounds), float64(cell.acquired))
	cell.WaitP50 = float64(waits.ValueAtQuantile(50)) / 1e3
	cell.WaitP99 = float64(waits.ValueAtQuantile(99)) / 1e3
	cell.WaitMax = max(float64(waits.Max())/1e3, micros(longest))
	cell.Held = over(micros(held), float64(cell.acquired))
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
	return cell
}
