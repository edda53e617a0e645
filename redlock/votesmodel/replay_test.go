// SPDX-License-Identifier: Apache-2.0

package votesmodel_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/quorumtest"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/redlock/votesmodel"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the first random path; 0 draws one")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seed returns the seed of this run, and logs how to repeat it.
func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64N(1<<40) | 1
	}
	t.Logf("replay: %s", replay.Command(t, "./redlock/votesmodel", "-seed", fmt.Sprint(s)))
	return s
}

// runs is how much is replayed: all short paths of so many steps, and so many random ones.
type runs struct{ short, random int }

// check replays paths, and fails at the first step that differs. reset makes the master new.
func check(t *testing.T, at votesmodel.Real, w votesmodel.World, reset func(), first uint64, n runs) {
	t.Helper()
	if quorumtest.Soak() {
		n.short, n.random = n.short+1, n.random*50
	}
	short := votesmodel.Short(w, n.short)
	steps := 0
	for i, path := range short {
		reset()
		if err := votesmodel.Replay(w, path, at); err != nil {
			t.Fatalf("short path %d: %v", i, err)
		}
		steps += len(path)
	}
	for i := range uint64(n.random) {
		path := votesmodel.Paths(w, first+i, 1, 60)[0]
		reset()
		if err := votesmodel.Replay(w, path, at); err != nil {
			t.Fatalf("path of seed %d: %v", first+i, err)
		}
		steps += len(path)
	}
	t.Logf("%d short paths, %d random ones, %d steps", len(short), n.random, steps)
}
