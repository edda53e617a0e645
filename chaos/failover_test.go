// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"testing"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
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

// An overlap that was seen is told, whatever became of the stages after it. Without one, nothing was shown yet.
func TestFailover_brokeOff_overlapSeenIsTold(t *testing.T) {
	broke := errors.New("the master would not die")
	for lock, broken := range map[string]bool{"quorum": true, "single": false} {
		e := &failover{}
		var err error
		if e.w, err = history.NewWriter(&e.record, history.Header{Masters: 5, TTL: failoverTTL}); err != nil {
			t.Fatal(err)
		}
		for i, client := range []string{"first", "second"} {
			n := int64(i)
			op := history.Op{Kind: history.KindLock, Client: client, Lock: lock, Mode: history.Exclusive, Holder: client, Token: 1 + n, Call: 10 * n, Return: 10*n + 5, Deadline: 100, Outcome: history.OK}
			if err := e.w.Append(op); err != nil {
				t.Fatal(err)
			}
		}
		res, h, checks, err := e.brokeOff(broke)
		if !errors.Is(err, broke) || (res != nil) != broken || (h != nil) != broken || broken && check.Passed(checks) {
			t.Fatalf("%s: %+v, %+v, %v", lock, res, checks, err)
		}
		if broken && (res.Held() || res.Quorum.Overlaps != 1) {
			t.Errorf("%s: %+v", lock, res)
		}
	}
	if res, _, _, err := (&failover{}).brokeOff(broke); res != nil || !errors.Is(err, broke) {
		t.Errorf("before the first stage: %+v, %v", res, err)
	}
}
