// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
)

// sameFromFile writes the history of a run, reads it again, and judges it as chaos check does. The violations must be those of the run.
func sameFromFile(t testing.TB, o Outcome) {
	t.Helper()
	var b bytes.Buffer
	if err := history.Copy(&b, o.History); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read("history", &b)
	if err != nil {
		t.Fatal(err)
	}
	checks, tally, err := judge.Run(t.Context(), history.Whole(h), judge.Expected(h, time.Minute), judge.ChapterOps)
	if err != nil {
		t.Fatal(err)
	}
	again := Summarize(tally, checks)
	if !reflect.DeepEqual(again.Violations, o.Result.Violations) {
		t.Errorf("judged by its file: %v, by the run: %v", again.Violations, o.Result.Violations)
	}
}

// A run that did too little fails, and so does its file.
func TestRun_didTooLittle_fileFailsToo(t *testing.T) {
	var out Outcome
	cfg := Config{
		Driver: Sim, Duration: 2 * time.Second, Seed: 5, Nemeses: parse(t, "partition", ""), Min: &judge.Minimums{Acquisitions: 1_000_000},
		Report: func(o Outcome) error { out = o; return nil },
	}
	res, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(res.Violations, func(v Violation) bool { return v.Checker == "effort" }) {
		t.Errorf("violations %v", res.Violations)
	}
	sameFromFile(t, out)
}
