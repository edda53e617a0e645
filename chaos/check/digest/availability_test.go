// SPDX-License-Identifier: Apache-2.0

package digest

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		want check.Verdict
	}{
		"always granted":                 {served(0, 0), check.Ok},
		"one window of forty missed":     {served(8*second, 8*second+300*time.Millisecond), check.Ok},
		"a second missed":                {served(8*second, 9*second), check.Illegal},
		"a moment without a fault":       {served(20*second, 20*second+300*time.Millisecond), check.Ok},
		"too many quiet windows missed":  {served(16*second, 24*second), check.Unknown},
		"no quorum when it was missed":   {with(served(8*second, 9*second), func(h *history.History) { h.Faults = append(h.Faults, other(h, "m2", 7*second, 10*second)) }), check.Ok},
		"a master that did not answer":   {with(served(8*second, 9*second), func(h *history.History) { silence(h, "m3", 7*second, 10*second) }), check.Ok},
		"the harness was late just then": {with(served(8*second, 9*second), func(h *history.History) { slowHarness(h, 8*second, 9*second) }), check.Ok},
		"the harness was always late":    {with(served(8*second, 9*second), func(h *history.History) { slowHarness(h, 16*second, 30*second) }), check.Unknown},
		"too short":                      {with(served(5*second, 9*second), func(h *history.History) { h.Faults[0].End = h.Faults[0].Start + int64(4*second) }), check.Unknown},
		"no floor":                       {with(served(5*second, 9*second), func(h *history.History) { h.Header.Expect = nil }), check.Unknown},
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

// Services and Costs count windows from spans of time. One window after the other gives the same.
func TestServicesAndCosts_randomHistories_asWindowByWindow(t *testing.T) {
	replay.Each(t, windowByWindow)
}

func windowByWindow(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	for range 300 {
		h := served(0, 0)
		begin, end := h.Ops[0].Call, h.Ops[len(h.Ops)-1].Call
		at := func() int64 { // often at the edge of a window
			if t := begin - int64(time.Second) + r.Int64N(end-begin+2*int64(time.Second)); r.IntN(2) == 0 {
				return t
			} else {
				return t - t%costWindow
			}
		}
		h.Faults = nil
		for range r.IntN(6) {
			f := history.Fault{Nemesis: []string{"kill-minority", "partition", "three-at-once"}[r.IntN(3)], Start: at(), Targets: []string{"m1", "m2", "m3"}[:r.IntN(4)]}
			f.End = []int64{f.Start + r.Int64N(int64(5*time.Second)), f.Start, max(f.Start, at()), history.Never}[r.IntN(4)]
			if r.IntN(5) == 0 {
				f.Error = "not applied"
			}
			h.Faults = append(h.Faults, f)
		}
		slices.SortFunc(h.Faults, func(a, b history.Fault) int { return cmp.Compare(a.Start, b.Start) })
		for i := range h.Ops {
			if r.IntN(3) == 0 {
				h.Ops[i].Outcome = history.Failed
			}
			if r.IntN(2) == 0 {
				h.Ops[i].Kind = history.KindProbe
			}
		}
		for i := range h.Pulses {
			if r.IntN(4) == 0 {
				h.Pulses[i].Lag = busyLag
			}
		}
		h.Pulses = h.Pulses[r.IntN(20):]
		h.Pulses = h.Pulses[:r.IntN(len(h.Pulses)+1)]
		by, quiet := Services(h)
		wantBy, wantQuiet := servicesByWindow(h)
		if !reflect.DeepEqual(by, wantBy) || quiet != wantQuiet {
			t.Fatalf("%+v: services %+v and %+v, want %+v and %+v", h.Faults, by, quiet, wantBy, wantQuiet)
		}
		for name, c := range Costs(h) {
			if all, granted := costByWindow(h, name); c.Windows != all || c.Granted != granted {
				t.Fatalf("%+v: %s cost %d of %d windows, want %d of %d", h.Faults, name, c.Granted, c.Windows, granted, all)
			}
		}
	}
}

func costByWindow(h *history.History, nemesis string) (all, granted int) {
	windows := map[int64]bool{}
	for _, f := range h.Faults {
		for w := f.Start / costWindow; f.Nemesis == nemesis && f.Error == "" && f.End != history.Never && w <= f.End/costWindow; w++ {
			windows[w] = true
		}
	}
	for _, t := range grantTimes(h) {
		if windows[t/costWindow] {
			delete(windows, t/costWindow)
			all++
			granted++
		}
	}
	return all + len(windows), granted
}

func servicesByWindow(h *history.History) (by map[string]*Service, quiet Service) {
	by = map[string]*Service{}
	grants := map[int64]bool{}
	first, last := int64(history.Never), int64(0)
	for _, op := range h.Ops {
		if op.Kind == history.KindService {
			first, last = min(first, op.Call), max(last, op.Call)
			if op.Outcome == history.OK {
				grants[op.Return/serviceWindow] = true
			}
		}
	}
	sick, l := check.WithoutQuorum(h), check.LagsOf(h)
	count := func(s *Service, w int64) {
		from, to := w*serviceWindow, (w+1)*serviceWindow
		if from < first || to > last || sick.Meets(from, to) || l.Worst("harness", from, to) >= busyLag {
			return
		}
		s.Windows++
		if grants[w] {
			s.Granted++
		}
	}
	var all []check.Span
	seen := map[string]map[int64]bool{}
	for _, f := range h.Faults {
		all = append(all, check.Span{From: f.Start, To: f.End})
		if f.Error != "" {
			continue
		}
		if by[f.Nemesis] == nil {
			by[f.Nemesis], seen[f.Nemesis] = &Service{}, map[int64]bool{}
		}
		for w := f.Start / serviceWindow; w <= min(f.End, last)/serviceWindow; w++ {
			if !seen[f.Nemesis][w] {
				count(by[f.Nemesis], w)
			}
			seen[f.Nemesis][w] = true
		}
	}
	at := check.Union(all)
	for w := first/serviceWindow + 1; w < last/serviceWindow; w++ {
		if !at.Meets(w*serviceWindow, (w+1)*serviceWindow) {
			count(&quiet, w)
		}
	}
	return by, quiet
}

// A history may say that a fault lasted for years, and that the harness watched for as long. It is judged at once, and needs no memory for them.
func TestServicesAndCosts_years_atOnce(t *testing.T) {
	const years = int64(4e18)
	h := &history.History{Header: history.Header{Masters: 3, TTL: time.Second}}
	h.Faults = []history.Fault{{Nemesis: "partition", Start: 1, End: years}, {Nemesis: "administer", Start: years, End: years}}
	for _, at := range []int64{1, years} {
		h.Ops = append(h.Ops, history.Op{Kind: history.KindService, Call: at, Return: at, Outcome: history.OK}, history.Op{Kind: history.KindProbe, Call: at, Return: at, Outcome: history.OK})
		h.Pulses = append(h.Pulses, history.Pulse{Process: "harness", At: at})
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		if c := Costs(h)["partition"]; int64(c.Windows) != years/costWindow+1 || c.Granted != 2 {
			t.Errorf("%+v", c)
		}
		if by, quiet := Services(h); int64(by["partition"].Windows) != years/serviceWindow-1 || quiet.Windows != 0 {
			t.Errorf("%+v, %+v", by["partition"], quiet)
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("it takes a step for each window")
	}
}
