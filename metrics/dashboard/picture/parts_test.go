// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

func TestTicks_roundValuesUpToTheMost(t *testing.T) {
	for _, c := range []struct {
		most float64
		n    int
		want []float64
	}{
		{0, 4, []float64{0, 1}},
		{1, 4, []float64{0, 0.5, 1}},
		{4, 4, []float64{0, 1, 2, 3, 4}},
		{4.1, 4, []float64{0, 2, 4, 6}},
		{270, 4, []float64{0, 100, 200, 300}},
		{0.0031, 4, []float64{0, 0.001, 0.002, 0.003, 0.004}},
		{100, 5, []float64{0, 20, 40, 60, 80, 100}},
	} {
		got := ticks(c.most, c.n)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }) {
			t.Errorf("ticks(%v, %d) = %v, want %v", c.most, c.n, got, c.want)
		}
	}
	if got := seconds(99.9, 5); !slices.Equal(got, []float64{0, 20, 40, 60, 80}) {
		t.Errorf("seconds: %v", got)
	}
}

func TestUnits_asAPersonWritesThem(t *testing.T) {
	for _, c := range []struct {
		unit string
		v    float64
		want string
	}{
		{"short", 0, "0"}, {"short", 5, "5"}, {"short", 0.25, "0.25"}, {"short", 1.0199, "1.02"}, {"short", 120, "120"}, {"short", 999.6, "1 K"}, {"short", 2500, "2.5 K"}, {"short", 3e6, "3 Mil"},
		{"reqps", 40, "40 req/s"},
		{"s", 0, "0 s"}, {"s", 0.00025, "250 µs"}, {"s", 0.0025, "2.5 ms"}, {"s", 0.9999, "1 s"}, {"s", 7.5, "7.5 s"},
	} {
		if got := units[c.unit](c.v); got != c.want {
			t.Errorf("%v in %s is %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestPieces_missingSamples_areGaps(t *testing.T) {
	got := pieces([]point{{1, 1}, {2, 1}, {2.9, 1}, {5, 1}, {7, 2}, {8, 2}}, 1)
	want := [][]point{{{1, 1}, {2, 1}, {2.9, 1}}, {{5, 1}}, {{7, 2}, {8, 2}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := bends([]point{{1, 1}, {2, 1}, {3, 1}, {4, 2}, {5, 2}}); !slices.Equal(got, []point{{1, 1}, {3, 1}, {4, 2}, {5, 2}}) {
		t.Errorf("bends: %v", got)
	}
}

// What is drawn of a series with a gap: two strokes, and a dot for a sample alone.
func TestLine_gap_isNotBridged(t *testing.T) {
	var c canvas
	c.line(scale{box{0, 0, 10, 10}, 10, 1}, line{points: []point{{1, 1}, {2, 0}, {5, 0.5}}}, 0, 1, true)
	if got := c.String(); !strings.Contains(got, `class="line s0" d="M1.0 0.0L2.0 10.0M5.0 5.0h0.1"`) || !strings.Contains(got, `d="M1.0 0.0L2.0 10.0V10.0H1.0Z"`) {
		t.Error(got)
	}
}

func TestPlot_noSeries_saysNoData(t *testing.T) {
	for _, kind := range []string{"stat", "timeseries"} {
		p := panel{Type: kind, Title: "A & B", GridPos: grid{0, 0, 8, 8}}
		p.FieldConfig.Defaults.Unit = "short"
		r := &run{Every: 1, Scrapes: []int64{1000, 2000}}
		got := picture(r, []chart{newChart(&p, nil)})
		if !strings.Contains(got, ">no data<") || !strings.Contains(got, "A &amp; B") {
			t.Error(got)
		}
	}
}

func TestWrap_andFlow(t *testing.T) {
	if got := wrap("Masters that do not vote", 12, 100); !slices.Equal(got, []string{"Masters that", "do not vote"}) {
		t.Errorf("%q", got)
	}
	at, tall := flow([]float64{40, 40, 40, 200}, 100, 10, 15)
	if want := []place{{0, 0}, {50, 0}, {0, 15}, {0, 30}}; !slices.Equal(at, want) || tall != 45 {
		t.Errorf("%v, %v tall", at, tall)
	}
}

func TestBoxes_rowsAsTallAsTheirTallest(t *testing.T) {
	left, right, below := panel{Title: "a", GridPos: grid{0, 0, 12, 8}}, panel{Title: "b", GridPos: grid{12, 0, 12, 8}}, panel{Title: "c", GridPos: grid{0, 8, 24, 8}}
	many := newChart(&right, nil)
	for range 20 {
		many.keys = append(many.keys, key{"a long name of a series", 0})
	}
	all, bottom := boxes([]chart{newChart(&left, nil), many, newChart(&below, nil)}, 0)
	if all[0].h != all[1].h || all[2].y != all[0].h+gap || bottom != all[2].y+all[2].h+gap || all[1].x+all[1].w != pictureWide-gap || all[0].x+all[0].w+gap != all[1].x {
		t.Errorf("%v, bottom %v", all, bottom)
	}
}

func TestChart_manySeriesAtZero_areCounted(t *testing.T) {
	lines := []line{{"busy", []point{{1, 0}, {2, 3}}}}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		lines = append(lines, line{name, []point{{1, 0}}})
	}
	for _, c := range []struct {
		lines []line
		want  []key
	}{
		{lines, []key{{"busy", 0}, {"5 more stay at 0", -1}}},
		{lines[1:], []key{{"all 5 stay at 0", -1}}},
		{lines[:3], []key{{"busy", 0}, {"a", 1}, {"b", 2}}},
	} {
		if got := newChart(&panel{}, c.lines).keys; !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

func TestMarkTexts_wordWhereThereIsRoom(t *testing.T) {
	events := []happen{{From: 0, Word: "killed"}, {From: 10, Word: "back"}, {From: 95, Word: "burst"}}
	x := func(s float64) float64 { return 2 * s }
	if got := markTexts(events, x, 200); !slices.Equal(got, []string{"1", "2 back", "3"}) {
		t.Errorf("%q", got)
	}
}

func TestBoard_inReadingOrder_andWhatIsUnknown(t *testing.T) {
	b, err := readBoard([]byte(`{"panels": [
		{"type": "timeseries", "title": "c", "gridPos": {"x": 0, "y": 8}, "fieldConfig": {"defaults": {"unit": "s"}}},
		{"type": "timeseries", "title": "b", "gridPos": {"x": 12, "y": 0}, "fieldConfig": {"defaults": {"unit": "s"}}},
		{"type": "stat", "title": "a", "gridPos": {"x": 0, "y": 0}, "fieldConfig": {"defaults": {"unit": "short", "thresholds": {"steps": [{"color": "green", "value": null}, {"color": "red", "value": 1}]}}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Panels[0].Title + b.Panels[1].Title + b.Panels[2].Title; got != "abc" {
		t.Errorf("order %q", got)
	}
	if a := b.Panels[0]; a.colour(0) != "green" || a.colour(1) != "red" || b.Panels[1].colour(1) != "" {
		t.Error("colours are not those of the thresholds")
	}
	for name, text := range map[string]string{
		"no JSON": `{`, "a kind": `{"panels": [{"type": "heatmap"}]}`, "a unit": `{"panels": [{"type": "stat", "fieldConfig": {"defaults": {"unit": "bananas"}}}]}`,
	} {
		if _, err := readBoard([]byte(text)); err == nil {
			t.Errorf("%s that cannot be drawn was read", name)
		}
	}
}

func TestLegend_labelsInTheirPlace(t *testing.T) {
	if got := legend("{{class}} p99 of {{ at }}{{none}}", labels.FromStrings("class", "orders", "at", "grant")); got != "orders p99 of grant" {
		t.Errorf("%q", got)
	}
}

// A query that fails names its panel.
func TestLines_badQuery(t *testing.T) {
	engine := newEngine()
	defer engine.Close()
	p := panel{Title: "wrong", Targets: []struct{ Expr, LegendFormat string }{{Expr: "sum("}}}
	r := &run{Every: 1, Scrapes: []int64{1000, 2000}}
	if _, err := p.lines(t.Context(), engine, r.recording(), r); err == nil || !strings.Contains(err.Error(), `"wrong"`) {
		t.Errorf("%v", err)
	}
}

// A series that goes is stale at once: it is not drawn for the five minutes for which Prometheus looks back.
func TestRun_seriesThatGoes_isAGap(t *testing.T) {
	one := 1.0
	r := &run{Every: 1, Scrapes: []int64{1000, 2000, 3000, 4000}, Series: []column{{map[string]string{"__name__": "up", "instance": "a"}, []*float64{&one, nil, nil, &one}}}}
	engine := newEngine()
	defer engine.Close()
	p := panel{Targets: []struct{ Expr, LegendFormat string }{{"up", "{{instance}}"}}}
	lines, err := p.lines(t.Context(), engine, r.recording(), r)
	if err != nil {
		t.Fatal(err)
	}
	if want := []line{{"a", []point{{1.1, 1}, {4.1, 1}}}}; !reflect.DeepEqual(lines, want) {
		t.Errorf("%v, want %v", lines, want)
	}
}

func TestReadRun_badFiles(t *testing.T) {
	zip := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	short, err := json.Marshal(&run{Scrapes: []int64{1, 2}, Series: []column{{Values: make([]*float64, 1)}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"no gzip": []byte("{}"), "no JSON": zip("{"), "no samples": zip("{}"), "a short series": zip(string(short))} {
		if _, err := readRun(bytes.NewReader(text)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
