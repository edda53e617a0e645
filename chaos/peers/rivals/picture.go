// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"fmt"
	"html"
	"strings"
)

// picture is a chart of bars, in groups of one bar for each library.
type picture struct {
	file, title string
	groups      []barGroup
}

// glanceFile is the picture of README.
const glanceFile = "results.svg"

type barGroup struct {
	title, unit string
	bars        []bar
}

// bar is a median with its interval; low and high are the median where none is known.
type bar struct {
	lib            string
	mid, low, high float64
	text           string
}

// pictures are what people look at first: a few figures for README, then rates where each has its own lock, and waits for one that all want.
func (r *Data) pictures() (ps []picture) {
	glance := picture{file: glanceFile, title: "Libraries beside each other, on the same five masters"}
	for _, c := range r.Cells {
		switch c.ID {
		case "own-16", "hung-16":
			glance.groups = append(glance.groups, r.group(c, "locks a second: longer is better", rateOf, rate))
		case "hot-64":
			glance.groups = append(glance.groups, r.group(c, "wait of 99 in 100: shorter is better", p99Of, micros))
		}
	}
	own := picture{file: "results-rates.svg", title: "Locks a second, each caller with its own lock: longer is better"}
	hot := picture{file: "results-waits.svg", title: "The wait of 99 in 100 for a lock that all want: shorter is better"}
	for _, c := range r.Cells {
		switch {
		case c.Hot:
			hot.groups = append(hot.groups, r.group(c, "", p99Of, micros))
		case c.Asks == 0: // else each has as many as it asked for
			own.groups = append(own.groups, r.group(c, "", rateOf, rate))
		}
	}
	for _, p := range []picture{glance, own, hot} {
		if len(p.groups) > 0 {
			ps = append(ps, p)
		}
	}
	return ps
}

// group has a bar for each library. unit is what they are, if the picture's title does not say it.
func (r *Data) group(c *Cell, unit string, of func(Figures) float64, write func(float64) string) barGroup {
	g := barGroup{title: brief.Replace(c.title()), unit: unit}
	if unit != "" {
		g.title = short.Replace(c.title())
	}
	for _, lib := range r.libraries() {
		s := c.sample(lib, of)
		if len(s) == 0 {
			continue
		}
		b := bar{lib: lib, mid: s.Median(), text: write(s.Median())}
		b.low, b.high = b.mid, b.mid
		if low, high, ok := s.Interval(0.95); ok {
			b.low, b.high = low, high
		}
		g.bars = append(g.bars, b)
	}
	return g
}

// brief leaves out of a title what the picture's own says.
var brief = strings.NewReplacer(", each with its own lock", "", " that want one lock", "", ", for one lock", "", " that ask", ",")

// short says it in fewer words, for a picture whose own title says nothing of it.
var short = strings.NewReplacer(", each with its own lock", ", each its own lock", " that want one lock", ", one lock for all")

// The chart, in units that a phone of 480 pixels shows as they are.
const (
	chartWide, labelWide, barTall, groupGap = 480, 172, 20, 34
	barMost                                 = chartWide - labelWide - 70
)

const chartStyle = `<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: #1b2330; } .soft { font-size: 12px; fill: #5b6676; } .head { font-weight: 600; }
.redlock { fill: #2f6fd6; } .redsync { fill: #c58a00; } .redislock { fill: #7f8fa3; } .rueidislock { fill: #a3afbd; } .redsync-tuned { fill: #e0a93a; } .setnx { fill: #c3ccd7; } .redisson { fill: #b4532a; } .etcd { fill: #3f8f6b; } .floor, .resp { fill: #dfe4ea; } .line { stroke: #1b2330; }
@media (prefers-color-scheme: dark) { text { fill: #e4e9f0; } .soft { fill: #9aa7b8; } .redlock { fill: #6a9df0; } .redsync { fill: #e3b13c; } .redislock { fill: #7d8b9d; } .rueidislock { fill: #566374; } .redsync-tuned { fill: #c99a2e; } .setnx { fill: #454f5c; } .redisson { fill: #d9764a; } .etcd { fill: #5cb38c; } .floor, .resp { fill: #323a45; } .line { stroke: #e4e9f0; } }
</style>
`

// svg draws the picture. Each group has a scale of its own: libraries are compared, not questions.
func (p picture) svg() string {
	var b strings.Builder
	y := 8
	for _, g := range p.groups {
		most := 0.0
		for _, v := range g.bars {
			most = max(most, v.high)
		}
		y += groupGap - 12
		fmt.Fprintf(&b, `<text class="head" x="4" y="%d">%s</text>`+"\n", y, html.EscapeString(g.title))
		if g.unit != "" {
			y += 17
			fmt.Fprintf(&b, `<text class="soft" x="4" y="%d">%s</text>`+"\n", y, html.EscapeString(g.unit))
		}
		y += 8
		for _, v := range g.bars {
			x := func(value float64) float64 { return labelWide + barMost*value/max(most, 1e-9) }
			fmt.Fprintf(&b, `<text class="soft" x="%d" y="%d" text-anchor="end">%s</text>`, labelWide-8, y+14, html.EscapeString(label(v.lib)))
			fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, v.lib, labelWide, y+2, x(v.mid)-labelWide, barTall-5)
			fmt.Fprintf(&b, `<line class="line" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, x(v.low), x(v.high), y+9, y+9)
			fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`+"\n", x(v.high)+6, y+14, html.EscapeString(v.text))
			y += barTall
		}
	}
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", chartWide, y+8, html.EscapeString(p.title))
	return head + chartStyle + b.String() + "</svg>\n"
}
