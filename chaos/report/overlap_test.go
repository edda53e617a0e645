// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/internal/page"
)

// What is red is an overlap: neighbours are merged only where they would touch.
func TestOverlapBars_farApart_notMerged(t *testing.T) {
	s := &story{}
	for _, from := range []int64{1000, 1010, 1500} {
		s.overlaps = append(s.overlaps, check.Violation{Ops: []history.Op{{Lock: "L"}, {Lock: "L"}}, From: from, To: from + 10})
	}
	bars := s.overlapBars(page.Window{From: 0, To: 10_000}, "L")
	if len(bars) != 2 || bars[0].Title != "two holders at once, 2 times" || bars[1].X != "149" {
		t.Errorf("%+v", bars)
	}
	if bars := s.overlapBars(page.Window{From: 0, To: 10_000}, "M"); len(bars) != 0 {
		t.Errorf("of another lock: %+v", bars)
	}
}

func TestCloseups_overlapsInOnePicture_oneCloseup(t *testing.T) {
	h := &history.History{}
	for i := range int64(4) {
		from := 10 + i
		if i == 3 {
			from = 5000 // overlaps nothing but its twin
		}
		for range 1 + i/3 {
			h.Ops = append(h.Ops, history.Op{
				Kind: history.KindLock, Client: fmt.Sprint("c", len(h.Ops)), Call: from, Return: from, Lock: "L", Mode: history.Exclusive,
				Holder: fmt.Sprint("h", len(h.Ops)), Deadline: from + 1000, Outcome: history.OK,
			})
		}
	}
	s := newStory(h, []check.Result{check.Whole(safety.Exclusion(), h)})
	if err := s.tell(history.Whole(h), judge.ChapterOps); err != nil {
		t.Fatal(err)
	}
	big, lines, rest := s.closeups.big, s.closeups.lines, s.closeups.rest
	if len(big) != 2 || len(lines) != 1 || rest != 0 {
		t.Fatalf("%d pictures, %d lines, %d more, want 2, 1 and 0", len(big), len(lines), rest)
	}
	if n := len(big[0].Figure.Rows); n != 3 {
		t.Errorf("%d claims in the first picture, want 3", n)
	}
}

// everyOverlapMarked reads the red bars of the timeline back and looks every overlap up in them.
func everyOverlapMarked(t *testing.T, page string, h *history.History, overlaps []check.Violation) {
	t.Helper()
	w := extent(h)
	timeline := page[strings.Index(page, `id="timeline"`):]
	if end := strings.Index(timeline, "</section>"); end >= 0 {
		timeline = timeline[:end]
	}
	type mark struct{ from, to float64 }
	marks := map[string][]mark{}
	rows := strings.Split(timeline, `<div class="row `)[1:]
	label, bar := regexp.MustCompile(`<b>([^<]*)</b>`), regexp.MustCompile(`<rect class="overlap" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"`)
	other := ""
	for _, r := range rows {
		name := label.FindStringSubmatch(r)
		for _, m := range bar.FindAllStringSubmatch(r, -1) {
			x, _ := strconv.ParseFloat(m[1], 64)
			width, _ := strconv.ParseFloat(m[2], 64)
			marks[name[1]] = append(marks[name[1]], mark{x, x + width})
		}
		if name != nil && strings.HasSuffix(name[1], "other locks") {
			other = name[1]
		}
	}
	for _, v := range overlaps {
		in, ok := marks[v.Ops[0].Lock]
		if !ok {
			in = marks[other]
		}
		x, end := w.X(v.From), w.X(v.To)
		if !slices.ContainsFunc(in, func(m mark) bool { return m.from <= x+0.1 && m.to >= end-0.1 }) {
			t.Fatalf("the overlap at %v..%v of %s is not marked: %v", x, end, v.Ops[0].Lock, in)
		}
	}
}
