// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/redlock-go/redlock/chaos/history"
)

// Checker is a checker at work on one run. It is given the chapters of the run in their order. It must find in them what it would find if
// the whole run were one chapter.
//
// A new checker has one of three forms:
//   - It needs one operation after the other: it looks at h.Own() in each chapter, and keeps in its own fields what it has to remember. It
//     should remember little: one number for each lock, not one for each operation. tokens is an example.
//   - It needs the claims on locks: Claims(h) has every claim that overlaps one that h answers for. It reports and counts only what happened
//     at a time that h owns (history.History.Owns). exclusion is an example. If it is a function of one history, Each makes it a checker.
//   - It needs the end of the run: it is a function of the digest, a small history of the whole run (digest.Digest says what that has). healed
//     is an example. What else it needs, Digest.Add keeps.
type Checker interface {
	Add(h *history.History)
	Result() Result
}

// Whole runs c on a whole history.
func Whole(c Checker, h *history.History) Result {
	c.Add(h)
	return c.Result()
}

// mostFound bounds how many violations of one checker are kept. The others are counted.
const mostFound = 10_000

// Found collects violations.
type Found struct {
	Violations []Violation
	More       int
}

// Report adds a violation.
func (f *Found) Report(v Violation) {
	if len(f.Violations) == mostFound {
		f.More++
		return
	}
	f.Violations = append(f.Violations, v)
}

// Both reports a violation that two operations show.
func (f *Found) Both(a, b history.Op, format string, args ...any) {
	f.Report(Violation{
		Text: fmt.Sprintf(format, args...), Ops: []history.Op{a, b}, From: min(a.Call, b.Call), To: max(a.Return, b.Return),
	})
}

// Into returns r with the violations, ordered by time.
func (f *Found) Into(r Result) Result {
	r.Violations, r.More = f.Violations, f.More
	r.Sort()
	return r
}

// Sort orders the violations by time.
func (r *Result) Sort() {
	slices.SortFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Text, b.Text))
	})
}

// Each makes a checker of a function that judges one chapter. Observed and Figures of the chapters are added up, so a figure must be a
// number that can be added. held says what it says of them if there are no violations.
func Each(f func(*history.History) Result, held func(Result) string) Checker {
	return &eachChapter{f: f, held: held}
}

type eachChapter struct {
	f        func(*history.History) Result
	held     func(Result) string
	chapters int
	sum      Result
}

func (c *eachChapter) Add(h *history.History) {
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

func (c *eachChapter) Result() Result {
	if c.chapters == 1 {
		return c.sum
	}
	c.sum.Sort()
	return c.sum.ConcludeFrom(c.held(c.sum), c.sum.Observed)
}
