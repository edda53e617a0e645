// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"
)

// sideOf is a side that was measured for two turns of a second: pairs of took each, and the CPU for them.
func sideOf(took time.Duration, first, second int, cpu cpuTime) *side {
	s := newSide([]pairer{nil})
	for range first + second {
		record(s.callers[0].took, took)
	}
	s.elapsed, s.cpu = 2*time.Second, cpu
	s.rates = []float64{float64(first), float64(second)}
	return s
}

func TestNewLatencyCell_arithmetic(t *testing.T) {
	lock := sideOf(2*time.Millisecond, 30, 50, cpuTime{80 * time.Millisecond, 160 * time.Millisecond, true})
	floor := sideOf(time.Millisecond, 50, 50, cpuTime{50 * time.Millisecond, 50 * time.Millisecond, true})
	c := newLatencyCell([]*side{lock, floor})
	for what, tc := range map[string]struct{ got, want float64 }{
		"pairs/s":             {c.PairsPerSecond, 40},
		"cpu of a pair":       {c.CPU, 1000},
		"masters' cpu":        {*c.MastersCPU, 2000},
		"floor's cpu":         {c.Floor.CPU, 500},
		"ratio of pairs/s":    {c.Ratio.PairsPerSecond, 0.8},
		"its first quartile":  {c.Ratio.Low, 0.6},
		"its median":          {c.Ratio.Median, 1}, // of two, the upper one
		"its third quartile":  {c.Ratio.High, 1},
		"ratio of cpu":        {c.Ratio.CPU, 2},
		"ratio of masters' c": {*c.Ratio.MastersCPU, 4},
	} {
		if math.Abs(tc.got-tc.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", what, tc.got, tc.want)
		}
	}
	for what, tc := range map[string]struct{ got, want float64 }{
		"p50": {c.P50, 2000}, "max": {c.Max, 2000}, "floor's p50": {c.Floor.P50, 1000}, "ratio of p50": {c.Ratio.P50, 2},
	} {
		if math.Abs(tc.got/tc.want-1) > 2e-3 { // three digits
			t.Errorf("%s: %v, want %v", what, tc.got, tc.want)
		}
	}
}

// A turn in which the floor did nothing, on a machine that stood still.
func TestNewLatencyCell_floorIdleInATurn_validJSON(t *testing.T) {
	c := newLatencyCell([]*side{sideOf(time.Millisecond, 5, 5, cpuTime{}), sideOf(time.Millisecond, 0, 5, cpuTime{})})
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
}

// What is asked for before everybody has had the lock once is not counted as a wait, and a turn is what was measured in the run.
func TestContentionCell_waits_fromWhenAllHadTheLock(t *testing.T) {
	const ms = time.Millisecond
	s := func(asked, from, to int) span {
		return span{Asked: time.Duration(asked) * ms, From: time.Duration(from) * ms, To: time.Duration(to) * ms}
	}
	saw := sight{Elapsed: time.Second, Waiters: []seen{
		{Spans: []span{s(0, 1, 2), s(3, 290, 291), s(292, 299, 300)}},
		{Spans: []span{s(0, 90, 91), s(95, 300, 301), s(302, 306, 307)}},
	}}
	cell := newContentionCell(saw, ms, 4*ms)
	if got := cell.WaitMax / 1e3; got < 204 || got > 206 {
		t.Errorf("the longest wait is %.1f ms, want 205", got)
	}
	if cell.Held != 1000 || cell.Trip != 4000 || cell.Limit != 200 {
		t.Errorf("held for %v us, a trip of %v us, at most %v/s", cell.Held, cell.Trip, cell.Limit)
	}
	if got := cell.OfTurns; got < 20.4 || got > 20.6 { // 205 ms in 2 x 5 ms
		t.Errorf("p99 is %.2f turns of all, want 20.5", got)
	}
	// One that never had it: a quarter of the run, and no later.
	saw.Waiters = append(saw.Waiters, seen{Cut: time.Second})
	if got := newContentionCell(saw, ms, 4*ms).WaitMax / 1e3; got != 1000 {
		t.Errorf("the longest wait is %.1f ms, want that of who never had it", got)
	}
	if got := saw.settled(); got != 250*ms {
		t.Errorf("settled at %v, want 250ms", got)
	}
}

