// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// often is how many random runs to make: n, or many in a soak.
func often(t *testing.T, n, many int) int {
	t.Helper()
	if needs.InSoak(t) {
		return many
	}
	return n
}

// computes is why a test is run without the race detector, which makes it six times slower.
const computes = "one goroutine that only computes"
