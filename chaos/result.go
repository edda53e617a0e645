// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"strconv"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Result is a run in figures, as JSON gives it.
type Result struct {
	Seed         uint64         `json:"seed"`
	Driver       string         `json:"driver"`
	Duration     float64        `json:"duration_s"`   // of the faults
	Acquisitions int            `json:"acquisitions"` // locks granted
	Faults       map[string]int `json:"faults"`       // really applied, by nemesis
	Violations   []Violation    `json:"violations"`   // never null: [] when everything held
	Availability float64        `json:"availability"` // share of the half seconds under faults in which somebody was granted a lock
	Recovery     float64        `json:"recovery_ms"`  // from the end of the faults until every lock had been taken again
	// Unfenced is the share of updates that the register lost that trusts everybody, and Fenced of the one that checks tokens.
	Unfenced float64           `json:"unfenced_lost"`
	Fenced   float64           `json:"fenced_lost"`
	Nemeses  map[string]Impact `json:"nemeses"`            // what each of Faults did to the service
	Versions map[string]string `json:"versions,omitempty"` // of what was tested
}

// Impact is what the faults of one nemesis did to the service, or others that were at work with them.
type Impact struct {
	Faults       int     `json:"faults"`
	Lasted       float64 `json:"lasted_s"`        // all of them together
	Availability float64 `json:"availability"`    // share of the tenths of a second under it in which somebody was granted a lock
	Recovery     float64 `json:"recovery_ms"`     // from the end of the middle one of the faults to the next grant
	Longest      float64 `json:"recovery_max_ms"` // the same of the worst
	Masters      float64 `json:"masters_back_ms"` // longest time from a fault's end until all masters it had hit gave votes again
}

// Violation is a promise that was not kept, or a question that could not be answered.
type Violation struct {
	Checker string `json:"checker"`
	Detail  string `json:"detail"`
}

// Held tells whether every promise was kept.
func (r *Result) Held() bool { return len(r.Violations) == 0 }

func newResult(h *history.History, checks []check.Result, r *run) *Result {
	res := Summarize(h, checks)
	res.Violations = append(res.Violations, r.faults.violations...)
	if r.cfg.Driver != Sim {
		res.Duration = r.lasted.Seconds()
	}
	return res
}

// Summarize is the Result of a recorded history that was judged alone. Its duration is from the beginning of the first fault to the end
// of the last.
func Summarize(h *history.History, checks []check.Result) *Result {
	res := &Result{
		Seed: h.Header.Seed, Driver: h.Header.Driver, Faults: map[string]int{}, Violations: violations(checks), Versions: h.Header.Versions,
		Recovery: ms(check.Recovery(h)), Nemeses: map[string]Impact{},
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
	for name, c := range check.Costs(h) {
		res.Nemeses[name] = Impact{
			Faults: c.Faults, Lasted: c.Lasted.Seconds(), Availability: c.Availability(),
			Recovery: ms(c.Median()), Longest: ms(c.Longest()), Masters: ms(c.Masters),
		}
	}
	from, to := underFaults(h)
	res.Duration = time.Duration(to - from).Seconds()
	res.Availability = availability(h, from, to)
	res.Unfenced, res.Fenced = lost(h, false), lost(h, true)
	return res
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// mostTold bounds how many violations of one checker are told one by one.
const mostTold = 10

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
			if i == mostTold {
				vs = append(vs, Violation{c.ID, "and " + strconv.Itoa(len(c.Violations)-i) + " more"})
				break
			}
			vs = append(vs, Violation{c.ID, v.Text})
		}
	}
	return vs
}

// underFaults is the time from the first fault to the end of the last that ended; empty without faults.
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

// availability is the share of windows between from and to in which a lock was granted; 1 if there is none.
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

// lost is the share of acknowledged updates that are not in the registers.
func lost(h *history.History, fenced bool) float64 {
	gone, written := check.Lost(h, fenced)
	if written == 0 {
		return 0
	}
	return float64(gone) / float64(written)
}
