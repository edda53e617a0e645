// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/redlock-go/redlock/chaos/history"
)

// checker is a checker at work on one run. It is given the chapters of the run in their order. It must find in them what it would find if
// the whole run were one chapter.
//
// A new checker has one of three forms:
//   - It needs one operation after the other: it looks at h.Own() in each chapter, and keeps in its own fields what it has to remember. It
//     should remember little: one number for each lock, not one for each operation. tokens is an example.
//   - It needs the claims on locks: Claims(h) has every claim that overlaps one that h answers for. It reports and counts only what happened
//     at a time that h owns (history.History.Owns). exclusion is an example. If it is a function of one history, each makes it a checker.
//   - It needs the end of the run: it is a function of the digest, a small history of the whole run (Digest says what that has). healed
//     is an example. What else it needs, Digest.Add keeps.
type checker interface {
	add(h *history.History)
	result() Result
}

// judge runs c on a whole history.
func judge(c checker, h *history.History) Result {
	c.add(h)
	return c.result()
}

// mostFound bounds how many violations of one checker are kept. The others are counted.
const mostFound = 10_000

// found collects violations.
type found struct {
	violations []Violation
	more       int
}

func (f *found) report(v Violation) {
	if len(f.violations) == mostFound {
		f.more++
		return
	}
	f.violations = append(f.violations, v)
}

// both reports a violation that two operations show.
func (f *found) both(a, b history.Op, format string, args ...any) {
	f.report(Violation{
		Text: fmt.Sprintf(format, args...), Ops: []history.Op{a, b}, From: min(a.Call, b.Call), To: max(a.Return, b.Return),
	})
}

// into returns r with the violations, ordered by time.
func (f *found) into(r Result) Result {
	r.Violations, r.More = f.violations, f.more
	r.sort()
	return r
}

func (r *Result) sort() {
	slices.SortFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Text, b.Text))
	})
}

// each makes a checker of a function that judges one chapter. Observed and Figures of the chapters are added up, so a figure must be a
// number that can be added. held says what it says of them if there are no violations.
func each(f func(*history.History) Result, held func(Result) string) checker {
	return &eachChapter{f: f, held: held}
}

type eachChapter struct {
	f        func(*history.History) Result
	held     func(Result) string
	chapters int
	sum      Result
}

func (c *eachChapter) add(h *history.History) {
	r := c.f(h)
	c.chapters++
	if c.chapters == 1 {
		c.sum = r
		return
	}
	r.Observed += c.sum.Observed
	r.More += c.sum.More
	r.Violations = append(c.sum.Violations, r.Violations...)
	if n := len(r.Violations) - mostFound; n > 0 {
		r.Violations, r.More = r.Violations[:mostFound], r.More+n
	}
	for i, f := range r.Figures {
		if i < len(c.sum.Figures) && c.sum.Figures[i].Name == f.Name {
			r.Figures[i].Value += c.sum.Figures[i].Value
		}
	}
	c.sum = r
}

func (c *eachChapter) result() Result {
	if c.chapters == 1 {
		return c.sum
	}
	c.sum.sort()
	return c.sum.observed(c.held(c.sum), c.sum.Observed)
}

// atEnd makes a checker of a function that judges the digest of the run.
func atEnd(d *Digest, f func(*history.History) Result) checker { return &endOfRun{d, f} }

type endOfRun struct {
	d *Digest
	f func(*history.History) Result
}

func (*endOfRun) add(*history.History) {} // the digest is given the chapters by itself

func (c *endOfRun) result() Result { return c.f(c.d.History()) }

// Judge runs every checker on the history of src, in chapters of about size operations, and returns the results in the order of
// docs/chaos.md. If the history cannot be true, the result of the checker assumptions is the only one: no other verdict would mean anything.
// It needs memory for a chapter and a digest of the run, and not for the whole history. If ctx ends, Judge returns its error, after the chapter
// or the piece of one that porcupine is at.
func Judge(ctx context.Context, src history.Source, e Expect, size int) ([]Result, *Tally, error) {
	d := NewDigest(src.Run())
	sane, did := newAssumptions(), &effort{least: e.Min}
	plain := newRegisters(false)
	fenced, porcupine := newFencedRegister(), newLinearizable(ctx, e.Timeout)
	cs := []checker{
		&exclusion{}, newTokens(), fenced, &unfencedRegister{plain}, porcupine, &counters{lives: map[string]int32{}},
		atEnd(d, func(h *history.History) Result { return Healed(h, e.Heal) }), did,
		&leftBehind{}, each(Signals, signalsHeld), &queueOrder{}, atEnd(d, Availability), atEnd(d, Resources), each(Refusals, refusalsHeld), atEnd(d, Harness),
	}
	for h, err := range Chapters(src, size) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, nil, err
		}
		sane.add(h)
		d.Add(h)
		for _, c := range cs {
			if c != porcupine || len(sane.violations) == 0 { // porcupine relies on a history that can be true
				c.add(h)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	t := &Tally{Digest: d.History(), Acquisitions: did.acquired, UnderFaults: did.disturbed, Fenced: fenced.updates(), Unfenced: plain.updates(),
		Suspended: SuspendedExclusion(src.Run())}
	rs := []Result{sane.result()}
	if rs[0].Verdict == Ok {
		for _, c := range cs {
			rs = append(rs, c.result())
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
	Fenced, Unfenced Updates          // of the registers
	Suspended        Suspension       // of exclusion
}

// Updates counts the updates of registers that were acknowledged, and how many of these were lost.
type Updates struct{ Lost, Written int64 }
