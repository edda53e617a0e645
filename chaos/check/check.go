// SPDX-License-Identifier: Apache-2.0

// Package check has the checkers, which judge the history of a chaos run. Each checker answers one question; docs/chaos.md lists them. All
// runs them all, and Passed says whether the run kept its promises.
//
// The checkers exclusion and tokens are exact, in O(n log n): their verdict is Ok if and only if the recorded operations contain no
// violation. A checker cannot judge what no client recorded. So the checker effort fails a run that did too little, and if the checker
// assumptions finds a history that cannot be true, no other checker judges it.
//
// A verdict is Ok, Illegal or Unknown. Unknown means that the checker could not decide, or saw nothing that it could have judged. A run with a
// promised checker that is Unknown has not passed. What a run gives no checker to judge, its history says (history.Header.Idle).
//
// A history may be too long for the memory. Judge therefore judges it in chapters, and finds what judging the whole finds. See Chapters, and
// the interface checker for what this asks of a checker.
package check

import (
	"context"
	"fmt"
	"slices"
	"time"

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
	Promised bool   // the run fails unless Verdict is Ok; set by All
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

// Expect is what the run promises, and what it must have done.
type Expect struct {
	X bool // exclusion is promised
	T bool // tokens are promised: tokens, fenced-register and counters count; linearizable counts if X and T are set

	Heal    time.Duration // healed: how long after the last fault a lock may be unavailable
	Timeout time.Duration // linearizable: after this time in one chapter the verdict is Unknown; must be positive
	Min     Minimums      // effort: what the run must have done
}

// Expected returns what the header of h says that the run promises. Without an Expect in the header there are no Minimums, and Heal is 10 s.
func Expected(h *history.History, timeout time.Duration) Expect {
	p := h.Header.Promises
	e := Expect{X: p.Exclusion, T: p.Tokens, Heal: 10 * time.Second, Timeout: timeout}
	if more := h.Header.Expect; more != nil {
		e.Heal, e.Min = more.Heal, more.Min
	}
	return e
}

// All runs every checker on a history in memory. See Judge.
func All(h *history.History, e Expect) []Result {
	rs, _, _ := Judge(context.Background(), history.Whole(h), e, max(1, len(h.Ops))) // a history in memory can be read
	return rs
}

// promises reports whether the verdict of a checker counts. The records that some checkers need are newer than some histories: a history
// without an Expect in its header need not have them. That a checker is idle excuses tokens, registers and counters from having seen something, and
// not what was found in them.
func (e Expect) promises(h history.Header, r Result) bool {
	idle := slices.Contains(h.Idle, r.ID)
	switch r.ID {
	case "exclusion":
		return e.X
	case "tokens", "fenced-register", "counters":
		return e.T && (!idle || r.Verdict == Illegal)
	case "linearizable":
		return e.X && e.T
	case "unfenced-register":
		return false
	case "left-behind", "signals", "resources", "refusals":
		return !idle && (h.Expect != nil || r.Observed > 0)
	case "availability", "queue-order": // a busy machine, or a run without a quiet moment, is no fault of the lock
		return !idle && r.Observed > 0
	}
	return true
}

// Passed reports whether every promise was kept: there are results, and each promised one is Ok.
func Passed(rs []Result) bool {
	for _, r := range rs {
		if r.Promised && r.Verdict != Ok {
			return false
		}
	}
	return len(rs) > 0
}

// conclude sets the verdict from the violations. The summary is held if there are none, and otherwise their number and the first.
func (r Result) conclude(held string) Result {
	r.Verdict, r.Summary = Ok, held
	if n := len(r.Violations) + r.More; n > 0 {
		r.Verdict, r.Summary = Illegal, fmt.Sprintf("%d found; the first: %s", n, r.Violations[0].Text)
	}
	return r
}

// observed is conclude for a verdict that rests on n observations. If there are none the verdict is Unknown.
func (r Result) observed(held string, n int) Result {
	r.Observed = n
	r = r.conclude(held)
	if r.Verdict == Ok && n == 0 {
		r.Verdict, r.Summary = Unknown, "Nothing was there to be judged."
	}
	return r
}

// name describes an operation in texts. It says enough to find the line of the operation in the history.
func name(op history.Op) string {
	s := fmt.Sprintf("%s of %q by %s", op.Kind, op.Lock, op.Client)
	if op.Holder != "" {
		s += " (holder " + op.Holder + ")"
	}
	return s + fmt.Sprintf(" called at %d", op.Call)
}
