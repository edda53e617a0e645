// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package mutants

import (
	"slices"
	"testing"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/internal/mutants"
)

// Each schedule is played first with every defence in place, and then without one defence until the checker finds the mutant or the stated
// number of runs is over. Switches belong to the process, so no two of these run at once.
func TestRun_defenceRemoved_found(t *testing.T) {
	for _, m := range all() {
		t.Run(m.name, func(t *testing.T) {
			if err := m.control(t, 1); err != nil {
				t.Fatal(err)
			}
			runs, found, err := m.hunt(t)
			if err != nil {
				t.Fatalf("run %d: %v", runs, err)
			}
			if !found {
				t.Fatalf("%s does not find it in %d runs, under %s", m.checker, runs, m.nemesis)
			}
			t.Logf("%s finds it in run %d, under %s", m.checker, runs, m.nemesis)
		})
	}
}

// hunt plays the schedule without the defence. It says in how many runs, and whether the checker found the mutant in the last of them.
func (m mutant) hunt(t *testing.T) (runs int, found bool, err error) {
	if err := mutants.Set(m.name); err != nil {
		return 0, false, err
	}
	defer func() { _ = mutants.Set("") }()
	for !found && runs < m.within {
		runs++
		checks, err := m.run(t, uint64(runs))
		if err != nil {
			return runs, false, err
		}
		found = slices.ContainsFunc(checks, func(c check.Result) bool { return c.ID == m.checker && c.Verdict == check.Illegal })
	}
	return runs, found, nil
}

func TestNames_everySwitch_hasASchedule(t *testing.T) {
	var names []string
	for _, m := range all() {
		names = append(names, m.name)
	}
	slices.Sort(names)
	if !slices.Equal(names, mutants.Names()) {
		t.Fatalf("schedules for %v, switches %v", names, mutants.Names())
	}
}

// The counter-test of TestBuild_withoutTheTag: a build with the tag has the switches.
func TestBuild_withTheTag_holdsTheSwitches(t *testing.T) {
	if len(mutantSymbols(t, "mutants")) == 0 {
		t.Fatal("no symbol of mutants in a build with their tag")
	}
}
