// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/redlock-go/redlock/chaos/history"

// Harness is the checker harness: the harness itself found nothing wrong. It reports each history.Finding, for example a client that crashed
// or a fault that could not be ended, so that a judgement of the file fails as the run did. Those of the checker effort are left to that.
//
// It judges the digest of the run.
func Harness(h *history.History) Result {
	r := Result{ID: "harness", Question: "Did the run come to its end, and did nothing in it crash or hang?"}
	for _, f := range h.Findings {
		if f.Checker != "effort" {
			r.Violations = append(r.Violations, Violation{Text: f.Detail, From: f.At, To: f.At})
		}
	}
	r.Observed = 1 // a run that ended is an observation
	return r.conclude("Yes.")
}

// Refusals is the checker refusals: no client with wrong settings, for example another list of masters, was granted a lock. A client that
// found no quorum of masters was not refused and is not counted.
//
// A chapter is judged by its own operations.
func Refusals(h *history.History) Result {
	r := Result{ID: "refusals", Question: "Was a client that must be refused ever granted a lock?"}
	refused := 0
	for _, op := range h.Own() {
		switch {
		case op.Kind != history.KindMisfit:
		case op.Outcome == history.OK:
			r.Violations = append(r.Violations, Violation{
				Text: "a client with " + op.Error + " was given a lock: " + name(op), Ops: []history.Op{op}, From: op.Call, To: op.Return,
			})
		case op.Outcome == history.Failed:
			refused++
		}
	}
	r.Figures = []Figure{{"clients refused", float64(refused)}}
	return r.observed(refusalsHeld(r), refused+len(r.Violations))
}

func refusalsHeld(Result) string { return "No: all of them were refused." }
