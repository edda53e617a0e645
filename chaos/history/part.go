// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"math"
	"slices"
)

// Part says which part of a run a History covers that is a chapter: a history too long for the memory is judged in chapters, one after the
// other.
//
// A chapter answers for what happened at From or later and before To, and for nothing else: the other chapters do. What it has:
//   - Ops: every operation called in that time. Before them, the operations of earlier chapters that still matter: those of grants that
//     may still be claimed. After them, operations called after To, so that every claim that began before To can be followed to its end;
//   - Counters and Keys: those of that time;
//   - Header, Faults, Votes, Pulses, Signals, Findings, Torn, NoEnd: those of the whole run.
type Part struct {
	From, To int64 // Never: no end

	// Known is the time up to which Ops has every operation that still matters. It is not before To.
	Known int64

	RunFrom, RunTo int64 // the Extent of the whole run
}

// Beginning is the From of the first chapter.
const Beginning = math.MinInt64

// Owns reports whether h answers for what happened at t. A History that is no chapter answers for everything.
func (h *History) Owns(t int64) bool {
	return h.Part == nil || h.Part.From <= t && (t < h.Part.To || h.Part.To == Never)
}

// Own returns the operations that were called in the time that h answers for. Each operation of a run is in Own of one chapter.
func (h *History) Own() []Op {
	if h.Part == nil {
		return h.Ops
	}
	from, _ := slices.BinarySearchFunc(h.Ops, h.Part.From, func(op Op, t int64) int { return cmp.Compare(op.Call, t) })
	to := len(h.Ops)
	if h.Part.To != Never {
		to, _ = slices.BinarySearchFunc(h.Ops, h.Part.To, func(op Op, t int64) int { return cmp.Compare(op.Call, t) })
	}
	return h.Ops[from:to]
}
