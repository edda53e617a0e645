// SPDX-License-Identifier: Apache-2.0

package conduct

import (
	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Refusals is the checker refusals: no client with wrong settings, for example another list of masters, was granted a lock. A client that
// found no quorum of masters was not refused and is not counted.
//
// A chapter is judged by its own operations.
func Refusals() check.Checker { return check.Each(refusals, refusalsHeld) }

func refusals(h *history.History) check.Result {
	r := check.Result{ID: "refusals", Question: "Was a client that must be refused ever granted a lock?"}
	refused := 0
	for _, op := range h.Own() {
		switch {
		case op.Kind != history.KindMisfit:
		case op.Outcome == history.OK:
			r.Violations = append(r.Violations, check.Violation{
				Text: "a client with " + op.Error + " was given a lock: " + check.Name(op), Ops: []history.Op{op}, From: op.Call, To: op.Return,
			})
		case op.Outcome == history.Failed:
			refused++
		}
	}
	r.Figures = []check.Figure{{Name: "clients refused", Value: float64(refused)}}
	return r.ConcludeFrom(refusalsHeld(r), refused+len(r.Violations))
}

func refusalsHeld(check.Result) string { return "No: all of them were refused." }
