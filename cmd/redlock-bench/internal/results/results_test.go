// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/testbed"
)

// What --json writes is read back as it was, one result after the other.
func TestRead_writtenResults_theSame(t *testing.T) {
	half, up := 0.5, 4.25
	latency := &Result{Command: "latency", Run: testbed.Here("redlock-bench latency", "3 masters"), Masters: 3, Cells: []any{
		&LatencyCell{Callers: 4, Figures: Figures{P50: 80, MastersCPU: &half, Turns: []float64{1, 2}}, Floor: &Figures{P50: 50}, Ratio: &Ratio{Median: 0.6}},
	}}
	tour := &Result{Command: "tour", Interrupted: true, Cells: []any{&LatencyCell{Callers: 1}, &ContentionCell{Waiters: 8, Turns: []float64{5}}}}
	outage := &Result{Command: "outage", Cells: []any{&PhaseCell{Phase: "before", Figures: Figures{P99: 7}}}, Outage: &Outage{Up: &up, Failed: []string{}}}
	want := []*Result{latency, tour, outage}
	var text strings.Builder
	for _, r := range want {
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(b, '\n'))
	}
	got, err := Read(strings.NewReader(text.String()))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v; got %+v", err, got)
	}
	if run := want[0].Run; run.Machine == "" || run.Go == "" || run.At.IsZero() {
		t.Errorf("%+v", run)
	}
}

// A run of ten that ended early does not take the others with it.
func TestRead_endedBeforeTheFirstCell_leftOut(t *testing.T) {
	const good, interrupted, broke = `{"command":"latency","cells":[{"callers":1}]}`, `{"command":"latency","interrupted":true,"cells":[]}`, `{"command":"latency","broke_off":"no quorum","cells":[]}`
	if all, err := Read(strings.NewReader(interrupted + good + broke + good)); err != nil || len(all) != 2 {
		t.Errorf("%d results, %v; want 2", len(all), err)
	}
	if _, err := Read(strings.NewReader(interrupted + broke)); err == nil || !strings.Contains(err.Error(), "no result in it") {
		t.Errorf("%v", err)
	}
}

func TestRead_noResults_errors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "no result in it",
		"{}":                                  "result 1: no cells",
		"[1]":                                 "result 1: no result but a JSON array: want what redlock-bench --json wrote",
		`{"command":"latency","masters":"x"}`: "result 1: no result: masters is a JSON string: want what redlock-bench --json wrote",
		"nope":                                "result 1: ",
		`{"command":"latency","cells":[{"other":1}]}`:                     "cell 0 has no callers, waiters or phase",
		`{"command":"latency","cells":[{"callers":"x"}]}`:                 "cell 0: no result: callers is a JSON string: ",
		`{"command":"latency","cells":[{"callers":1}]}{"command":"late`:   "result 2: ",
		`{"command":"latency","cells":[{"callers":1}]}{"command":"tour"}`: "result 2: no cells",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestBins_byLogarithm_nothingLost(t *testing.T) {
	bins := Bins([]Bin{{From: 0, N: 1}, {From: 10, N: 2}, {From: 10.5, N: 3}, {From: 11, N: 0}, {From: 1000, N: 4}})
	if len(bins) != 3 || bins[1].N != 5 || bins[2].N != 4 {
		t.Fatalf("%v", bins)
	}
	for i, b := range bins {
		if math.Abs(b.To/b.From-math.Pow(10, 0.05)) > 1e-9 || i > 0 && b.From < bins[i-1].To {
			t.Errorf("bin %d: %v", i, b)
		}
	}
}
