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
	// Unfenced is the share of updates that the register lost that trusts everybody.
	Unfenced float64 `json:"unfenced_lost"`
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
	res.Duration = r.lasted.Seconds()
	res.Recovery = float64(r.retaken) / float64(time.Millisecond)
	return res
}

// Summarize is the Result of a recorded history that was judged alone. How long it took to recover is then not known.
func Summarize(h *history.History, checks []check.Result) *Result {
	res := &Result{Seed: h.Header.Seed, Driver: h.Header.Driver, Faults: map[string]int{}, Violations: violations(checks)}
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
	res.Availability = availability(h)
	res.Unfenced = unfencedLost(h)
	return res
}

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

// availability is the share of windows between the first and the last fault in which a lock was granted; 1 without faults.
func availability(h *history.History) float64 {
	const window = int64(500 * time.Millisecond)
	from, to := int64(history.Never), int64(0)
	for _, f := range h.Faults {
		from = min(from, f.Start)
		if f.End != history.Never {
			to = max(to, f.End)
		}
	}
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

// unfencedLost is the share of acknowledged updates of the unfenced register that are not in it.
func unfencedLost(h *history.History) float64 {
	done, last, at := 0, int64(0), int64(0)
	for _, op := range h.Ops {
		if op.Fenced || op.Outcome != history.OK || op.Kind != history.KindRead && op.Kind != history.KindWrite {
			continue
		}
		if op.Kind == history.KindWrite {
			done++
		}
		if op.Return > at {
			last, at = op.Value, op.Return
		}
	}
	if done == 0 {
		return 0
	}
	return max(0, float64(int64(done)-last)/float64(done))
}
