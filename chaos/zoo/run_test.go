// SPDX-License-Identifier: Apache-2.0

//go:build zoo

package zoo

import (
	"context"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/zoo"
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
	if !slices.Equal(names, zoo.Names()) {
		t.Fatalf("schedules for %v, switches %v", names, zoo.Names())
	}
}

// The counter-test of TestBuild_withoutTheTag: with it the switches are there.
func TestBuild_withTheTag_holdsTheSwitches(t *testing.T) {
	if len(zooSymbols(t, "zoo")) == 0 {
		t.Fatal("no symbol of the zoo in a build with its tag")
	}
}

func TestRun_noSuchBug_isAnError(t *testing.T) {
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
