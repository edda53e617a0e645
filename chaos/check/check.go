// SPDX-License-Identifier: Apache-2.0

// Package check judges the history of a chaos run: one checker for each thing that must hold (docs/safety.md 5.5, C1 to C8).
//
// Guarantee: C1 (no two claims on a lock overlap) and C2 (fencing tokens) are exact, in O(n log n): Ok means that the recorded
// operations contain no violation. It says nothing of what no client recorded, so C8 fails a run that did too little to
// mean anything, and C0 refuses to judge a history that cannot be true.
//
// A verdict is never a bool. What could not be decided is Unknown, and a run with an Unknown has not passed.
package check

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Verdict is the answer of a checker.
type Verdict string

// The verdicts.
const (
	Ok      Verdict = "ok"
	Illegal Verdict = "illegal"
	Unknown Verdict = "unknown" // not decided: not a pass
)

// Result is what one checker found.
type Result struct {
	ID       string  // "C1"
	Question string  // what was asked, in plain words
	Verdict  Verdict // the answer
	Promised bool    // the run fails unless Verdict is Ok; set by All
	Summary  string  // the answer in one sentence

	// Violations is everything found, ordered by time; empty if the verdict is Ok. An Unknown may have none.
	Violations []Violation

	// Figures are counts worth publishing, whatever the verdict.
	Figures []Figure
}

// Violation is one thing that must not happen.
type Violation struct {
	Text     string
	Ops      []history.Op // the operations that show it; none if it is not about operations
	From, To int64        // when: for C1 the overlap itself
}

// Figure is a named number, with its unit in the name.
type Figure struct {
	Name  string
	Value float64
}

// Expect is what a run was supposed to do and to withstand.
type Expect struct {
	X bool // the run's faults must not break mutual exclusion: C1 counts
	T bool // they must not break fencing tokens: C2, C3 and C6 count; C5 counts when both do

	Heal    time.Duration // C7: within so much after the last fault every lock can be taken
	Timeout time.Duration // C5: give up, as Unknown, after so long; must be positive
	Min     Minimums      // C8
}

// All runs every checker, in order. If the history cannot be true (C0), that is the only result: no other verdict would mean
// anything.
func All(h *history.History, e Expect) []Result {
	sane := Assumptions(h)
	sane.Promised = true
	if sane.Verdict != Ok {
		return []Result{sane}
	}
	rs := []Result{
		sane, Exclusion(h), Tokens(h), FencedRegister(h), UnfencedRegister(h), Linearizable(h, e.Timeout), Counters(h), Healed(h, e.Heal), Effort(h, e.Min),
	}
	promised := map[string]bool{"C0": true, "C1": e.X, "C2": e.T, "C3": e.T, "C4": false, "C5": e.X && e.T, "C6": e.T, "C7": true, "C8": true}
	for i := range rs {
		rs[i].Promised = promised[rs[i].ID]
	}
	return rs
}

// Passed tells whether every promise was kept: there are results, and each promised one is Ok.
func Passed(rs []Result) bool {
	for _, r := range rs {
		if r.Promised && r.Verdict != Ok {
			return false
		}
	}
	return len(rs) > 0
}

// conclude sets the verdict from the violations, and says either what held or how much did not.
func (r Result) conclude(held string) Result {
	r.Verdict, r.Summary = Ok, held
	if n := len(r.Violations); n > 0 {
		r.Verdict, r.Summary = Illegal, fmt.Sprintf("%d found; the first: %s", n, r.Violations[0].Text)
	}
	return r
}

// name is how an operation is named in texts: enough to find its line in the history.
func name(op history.Op) string {
	s := fmt.Sprintf("%s of %q by %s", op.Kind, op.Lock, op.Client)
	if op.Holder != "" {
		s += " (holder " + op.Holder + ")"
	}
	return s + fmt.Sprintf(" called at %d", op.Call)
}
