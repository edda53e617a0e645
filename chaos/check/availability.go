// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Service says how often the harness was granted a lock that nobody else wants, while a quorum of the masters was healthy.
type Service struct {
	Windows int // quarters of a second
	Granted int // of these, how many in which the harness was granted the lock
}

// Share returns the share of the windows in which the lock was granted; 1 if there are none.
func (s Service) Share() float64 {
	if s.Windows == 0 {
		return 1
	}
	return float64(s.Granted) / float64(s.Windows)
}

const (
	// serviceWindow is long enough for several attempts on a busy machine, and short enough to show an outage of one timeout of a client.
	serviceWindow = int64(250 * time.Millisecond)
	// leastWindows is how many windows are enough to judge a nemesis, and leastQuiet how many without a fault are enough to judge the machine.
	leastWindows, leastQuiet = 20, 6
	// quietShare is the least share of the quiet windows with a grant. With less, the machine was too busy to judge a nemesis.
	quietShare = 0.95
	// busyLag is the least lag of the harness at which a window is left out. If more than one in busyOneIn of its Pulses has such a lag, the machine
	// was too busy as well.
	busyLag   = 100 * time.Millisecond
	busyOneIn = 10
)

// Availability is the checker availability: while a quorum of the masters is healthy, the harness can take a lock that nobody else wants,
// whatever happens to the other masters, to links and to clients. The header has the least share for each nemesis of the run.
//
// A master is healthy when no fault has it as a target, and the looks before and after found it voting. A nemesis is judged after leastWindows
// windows, if the lock was granted in nearly all windows without a fault and the harness itself was in time. Otherwise the machine was too
// busy, or the time too short.
//
// To judge a piece of a history, the faults that still last at its beginning are needed, and the last Vote of each master before it.
func Availability(h *history.History) Result {
	r := Result{ID: "availability", Question: "Could a free lock be taken while a quorum of masters was healthy?"}
	by, quiet := Services(h)
	var floors map[string]float64
	if h.Header.Expect != nil {
		floors = h.Header.Expect.Floors
	}
	calm := quiet.Windows >= leastQuiet && quiet.Share() >= quietShare && !busy(h)
	judged, least := 0, 1.0
	for _, n := range sortedKeys(floors) {
		s := by[n]
		if s == nil || s.Windows < leastWindows || !calm {
			continue
		}
		judged += s.Windows
		least = min(least, s.Share())
		if s.Share() < floors[n] {
			r.Violations = append(r.Violations, Violation{Text: fmt.Sprintf("%s: the lock was granted in %.0f %% of %d quarters of a second, want at least %.0f %%", n, 100*s.Share(), s.Windows, 100*floors[n])})
		}
	}
	r.Figures = []Figure{{"windows without a fault", float64(quiet.Windows)}, {"of these with a grant, percent", 100 * quiet.Share()}, {"windows judged", float64(judged)}}
	r = r.observed(fmt.Sprintf("Yes: in %.0f %% of the quarters of a second and more, under each nemesis.", 100*least), judged)
	if judged == 0 {
		r.Summary = fmt.Sprintf("Nothing was there to be judged: no nemesis had %d quarters of a second, or the machine was too busy.", leastWindows)
	}
	return r
}

// busy reports whether the machine had too much to do for most of the run.
func busy(h *history.History) bool {
	all, late := 0, 0
	for _, p := range h.Pulses {
		if p.Process == "harness" {
			all++
			if p.Lag >= busyLag {
				late++
			}
		}
	}
	return late*busyOneIn > all
}

