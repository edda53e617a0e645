// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/pairs"
)

// What is asked for before everybody has had the lock once is not counted as a wait, and a turn is what was measured in the run.
func TestContentionCell_waits_fromWhenAllHadTheLock(t *testing.T) {
	const ms = time.Millisecond
	s := func(asked, from, to int) span {
		return span{Asked: time.Duration(asked) * ms, From: time.Duration(from) * ms, To: time.Duration(to) * ms}
	}
	saw := Sight{Elapsed: time.Second, Waiters: []seen{
		{Spans: []span{s(0, 1, 2), s(3, 290, 291), s(292, 299, 300)}},
		{Spans: []span{s(0, 90, 91), s(95, 300, 301), s(302, 306, 307)}},
	}}
	cell := NewCell(saw, ms, 4*ms)
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
	if got := NewCell(saw, ms, 4*ms).WaitMax / 1e3; got != 1000 {
		t.Errorf("the longest wait is %.1f ms, want that of who never had it", got)
	}
	if got := saw.settled(); got != 250*ms {
		t.Errorf("settled at %v, want 250ms", got)
	}
}

// A holder that was stopped as its call returned, until its lease was over, while the next one has the lock.
func TestContentionCell_overBeforeItBegan_noViolation(t *testing.T) {
	const ms = time.Millisecond
	cell := NewCell(Sight{Elapsed: time.Second, Waiters: []seen{
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
	saw := Sight{Elapsed: time.Second, Waiters: []seen{
		{Spans: []span{{Asked: 0, From: ms, To: 300 * ms}}},
		{Spans: []span{{Asked: 0, From: 301 * ms, To: 600 * ms}}},
		{Cut: time.Second},
	}}
	cell := NewCell(saw, 300*ms, ms)
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
	saw := Sight{Elapsed: 10 * time.Minute, Waiters: []seen{{}}}
	for i := range 3 {
		at := time.Duration(i+1) * 3 * time.Minute
		saw.Waiters[0].Spans = append(saw.Waiters[0].Spans, span{Asked: at - 150*time.Second, From: at, To: at + 10*time.Second})
	}
	cell := NewCell(saw, 10*time.Second, time.Millisecond)
	for what, got := range map[string]float64{"p50": cell.WaitP50, "p99": cell.WaitP99, "longest": cell.WaitMax} {
		if s := got / 1e6; s < 150 || s > 151 {
			t.Errorf("the %s wait is %.1f s, want 150", what, s)
		}
	}
}

// A page draws holds from the middle of the run, and each part of the run has its rate.
func TestPicture_middleOfTheRun(t *testing.T) {
	const ms = time.Millisecond
	saw := Sight{Elapsed: 600 * ms, Waiters: []seen{{}, {}, {}}}
	for i := range 300 {
		at := time.Hour + time.Duration(i)*2*ms
		w := &saw.Waiters[i%2] // the third never has it
		w.Spans = append(w.Spans, span{Asked: at - ms, From: at, To: at + ms, Read: i%2 == 1})
	}
	waits := pairs.NewHistogram()
	pairs.Record(waits, ms)
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
	if p, rates := picture(Sight{Waiters: []seen{{}}}, pairs.NewHistogram()); rates != nil || p.Holds != nil {
		t.Errorf("of nothing: %+v, %v", p, rates)
	}
}

func TestJainAndShares(t *testing.T) {
	for name, tc := range map[string]struct {
		got               []int
		jain, least, most float64
	}{
		"even":                   {[]int{5, 5, 5, 5}, 1, 1, 1},
		"one gets everything":    {[]int{0, 12, 0, 0}, 0.25, 0, 4},
		"two of four":            {[]int{3, 3, 0, 0}, 0.5, 0, 2},
		"1 2 3":                  {[]int{1, 2, 3}, 36.0 / (3 * 14), 0.5, 1.5},
		"one waiter":             {[]int{7}, 1, 1, 1},
		"nobody got anything":    {[]int{0, 0}, 1, 1, 1},
		"large numbers, 1 and 3": {[]int{5e8, 15e8}, 0.8, 0.5, 1.5},
	} {
		j := jain(tc.got)
		least, most := shares(tc.got)
		if math.Abs(j-tc.jain) > 1e-9 || least != tc.least || most != tc.most {
			t.Errorf("%s: %v, %v to %v; want %v, %v to %v", name, j, least, most, tc.jain, tc.least, tc.most)
		}
	}
}

func TestPortion_addsUp(t *testing.T) {
	for n := range 20 {
		for m := 1; m < 6; m++ {
			sum := 0
			for k := range m {
				sum += portion(n, m, k)
			}
			if sum != n || portion(n, m, 0)-portion(n, m, m-1) > 1 {
				t.Errorf("%d over %d: %d", n, m, sum)
			}
		}
	}
}
