// SPDX-License-Identifier: Apache-2.0

// Package check says what a checker is: what it is given, what it answers, and how it reads a history. Each checker answers one question about a
// chaos run; docs/chaos.md lists them. Those of safety, of the digest and of conduct are packages below this one, and chaos/judge runs them all.
//
// A verdict is Ok, Illegal or Unknown. Unknown means that the checker could not decide, or saw nothing that it could have judged. What a run
// gives no checker to judge, its history says (history.Header.Idle).
//
// What several checkers read of a history is here, so that they mean the same by it: who claimed a lock from when to when (Claims), when
// exclusion was suspended (Suspension), how late the timers of a process were (Lags), and when no quorum was healthy (WithoutQuorum).
//
// A history may be too long for the memory, and is then judged in chapters. The interface Checker says what this asks of a checker.
package check

import (
	"fmt"

	"github.com/redlock-go/redlock/chaos/history"
)

// Verdict is the answer of a checker.
type Verdict string

// The verdicts.
const (
	Ok      Verdict = "ok"
	Illegal Verdict = "illegal"
	Unknown Verdict = "unknown" // the checker could not decide; the run has not passed
)

// Result is the answer of one checker.
type Result struct {
	ID       string // the name of the checker, such as "exclusion"
	Question string // what the checker asks, in plain words
	Verdict  Verdict
	Promised bool   // the run fails unless Verdict is Ok; set by judge.Run
	Summary  string // the answer in one sentence

	// Observed is how many observations the verdict rests on. If it is 0 the verdict is not Ok: a checker that saw nothing found nothing.
	Observed int

	// Violations is ordered by time. It is empty if the verdict is Ok, and may be empty if it is Unknown. More is how many others there were:
	// only the first ten thousand are kept.
	Violations []Violation
	More       int

	// Suspended is when the check was not promised, and NotJudged is what would have been a violation at another time.
	Suspended     Suspension
	NotJudged     []Violation
	MoreNotJudged int

	// Figures are counts for the report. They do not depend on the verdict.
	Figures []Figure
}

// Violation is one event that a promise excludes.
type Violation struct {
	Text     string
	Ops      []history.Op // the operations that show it; may be empty
	From, To int64        // when it happened; for exclusion, the overlap itself
}

// Figure is a named number, with its unit in the name.
type Figure struct {
	Name  string
	Value float64
}

// Conclude sets the verdict from the violations. The summary is held if there are none, and otherwise their number and the first.
func (r Result) Conclude(held string) Result {
	r.Verdict, r.Summary = Ok, held
	if n := len(r.Violations) + r.More; n > 0 {
		r.Verdict, r.Summary = Illegal, fmt.Sprintf("%d found; the first: %s", n, r.Violations[0].Text)
	}
	return r
}

// ConcludeFrom is Conclude for a verdict that rests on n observations. If there are none the verdict is Unknown.
func (r Result) ConcludeFrom(held string, n int) Result {
	r.Observed = n
	r = r.Conclude(held)
	if r.Verdict == Ok && n == 0 {
		r.Verdict, r.Summary = Unknown, "Nothing was there to be judged."
	}
	return r
}

// Name describes an operation in texts. It says enough to find the line of the operation in the history.
func Name(op history.Op) string {
	s := fmt.Sprintf("%s of %q by %s", op.Kind, op.Lock, op.Client)
	if op.Holder != "" {
		s += " (holder " + op.Holder + ")"
	}
	return s + fmt.Sprintf(" called at %d", op.Call)
}
