// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package mutants

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/internal/mutants"
)

// Result says whether the checkers found one mutant.
type Result struct {
	Mutant  string `json:"mutant"`  // the name of the switch that takes the defence away
	Nemesis string `json:"nemesis"` // the nemesis that the schedule plays
	Checker string `json:"checker"` // the checker that must find the mutant
	Runs    int    `json:"runs"`    // how many runs were played
	Found   bool   `json:"found"`   // in the last of them the checker found the mutant
}

// Names returns the names of all mutants.
func Names() []string {
	var names []string
	for _, m := range all() {
		names = append(names, m.name)
	}
	return names
}

// Run plays the schedules of the named mutants, or of all. It plays each first with every defence in place, and then without one defence
// until the checker finds the mutant or the stated number of runs is over.
//
// Run returns an error if the lock with every defence breaks a promise, if no mutant has one of the names, or if ctx ends. It then also
// returns the results that it has by then. A mutant that is not found is no error: see Result.Found.
//
// Switches belong to the process: call Run once at a time, and while no client is open.
func Run(ctx context.Context, names ...string) ([]Result, error) {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("mutants: no mutant %q", name)
		}
	}
	results := []Result{}
	for _, m := range all() {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return results, err
		}
		if err := m.control(1); err != nil {
			return results, err
		}
		r, err := m.hunt()
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

// hunt plays the schedule without the defence.
func (m mutant) hunt() (Result, error) {
	r := Result{Mutant: m.name, Nemesis: m.nemesis, Checker: m.checker}
	if err := mutants.Set(m.name); err != nil {
		return r, err
	}
	defer func() { _ = mutants.Set("") }()
	for !r.Found && r.Runs < m.within {
		r.Runs++
		checks, err := m.run(uint64(r.Runs))
		if err != nil {
			return r, fmt.Errorf("%s, run %d: %w", m.name, r.Runs, err)
		}
		r.Found = slices.ContainsFunc(checks, func(c check.Result) bool { return c.ID == m.checker && c.Verdict == check.Illegal })
	}
	return r, nil
}

// Table writes results for people.
func Table(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "mutant\tnemesis\tchecker\truns\tfound")
	for _, r := range results {
		found := "yes"
		if !r.Found {
			found = "NO"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", r.Mutant, r.Nemesis, r.Checker, r.Runs, found)
	}
	return t.Flush()
}
