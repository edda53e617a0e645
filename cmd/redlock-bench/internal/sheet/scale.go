// SPDX-License-Identifier: Apache-2.0

package sheet

import (
	"math"
	"slices"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/page"
)

// scale is an axis of times by their logarithm, in microseconds.
type scale struct{ lo, hi float64 }

// newScale makes an axis that has all of the times. Those that are not above zero are none.
func newScale(times ...float64) scale {
	times = slices.DeleteFunc(slices.Clone(times), func(t float64) bool { return t <= 0 })
	if len(times) == 0 {
		return scale{1, 10}
	}
	return scale{lo: slices.Min(times) / 1.15, hi: slices.Max(times) * 1.15}
}

func (s scale) x(us float64) float64 {
	return min(page.Wide, max(0, page.Wide*math.Log(us/s.lo)/math.Log(s.hi/s.lo)))
}

// ticks are powers of ten, and twice and five times these where there is room.
func (s scale) ticks() (ts []page.Tick) {
	steps := []float64{1, 2, 5}
	if s.hi/s.lo > 200 {
		steps = []float64{1}
	}
	for k := math.Floor(math.Log10(s.lo)); k <= math.Log10(s.hi); k++ {
		for _, m := range steps {
			if v := m * math.Pow(10, k); v >= s.lo && v <= s.hi {
				ts = append(ts, page.Tick{At: page.Num(s.x(v) / page.Wide * 100), Text: page.Span(time.Duration(math.Round(v * 1e3)))})
			}
		}
	}
	return ts
}

// bar is a bar from one time to another; nothing is thinner than a pixel or two.
func (s scale) bar(from, to, y, h float64, class, title string) page.Bar {
	x, end := s.x(from), s.x(to)
	if end-x < 2 {
		x = max(0, min(x-(2-(end-x))/2, page.Wide-2))
		end = x + 2
	}
	return page.Bar{X: page.Num(x), Y: page.Num(y), W: page.Num(end - x), H: page.Num(h), Class: class, Title: title}
}

const spreadTall, pileTall, rateTall = 22, 44, 44

// spread draws the half, the 99th of hundred and the longest of times in one row: a thick bar from p50 to p99, a thin one on to the longest.
func (s scale) spread(label, class string, p50, p99, longest float64) page.Row {
	r := page.Row{Label: label, Note: micros(p50) + ", " + micros(p99), Tall: spreadTall}
	if p50 > 0 {
		r.Bars = []page.Bar{
			s.bar(p99, longest, 9, 4, "wait", "the longest: "+micros(longest)),
			s.bar(p50, p99, 4, 14, class, "half within "+micros(p50)+", 99 of 100 within "+micros(p99)),
		}
	}
	return r
}

// pile draws how often which time was seen. Heights are shares of most.
func (s scale) pile(label, class string, bins []results.Bin, most float64, p50, p99 float64) page.Row {
	r := page.Row{Label: label, Note: "half within " + micros(p50), Tall: pileTall}
	all := total(bins)
	for _, b := range bins {
		h := math.Max(1, (pileTall-2)*float64(b.N)/all/most)
		title := micros(b.From) + " to " + micros(b.To) + ": " + fixed(100*float64(b.N)/all, 2) + " %"
		r.Bars = append(r.Bars, s.bar(b.From, b.To, pileTall-h, h, class, title))
	}
	for _, mark := range []struct {
		us   float64
		name string
	}{{p50, "half within "}, {p99, "99 of 100 within "}} {
		if mark.us > 0 {
			r.Bars = append(r.Bars, s.bar(mark.us, mark.us, 0, pileTall, "down", mark.name+micros(mark.us)))
		}
	}
	return r
}

func total(bins []results.Bin) (n float64) {
	for _, b := range bins {
		n += float64(b.N)
	}
	return n
}

// tallest is the largest share that one bin has.
func tallest(bins []results.Bin) (most float64) {
	all := total(bins)
	for _, b := range bins {
		most = max(most, float64(b.N)/all)
	}
	return most
}

func ends(bins []results.Bin) []float64 {
	if len(bins) == 0 {
		return nil
	}
	return []float64{bins[0].From, bins[len(bins)-1].To}
}

// course draws rates over time as columns of one picture whose rows have one height for the same rate.
func course(label, class string, rates []float64, most float64) page.Row {
	heights := make([]float64, len(rates))
	for i, r := range rates {
		heights[i] = r / most
	}
	r := page.Row{Label: label, Note: "up to " + rate(highest(rates)) + " a second", Tall: rateTall}
	if len(rates) > 0 {
		r.Paths = []page.Path{{Class: class, D: page.Steps(heights, rateTall)}}
	}
	return r
}

func highest(rates []float64) float64 {
	if len(rates) == 0 {
		return 0
	}
	return slices.Max(rates)
}
