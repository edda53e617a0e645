// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Expect is what the run promises, and what it must have done.
type Expect struct {
	X bool // exclusion is promised
	T bool // tokens are promised: tokens, fenced-register and counters count; linearizable counts if X and T are set

	Heal    time.Duration // healed: how long after the last fault a lock may be unavailable
	Timeout time.Duration // linearizable: after this time in one chapter the verdict is Unknown; must be positive
	Min     Minimums      // effort: what the run must have done
}

// Expected returns what the header of h says that the run promises. Without an Expect in the header there are no Minimums, and Heal is 10 s.
func Expected(h *history.History, timeout time.Duration) Expect {
	p := h.Header.Promises
	e := Expect{X: p.Exclusion, T: p.Tokens, Heal: 10 * time.Second, Timeout: timeout}
	if more := h.Header.Expect; more != nil {
		e.Heal, e.Min = more.Heal, more.Min
	}
	return e
}

// All runs every checker on a history in memory. See Run.
func All(h *history.History, e Expect) []check.Result {
	rs, _, _ := Run(context.Background(), history.Whole(h), e, max(1, len(h.Ops))) // a history in memory can be read
	return rs
}

// promises reports whether the verdict of a checker counts. The records that some checkers need are newer than some histories: a history
// without an Expect in its header need not have them. That a checker is idle excuses tokens, registers and counters from having seen something, and
// not what was found in them.
func (e Expect) promises(h history.Header, r check.Result) bool {
	idle := slices.Contains(h.Idle, r.ID)
	switch r.ID {
	case "exclusion":
		return e.X
	case "tokens", "fenced-register", "counters":
		return e.T && (!idle || r.Verdict == check.Illegal)
	case "linearizable":
		return e.X && e.T
	case "unfenced-register":
		return false
	case "left-behind", "signals", "resources", "refusals":
		return !idle && (h.Expect != nil || r.Observed > 0)
	case "availability", "queue-order": // a busy machine, or a run without a quiet moment, is no fault of the lock
		return !idle && r.Observed > 0
	}
	return true
}

// Passed reports whether every promise was kept: there are results, and each promised one is Ok.
func Passed(rs []check.Result) bool {
	for _, r := range rs {
		if r.Promised && r.Verdict != check.Ok {
			return false
		}
	}
	return len(rs) > 0
}

// Minimums is what a run must have done to mean something. A field that is zero is not checked.
type Minimums = history.Minimums

// Effort is the checker effort: the run did enough for the other verdicts to mean something. A periodic robustness job of etcd once ran
// nothing for two weeks and stayed green (etcd#21033).
func Effort(h *history.History, least Minimums) check.Result {
	return check.Whole(&effort{least: least}, h)
}

type effort struct {
	least                                           Minimums
	acquired, tokens, readers, disturbed, contended int
	faults                                          []history.Fault
	findings                                        []history.Finding
}

func (c *effort) Add(h *history.History) {
	for _, op := range h.Own() {
		if op.Kind == history.KindLock && op.Outcome == history.OK {
			c.acquired++
			if op.Token != 0 {
				c.tokens++
			}
			if op.Mode == history.Shared {
				c.readers++
			}
		}
	}
	c.disturbed += GrantsUnderFaults(h)
	c.contended += contended(h)
	c.faults, c.findings = h.Faults, h.Findings
}

func (c *effort) Result() check.Result {
	r := check.Result{ID: "effort", Question: "Did the run do enough for its other answers to mean something?"}
	applied, faults := map[string]int{}, 0
	for _, f := range c.faults {
		if f.Error == "" {
			applied[f.Nemesis]++
			faults++
		}
	}
	enough := func(what string, got, want int) {
		if got < want {
			r.Violations = append(r.Violations, check.Violation{Text: fmt.Sprintf("%s: %d, want at least %d", what, got, want)})
		}
	}
	enough("locks granted", c.acquired, c.least.Acquisitions)
	enough("locks granted while a fault was at work", c.disturbed, c.least.UnderFaults)
	enough("locks granted to readers", c.readers, c.least.Readers)
	enough("lock calls while another client held the lock", c.contended, c.least.Contended)
	enough("tokens issued", c.tokens, c.wantTokens())
	for _, n := range slices.Sorted(maps.Keys(c.least.Faults)) {
		enough("faults applied by "+n, applied[n], c.least.Faults[n])
	}
	for _, f := range c.findings {
		if f.Checker == "effort" {
			r.Violations = append(r.Violations, check.Violation{Text: f.Detail})
		}
	}
	r.Figures = []check.Figure{{Name: "locks granted", Value: float64(c.acquired)}, {Name: "locks granted under faults", Value: float64(c.disturbed)}, {Name: "contended lock calls", Value: float64(c.contended)}, {Name: "faults applied", Value: float64(faults)}}
	return r.Conclude(fmt.Sprintf("Yes: %d locks granted, %d of them under faults, %d lock calls met another holder, %d faults were applied.", c.acquired, c.disturbed, c.contended, faults))
}

// wantTokens returns how many tokens there must be. The minimums of a run are far below what it does, so if they ask for a token for each lock, they
// ask for one for each lock that was granted, and not for as many tokens as locks in the least run.
func (c *effort) wantTokens() int {
	if c.least.Tokens > 0 && c.least.Tokens >= c.least.Acquisitions {
		return max(c.least.Tokens, c.acquired)
	}
	return c.least.Tokens
}

// GrantsUnderFaults counts the locks that were granted while a fault was at work. A lock that is granted when all is quiet says nothing about
// faults. Probes do not count.
func GrantsUnderFaults(h *history.History) (n int) {
	var faults []check.Span
	for _, f := range h.Faults {
		if f.Error == "" {
			faults = append(faults, check.Span{From: f.Start, To: f.End})
		}
	}
	at := check.Union(faults)
	for _, op := range h.Own() {
		if op.Kind == history.KindLock && op.Outcome == history.OK && at.Meets(op.Return, op.Return) {
			n++
		}
	}
	return n
}

// contended counts the lock calls that were made during another client's claim on the lock.
func contended(h *history.History) int {
	claims := check.Claims(h)
	next := map[string]int{}
	until := map[string]int64{} // lock -> end of the last claim that began by now
	n := 0
	for _, op := range h.Own() {
		if op.Kind != history.KindLock {
			continue
		}
		cs := claims[op.Lock]
		i := next[op.Lock]
		for ; i < len(cs) && cs[i].From <= op.Call; i++ {
			until[op.Lock] = max(until[op.Lock], cs[i].To)
		}
		next[op.Lock] = i
		if until[op.Lock] > op.Call {
			n++
		}
	}
	return n
}
