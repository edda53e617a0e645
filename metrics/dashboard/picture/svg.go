// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"strings"
)

// colours is how many colours series have. After so many they begin again, with dashes.
const colours = 8

const style = `<style>
text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: #1b2330; } .soft { fill: #5b6676; } .mark { font-size: 10px; fill: #5b6676; }
.title { font-size: 12.5px; font-weight: 600; } .head { font-size: 15px; font-weight: 600; } .figure { font-size: 34px; font-weight: 600; } .green { fill: #2c7a55; } .red { fill: #c23b22; }
.page { fill: #f3f5f8; } .panel { fill: #ffffff; stroke: #d8dee6; } .grid { stroke: #e6eaef; } .band { fill: #8494a8; opacity: .16; } .event { stroke: #8494a8; stroke-dasharray: 2 2; }
.line { fill: none; stroke-width: 1.5; stroke-linejoin: round; stroke-linecap: round; } .area { opacity: .1; } .dash1 { stroke-dasharray: 5 3; } .dash2 { stroke-dasharray: 1 3; }
.s0 { stroke: #2f6fd6; } .s1 { stroke: #c58a00; } .s2 { stroke: #3f8f6b; } .s3 { stroke: #b4532a; } .s4 { stroke: #7b4fb5; } .s5 { stroke: #0f8a99; } .s6 { stroke: #c2407f; } .s7 { stroke: #5b6676; }
.f0 { fill: #2f6fd6; } .f1 { fill: #c58a00; } .f2 { fill: #3f8f6b; } .f3 { fill: #b4532a; } .f4 { fill: #7b4fb5; } .f5 { fill: #0f8a99; } .f6 { fill: #c2407f; } .f7 { fill: #5b6676; }
@media (prefers-color-scheme: dark) { text { fill: #e4e9f0; } .soft, .mark { fill: #9aa7b8; } .green { fill: #5cb38c; } .red { fill: #f0765c; }
.page { fill: #0e1218; } .panel { fill: #171c24; stroke: #2b333e; } .grid { stroke: #262e38; }
.s0 { stroke: #6a9df0; } .s1 { stroke: #e3b13c; } .s2 { stroke: #5cb38c; } .s3 { stroke: #e08258; } .s4 { stroke: #b08be6; } .s5 { stroke: #45b8c6; } .s6 { stroke: #ea7fb0; } .s7 { stroke: #9aa7b8; }
.f0 { fill: #6a9df0; } .f1 { fill: #e3b13c; } .f2 { fill: #5cb38c; } .f3 { fill: #e08258; } .f4 { fill: #b08be6; } .f5 { fill: #45b8c6; } .f6 { fill: #ea7fb0; } .f7 { fill: #9aa7b8; } }
</style>
`

// canvas is an SVG that is being drawn.
type canvas struct{ strings.Builder }

