// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/redlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixed redlock.Stats

func (f fixed) Stats() redlock.Stats { return redlock.Stats(f) }

func TestCollector(t *testing.T) {
	c := NewCollector(fixed{Rounds: 9, Granted: 7, SecondRounds: 2, Extends: 40, Lost: 1, Held: 3, Recovering: 1},
		prometheus.Labels{"client": "a"})
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	want := `
# HELP redlock_grants_total Acquire rounds that gave a lease.
# TYPE redlock_grants_total counter
redlock_grants_total{client="a"} 7
# HELP redlock_leases_held Leases held now.
# TYPE redlock_leases_held gauge
redlock_leases_held{client="a"} 3
# HELP redlock_second_rounds_total Acquire rounds that needed a second round trip for the token.
# TYPE redlock_second_rounds_total counter
redlock_second_rounds_total{client="a"} 2
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want),
		"redlock_grants_total", "redlock_leases_held", "redlock_second_rounds_total"); err != nil {
		t.Error(err)
	}
}
