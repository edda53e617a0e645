// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Pictures are rows of SVG, stretched to the width there is, one above the other with a common time axis. Everything that must not
// be stretched (words, ticks) is HTML around them: so the same file reads well at 400 and at 2000 pixels.

// Figure is one picture.
type Figure struct {
	ID, Title, How string
	Ticks          []Tick
	Faults         []Bar // behind every row
	Rows           []Row
	Legend         []Key
	From, To       float64 // seconds since the beginning of the run, for the script; equal where the axis is not time
}

// Tick is a label on the axis.
type Tick struct {
	At   string // percent of the width
	Text string
}

// Row is one row of a picture: its label, and what is drawn beside it, paths below bars.
type Row struct {
	Label, Note string
	Tall        int // pixels; also the height of the row's own coordinates
	Paths       []Path
	Bars        []Bar
	Class       string
}

// Path is an SVG path; its coordinates are [Wide] by the height of the row.
type Path struct{ Class, D string }

// Bar is a rectangle; X and W are of 1000.
type Bar struct{ X, Y, W, H, Class, Title string }

// Colours gives each client one of the colours there are, in the order in which they are asked for: the first few differ.
type Colours map[string]string

// Of returns the class of the client.
func (c Colours) Of(client string) string {
	if c[client] == "" {
		c[client] = fmt.Sprintf("c%d", len(c)%palette)
	}
	return c[client]
}

// Key is one colour of a legend.
type Key struct{ Class, Text string }

const (
	Wide    = 1000 // width of a row's coordinates
	Columns = 400  // bins of a row that shows a summary
	palette = 8    // Colours of clients
)

// Window is the time that a picture shows, in nanoseconds.
type Window struct{ From, To int64 }

// X is the place of an instant on the axis; math.MaxInt64 is never.
func (w Window) X(t int64) float64 {
	if t == math.MaxInt64 {
		return Wide
	}
	return min(Wide, max(0, Wide*float64(t-w.From)/float64(w.To-w.From)))
}

// Bin gives the column of n in which t is; false if it is not in the window.
func (w Window) Bin(t int64, n int) (int, bool) {
	if t < w.From || t > w.To {
		return 0, false
	}
	return min(n-1, int(float64(n)*float64(t-w.From)/float64(w.To-w.From))), true
}

// Shows reports whether a part of from to to is in the window.
func (w Window) Shows(from, to int64) bool { return from < w.To && to > w.From }

// Box makes a bar from time and vertical place; nothing is thinner than least.
func (w Window) Box(from, to int64, y, h, least float64, class, title string) Bar {
	x, end := w.X(from), w.X(to)
	if end-x < least {
		x = max(0, min(x-(least-(end-x))/2, Wide-least))
		end = x + least
	}
	return Bar{Num(x), Num(y), Num(end - x), Num(h), class, title}
}

// Num writes a coordinate.
func Num(v float64) string {
	s := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0")
}

// Ticks are a few round instants, counted from zero in the unit given.
func (w Window) Ticks(zero int64, unit time.Duration) []Tick {
	const most = 8 // what fits at 360 pixels
	length := float64(w.To - w.From)
	step := math.Pow(10, math.Floor(math.Log10(length/most)))
	for _, m := range []float64{1, 2, 5, 10} {
		if length/(step*m) <= most {
			step *= m
			break
		}
	}
	digits := max(0, int(math.Ceil(math.Log10(float64(unit)/step)-1e-9)))
	var ts []Tick
	for i := math.Ceil(float64(w.From-zero) / step); i*step <= float64(w.To-zero); i++ {
		text := strconv.FormatFloat(i*step/float64(unit)+0, 'f', digits, 64) + " " + unitNames[unit]
		ts = append(ts, Tick{At: Num(w.X(zero+int64(i*step)) / Wide * 100), Text: Minus(text)})
	}
	return ts
}

var unitNames = map[time.Duration]string{time.Second: "s", time.Millisecond: "ms", time.Microsecond: "µs", time.Nanosecond: "ns"}

// Unit is the largest in which the window is at least one long.
func (w Window) Unit() time.Duration {
	for _, u := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if w.To-w.From >= int64(u) {
			return u
		}
	}
	return time.Nanosecond
}

// Steps draws one column for each value: heights of 1, as high as tall.
func Steps(values []float64, tall float64) string {
	var b strings.Builder
	width := float64(Wide) / float64(len(values))
	drawn := false
	for i, v := range values {
		if v <= 0 {
			drawn = false
			continue
		}
		top := Num(tall * (1 - min(1, v)))
		if !drawn {
			b.WriteString("M" + Num(float64(i)*width) + " " + Num(tall) + "V" + top)
		} else {
			b.WriteString("V" + top)
		}
		b.WriteString("H" + Num(float64(i+1)*width))
		drawn = true
		if i+1 == len(values) || values[i+1] <= 0 {
			b.WriteString("V" + Num(tall) + "Z")
		}
	}
	return b.String()
}
