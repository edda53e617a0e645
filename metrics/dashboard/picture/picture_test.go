// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

const (
	boardFile = "../grafana.json"
	runFile   = "run.json.gz"
	docsFile  = "../../../docs/dashboard.svg"
	drawAgain = "go run -C metrics/dashboard ./picture"
)

func mustDraw(t *testing.T) string {
	t.Helper()
	svg, err := draw(t.Context(), boardFile, runFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(svg)
}

func mustReadBoard(t *testing.T) *board {
	t.Helper()
	text, err := os.ReadFile(boardFile)
	if err != nil {
		t.Fatal(err)
	}
	b, err := readBoard(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The picture in docs is what the dashboard and the recorded run make.
func TestPicture_inDocs_ofItsData(t *testing.T) {
	want, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustDraw(t); got != string(want) {
		t.Errorf("docs/dashboard.svg is not what grafana.json and run.json.gz make: %s", drawAgain)
	}
	if mustDraw(t) != mustDraw(t) {
		t.Error("the same run made another picture")
	}
}

func TestPicture_wellFormed_everyPanelWithData(t *testing.T) {
	svg := mustDraw(t)
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var titles strings.Builder
	for _, m := range regexp.MustCompile(`<text class="title"[^>]*>([^<]*)`).FindAllStringSubmatch(svg, -1) {
		titles.WriteString(html.UnescapeString(m[1]) + " ")
	}
	for _, p := range mustReadBoard(t).Panels {
		if !strings.Contains(titles.String(), p.Title+" ") {
			t.Errorf("no panel %q among %s", p.Title, titles.String())
		}
	}
	for _, bad := range []string{"no data", "NaN", "Inf"} {
		if strings.Contains(svg, bad) {
			t.Errorf("the picture has %q", bad)
		}
	}
	if !strings.Contains(svg, "prefers-color-scheme: dark") {
		t.Error("the picture has no dark colours")
	}
}

var (
	textElement = regexp.MustCompile(`<text class="([^"]*)" x="([^"]*)" y="([^"]*)"( text-anchor="end")?>([^<]*)`)
	pathElement = regexp.MustCompile(` d="([^"]*)"`)
	sizes       = map[string]float64{"title": titleSize * bold, "head": 15 * bold, "mark": markSize, "figure": 34 * bold}
)

// No text is cut off at an edge of the picture, and no line leaves it.
func TestPicture_allInside(t *testing.T) {
	svg := mustDraw(t)
	var tall float64
	if _, err := fmt.Sscanf(svg[strings.Index(svg, "viewBox"):], `viewBox="0 0 900 %f"`, &tall); err != nil {
		t.Fatal(err)
	}
	for _, m := range textElement.FindAllStringSubmatch(svg, -1) {
		class, _, _ := strings.Cut(m[1], " ")
		size, known := sizes[class]
		if !known {
			size = textSize
		}
		x, y, w := number64(t, m[2]), number64(t, m[3]), textWidth(html.UnescapeString(m[5]), size)
		if m[4] != "" {
			x -= w
		}
		if x < 0 || x+w > pictureWide || y < size || y > tall {
			t.Errorf("%q is cut off: from %.1f to %.1f, at %.1f", m[5], x, x+w, y)
		}
	}
	for _, m := range pathElement.FindAllStringSubmatch(svg, -1) {
		for _, xy := range regexp.MustCompile(`[ML]([0-9.]+) ([0-9.-]+)`).FindAllStringSubmatch(m[1], -1) {
			if x, y := number64(t, xy[1]), number64(t, xy[2]); x > pictureWide || y < 0 || y > tall {
				t.Errorf("a line goes to %v %v", x, y)
			}
		}
	}
}

func number64(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A short recording of real masters can be written, read again and drawn.
func TestRecord_shortRun_isRead(t *testing.T) {
	needs.Redis(t)
	made, err := record(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := made.write(&file); err != nil {
		t.Fatal(err)
	}
	r, err := readRun(&file)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Scrapes) < 50 || len(r.Events) != len(acts) {
		t.Errorf("%d scrapes, %d events", len(r.Scrapes), len(r.Events))
	}
	state := slices.ContainsFunc(r.Series, func(c column) bool {
		return c.Labels["__name__"] == "redlock_master_state" && c.Labels["master"] == "m2" && c.Labels["state"] == "down" && c.Labels["job"] == "shop"
	})
	if !state {
		t.Error("nobody saw that m2 was down")
	}
	engine, rec := newEngine(), r.recording()
	defer engine.Close()
	for _, p := range mustReadBoard(t).Panels {
		if _, err := p.lines(t.Context(), engine, rec, r); err != nil {
			t.Error(err)
		}
	}
}
