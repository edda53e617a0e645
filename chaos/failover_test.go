// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/redlock"
)

func TestFailover_lostWithoutRecovery_keptWithIt(t *testing.T) {
	needs.NoRace(t, aboutTime)
	needs.Test(t) // mostly waits
	t.Parallel()
	for _, d := range []cluster.Driver{cluster.Process, cluster.Docker} {
		t.Run(string(d), func(t *testing.T) {
			if d == cluster.Docker {
				needs.Docker(t)
			}
			needs.Redis(t)
			t.Parallel() // it is mostly waiting for leases to end
			// The second client must be granted the lock while the first one has it: the rest of the TTL is for a kill, a promotion and a connection.
			stall.Try(t, 500*time.Millisecond, func(try testing.TB) { lostWithoutRecovery(t, try, d) })
		})
	}
}

func lostWithoutRecovery(t *testing.T, try testing.TB, d cluster.Driver) {
	res, h, checks, err := Failover(try.Context(), FailoverConfig{Driver: d, Out: t.Output()})
	if res == nil {
		try.Fatal(err)
	}
	t.Log(res)
	broken := func(r check.Result) bool { return r.Promised && r.Verdict == check.Illegal }
	if !res.Held() || slices.ContainsFunc(checks, broken) { // no stall excuses that
		t.Errorf("a promise was not kept: %+v", checks)
	}
	if err != nil {
		try.Fatal(err)
	}
	if len(h.Faults) != 4 || checks[0].ID != "assumptions" || checks[0].Verdict != "ok" {
		t.Errorf("%d faults on record and %s %s, want 4 and assumptions ok", len(h.Faults), checks[0].ID, checks[0].Summary)
	}
	want := FailoverResult{Single: FailoverCount{2, 1}, QuorumForgetful: FailoverCount{2, 1},
		SingleRecovering: FailoverCount{2, 0}, Quorum: FailoverCount{2, 0}}
	if *res != want || !res.Shown() || !judge.Passed(checks) {
		try.Errorf("got %+v, want %+v: %+v", *res, want, checks)
	}
}

// A master that is silent for a moment when the first client asks for the lock does not end the experiment. Any other error does.
func TestHold_unreachable_asksAgain(t *testing.T) {
	var record bytes.Buffer
	w, err := history.NewWriter(&record, history.Header{Masters: 1, TTL: failoverTTL})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	held := hold(t.Context(), workload.NewRecorder(w, "first"), "single", func(context.Context) (*redlock.Lease, error) {
		if asked++; asked < 3 {
			return nil, fmt.Errorf("a round: %w", redlock.ErrUnreachable)
		}
		return nil, redlock.ErrRefused
	})
	if held != nil || asked != 3 {
		t.Errorf("asked %d times, want 3, and holds %v", asked, held)
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
		if !errors.Is(err, broke) || (res != nil) != broken || (h != nil) != broken || broken && judge.Passed(checks) {
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
