// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"flag"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random runs; 0 draws one")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seed returns the seed of this run and prints how to repeat it.
func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64N(1<<40) | 1
	}
	t.Logf("seed %d; repeat with: go test ./redlock/handoffmodel -run '^%s$' -seed %d", s, t.Name(), s)
	return s
}

// often is how many random runs to make: n, or many in a soak.
func often(n, many int) int {
	if needs.Now() == needs.TierSoak {
		return many
	}
	return n
}

// computes is why a test is run without the race detector, which makes it six times slower.
const computes = "one goroutine that only computes"
