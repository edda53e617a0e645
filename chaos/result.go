// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"slices"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/digest"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/judge"
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
	Recovery     float64        `json:"recovery_ms,omitempty"`     // after the last fault: from the first call for a lock to its next grant, the longest; 0 if a lock had none
	// Unfenced and Fenced are the shares of updates that the registers without and with a check of tokens lost; nil if nothing was written.
	Unfenced *float64          `json:"unfenced_lost,omitempty"`
	Fenced   *float64          `json:"fenced_lost,omitempty"`
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
	Lasted       float64 `json:"lasted_s"`                  // all of them together
	Availability float64 `json:"availability"`              // share of the tenths of a second under it in which a client was granted a lock
	Recovery     float64 `json:"recovery_ms,omitempty"`     // from the end of a fault to the next grant: the median; 0 if there was none
	Longest      float64 `json:"recovery_max_ms,omitempty"` // the same: the longest
	Masters      float64 `json:"masters_back_ms,omitempty"` // see digest.Cost.Masters

	// Service is the share of the quarters of a second under it in which the harness was granted a lock that nobody else wants, of those in
	// which a quorum of masters was healthy. ServiceOf is how many these are.
	Service   float64 `json:"service"`
	ServiceOf int     `json:"service_of"`
}

// Violation is a promise that was broken, or a question that a checker could not answer.
type Violation struct {
	Checker string `json:"checker"`
	Detail  string `json:"detail"`

	undecided bool // the checker has found nothing, and cannot say that nothing is wrong
}

// Held reports whether every promise was kept.
func (r *Result) Held() bool { return len(r.Violations) == 0 }

// TooLittle reports whether the run did too little to show anything, and nothing else is known to be wrong.
func (r *Result) TooLittle() bool {
	effort := func(v Violation) bool { return v.Checker == "effort" }
	return slices.ContainsFunc(r.Violations, effort) && !slices.ContainsFunc(r.Violations, func(v Violation) bool { return !effort(v) && !v.undecided })
}

func newResult(t *judge.Tally, checks []check.Result, r *run) *Result {
	res := Summarize(t, checks)
	if r.cfg.Driver != Sim {
		res.Duration = r.lasted.Seconds()
	}
	return res
}

// Summarize returns the Result of a recorded history. Its duration is from the beginning of the first fault to the end of the last.
func Summarize(t *judge.Tally, checks []check.Result) *Result {
	h := t.Digest
	availability, lasted := digest.GrantedShare(h)
	res := &Result{
		Seed: h.Header.Seed, Driver: h.Header.Driver, Faults: map[string]int{}, Violations: violations(checks), Versions: h.Header.Versions,
		Duration: lasted.Seconds(), Availability: availability, Recovery: ms(digest.Recovery(h)), Nemeses: map[string]Impact{},
		Acquisitions: t.Acquisitions, UnderFaults: t.UnderFaults, Unfenced: lost(t.Unfenced), Fenced: lost(t.Fenced),
	}
	for _, f := range h.Faults {
		if f.Error == "" {
			res.Faults[f.Nemesis]++
		}
	}
	services, _ := digest.Services(h)
	for name, c := range digest.Costs(h) {
		var s digest.Service
		if services[name] != nil {
			s = *services[name]
		}
		res.Nemeses[name] = Impact{
			Service: s.Share(), ServiceOf: s.Windows,
			Faults: c.Faults, Lasted: c.Lasted.Seconds(), Availability: c.Availability(),
			Recovery: ms(c.Median()), Longest: ms(c.Longest()), Masters: ms(c.Masters),
		}
	}
	res.NotJudged = notJudged(t.Suspended, checks)
	return res
}

func notJudged(s check.Suspension, checks []check.Result) NotJudged {
	n := NotJudged{Time: s.Time.Seconds(), Of: s.Run.Seconds(), Nemeses: map[string]float64{}}
	for name, d := range s.By {
		n.Nemeses[name] = d.Seconds()
	}
	for _, c := range checks {
		if c.ID == "exclusion" {
			n.Overlaps = len(c.NotJudged) + c.MoreNotJudged
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
			vs = append(vs, Violation{Checker: c.ID, Detail: string(c.Verdict) + ": " + c.Summary, undecided: c.Verdict == check.Unknown})
		}
		for i, v := range c.Violations {
			if i == maxListed {
				vs = append(vs, Violation{Checker: c.ID, Detail: "and " + strconv.Itoa(len(c.Violations)+c.More-i) + " more"})
				break
			}
			vs = append(vs, Violation{Checker: c.ID, Detail: v.Text})
		}
	}
	return vs
}

// lost returns the share of acknowledged updates that were lost; nil if there were none.
func lost(u safety.Updates) *float64 {
	if u.Written == 0 {
		return nil
	}
	share := float64(u.Lost) / float64(u.Written)
	return &share
}
