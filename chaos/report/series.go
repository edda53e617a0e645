// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

const (
	seriesColumns = 120
	seriesTall    = 150
)

// latency draws how long granted lock calls took: the middle one, all but the slowest hundredth, and the slowest.
func (s *story) latency() figure {
	f := s.figure(s.run, "latency")
	f.Title = "How long it took to get a lock"
	f.How = "Time from the call to the grant, waiting for the holder before included, of the calls granted at each moment; each line up is ten times slower, and a gap means that nobody got a lock."
	f.Legend = []key{{"p50", "half were faster"}, {"p99", "99 of 100 were faster"}, {"slowest", "the slowest"}}
	bins := s.latencies
	low, high := decades(bins)
	y := func(ns float64) float64 { return seriesTall * (1 - (math.Log10(ns)-low)/(high-low)) }
	r := row{Tall: seriesTall, Class: "series"}
	for d := low; d <= high; d++ {
		r.Y = append(r.Y, tick{num(y(math.Pow(10, d)) / seriesTall * 100), span(time.Duration(math.Pow(10, d)))})
	}
	r.Paths = latencyPaths(bins, y)
	f.Rows = append([]row{r}, s.nemesisRows(s.run)...)
	return f
}

// decades gives the powers of ten between which all values are.
func decades(bins []latencies) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, b := range bins {
		if b.n > 0 {
			low, high = min(low, math.Floor(math.Log10(b.least))), max(high, math.Ceil(math.Log10(b.top)))
		}
	}
	if low >= high {
		return 5, 9 // nothing, or all equal: 0.1 ms to 1 s
	}
	return low, high
}

func latencyPaths(bins []latencies, y func(float64) float64) []path {
	var band, line, dots strings.Builder
	width := float64(wide) / float64(len(bins))
	for i, b := range bins {
		if b.n == 0 {
			continue
		}
		p50, p99 := b.at(b.n/2), b.at(b.n*99/100)
		from, to := num(float64(i)*width), num(float64(i+1)*width)
		fmt.Fprintf(&band, "M%s %sH%sV%sH%sZ", from, num(y(p99)), to, num(y(p50)), from)
		join := "M"
		if i > 0 && bins[i-1].n > 0 {
			join = "L"
		}
		fmt.Fprintf(&line, "%s%s %sH%s", join, from, num(y(p50)), to)
		fmt.Fprintf(&dots, "M%s %sh0.1", num((float64(i)+0.5)*width), num(y(b.top)))
	}
	return []path{{"p99", band.String()}, {"p50", line.String()}, {"slowest", dots.String()}}
}

// outcomesShown is how many ways to end get a colour of their own; the rest is one more.
const outcomesShown = 5

// outcomes draws what became of all lock calls: availability, as clients saw it.
func (s *story) outcomes() figure {
	f := s.figure(s.run, "outcomes")
	f.Title = "What became of each call"
	f.How = "All lock calls, at the moment they ended, stacked by how they ended: where little is granted behind a shaded fault, the lock was hard to get; refusing because somebody else holds the lock is the lock at work."
	classes := s.commonEnds()
	n := make([][]float64, len(classes))
	for i := range n {
		n[i] = make([]float64, seriesColumns)
	}
	for e, columns := range s.ends {
		c := slices.Index(classes, e.ended)
		if c < 0 {
			c = len(classes) - 1
		}
		for i, calls := range columns {
			n[c][i] += float64(calls)
		}
	}
	most := stack(n)
	r := row{Tall: seriesTall, Class: "series"}
	for c := len(classes) - 1; c >= 0; c-- { // from the top of the stack down, each over the one before
		for i := range n[c] {
			n[c][i] /= most
		}
		r.Paths = append(r.Paths, path{fmt.Sprintf("end end%d", c), steps(n[c], seriesTall)})
	}
	for c, name := range classes {
		f.Legend = append(f.Legend, key{fmt.Sprintf("end%d", c), name})
	}
	perSecond := most / (float64(s.run.to-s.run.from) / 1e9 / seriesColumns)
	r.Y = []tick{{"0", fmt.Sprintf("%s calls/s", number(math.Round(perSecond)))}, {"100", "0"}}
	f.Rows = append([]row{r}, s.nemesisRows(s.run)...)
	return f
}

// stack adds each series to the one below it and gives the highest sum, at least 1.
func stack(n [][]float64) float64 {
	most := 1.0
	for i := range seriesColumns {
		sum := 0.0
		for c := range n {
			sum += n[c][i]
			n[c][i] = sum
		}
		most = max(most, sum)
	}
	return most
}

// commonEnds gives the ways in which lock calls ended: granted first, then the most common, then "other" if there are more.
func (s *story) commonEnds() []string {
	n := map[string]int{}
	for e, calls := range s.endings {
		if e.kind == history.KindLock {
			n[e.ended] += calls
		}
	}
	delete(n, "granted")
	var names []string
	for name := range n {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if n[a] != n[b] {
			return n[b] - n[a]
		}
		return strings.Compare(a, b)
	})
	if len(names) > outcomesShown-1 {
		names = append(names[:outcomesShown-1], "other")
	}
	return append([]string{"granted"}, names...)
}

// votes draws, for each master, when it gave votes.
func (s *story) votes() figure {
	f := s.figure(s.run, "votes")
	f.Title = "Which masters gave their votes"
	f.How = "One row a master: the lock can be had while most of them are low and green; a master refuses for a while after it has lost its data, so that it cannot forget a holder."
	f.Legend = []key{{"up", "gives its vote (low)"}, {"refuses", "answers, but refuses (half height)"}, {"down", "does not answer (full height)"}}
	worst := map[string][]float64{}
	for _, v := range s.h.Votes {
		if worst[v.Node] == nil {
			worst[v.Node] = make([]float64, columns)
		}
		level := map[history.Outcome]float64{history.OK: 0.25, history.Failed: 0.6, history.Unknown: 1}[v.Outcome]
		if i, ok := s.run.bin(v.Call, columns); ok {
			worst[v.Node][i] = max(worst[v.Node][i], level)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(worst)) {
		levels := hold(worst[node])
		r := row{Label: node, Tall: 20}
		for _, l := range []struct {
			class string
			level float64
		}{{"up", 0.25}, {"refuses", 0.6}, {"down", 1}} {
			only := make([]float64, columns)
			for i, v := range levels {
				if v == l.level {
					only[i] = v
				}
			}
			r.Paths = append(r.Paths, path{l.class, steps(only, 20)})
		}
		f.Rows = append(f.Rows, r)
	}
	f.Rows = append(f.Rows, s.nemesisRows(s.run)...)
	if len(worst) == 0 {
		f.Rows = nil
	}
	return f
}

// hold lets a probe stand until the next one: they may be rarer than columns. Before the first and after the last nothing is known.
func hold(levels []float64) []float64 {
	last := len(levels) - 1
	for last >= 0 && levels[last] == 0 {
		last--
	}
	for i := 1; i <= last; i++ {
		if levels[i] == 0 {
			levels[i] = levels[i-1]
		}
	}
	return levels
}
