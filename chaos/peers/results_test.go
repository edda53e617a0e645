// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testbed"
)

// rounds are ten rounds about the figures given.
func rounds(rate, us float64) (fs []figures) {
	for i := range 10 {
		share := 1 + float64(i-5)/100
		fs = append(fs, figures{Rate: rate * share, P50: us * share, P99: 3 * us * share, Jain: 1, CPU: us / 2 * share, Masters: us / 4 * share, Failures: i % 2})
	}
	return fs
}

// axis is the cell with that id.
func axis(id string) *rawCell {
	all := axes()
	return all[slices.IndexFunc(all, func(c *rawCell) bool { return c.ID == id })]
}

func someRaw() *raw {
	own, hot, hung, far := axis("own-1"), axis("hot-8"), axis("hung-16"), axis("far-1")
	own.Rounds = map[string][]figures{"redlock": rounds(3000, 300), "redsync": rounds(900, 1000), "redislock": rounds(6000, 150)}
	hot.Rounds = map[string][]figures{"redlock": rounds(400, 20_000), "redsync": rounds(300, 450_000)}
	hung.Rounds = map[string][]figures{"redlock": rounds(5000, 3000), "redsync": rounds(5001, 3001)}
	far.Rounds = map[string][]figures{"redlock": rounds(200, 4500)[:1]}
	return &raw{
		Run:      &testbed.Run{At: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), Machine: "a machine", Masters: "redis-server 8", Go: "go1.26", Build: "abc", Command: "measure it"},
		Versions: map[string]string{"redlock": "this commit", "redsync": "v4.18.1"}, Masters: 5, Rounds: 10, Seconds: 1, Cells: []*rawCell{own, hot, hung, far},
	}
}

// results writes r, and returns the folder with the page.
func resultsOf(t *testing.T, r *raw) string {
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
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"results", "--out", dir, file}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
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
		"| measured | 2026-11-24 12:00 UTC |", "| commit | abc |", "| redsync | v4.18.1 |", "## One caller, each with its own lock\n", "## 8 callers that want one lock, held 1 ms\n",
		"## 16 callers, each with its own lock, one of the masters hung\n", "2 ms to the masters and back",
		"| redlock | 2985 (2880 to 3090) | 298 µs (288 µs to 309 µs) | 896 µs (864 µs to 927 µs) |", "| redlock | 190 | 4.28 ms |", "| 1.00 | 5 |",
		"**On a quorum of masters.** In none of these figures.", "- one caller, each with its own lock, redislock (one master): locks a second 5970 (2985), p50 149 µs (298 µs)", "![The wait of 99 in 100",
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
	for name, want := range map[string]string{"results-rates.svg": "5970", "results-waits.svg": "1.34 s"} {
		text := read(t, dir, name)
		if !strings.Contains(text, want) || !strings.Contains(text, "prefers-color-scheme: dark") || strings.Contains(text, "NaN") {
			t.Errorf("%s: no %s in\n%s", name, want, text)
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

func TestResults_badFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "no cells": "{}", "no rounds": `{"run":{},"cells":[{"id":"x","rounds":{"redlock":[]}}]}`} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"results", "--out", dir, file}, &out, &errs); code != 3 || errs.Len() == 0 {
			t.Errorf("%s: exit code %d, %s", name, code, &errs)
		}
	}
}

// A short measurement of every library, read back as a page. A library may be unlucky for as long as it pauses between its tries, a quarter
// of a second with redsync's own setting, so the measurement is made longer until each has had its lock.
func TestMeasure_everyLibrary_rawAndPage(t *testing.T) {
	needs.Redis(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "raw.json")
	var r *raw
	for d := 100 * time.Millisecond; ; d *= 4 {
		var out, errs bytes.Buffer
		args := strings.Fields(fmt.Sprintf("measure --rounds 1 --duration %v --cells own-1,hot-8 --commit abc --json %s", d, file))
		if code := run(t.Context(), args, &out, &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		var err error
		if r, _, err = readRaw(file); err != nil || len(r.Cells) != 2 || r.Run.Build != "abc" {
			t.Fatalf("%v, %+v", err, r)
		}
		idle := func(c *rawCell) bool {
			return slices.ContainsFunc(libraryNames(), func(lib string) bool { return len(c.Rounds[lib]) == 1 && c.Rounds[lib][0].Rate == 0 })
		}
		if d > 5*time.Second || !slices.ContainsFunc(r.Cells, idle) {
			break
		}
	}
	for _, c := range r.Cells {
		for _, lib := range libraryNames() {
			if fs := c.Rounds[lib]; len(fs) != 1 || fs[0].Rate <= 0 || fs[0].P50 <= 0 || fs[0].P99 < fs[0].P50 || fs[0].CPU <= 0 {
				t.Errorf("%s, %s: %+v", c.ID, lib, fs)
			}
		}
	}
	if page := read(t, resultsOf(t, r), "results.md"); !strings.Contains(page, "rueidislock (one master)") {
		t.Error(page)
	}
}
