// SPDX-License-Identifier: Apache-2.0

// Package judge judges the history of a chaos run. Run runs every checker, and Passed says whether the run kept its promises: each promised
// checker is Ok, and one that is Unknown is not.
//
// If the checker assumptions finds a history that cannot be true, no other checker judges it. The checker effort fails a run that did too little.
// A history of any length is judged in the memory of a chapter, and what is found is what judging the whole would find. See Chapters.
package judge

import (
	"cmp"
	"context"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/conduct"
	"github.com/redlock-go/redlock/chaos/check/digest"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/history"
)

// atEnd makes a checker of a function that judges the digest of the run.
func atEnd(d *digest.Digest, f func(*history.History) check.Result) check.Checker {
	return &endOfRun{d, f}
}

type endOfRun struct {
	d *digest.Digest
	f func(*history.History) check.Result
}

func (*endOfRun) Add(*history.History) {} // the digest is given the chapters by itself

func (c *endOfRun) Result() check.Result { return c.f(c.d.History()) }

// Run runs every checker on the history of src, in chapters of about size operations, and returns the results in the order of
// docs/chaos.md. If the history cannot be true, the result of the checker assumptions is the only one: no other verdict would mean anything.
// It needs memory for a chapter and a digest of the run, and not for the whole history. If ctx ends, Run returns its error, after the chapter
// or the piece of one that porcupine is at.
func Run(ctx context.Context, src history.Source, e Expect, size int) ([]check.Result, *Tally, error) {
	d := digest.New(src.Run())
	sane, did := safety.Assumptions(), &effort{least: e.Min}
	fenced, plain, porcupine := safety.FencedRegister(), safety.UnfencedRegister(), safety.Linearizable(ctx, e.Timeout)
	cs := []check.Checker{
		safety.Exclusion(), safety.Tokens(), fenced, plain, porcupine, safety.Counters(),
		atEnd(d, func(h *history.History) check.Result { return digest.Healed(h, e.Heal) }), did,
		conduct.LeftBehind(), conduct.Signals(), conduct.QueueOrder(), atEnd(d, digest.Availability), atEnd(d, digest.Resources), conduct.Refusals(), atEnd(d, digest.Harness),
	}
	for h, err := range Chapters(src, size) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, nil, err
		}
		sane.Add(h)
		d.Add(h)
		for _, c := range cs {
			if c != porcupine || sane.Result().Verdict == check.Ok { // porcupine relies on a history that can be true
				c.Add(h)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	t := &Tally{Digest: d.History(), Acquisitions: did.acquired, UnderFaults: did.disturbed, Fenced: fenced.Updates(), Unfenced: plain.Updates(),
		Suspended: check.SuspendedExclusion(src.Run())}
	rs := []check.Result{sane.Result()}
	if rs[0].Verdict == check.Ok {
		for _, c := range cs {
			rs = append(rs, c.Result())
		}
	}
	header := src.Run().Header
	for i, r := range rs {
		rs[i].Promised = i == 0 || e.promises(header, r)
	}
	return rs, t, nil
}

// Tally is what a run did, for its summary.
type Tally struct {
	Digest           *history.History // Costs, Services, Recovery and GrantedShare of the digest are those of the run
	Acquisitions     int              // locks granted
	UnderFaults      int              // of these, granted while a fault was at work
	Fenced, Unfenced safety.Updates   // of the registers
	Suspended        check.Suspension // of exclusion
}
