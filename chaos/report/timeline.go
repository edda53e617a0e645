// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/page"
)

const (
	lanesMax = 16   // locks with a row of their own
	barsMax  = 2500 // holds drawn one by one in a picture
	laneBars = 350  // and in one row: more would touch each other
	laneTall = 26
	depthMax = 5 // readers drawn apart; more share the last line
)

const (
	howHolds  = "One row a lock, time from left to right: a bar is the time in which one client believed that it held the lock, its colour is the client, and two at once (but for readers) are marked red."
	howShares = "One row a lock, time from left to right: there are too many holds to draw, so a column’s height says for how much of that time the lock was held by anybody; two holders at once are marked red."
	howFaults = " Violet: the faults at work, shaded behind the other rows too."
	howNear   = "A short part of the picture above, about the beginning of the first fault, with each hold as a bar of its own: its colour is the client, and pointing at it shows client and token."
)

// timeline draws the holders of each lock in the window, and tells whether every hold was drawn by itself.
func (s *story) timeline(w page.Window, id string) (page.Figure, bool) {
	f := s.figure(w, id)
	own, others := s.lanes()
	whole := len(others) == 0
	for _, lock := range own {
		r, each := s.lane(w, lock, barsMax/len(own))
		whole = whole && each
		f.Rows = append(f.Rows, r)
	}
	if len(others) > 0 {
		f.Rows = append(f.Rows, s.otherLanes(w, others))
	}
	f.Rows = append(f.Rows, s.nemesisRows(w)...)
	return f, whole
}

// lanes chooses the locks that get a row: those with overlaps, then the busiest.
func (s *story) lanes() (own, others []string) {
	bad := map[string]int{}
	for _, v := range s.overlaps {
		bad[v.Ops[0].Lock]++
	}
	for lock := range s.locks {
		own = append(own, lock)
	}
	slices.SortFunc(own, func(a, b string) int {
		return cmp.Or(cmp.Compare(bad[b], bad[a]), cmp.Compare(s.locks[b].n, s.locks[a].n), cmp.Compare(a, b))
	})
	if len(own) > lanesMax {
		own, others = own[:lanesMax], own[lanesMax:]
	}
	slices.Sort(own)
	return own, others
}

func (s *story) lane(w page.Window, lock string, budget int) (page.Row, bool) {
	l := s.holding(w, lock)
	r := page.Row{Label: lock, Note: fmt.Sprintf("%s holds", page.Count(l.n)), Tall: laneTall}
	each := l.n <= min(laneBars, budget)
	if each {
		r.Bars = s.holds(w, l.first)
	} else {
		r.Paths = []page.Path{{Class: "held", D: page.Steps(l.share, laneTall)}}
	}
	r.Bars = append(r.Bars, s.overlapBars(w, lock)...)
	return r, each
}

// holding returns the holds of a lock in the window, which is the run or nearby.
func (s *story) holding(w page.Window, lock string) *holding {
	if w == s.run {
		return s.locks[lock]
	}
	claims := s.near.visible(w, lock)
	return &holding{n: len(claims), first: claims, share: heldShare(w, claims)}
}

// holds draws each claim, those that stand together one below the other.
func (s *story) holds(w page.Window, claims []check.Claim) []page.Bar {
	var free []int64 // when each line is free again
	line := make([]int, len(claims))
	for i, c := range claims {
		n := slices.IndexFunc(free, func(t int64) bool { return t <= c.From })
		if n < 0 && len(free) < depthMax {
			free = append(free, 0)
			n = len(free) - 1
		}
		if n < 0 {
			n = depthMax - 1
		}
		free[n] = max(free[n], c.To)
		line[i] = n
	}
	bars := make([]page.Bar, len(claims))
	for i, c := range claims {
		h := float64(laneTall) / float64(len(free))
		bars[i] = w.Box(c.From, c.To, h*float64(line[i])+1, h-2, 0.8, s.colours.Of(c.Grant.Client), claimTitle(c))
	}
	return bars
}

func claimTitle(c check.Claim) string {
	t := fmt.Sprintf("%s held %s for %s", c.Grant.Client, c.Grant.Lock, page.Span(time.Duration(c.To-c.From)))
	if c.Grant.Mode != history.Exclusive {
		t += ", to " + string(c.Grant.Mode)
	}
	if c.Grant.Token != 0 {
		t += fmt.Sprintf(", token %d", c.Grant.Token)
	}
	return t
}

