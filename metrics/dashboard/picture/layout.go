// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// The picture, in units that a page of 900 pixels shows as they are.
const (
	pictureWide = 900
	gridColumns = 24
	gap         = 8 // between panels
	pad         = 10
	titleSize   = 12.5
	textSize    = 11.0
	titleTall   = 17
	textTall    = 15 // a row of a legend
	marksTall   = 14
	axisTall    = 18
	plotTall    = 104
	swatch      = 18 // a stroke before the name of a series
)

// chart is a panel with its data.
type chart struct {
	panel *panel
	lines []line
	keys  []key
}

// key is an entry of a legend.
type key struct {
	text string
	line int // -1: none
}

// mostAtZero is up to how many series that stay at 0 have a name in the legend of their panel. More of them are counted.
const mostAtZero = 4

func newChart(p *panel, lines []line) chart {
	c := chart{panel: p, lines: lines}
	var zero []key
	for i, l := range lines {
		k := key{l.name, i}
		if l.moves() {
			c.keys = append(c.keys, k)
		} else {
			zero = append(zero, k)
		}
	}
	if len(zero) > mostAtZero || len(zero) > 0 && len(c.keys) > mostAtZero {
		zero = []key{{fmt.Sprintf("%d more stay at 0", len(zero)), -1}}
		if len(c.keys) == 0 {
			zero[0].text = fmt.Sprintf("all %d stay at 0", len(lines))
		}
	}
	c.keys = append(c.keys, zero...)
	return c
}

// moves reports whether a series is ever above 0.
func (l line) moves() bool {
	return slices.ContainsFunc(l.points, func(p point) bool { return p.v != 0 })
}

// moving is how many series are ever above 0.
func (c *chart) moving() (n int) {
	for _, l := range c.lines {
		if l.moves() {
			n++
		}
	}
	return n
}

// most is the largest value.
func (c *chart) most() (most float64) {
	for _, l := range c.lines {
		for _, p := range l.points {
			most = max(most, p.v)
		}
	}
	return most
}

// box is where a panel is drawn.
type box struct{ x, y, w, h float64 }

// inside is the width for text and legend.
func (b box) inside() float64 { return b.w - 2*pad }

// boxes lays the panels out in the dashboard's own grid, from y on. Panels that begin in the same row are as tall as the tallest needs.
func boxes(charts []chart, y float64) (all []box, bottom float64) {
	const column = float64(pictureWide-gap) / gridColumns
	for i := 0; i < len(charts); {
		row, tall := charts[i].panel.GridPos.Y, 0.0
		first := i
		for ; i < len(charts) && charts[i].panel.GridPos.Y == row; i++ {
			g := charts[i].panel.GridPos
			b := box{gap + float64(g.X)*column, y, float64(g.W)*column - gap, 0}
			all = append(all, b)
			tall = max(tall, charts[i].tall(b))
		}
		for k := first; k < i; k++ {
			all[k].h = tall
		}
		y += tall + gap
	}
	return all, y
}

// tall is how tall a panel must be.
func (c *chart) tall(b box) float64 {
	titles := titleTall * float64(len(wrap(c.panel.Title, titleSize*bold, b.inside())))
	if c.panel.Type == "stat" {
		return titles + plotTall
	}
	_, legend := c.legend(b.inside())
	return pad + titles + marksTall + plotTall + axisTall + legend + pad/2
}

// bold letters are wider.
const bold = 1.1

// legend is where the entries stand, and how tall all are.
func (c *chart) legend(width float64) ([]place, float64) {
	widths := make([]float64, len(c.keys))
	for i, k := range c.keys {
		widths[i] = textWidth(k.text, textSize)
		if k.line >= 0 {
			widths[i] += swatch
		}
	}
	return flow(widths, width, 10, textTall)
}

// markTexts are what stands above the marks of the events: number and word, or the number where the word would reach the next mark.
func markTexts(events []happen, x func(float64) float64, end float64) []string {
	texts := make([]string, len(events))
	for i, e := range events {
		next := end
		if i+1 < len(events) {
			next = x(events[i+1].From)
		}
		texts[i] = fmt.Sprintf("%d %s", i+1, e.Word)
		if x(e.From)+textWidth(texts[i], markSize) > next {
			texts[i] = fmt.Sprint(i + 1)
		}
	}
	return texts
}

const markSize = 10.0
