// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/testbed"
)

// rounds are ten rounds about the figures given.
func rounds(rate, us float64) (fs []Figures) {
	for i := range 10 {
		share := 1 + float64(i-5)/100
		fs = append(fs, Figures{Rate: rate * share, P50: us * share, P99: 3 * us * share, Jain: 1, CPU: us / 2 * share, Masters: us / 4 * share, Failures: i % 2})
	}
	return fs
}

func someRaw() *Data {
	own, hot, hung, far := &Cell{ID: "own-1", Callers: 1}, &Cell{ID: "hot-8", Callers: 8, Hot: true, Hold: 1, Delay: 2}, &Cell{ID: "hung-16", Callers: 16, Hung: true}, &Cell{ID: "far-1", Callers: 1, Delay: 2}
	open, openHot := &Cell{ID: "open-16", Callers: 16, Asks: 1000}, &Cell{ID: "open-hot", Callers: 64, Hot: true, Hold: 1, Asks: 200}
	open.Rounds, openHot.Rounds = map[string][]Figures{"redlock": rounds(1000, 300), "redsync": rounds(1100, 300)}, map[string][]Figures{"redlock": rounds(200, 400)[:1]}
	own.Rounds = map[string][]Figures{"redlock": rounds(3000, 300), "redsync": rounds(900, 1000), "redislock": rounds(6000, 150), "floor": rounds(4000, 250)}
	hot.Rounds = map[string][]Figures{"redlock": rounds(400, 20_000), "redsync": rounds(300, 450_000)}
	hung.Rounds = map[string][]Figures{"redlock": rounds(5000, 3000), "redsync": rounds(5001, 3001)}
	far.Rounds = map[string][]Figures{"redlock": rounds(200, 4500)[:1]}
	return &Data{
		Run:      &testbed.Run{At: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), Machine: "a machine", Masters: "redis-server 8", Go: "go1.26", Build: "abc", Command: "measure it"},
		Versions: map[string]string{"redlock": "this commit", "redsync": "v4.18.1"}, Masters: 5, Rounds: 10, Seconds: 1, Cells: []*Cell{own, hot, hung, far, open, openHot},
		Struck: &Struck{Seconds: 12, TTL: 2, Seed: 1, Nemeses: []Nemesis{
			{Name: "wipe-minority", Runs: map[string]Overlap{"redsync": {Overlaps: 2, Claims: 300, Faults: 10}, "redlock": {Claims: 290, Faults: 9}}},
			{Name: "reorder", Runs: map[string]Overlap{"redsync": {Failed: "no\nmaster"}, "redlock": {Claims: 1, Faults: 1}}},
		}},
	}
}

// results writes r, and returns the folder with the page.
func resultsOf(t *testing.T, r *Data) string {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "raw")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	made, text, err := Read(file)
	if err == nil {
		err = made.Write(dir, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestResults_page_everyFigureAndWhereWeLose(t *testing.T) {
	dir := resultsOf(t, someRaw())
	page := read(t, dir, "results.md")
	for _, want := range []string{
		"| measured | 2026-11-24 12:00 UTC |", "| commit | abc |", "| redsync | v4.18.1 |", "## One caller, each with its own lock\n", "## 8 callers that want one lock, held 1 ms, 2 ms to the masters and back\n",
		"## 16 callers, each with its own lock, one of the masters hung\n", "## 16 callers that ask 1000 times a second together, each with its own lock\n",
		"## 64 callers that ask 200 times a second together, for one lock, held 1 ms\n", "2 ms to the masters and back",
		"| redlock | 2985 (2880 to 3090) | 298 µs (288 µs to 309 µs) | 896 µs (864 µs to 927 µs) |", "| redlock | 190 | 4.28 ms |", "| 1.00 | 5 |",
		"**On a quorum of masters.** In none of these figures.", "- one caller, each with its own lock, redislock (one master): locks a second 5970 (2985), p50 149 µs (298 µs)", "![The wait of 99 in 100",
		"| nemesis | redlock | redsync | faults |\n| --- | --- | --- | --- |\n| wipe-minority | 0 of 290 | 2 of 300 | 9, 10 |\n| reorder | 0 of 1 | no result: no master | 1, 0 |\n\n- 24 threads",
		"a run with 12 s of faults, a TTL of 2 s and seed 1", "**Beside what is no lock.**\n\n- one caller, each with its own lock, floor (no lock): locks a second 3980 (2985)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	_, lost, _ := strings.Cut(page, "## Where we lose")
	if strings.Contains(lost, "redsync") {
		t.Errorf("what is better for us, or noise, is among what is worse: %s", lost)
	}
	if again := resultsOf(t, someRaw()); read(t, again, "results.md") != page || read(t, again, "results-rates.svg") != read(t, dir, "results-rates.svg") || read(t, dir, "results.json") != read(t, dir, "raw") {
		t.Error("the same data made another page")
	}
}

func TestResults_pictures_wellFormedAndInside(t *testing.T) {
	dir := resultsOf(t, someRaw())
	for name, want := range map[string]string{"results-rates.svg": "5970", "results-waits.svg": "1.34 s", "results.svg": "locks a second: longer is better"} {
		text := read(t, dir, name)
		if !strings.Contains(text, want) || !strings.Contains(text, "prefers-color-scheme: dark") || strings.Contains(text, "NaN") {
			t.Errorf("%s: no %s in\n%s", name, want, text)
		}
		// A letter is 8 units wide at most on the average, in bold 13, and the chart is 480: longer lines are cut off.
		for _, line := range regexp.MustCompile(`class="head"[^>]*>([^<]*)`).FindAllStringSubmatch(text, -1) {
			if len(line[1]) > 58 {
				t.Errorf("%s: %q is %d letters long", name, line[1], len(line[1]))
			}
		}
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// The page and the pictures in docs are what the raw data beside them make.
func TestResults_inDocs_ofTheirData(t *testing.T) {
	const docs = "../../../docs"
	r, text, err := Read(filepath.Join(docs, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := r.Write(dir, text); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"results.md", "results.svg", "results-rates.svg", "results-waits.svg"} {
		if read(t, dir, name) != read(t, docs, name) {
			t.Errorf("docs/%s is not of docs/results.json: make results", name)
		}
	}
}

func TestResults_badFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "no cells": "{}", "no rounds": `{"run":{},"cells":[{"id":"x","rounds":{"redlock":[]}}]}`} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Read(file); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if _, _, err := Read(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a file that is not there was read")
	}
}
