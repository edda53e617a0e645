// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/checktest"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The claims themselves, once more from the definition: at an instant a client claims a lock if its grant has returned, it has
// not called Unlock, and the deadline in force is still ahead.
func TestClaims_randomHistories_agreeWithDefinition(t *testing.T) {
	replay.Each(t, claimsAgree)
}

func claimsAgree(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	for range 1000 {
		h := checktest.RandomLock(r, 1+r.IntN(3))
		claims := check.Claims(h)["L"]
		for at := range int64(150) {
			for _, g := range h.Ops {
				if !checktest.Granted(g) {
					continue
				}
				got := slices.ContainsFunc(claims, func(c check.Claim) bool { return c.Grant.Holder == g.Holder && c.From <= at && at < c.To })
				if want := claimsAt(h, g, at); got != want {
					t.Fatalf("%s at %d: %v, want %v, in %+v", g.Holder, at, got, want, h.Ops)
				}
			}
		}
	}
}

// claimsAt relies on randomLock's giving a grant no unlock beside an extension.
func claimsAt(h *history.History, g history.Op, at int64) bool {
	var extends []history.Op
	for _, op := range h.Ops {
		switch {
		case op.Holder != g.Holder:
		case op.Kind == history.KindUnlock && op.Call <= at:
			return false
		case op.Kind == history.KindExtend && op.Return <= at:
			extends = append(extends, op)
		}
	}
	if len(extends) == 0 {
		return g.Return <= at && at < g.Deadline
	}
	return slices.ContainsFunc(extends, func(e history.Op) bool {
		replaced := slices.ContainsFunc(extends, func(later history.Op) bool { return later.Call > e.Return })
		return !replaced && at < e.Deadline
	})
}

// A client that is no process of the run has no Pulse. It is not taken for the process that it replaced.
func TestLags_process_ofTheClient(t *testing.T) {
	h := &history.History{}
	for _, p := range []string{"c1", "c2", "harness"} {
		h.Pulses = append(h.Pulses, history.Pulse{Process: p})
	}
	l := check.LagsOf(h)
	for client, want := range map[string]string{"c1.hot1": "c1", "c1.storm1.2": "c1", "c1.2.hot1": "", "c3.hot1": "", "harness.7": "harness", "c1": ""} {
		if got := l.Process(client); got != want {
			t.Errorf("%s: %q, want %q", client, got, want)
		}
	}
}
