// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"testing"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/internal/needs"
)

func TestFailover_lostWithoutRecovery_keptWithIt(t *testing.T) {
	needs.NoRace(t, aboutTime)
	needs.Test(t) // mostly waits
	for _, d := range []cluster.Driver{cluster.Process, cluster.Docker} {
		t.Run(string(d), func(t *testing.T) {
			if d == cluster.Docker {
				needs.Docker(t)
			}
			needs.Redis(t)
			t.Parallel() // it is mostly waiting for leases to end
			res, h, checks, err := Failover(t.Context(), FailoverConfig{Driver: d, Out: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(res)
			want := FailoverResult{Single: FailoverCount{2, 1}, QuorumForgetful: FailoverCount{2, 1},
				SingleRecovering: FailoverCount{2, 0}, Quorum: FailoverCount{2, 0}}
			if *res != want || !res.Shown() || !res.Held() {
				t.Errorf("got %+v, want %+v", *res, want)
			}
			if !check.Passed(checks) {
				t.Errorf("a promise was not kept: %+v", checks)
			}
			if len(h.Faults) != 4 || checks[0].ID != "assumptions" || checks[0].Verdict != "ok" {
				t.Errorf("%d faults on record and %s %s, want 4 and assumptions ok", len(h.Faults), checks[0].ID, checks[0].Summary)
			}
		})
	}
}
