// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// often is how many random runs to make: n, a tenth under the race detector, which has nothing to find in a single
// goroutine, and many in a soak.
func often(t *testing.T, n, many int) int {
	t.Helper()
	switch {
	case needs.InSoak(t):
		return many
	case needs.Race:
		return n / 10
	}
	return n
}
