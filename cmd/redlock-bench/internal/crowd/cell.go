// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/pairs"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
)

// NewCell returns what the waiters saw. trip is how long a round trip takes when nobody waits.
func NewCell(saw Sight, hold, trip time.Duration) *results.ContentionCell {
	cell := &results.ContentionCell{Waiters: len(saw.Waiters), Hold: pairs.Micros(hold) / 1e3, Trip: pairs.Micros(trip)}
	waits := pairs.NewHistogram()
	var spans []span
	var got []int
	var longest, held time.Duration
	reads, settled := 0, saw.settled()
	for _, w := range saw.Waiters {
		for _, s := range w.Spans {
			if s.Asked >= settled {
				pairs.Record(waits, s.From-s.Asked)
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
	cell.Rounds = pairs.Over(float64(saw.Rounds), float64(cell.Acquired))
	cell.WaitP50 = float64(waits.ValueAtQuantile(50)) / 1e3
	cell.WaitP99 = float64(waits.ValueAtQuantile(99)) / 1e3
	cell.WaitMax = max(float64(waits.Max())/1e3, pairs.Micros(longest))
	cell.Held = pairs.Over(pairs.Micros(held), float64(cell.Acquired))
	if reads == 0 {
		turn := cell.Held + cell.Trip
		cell.Limit = pairs.Over(1e6, turn)
		cell.OfLimit = pairs.Over(cell.Rate, cell.Limit)
		cell.OfTurns = pairs.Over(cell.WaitP99, float64(cell.Waiters)*turn)
	}
	cell.Jain = jain(got)
	cell.MinShare, cell.MaxShare = shares(got)
	cell.Overlaps = overlaps(spans)
	cell.Together = together(spans)
	cell.Picture, cell.Turns = picture(saw, waits)
	return cell
}

// jain is Jain's fairness index of what each got: 1 when all got the same, 1/n when one got everything. It is 1 when nobody got anything.
func jain(got []int) float64 {
	var sum, squares float64
	for _, n := range got {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(got)) * squares)
}

// shares is what the unluckiest and the luckiest got, in even shares: 1 is what each would get if all got the same.
func shares(got []int) (least, most float64) {
	sum := 0
	for _, n := range got {
		sum += n
	}
	if sum == 0 {
		return 1, 1
	}
	even := float64(sum) / float64(len(got))
	return float64(slices.Min(got)) / even, float64(slices.Max(got)) / even
}

const (
	partsOfRun = 60 // whose rates are told
	holdsNear  = 64 // that a picture draws one by one
)

// picture is what a page draws of what a crowd saw, some holds in the middle of the run one by one, and the rates in equal parts of the run.
func picture(saw Sight, waits *hdrhistogram.Histogram) (p *results.Picture, rates []float64) {
	p = &results.Picture{Elapsed: saw.Elapsed, Waits: pairs.Bins(waits)}
	var holds []results.Hold
	n := 0
	for i, w := range saw.Waiters {
		n += len(w.Spans)
		for _, s := range w.Spans {
			holds = append(holds, results.Hold{Waiter: i, Asked: s.Asked, From: s.From, To: max(s.From, s.To), Read: s.Read})
		}
	}
	for _, w := range saw.Waiters {
		p.Shares = append(p.Shares, pairs.Over(float64(len(w.Spans))*float64(len(saw.Waiters)), float64(n)))
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
