// SPDX-License-Identifier: Apache-2.0

//go:build zoo

package zoo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/internal/zoo"
)

// Result is what became of one bug.
type Result struct {
	Bug     string `json:"bug"`     // the switch that takes its defence away
	Nemesis string `json:"nemesis"` // N1..N25
	Checker string `json:"checker"` // C1..C8, that has to find it
	Runs    int    `json:"runs"`    // until it was found, or in which it was not
	Found   bool   `json:"found"`
}

// Names are the bugs there are.
func Names() []string {
	var names []string
	for _, b := range bugs() {
		names = append(names, b.name)
	}
	return names
}

// Run looks for the bugs named, or for all, each until it is found or its stated number of runs is over. Before that it plays the
// same schedule with every defence in place. The error is about these: what the sound lock did wrong, a name that is no bug's, or ctx's.
// Results come with an error too: those of the bugs looked for by then.
//
// Not for concurrent use, nor beside open clients: switches are the process's.
func Run(ctx context.Context, names ...string) ([]Result, error) {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("zoo: no bug %q", name)
		}
	}
	results := []Result{}
	for _, b := range bugs() {
		if len(names) > 0 && !slices.Contains(names, b.name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return results, err
		}
		if err := b.control(1); err != nil {
			return results, err
		}
		r, err := b.hunt()
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

// hunt runs the schedule with the defence taken away.
func (b bug) hunt() (Result, error) {
	r := Result{Bug: b.name, Nemesis: b.nemesis, Checker: b.checker}
	if err := zoo.Set(b.name); err != nil {
		return r, err
	}
	defer func() { _ = zoo.Set("") }()
	for !r.Found && r.Runs < b.within {
		r.Runs++
		checks, err := b.run(uint64(r.Runs))
		if err != nil {
			return r, fmt.Errorf("%s, run %d: %w", b.name, r.Runs, err)
		}
		r.Found = slices.ContainsFunc(checks, func(c check.Result) bool { return c.ID == b.checker && c.Verdict == check.Illegal })
	}
	return r, nil
}

// Table writes results for people.
func Table(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "bug\tnemesis\tchecker\truns\tfound")
	for _, r := range results {
		found := "yes"
		if !r.Found {
			found = "NO"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", r.Bug, r.Nemesis, r.Checker, r.Runs, found)
	}
	return t.Flush()
}
