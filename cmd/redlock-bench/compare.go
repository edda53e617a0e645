// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/compare"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/text"
)

const compareHelp = `usage: redlock-bench compare [--flag value ...] OLD NEW

OLD and NEW are files that --json wrote. A file may have the results of any
number of runs, one after the other. One run says little; measure two builds in
turns, so that the machine is the same for both:

  for i in 1 2 3 4 5 6 7 8 9 10; do
    ./old latency --json - >>old.json; ./new latency --json - >>new.json
  done
  redlock-bench compare old.json new.json

  old, new   the median of all runs
  interval   where the median of all runs that could be made lies, with the
             --confidence; it needs six runs for 0.95
  change     of the medians, where p is below 0.05; else ~, for that is noise.
             "from 0" where the old median is 0
  p          that noise alone makes such a difference: the Mann-Whitney U test,
             which assumes nothing of how runs are distributed. Of twenty rows
             that did not change one is below 0.05.

If each file has one run, rates are compared turn by turn: marked with *.

Notes say what went wrong in the runs: errors, leases that were lost, two
holders of a lock at once. The exit code is 1 if there were two holders.
`

// comparison compares what was measured before with what was measured after.
type comparison struct {
	confidence float64
	old, new   string // files
}

func (c *comparison) define(fs *flag.FlagSet) {
	fs.Float64Var(&c.confidence, "confidence", 0.95, "`SHARE` of intervals that are right")
}

// operands takes the two files.
func (c *comparison) operands(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want two files, OLD and NEW, after the flags: there are %d", len(args))
	}
	c.old, c.new = args[0], args[1]
	return nil
}

func (c *comparison) check() error {
	if !(c.confidence >= 0.5 && c.confidence < 1) { // nor is NaN
		return fmt.Errorf("--confidence %v: want 0.5 or more, and less than 1", c.confidence)
	}
	return nil
}

func (c *comparison) run(_ context.Context, o output) error {
	before, err := readResults(c.old)
	after, err2 := readResults(c.new)
	switch {
	case err != nil && err2 != nil && c.old != c.new:
		return usageError{fmt.Errorf("%w; %w", err, err2)}
	case err != nil || err2 != nil:
		return usageError{cmp.Or(err, err2)}
	}
	cells, notes := compare.Compare(before, after, c.confidence)
	r := &report{table: o.out}
	r.runs("old", c.old, before)
	r.runs("new", c.new, after)
	for _, cell := range cells {
		r.comparison(cell)
	}
	if len(notes) > 0 {
		r.line("")
	}
	for _, note := range notes {
		text.Paragraph(o.out, "note", note)
	}
	if compare.Overlaps(before)+compare.Overlaps(after) > 0 {
		return errViolation
	}
	if len(cells) == 0 {
		return usageError{errors.New("the two files have no cell in common")}
	}
	return nil
}

func readResults(name string) ([]*results.Result, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := results.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

func (r *report) runs(which, name string, all []*results.Result) {
	says := fmt.Sprintf("%s: %s", name, text.Plural(len(all), "run"))
	if run := all[0].Run; run != nil {
		says += fmt.Sprintf(", the first at %s", run.At.UTC().Format("2006-01-02 15:04 UTC"))
		if run.Build != "" {
			says += " by " + run.Build
		}
	}
	text.Paragraph(r.table, which, says)
}

const comparisonLine = "%-13s%8s%18s%8s%18s%8s%7s"

func (r *report) comparison(c compare.Cell) {
	r.line("")
	r.line("%s", c.Name)
	r.line(comparisonLine, "", "old", "interval", "new", "interval", "change", "p")
	for _, row := range c.Rows {
		change, p, mark := "~", fmt.Sprintf("%.3f", row.P), ""
		if row.Differs() {
			change = fmt.Sprintf("%+.1f%%", 100*row.Change())
			if math.IsInf(row.Change(), 0) {
				change = "from 0"
			}
		}
		if row.P < 0.0005 {
			p = "<0.001"
		}
		if row.Old.N+row.New.N == 2 {
			p = "" // of two values nothing can be said
		}
		if row.Turns {
			mark = "*"
		}
		r.line(comparisonLine, row.Name+mark, text.Short(row.Old.Median), interval(row.Old), text.Short(row.New.Median), interval(row.New), change, p)
	}
}

func interval(s compare.Side) string {
	if !s.Known {
		return fmt.Sprintf("n=%d", s.N)
	}
	return text.Short(s.Low) + " - " + text.Short(s.High)
}
