// SPDX-License-Identifier: Apache-2.0

// Package walks takes the code under test through random steps, and says how to take it through
// the same steps again. The steps are those of a fuzz test: without it, `go test` would run the
// fuzz test only on the few inputs that are written down.
package walks

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Random calls walk n times, each time with an even number of random bytes, most at most. pkg is
// the folder of the test.
func Random(t *testing.T, pkg string, n, most int, walk func(t *testing.T, steps []byte)) {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("REDLOCK_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("replay: REDLOCK_SEED=%d go test -run '^%s$' %s", seed, t.Name(), pkg)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		steps := make([]byte, 2*(1+rng.IntN(most/2)))
		for i := range steps {
			steps[i] = byte(rng.Uint32())
		}
		walk(t, steps)
	}
}
