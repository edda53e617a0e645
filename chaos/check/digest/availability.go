// SPDX-License-Identifier: Apache-2.0

package digest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
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
func Availability(h *history.History) check.Result {
	r := check.Result{ID: "availability", Question: "Could a free lock be taken while a quorum of masters was healthy?"}
	by, quiet := Services(h)
	var floors map[string]float64
	if h.Header.Expect != nil {
		floors = h.Header.Expect.Floors
	}
	calm := quiet.Windows >= leastQuiet && quiet.Share() >= quietShare && !busy(h)
	judged, least := 0, 1.0
	for _, n := range slices.Sorted(maps.Keys(floors)) {
		s := by[n]
		if s == nil || s.Windows < leastWindows || !calm {
			continue
		}
		judged += s.Windows
		least = min(least, s.Share())
		if s.Share() < floors[n] {
			r.Violations = append(r.Violations, check.Violation{Text: fmt.Sprintf("%s: the lock was granted in %.0f %% of %d quarters of a second, want at least %.0f %%", n, 100*s.Share(), s.Windows, 100*floors[n])})
		}
	}
	r.Figures = []check.Figure{{Name: "windows without a fault", Value: float64(quiet.Windows)}, {Name: "of these with a grant, percent", Value: 100 * quiet.Share()}, {Name: "windows judged", Value: float64(judged)}}
	r = r.ConcludeFrom(fmt.Sprintf("Yes: in %.0f %% of the quarters of a second and more, under each nemesis.", 100*least), judged)
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
	var all []check.Span
	windows := map[string][]check.Span{} // their numbers. A fault may last for years
	for _, f := range h.Faults {
		all = append(all, check.Span{From: f.Start, To: f.End})
		if from := f.Start / serviceWindow; f.Error == "" {
			windows[f.Nemesis] = append(windows[f.Nemesis], check.Span{From: from, To: max(from, min(f.End, last)/serviceWindow+1)})
		}
	}
	count := func(windows []check.Span, without check.Spans) (s Service) {
		s.Windows, s.Granted = check.Union(windows).Without(without).Numbers(granted)
		return s
	}
	by = map[string]*Service{}
	for n, ws := range windows {
		s := count(ws, left)
		by[n] = &s
	}
	return by, count([]check.Span{{From: first/serviceWindow + 1, To: max(first/serviceWindow+1, last/serviceWindow)}}, check.Union(append(touched(check.Union(all)), left...)))
}

// unusable returns the numbers of the windows of service that say nothing: those outside of the time from first to last, those without a quorum of
// healthy masters, and those in which the harness was late, or may have been.
func unusable(h *history.History, first, last int64) check.Spans {
	pulses := check.LagsOf(h).Pulses["harness"]
	if len(pulses) == 0 {
		return check.Spans{{From: math.MinInt64, To: history.Never}}
	}
	left := touched(check.WithoutQuorum(h))
	for i, p := range pulses {
		if p.Lag >= busyLag { // since the Pulse before
			left = append(left, check.Span{From: pulses[max(0, i-1)].At / serviceWindow, To: p.At/serviceWindow + 1})
		}
	}
	from, to := max(first, pulses[0].At), min(last, pulses[len(pulses)-1].At)
	return check.Union(append(left, check.Span{From: math.MinInt64, To: ceil(from)}, check.Span{From: to / serviceWindow, To: history.Never}))
}

// touched returns the numbers of the windows of service that the spans meet, a window with both its ends.
func touched(ss check.Spans) (windows []check.Span) {
	for _, s := range ss {
		windows = append(windows, check.Span{From: ceil(s.From) - 1, To: ceil(s.To)})
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