// Services returns the Service under each nemesis, by name, and without any fault.
func Services(h *history.History) (by map[string]*Service, quiet Service) {
	var grants []int64
	first, last := int64(history.Never), int64(0)
	for _, op := range h.Ops {
		if op.Kind == history.KindService {
			first, last = min(first, op.Call), max(last, op.Call)
			if op.Outcome == history.OK {
				grants = append(grants, op.Return)
			}
		}
	}
	slices.Sort(grants)
	granted := windowsOf(grants, serviceWindow)
	left := unusable(h, first, last)
	var all []span
	windows := map[string][]span{} // their numbers. A fault may last for years
	for _, f := range h.Faults {
		all = append(all, span{f.Start, f.End})
		if from := f.Start / serviceWindow; f.Error == "" {
			windows[f.Nemesis] = append(windows[f.Nemesis], span{from, max(from, min(f.End, last)/serviceWindow+1)})
		}
	}
	count := func(windows []span, without spans) (s Service) {
		s.Windows, s.Granted = union(windows).without(without).numbers(granted)
		return s
	}
	by = map[string]*Service{}
	for n, ws := range windows {
		s := count(ws, left)
		by[n] = &s
	}
	return by, count([]span{{first/serviceWindow + 1, max(first/serviceWindow+1, last/serviceWindow)}}, union(append(touched(union(all)), left...)))
}

// unusable returns the numbers of the windows of service that say nothing: those outside of the time from first to last, those without a quorum of
// healthy masters, and those in which the harness was late, or may have been.
func unusable(h *history.History, first, last int64) spans {
	pulses := lagsOf(h).pulses["harness"]
	if len(pulses) == 0 {
		return spans{{math.MinInt64, history.Never}}
	}
	left := touched(withoutQuorum(h))
	for i, p := range pulses {
		if p.Lag >= busyLag { // since the Pulse before
			left = append(left, span{pulses[max(0, i-1)].At / serviceWindow, p.At/serviceWindow + 1})
		}
	}
	from, to := max(first, pulses[0].At), min(last, pulses[len(pulses)-1].At)
	return union(append(left, span{math.MinInt64, ceil(from)}, span{to / serviceWindow, history.Never}))
}

// touched returns the numbers of the windows of service that the spans meet, a window with both its ends.
func touched(ss spans) (windows []span) {
	for _, s := range ss {
		windows = append(windows, span{ceil(s.from) - 1, ceil(s.to)})
	}
	return windows
}

// ceil is the number of the first window of service that begins at t or later.
func ceil(t int64) int64 {
	n := t / serviceWindow
	if t%serviceWindow > 0 {
		n++
	}
	return n
}

// withoutQuorum returns when no quorum of the masters was healthy.
func withoutQuorum(h *history.History) spans {
	type change struct {
		at int64
		by int
	}
	var changes []change
	for _, ill := range illness(h) {
		for _, s := range ill {
			changes = append(changes, change{s.from, 1}, change{s.to, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	ill, tolerated := 0, (h.Header.Masters-1)/2
	var all []span
	for _, c := range changes {
		switch before := ill; {
		case before == tolerated && c.by > 0:
			all = append(all, span{c.at, history.Never})
		case before == tolerated+1 && c.by < 0:
			all[len(all)-1].to = c.at
		}
		ill += c.by
	}
	return union(all)
}

// illness returns when each master was not healthy: from the strike of a fault until a look finds it voting, and between the looks before and
// after one that did not.
func illness(h *history.History) map[string]spans {
	votes := map[string][]history.Vote{}
	for _, v := range h.Votes {
		votes[v.Node] = append(votes[v.Node], v)
	}
	ill := map[string]spans{}
	for node, looks := range votes {
		var all []span
		for _, f := range h.Faults {
			if slices.Contains(f.Targets, node) || f.Nemesis == "three-at-once" { // it does not say what its parts hit
				all = append(all, span{f.Start, votesAgain(looks, f.End)})
			}
		}
		for i, v := range looks {
			if v.Outcome != history.OK {
				all = append(all, span{looks[max(0, i-1)].Call, votesAgain(looks, v.Call)})
			}
		}
		ill[node] = union(all)
	}
	return ill
}

// votesAgain returns when a look that began at t or later found the master voting; Never if none did.
func votesAgain(looks []history.Vote, t int64) int64 {
	i, _ := slices.BinarySearchFunc(looks, t, func(v history.Vote, t int64) int { return cmp.Compare(v.Call, t) })
	for _, v := range looks[i:] {
		if v.Outcome == history.OK {
			return v.Return
		}
	}
	return history.Never
}
