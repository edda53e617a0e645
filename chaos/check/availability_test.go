// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// served is a run of 30 s on three masters, with a fault on m1 from second 5 to 15. The service lock is granted each 50 ms, but from outage
// until back. The masters are looked at five times a second; m1 does not vote under the fault.
func served(outage, back time.Duration) *history.History {
	h := &history.History{Header: history.Header{Masters: 3, TTL: time.Second, Expect: &history.Expect{Floors: map[string]float64{"kill-minority": 0.95}}}}
	at := func(d time.Duration) int64 { return int64(time.Hour + d) }
	h.Faults = []history.Fault{{Nemesis: "kill-minority", Start: at(5 * time.Second), End: at(15 * time.Second), Targets: []string{"m1"}}}
	for d := time.Duration(0); d <= 30*time.Second; d += 50 * time.Millisecond {
		op := history.Op{Kind: history.KindService, Client: "harness.service", Lock: "service", Call: at(d), Return: at(d + time.Millisecond), Outcome: history.OK}
		if d >= outage && d < back {
			op.Outcome = history.Failed
		}
		h.Ops = append(h.Ops, op)
		if d%(200*time.Millisecond) == 0 {
			for _, m := range []string{"m1", "m2", "m3"} {
				v := history.Vote{Node: m, Call: at(d), Return: at(d + time.Millisecond), Outcome: history.OK}
				if m == "m1" && d >= 5*time.Second && d < 15*time.Second {
					v.Outcome = history.Unknown
				}
				h.Votes = append(h.Votes, v)
			}
		}
		if d%(500*time.Millisecond) == 0 {
			h.Pulses = append(h.Pulses, history.Pulse{Process: "harness", At: at(d)})
		}
	}
	return h
}

func TestAvailability_belowTheFloor_illegal(t *testing.T) {
	second := time.Second
	for name, test := range map[string]struct {
		h    *history.History
		want Verdict
	}{
		"always granted":                 {served(0, 0), Ok},
		"one window of forty missed":     {served(8*second, 8*second+300*time.Millisecond), Ok},
		"a second missed":                {served(8*second, 9*second), Illegal},
		"a moment without a fault":       {served(20*second, 20*second+300*time.Millisecond), Ok},
		"too many quiet windows missed":  {served(16*second, 24*second), Unknown},
		"no quorum when it was missed":   {with(served(8*second, 9*second), func(h *history.History) { h.Faults = append(h.Faults, other(h, "m2", 7*second, 10*second)) }), Ok},
		"a master that did not answer":   {with(served(8*second, 9*second), func(h *history.History) { silence(h, "m3", 7*second, 10*second) }), Ok},
		"the harness was late just then": {with(served(8*second, 9*second), func(h *history.History) { slowHarness(h, 8*second, 9*second) }), Ok},
		"the harness was always late":    {with(served(8*second, 9*second), func(h *history.History) { slowHarness(h, 16*second, 30*second) }), Unknown},
		"too short":                      {with(served(5*second, 9*second), func(h *history.History) { h.Faults[0].End = h.Faults[0].Start + int64(4*second) }), Unknown},
		"no floor":                       {with(served(5*second, 9*second), func(h *history.History) { h.Header.Expect = nil }), Unknown},
	} {
		if r := Availability(test.h); r.Verdict != test.want {
			t.Errorf("%s: %s, want %s: %s", name, r.Verdict, test.want, r.Summary)
		}
	}
	r := Availability(served(8*second, 9*second))
	if want := "kill-minority: the lock was granted in 90 % of 41 quarters"; len(r.Violations) != 1 || !strings.Contains(r.Violations[0].Text, want) {
		t.Errorf("%+v, want %q", r.Violations, want)
	}
}

func with(h *history.History, change func(h *history.History)) *history.History {
	change(h)
	return h
}

// other is a fault of another nemesis on a master.
func other(h *history.History, node string, from, to time.Duration) history.Fault {
	begin := h.Ops[0].Call
	return history.Fault{Nemesis: "fill-memory", Start: begin + int64(from), End: begin + int64(to), Targets: []string{node}}
}

// silence lets the looks at a master find no answer.
func silence(h *history.History, node string, from, to time.Duration) {
	begin := h.Ops[0].Call
	for i, v := range h.Votes {
		if v.Node == node && v.Call >= begin+int64(from) && v.Call <= begin+int64(to) {
			h.Votes[i].Outcome = history.Unknown
		}
	}
}

// slowHarness makes the timers of the harness late.
func slowHarness(h *history.History, from, to time.Duration) {
	begin := h.Ops[0].Call
	for i, p := range h.Pulses {
		if p.At > begin+int64(from) && p.At <= begin+int64(to+500*time.Millisecond) {
			h.Pulses[i].Lag = busyLag
		}
	}
}