// heldShare gives, for each column, for how much of it the lock was held by anybody.
func heldShare(w page.Window, claims []check.Claim) []float64 {
	shares := make([]float64, page.Columns)
	end := w.From // what is held up to here is counted already
	for _, c := range claims {
		end = addShare(shares, w, c, end)
	}
	return shares
}

// addShare adds the part of a hold that is later than end, and returns the end of what is counted then.
func addShare(shares []float64, w page.Window, c check.Claim, end int64) int64 {
	width := float64(w.To-w.From) / page.Columns
	from, to := max(c.From, end), min(c.To, w.To)
	end = max(end, to)
	for from < to {
		i, _ := w.Bin(from, page.Columns)
		next := min(to, max(from+1, w.From+int64(float64(i+1)*width)))
		shares[i] += float64(next-from) / width
		from = next
	}
	return end
}

// overlapBars marks the overlaps of one lock (any, if "") in red. Neighbours are merged, none is left out.
func (s *story) overlapBars(w page.Window, locks ...string) []page.Bar {
	var bars []page.Bar
	var last *page.Window
	near := (w.To - w.From) / page.Columns
	n := 0
	flush := func() {
		if last != nil {
			title := "two holders at once"
			if n > 1 {
				title = fmt.Sprintf("two holders at once, %d times", n)
			}
			bars = append(bars, w.Box(last.From, last.To, 0, laneTall, 3, "overlap", title))
		}
		last, n = nil, 0
	}
	for _, v := range s.overlaps { // ordered by time
		if !slices.Contains(locks, v.Ops[0].Lock) || !w.Shows(v.From, v.To) {
			continue
		}
		if last != nil && v.From > last.To+near {
			flush()
		}
		if last == nil {
			last = &page.Window{From: v.From, To: v.To}
		}
		last.To = max(last.To, v.To)
		n++
	}
	flush()
	return bars
}

func (s *story) otherLanes(w page.Window, locks []string) page.Row {
	shares := make([]float64, page.Columns)
	n := 0
	for _, lock := range locks {
		l := s.holding(w, lock)
		n += l.n
		for i, v := range l.share {
			shares[i] += v / float64(len(locks))
		}
	}
	return page.Row{
		Label: fmt.Sprintf("%s other locks", page.Count(len(locks))), Note: fmt.Sprintf("%s holds, on average", page.Count(n)), Tall: laneTall,
		Paths: []page.Path{{Class: "held", D: page.Steps(shares, laneTall)}}, Bars: s.overlapBars(w, locks...),
	}
}

func (s *story) nemesisRows(w page.Window) []page.Row {
	seen := map[string]int{}
	for _, f := range s.h.Faults {
		if f.Error == "" && (w.Shows(f.Start, f.End) || f.Start == f.End) {
			seen[f.Nemesis]++
		}
	}
	var rows []page.Row
	for _, name := range nemesisOrder(seen) {
		r := page.Row{Label: name, Note: nemeses[name], Tall: 12, Class: "nemesis"}
		for _, b := range s.faultSpans(w, name) {
			r.Bars = append(r.Bars, w.Box(b.From, b.To, 1, 10, 1.5, "fault", s.faultTitle(name, b)))
		}
		rows = append(rows, r)
	}
	return rows
}

func (s *story) faultTitle(name string, at page.Window) string {
	title := name + ": " + nemeses[name]
	for _, f := range s.h.Faults {
		if f.Nemesis == name && f.Error == "" && f.Start == at.From {
			for _, t := range f.Targets {
				title += ", " + t
			}
			break
		}
	}
	if at.To == history.Never {
		return title + ", never healed"
	}
	return title + fmt.Sprintf(", for %s", page.Span(time.Duration(at.To-at.From)))
}

// typical is a part of the run, about the beginning of the first fault, short enough for each hold to be drawn.
func (s *story) typical() page.Window {
	middle := s.near.middle
	own, _ := s.lanes()
	half := (s.run.To - s.run.From) / 4
	for ; half > int64(time.Microsecond); half = half * 2 / 3 {
		w := page.Window{From: middle - half, To: middle + half}
		if !s.near.has(w) {
			continue
		}
		most, all := 0, 0
		for _, lock := range own {
			n := len(s.near.visible(w, lock))
			most, all = max(most, n), all+n
		}
		if most <= 60 && all <= barsMax/4 {
			break
		}
	}
	return page.Window{From: max(s.run.From, middle-half), To: min(s.run.To, middle+half)}
}
