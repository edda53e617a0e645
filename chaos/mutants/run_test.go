// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package mutants

import (
	"context"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/mutants"
)

func TestRun_defenceRemoved_found(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			rs, err := Run(context.Background(), name)
			if err != nil {
				t.Fatal(err)
			}
			if len(rs) != 1 || !rs[0].Found {
				t.Fatalf("%+v", rs)
			}
			t.Logf("%s finds it in run %d, under %s", rs[0].Checker, rs[0].Runs, rs[0].Nemesis)
		})
	}
}

func TestNames_everySwitch_hasASchedule(t *testing.T) {
	names := Names()
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

func TestRun_noSuchMutant_isAnError(t *testing.T) {
	if rs, err := Run(context.Background(), "same-holder", "no-such"); err == nil || rs != nil {
		t.Fatalf("%v, %v", rs, err)
	}
}

func TestRun_cancelled_stops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if rs, err := Run(ctx); err == nil || len(rs) != 0 {
		t.Fatalf("%v, %v", rs, err)
	}
}
