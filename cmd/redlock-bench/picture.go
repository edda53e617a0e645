// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
)

const (
	partsOfRun = 60 // whose rates are told
	holdsNear  = 64 // that a picture draws one by one
)

// bins are the times of a histogram by their logarithm.
func bins(h *hdrhistogram.Histogram) []results.Bin {
	var at []results.Bin
	for _, b := range h.Distribution() {
		at = append(at, results.Bin{From: float64(b.To) / 1e3, N: b.Count})
	}
	return results.Bins(at)
}

// picture is what a page draws of what a crowd saw, some holds in the middle of the run one by one, and the rates in equal parts of the run.
func picture(saw sight, waits *hdrhistogram.Histogram) (p *results.Picture, rates []float64) {
	p = &results.Picture{Elapsed: saw.Elapsed, Waits: bins(waits)}
	var holds []results.Hold
	n := 0
	for i, w := range saw.Waiters {
		n += len(w.Spans)
		for _, s := range w.Spans {
			holds = append(holds, results.Hold{Waiter: i, Asked: s.Asked, From: s.From, To: max(s.From, s.To), Read: s.Read})
		}
	}
	for _, w := range saw.Waiters {
		p.Shares = append(p.Shares, over(float64(len(w.Spans))*float64(len(saw.Waiters)), float64(n)))
	}
	if n == 0 {
		return p, nil
	}
	begin := slices.MinFunc(holds, func(a, b results.Hold) int { return cmp.Compare(a.Asked, b.Asked) }).Asked
	for i := range holds {
		h := &holds[i]
		h.Asked, h.From, h.To = h.Asked-begin, h.From-begin, h.To-begin
		p.Elapsed = max(p.Elapsed, h.From+1)
	}
	slices.SortFunc(holds, func(a, b results.Hold) int { return cmp.Compare(a.From, b.From) })
	part := p.Elapsed.Seconds() / partsOfRun
	rates = make([]float64, partsOfRun)
	for _, h := range holds {
		rates[min(partsOfRun-1, int(h.From.Seconds()/part))] += 1 / part
	}
	for i, r := range rates {
		rates[i] = math.Round(r*10) / 10
	}
	from := max(0, n/2-holdsNear/2)
	p.Holds = slices.Clone(holds[from:min(n, from+holdsNear)])
	p.From, p.To = p.Holds[0].From, p.Holds[0].To
	for _, h := range p.Holds {
		p.To = max(p.To, h.To)
	}
	p.To = max(p.To, p.From+time.Microsecond)
	return p, rates
}