func (c *canvas) text(class string, x, y float64, text string) {
	fmt.Fprintf(c, `<text class="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, x, y, html.EscapeString(text))
}

// textEnd writes a text that ends at x.
func (c *canvas) textEnd(class string, x, y float64, text string) {
	fmt.Fprintf(c, `<text class="%s" x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n", class, x, y, html.EscapeString(text))
}

func (c *canvas) stroke(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(c, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

func (c *canvas) rect(class string, b box, round int) {
	fmt.Fprintf(c, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%d"/>`+"\n", class, b.x, b.y, b.w, b.h, round)
}

// picture is the SVG of a run.
func picture(r *run, charts []chart) string {
	var body canvas
	y := body.header(r)
	at, bottom := boxes(charts, y)
	for i := range charts {
		body.panel(&charts[i], at[i], r)
	}
	var all canvas
	fmt.Fprintf(&all, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" role="img" aria-label="The dashboard of redlock over a recorded run">`+"\n", pictureWide, bottom)
	all.WriteString(style)
	all.rect("page", box{0, 0, pictureWide, bottom}, 0)
	all.WriteString(body.String())
	all.WriteString("</svg>\n")
	return all.String()
}

// header says what the run is and what its events are. It returns where the panels begin.
func (c *canvas) header(r *run) float64 {
	const title = "Dashboard of redlock"
	c.text("head", gap+2, 26, title)
	about := fmt.Sprintf("%s and %s on one machine for %.0f s, scraped every %s, rates over %s", r.Masters, r.Clients, r.seconds(), duration(r.Every), duration(r.Every*rateScrapes))
	c.text("soft", gap+2+textWidth(title, 15*bold)+8, 26, about)
	texts, widths := make([]string, len(r.Events)), make([]float64, len(r.Events))
	for i, e := range r.Events {
		texts[i] = fmt.Sprintf("%d: %s", i+1, e.Text)
		widths[i] = textWidth(texts[i], textSize)
	}
	at, tall := flow(widths, pictureWide-2*gap, 14, textTall)
	for i, p := range at {
		c.text("", gap+2+p.x, 46+p.y, texts[i])
	}
	return 46 + tall
}

// panel draws one panel in its box.
func (c *canvas) panel(ch *chart, b box, r *run) {
	c.rect("panel", b, 3)
	y := b.y + pad/2
	for _, line := range wrap(ch.panel.Title, titleSize*bold, b.inside()) {
		y += titleTall
		c.text("title", b.x+pad, y-2, line)
	}
	if ch.panel.Type == "stat" {
		c.stat(ch, b, r)
		return
	}
	places, tall := ch.legend(b.inside())
	c.plot(ch, box{b.x, y, b.w, b.y + b.h - tall - pad/2 - y}, r)
	for i, k := range ch.keys {
		x, base := b.x+pad+places[i].x, b.y+b.h-tall-pad/2+places[i].y+11
		if k.line >= 0 {
			c.stroke("line "+stroke(k.line), x, base-4, x+12, base-4)
			x += swatch
		}
		c.text("soft", x, base, k.text)
	}
}

// stroke is the class of a series.
func stroke(i int) string {
	class := fmt.Sprintf("s%d", i%colours)
	if dash := i / colours % 3; dash > 0 {
		class += fmt.Sprintf(" dash%d", dash)
	}
	return class
}

// stat draws the last figure, and how it came to be below it.
func (c *canvas) stat(ch *chart, b box, r *run) {
	if len(ch.lines) == 0 {
		c.text("soft", b.x+pad, b.y+b.h/2, "no data")
		return
	}
	points := ch.lines[0].points
	last := points[len(points)-1].v
	c.text("figure "+ch.panel.colour(last), b.x+pad, b.y+b.h/2+12, units[ch.panel.unit()](last))
	s := scale{box{b.x + 1, b.y + b.h - 44, b.w - 2, 42}, r.seconds(), max(ch.most(), 1)}
	c.line(s, ch.lines[0], 0, r.Every, true)
}

// scale maps time and value to the picture.
type scale struct {
	box
	end, top float64
}

func (s scale) at(t float64) float64   { return s.x + s.w*t/s.end }
func (s scale) over(v float64) float64 { return s.y + s.h*(1-v/s.top) }

// plot draws axes, events and series of a panel.
func (c *canvas) plot(ch *chart, b box, r *run) {
	if len(ch.lines) == 0 {
		c.text("soft", b.x+b.w/2-22, b.y+b.h/2, "no data")
		return
	}
	levels := ticks(ch.most(), 4)
	write, left := units[ch.panel.unit()], 0.0
	for _, v := range levels {
		left = max(left, textWidth(write(v), textSize))
	}
	s := scale{box{b.x + pad + left + 6, b.y + marksTall, b.w - 2*pad - left - 6, b.h - marksTall - axisTall}, r.seconds(), levels[len(levels)-1]}
	for _, v := range levels {
		c.stroke("grid", s.x, s.over(v), s.x+s.w, s.over(v))
		c.textEnd("soft", s.x-6, s.over(v)+4, write(v))
	}
	for _, t := range seconds(s.end, max(2, int(s.w/40))) {
		text := fmt.Sprintf("%g s", t)
		x := min(s.at(t)-textWidth(text, textSize)/2, s.x+s.w-textWidth(text, textSize))
		c.text("soft", x, s.y+s.h+14, text)
	}
	for i, text := range markTexts(r.Events, s.at, s.x+s.w) {
		e := r.Events[i]
		if e.Until > 0 {
			c.rect("band", box{s.at(e.From), s.y, s.at(e.Until) - s.at(e.From), s.h}, 0)
		}
		c.stroke("event", s.at(e.From), s.y-3, s.at(e.From), s.y+s.h)
		c.text("mark", s.at(e.From), s.y-5, text)
	}
	for i, l := range ch.lines {
		c.line(s, l, i, r.Every, ch.moving() <= mostAreas)
	}
}

// mostAreas is how many series may have the area below them coloured. The areas of more would hide the lines.
const mostAreas = 6

// line draws a series, with nothing where it has no samples.
func (c *canvas) line(s scale, l line, i int, step float64, fill bool) {
	var path, area strings.Builder
	for _, piece := range pieces(l.points, step) {
		d := fmt.Sprintf("M%.1f %.1f", s.at(piece[0].t), s.over(piece[0].v))
		if len(piece) == 1 {
			d += "h0.1" // a dot
		}
		for _, p := range bends(piece)[1:] {
			d += fmt.Sprintf("L%.1f %.1f", s.at(p.t), s.over(p.v))
		}
		path.WriteString(d)
		if fill && len(piece) > 1 {
			fmt.Fprintf(&area, "%sV%.1fH%.1fZ", d, s.over(0), s.at(piece[0].t))
		}
	}
	if area.Len() > 0 {
		fmt.Fprintf(c, `<path class="area f%d" d="%s"/>`+"\n", i%colours, area.String())
	}
	fmt.Fprintf(c, `<path class="line %s" d="%s"/>`+"\n", stroke(i), path.String())
}