// A holder that was stopped as its call returned, until its lease was over, while the next one has the lock.
func TestContentionCell_overBeforeItBegan_noViolation(t *testing.T) {
	const ms = time.Millisecond
	cell := newContentionCell(sight{Elapsed: time.Second, Waiters: []seen{
		{Spans: []span{{From: 105 * ms, To: 90 * ms}}, Lost: 1},
		{Spans: []span{{From: 100 * ms, To: 110 * ms}}},
	}}, ms, ms)
	if cell.Overlaps != 0 || cell.Held != 5000 || cell.Acquired != 2 {
		t.Errorf("%d overlaps, %d acquired, held for %v us; want 0, 2 and 5000", cell.Overlaps, cell.Acquired, cell.Held)
	}
	for _, h := range cell.Picture.Holds {
		if h.To < h.From {
			t.Errorf("the page has a hold from %v to %v", h.From, h.To)
		}
	}
}

// Where one turn of all takes longer than a quarter of the run, and nobody had the lock twice, the waits are those from the beginning.
func TestContentionCell_slowTurn_waitsFromTheBeginning(t *testing.T) {
	const ms = time.Millisecond
	saw := sight{Elapsed: time.Second, Waiters: []seen{
		{Spans: []span{{Asked: 0, From: ms, To: 300 * ms}}},
		{Spans: []span{{Asked: 0, From: 301 * ms, To: 600 * ms}}},
		{Cut: time.Second},
	}}
	cell := newContentionCell(saw, 300*ms, ms)
	if got := cell.WaitP50 / 1e3; got < 0.9 || got > 1.1 {
		t.Errorf("half waited %.2f ms at most, want 1", got)
	}
	if got := cell.WaitP99 / 1e3; got < 300 || got > 302 {
		t.Errorf("the p99 wait is %.2f ms, want 301", got)
	}
	if cell.Picture.Waits == nil {
		t.Error("the page has no waits")
	}
}

// 16 waiters who hold it for 10 s each wait for more than a minute.
func TestNewContentionCell_waitOverAMinute_counts(t *testing.T) {
	saw := sight{Elapsed: 10 * time.Minute, Waiters: []seen{{}}}
	for i := range 3 {
		at := time.Duration(i+1) * 3 * time.Minute
		saw.Waiters[0].Spans = append(saw.Waiters[0].Spans, span{Asked: at - 150*time.Second, From: at, To: at + 10*time.Second})
	}
	cell := newContentionCell(saw, 10*time.Second, time.Millisecond)
	for what, got := range map[string]float64{"p50": cell.WaitP50, "p99": cell.WaitP99, "longest": cell.WaitMax} {
		if s := got / 1e6; s < 150 || s > 151 {
			t.Errorf("the %s wait is %.1f s, want 150", what, s)
		}
	}
}

// A page draws holds from the middle of the run, and each part of the run has its rate.
func TestPicture_middleOfTheRun(t *testing.T) {
	const ms = time.Millisecond
	saw := sight{Elapsed: 600 * ms, Waiters: []seen{{}, {}, {}}}
	for i := range 300 {
		at := time.Hour + time.Duration(i)*2*ms
		w := &saw.Waiters[i%2] // the third never has it
		w.Spans = append(w.Spans, span{Asked: at - ms, From: at, To: at + ms, Read: i%2 == 1})
	}
	waits := newHistogram()
	record(waits, ms)
	p, rates := picture(saw, waits)
	if len(rates) != partsOfRun || rates[0] != 500 || rates[partsOfRun-1] != 500 {
		t.Errorf("rates %v", rates)
	}
	if len(p.Holds) != holdsNear || p.From != 237*ms || p.To != p.Holds[holdsNear-1].To || p.Holds[1].Waiter != 1 || !p.Holds[1].Read || p.Holds[0].From-p.Holds[0].Asked != ms || p.Holds[0].To-p.Holds[0].From != ms {
		t.Errorf("%d holds from %v to %v, %+v", len(p.Holds), p.From, p.To, p.Holds[:2])
	}
	if want := []float64{1.5, 1.5, 0}; !slices.Equal(p.Shares, want) || len(p.Waits) != 1 || p.Waits[0].N != 1 {
		t.Errorf("shares %v, waits %v", p.Shares, p.Waits)
	}
	if p, rates := picture(sight{Waiters: []seen{{}}}, newHistogram()); rates != nil || p.Holds != nil {
		t.Errorf("of nothing: %+v, %v", p, rates)
	}
}
