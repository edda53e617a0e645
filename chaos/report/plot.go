// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Pictures are rows of SVG, stretched to the width there is, one above the other with a common time axis. Everything that must not
// be stretched (words, ticks) is HTML around them: so the same file reads well at 400 and at 2000 pixels.

// figure is one picture.
type figure struct {
	ID, Title, How string
	Ticks          []tick
	Faults         []bar // behind every row
	Rows           []row
	Legend         []key
	From, To       float64 // seconds since the beginning of the run, for the script
}

type tick struct {
	At   string // percent of the width
	Text string
}

type row struct {
	Label, Note string
	Tall        int // pixels; also the height of the row's own coordinates
	Paths       []path
	Bars        []bar
	Class       string
}

type path struct{ Class, D string }

// bar is a rectangle; X and W are of 1000.
type bar struct{ X, Y, W, H, Class, Title string }

// colours gives each client one of the colours there are, in the order in which they are asked for: the first few differ.
type colours map[string]string

func (c colours) of(client string) string {
	if c[client] == "" {
		c[client] = fmt.Sprintf("c%d", len(c)%palette)
	}
	return c[client]
}

type key struct{ Class, Text string }

const (
	wide    = 1000 // width of a row's coordinates
	columns = 400  // bins of a row that shows a summary
	palette = 8    // colours of clients
)

// window is the time that a picture shows.
type window struct{ from, to int64 }

func (w window) x(t int64) float64 {
	if t == history.Never {
		return wide
	}
	return min(wide, max(0, wide*float64(t-w.from)/float64(w.to-w.from)))
}

// bin gives the column of n in which t is; false if it is not in the window.
func (w window) bin(t int64, n int) (int, bool) {
	if t < w.from || t > w.to {
		return 0, false
	}
	return min(n-1, int(float64(n)*float64(t-w.from)/float64(w.to-w.from))), true
}

func (w window) shows(from, to int64) bool { return from < w.to && to > w.from }

// box makes a bar from time and vertical place; nothing is thinner than least.
func (w window) box(from, to int64, y, h, least float64, class, title string) bar {
	x, end := w.x(from), w.x(to)
	if end-x < least {
		x = max(0, min(x-(least-(end-x))/2, wide-least))
		end = x + least
	}
	return bar{num(x), num(y), num(end - x), num(h), class, title}
}

func num(v float64) string {
	s := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0")
}

// ticks are a few round instants, counted from zero in the unit given.
func (w window) ticks(zero int64, unit time.Duration) []tick {
	const most = 8 // what fits at 360 pixels
	length := float64(w.to - w.from)
	step := math.Pow(10, math.Floor(math.Log10(length/most)))
	for _, m := range []float64{1, 2, 5, 10} {
		if length/(step*m) <= most {
			step *= m
			break
		}
	}
	digits := max(0, int(math.Ceil(math.Log10(float64(unit)/step)-1e-9)))
	var ts []tick
	for i := math.Ceil(float64(w.from-zero) / step); i*step <= float64(w.to-zero); i++ {
		text := strconv.FormatFloat(i*step/float64(unit)+0, 'f', digits, 64) + " " + unitNames[unit]
		ts = append(ts, tick{At: num(w.x(zero+int64(i*step)) / wide * 100), Text: minus(text)})
	}
	return ts
}

var unitNames = map[time.Duration]string{time.Second: "s", time.Millisecond: "ms", time.Microsecond: "µs", time.Nanosecond: "ns"}

// unit is the largest in which the window is at least one long.
func (w window) unit() time.Duration {
	for _, u := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if w.to-w.from >= int64(u) {
			return u
		}
	}
	return time.Nanosecond
}

// figure starts a picture of the window, with the faults behind it.
func (s *story) figure(w window, id string) figure {
	zero := s.run.from
	f := figure{ID: id, Ticks: w.ticks(zero, time.Second), From: float64(w.from-zero) / 1e9, To: float64(w.to-zero) / 1e9}
	for _, b := range s.faultSpans(w, "") {
		f.Faults = append(f.Faults, w.box(b.from, b.to, 0, 1000, 1, "", ""))
	}
	return f
}

// faultSpans gives when a nemesis (or any, if "") was at work in the window, with what touches merged.
func (s *story) faultSpans(w window, nemesis string) []window {
	var spans []window
	near := (w.to - w.from) / columns
	for _, f := range s.h.Faults { // ordered by start
		if f.Error != "" || nemesis != "" && f.Nemesis != nemesis || !w.shows(f.Start, f.End) && f.Start != f.End {
			continue
		}
		if n := len(spans); n > 0 && f.Start <= spans[n-1].to+near {
			spans[n-1].to = max(spans[n-1].to, f.End)
		} else {
			spans = append(spans, window{f.Start, f.End})
		}
	}
	return spans
}

// steps draws one column for each value: heights of 1, as high as tall.
func steps(values []float64, tall float64) string {
	var b strings.Builder
	width := float64(wide) / float64(len(values))
	drawn := false
	for i, v := range values {
		if v <= 0 {
			drawn = false
			continue
		}
		top := num(tall * (1 - min(1, v)))
		if !drawn {
			b.WriteString("M" + num(float64(i)*width) + " " + num(tall) + "V" + top)
		} else {
			b.WriteString("V" + top)
		}
		b.WriteString("H" + num(float64(i+1)*width))
		drawn = true
		if i+1 == len(values) || values[i+1] <= 0 {
			b.WriteString("V" + num(tall) + "Z")
		}
	}
	return b.String()
}
