// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"strconv"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Result has the figures of a run. Its JSON is what redlock-bench chaos --json prints.
type Result struct {
	Seed         uint64         `json:"seed"`
	Driver       string         `json:"driver"`
	Duration     float64        `json:"duration_s"`                // of the faults
	Acquisitions int            `json:"acquisitions"`              // locks granted
	UnderFaults  int            `json:"acquisitions_under_faults"` // of these, granted while a fault was at work
	Faults       map[string]int `json:"faults"`                    // faults that took place, by nemesis
	Violations   []Violation    `json:"violations"`                // never null; [] if every promise held
	Availability float64        `json:"availability"`              // share of the half seconds under faults in which a client was granted a lock
	Recovery     float64        `json:"recovery_ms"`               // from the end of the faults until every lock had been taken again
	// Unfenced and Fenced are the shares of updates that the registers without and with a check of tokens lost.
	Unfenced float64           `json:"unfenced_lost"`
	Fenced   float64           `json:"fenced_lost"`
	Nemeses  map[string]Impact `json:"nemeses"`            // what each nemesis of Faults cost
	Versions map[string]string `json:"versions,omitempty"` // of what was tested

	NotJudged NotJudged `json:"not_judged"` // when exclusion was not promised
}

// NotJudged says how much of a run the checkers exclusion and linearizable did not judge, because faults that may break exclusion could
// matter.
type NotJudged struct {
	Time     float64            `json:"s"`
	Of       float64            `json:"of_s"`      // length of the run
	Nemeses  map[string]float64 `json:"nemeses_s"` // by nemesis; faults may last at the same time
	Overlaps int                `json:"overlaps"`  // found in that time; they are no violations
}

// Impact says how much service the faults of one nemesis cost. Nemeses that struck at the same time share the cost.
type Impact struct {
	Faults       int     `json:"faults"`
	Lasted       float64 `json:"lasted_s"`        // all of them together
	Availability float64 `json:"availability"`    // share of the tenths of a second under it in which a client was granted a lock
	Recovery     float64 `json:"recovery_ms"`     // from the end of a fault to the next grant: the median
	Longest      float64 `json:"recovery_max_ms"` // the same: the longest
	Masters      float64 `json:"masters_back_ms"` // longest time from the end of a fault until all masters that it had hit voted again

	// Service is the share of the quarters of a second under it in which the harness was granted a lock that nobody else wants, of those in
	// which a quorum of masters was healthy. ServiceOf is how many these are.
	Service   float64 `json:"service"`
	ServiceOf int     `json:"service_of"`
}

// Violation is a promise that was broken, or a question that a checker could not answer.
type Violation struct {
	Checker string `json:"checker"`
	Detail  string `json:"detail"`
}

// Held reports whether every promise was kept.
func (r *Result) Held() bool { return len(r.Violations) == 0 }

func newResult(h *history.History, checks []check.Result, r *run) *Result {
	res := Summarize(h, checks)
	if r.cfg.Driver != Sim {
		res.Duration = r.lasted.Seconds()
	}
	return res
}

// Summarize returns the Result of a recorded history. Its duration is from the beginning of the first fault to the end of the last.
func Summarize(h *history.History, checks []check.Result) *Result {
	res := &Result{
		Seed: h.Header.Seed, Driver: h.Header.Driver, Faults: map[string]int{}, Violations: violations(checks), Versions: h.Header.Versions,
		Recovery: ms(check.Recovery(h)), Nemeses: map[string]Impact{},
		UnderFaults: check.GrantsUnderFaults(h),
	}
	for _, op := range h.Ops {
		if op.Kind == history.KindLock && op.Outcome == history.OK {
			res.Acquisitions++
		}
	}
	for _, f := range h.Faults {
		if f.Error == "" {
			res.Faults[f.Nemesis]++
		}
	}
	services, _ := check.Services(h)
	for name, c := range check.Costs(h) {
		var s check.Service
		if services[name] != nil {
			s = *services[name]
		}
		res.Nemeses[name] = Impact{
			Service: s.Share(), ServiceOf: s.Windows,
			Faults: c.Faults, Lasted: c.Lasted.Seconds(), Availability: c.Availability(),
			Recovery: ms(c.Median()), Longest: ms(c.Longest()), Masters: ms(c.Masters),
		}
	}
	res.NotJudged = notJudged(h, checks)
	from, to := underFaults(h)
	res.Duration = time.Duration(to - from).Seconds()
	res.Availability = availability(h, from, to)
	res.Unfenced, res.Fenced = lost(h, false), lost(h, true)
	return res
}

func notJudged(h *history.History, checks []check.Result) NotJudged {
	s := check.SuspendedExclusion(h)
	n := NotJudged{Time: s.Time.Seconds(), Of: s.Run.Seconds(), Nemeses: map[string]float64{}}
	for name, d := range s.By {
		n.Nemeses[name] = d.Seconds()
	}
	for _, c := range checks {
		if c.ID == "exclusion" {
			n.Overlaps = len(c.NotJudged)
		}
	}
	return n
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// maxListed bounds how many violations of one checker a Result lists.
const maxListed = 10

func violations(checks []check.Result) []Violation {
	vs := []Violation{}
	for _, c := range checks {
		if !c.Promised || c.Verdict == check.Ok {
			continue
		}
		if len(c.Violations) == 0 {
			vs = append(vs, Violation{c.ID, string(c.Verdict) + ": " + c.Summary})
		}
		for i, v := range c.Violations {
			if i == maxListed {
				vs = append(vs, Violation{c.ID, "and " + strconv.Itoa(len(c.Violations)-i) + " more"})
				break
			}
			vs = append(vs, Violation{c.ID, v.Text})
		}
	}
	return vs
}

// underFaults returns the time from the first fault to the end of the last fault that ended. It is empty if there were no faults.
func underFaults(h *history.History) (from, to int64) {
	for i, f := range h.Faults {
		if i == 0 || f.Start < from {
			from = f.Start
		}
		to = max(to, from)
		if f.End != history.Never {
			to = max(to, f.End)
		}
	}
	return from, to
}

// availability returns the share of windows between from and to in which a lock was granted; 1 if there is no window.
func availability(h *history.History, from, to int64) float64 {
	const window = int64(500 * time.Millisecond)
	n := (to - from) / window
	if n < 1 {
		return 1
	}
	granted := make([]bool, n)
	for _, op := range h.Ops {
		if op.Kind == history.KindLock && op.Outcome == history.OK && op.Return >= from {
			if i := (op.Return - from) / window; i < n {
				granted[i] = true
			}
		}
	}
	yes := 0
	for _, g := range granted {
		if g {
			yes++
		}
	}
	return float64(yes) / float64(n)
}

// lost returns the share of acknowledged updates that the registers lost.
func lost(h *history.History, fenced bool) float64 {
	gone, written := check.Lost(h, fenced)
	if written == 0 {
		return 0
	}
	return float64(gone) / float64(written)
}
