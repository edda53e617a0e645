// SPDX-License-Identifier: Apache-2.0

package conduct

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

const (
	// signalTime is how late the context of a lease may end. Nearly all of it is for a busy machine: after the timer, the goroutine that records
	// the end waits for a processor.
	signalTime = 100 * time.Millisecond
	// earlyTime is how much sooner than promised it may end, because two readings of the clock are compared.
	earlyTime = 20 * time.Millisecond
	// QuietLag is the largest lag of a process whose lost lease is judged, and the longest answer of a master that had voted for it: with more,
	// a renewal may have come too late.
	QuietLag = 100 * time.Millisecond
)

// Signals is the checker signals: the context of a lease ends when the lease does, and not without a reason.
//   - It ends signalTime after the deadline at the latest. The largest lag of the process around that time is added: a process that is stopped,
//     or gets no processor, cannot end anything.
//   - It does not end sooner than a hundredth of the TTL and 1 ms before the deadline, and does not end at all if the library renews the lease,
//     unless a fault was near: on the client, on a master that had voted for the lease, or one that does not say what it hit. A fault is near
//     from a TTL before the call of Lock until the signal. A lease is not judged if its process was late itself, or if the harness saw that a
//     master that had voted for it answered late, not at all, or did not vote: on a busy machine a master may get no processor or no disk. So
//     it is not judged either if the harness looked at no master since the last renewal, as after the end of a run, while clients end.
//
// A lease is judged in the chapter in which it was lost or unlocked.
func Signals() check.Checker { return check.Each(signals, signalsHeld) }

func signals(h *history.History) check.Result {
	r := check.Result{ID: "signals", Question: "Were holders told in time that their lease was over, and never without a reason?"}
	l := check.LagsOf(h)
	signals := map[check.GrantID]*history.Signal{}
	for i := range h.Signals {
		s := &h.Signals[i]
		signals[check.GrantID{Lock: s.Lock, Holder: s.Holder}] = s
	}
	watched := len(h.Signals) > 0 || h.Header.Expect != nil
	judged, lost := 0, 0
	for _, g := range check.Lives(h) {
		process := l.Process(g.Grant.Client)
		if !watched || process == "" {
			continue
		}
		s := signals[check.GrantID{Lock: g.Grant.Lock, Holder: g.Grant.Holder}]
		if shown := shownAt(g, s); shown == history.Never || !h.Owns(shown) {
			continue
		}
		at, why, seen := g.Deadline(), "", false
		if s == nil {
			why, seen = late(l, process, at, g.Unlock.Call)
		} else {
			lost++
			at = s.At
			if why, seen = late(l, process, s.Deadline, s.At); why == "" {
				reason, ok := spurious(h, l, g, s)
				why, seen = reason, ok && (seen || reason != "")
			}
		}
		if seen {
			judged++
		}
		if why != "" {
			r.Violations = append(r.Violations, check.Violation{Text: fmt.Sprintf("%s: %s", why, check.Name(*g.Grant)), Ops: []history.Op{*g.Grant}, From: at, To: at})
		}
	}
	r.Sort()
	r.Figures = []check.Figure{{Name: "leases watched", Value: float64(judged)}, {Name: "leases lost", Value: float64(lost)}}
	return r.ConcludeFrom(signalsHeld(r), judged)
}

func signalsHeld(r check.Result) string {
	return fmt.Sprintf("Yes: %.0f leases, %.0f of them lost; each loss was told in time and had a reason.", r.Figures[0].Value, r.Figures[1].Value)
}

// shownAt returns when it came out what became of a lease: when it was lost or unlocked, whichever came first. It is Never if the client was
// killed before, or the history ends before.
func shownAt(g *check.Life, s *history.Signal) int64 {
	at := int64(history.Never)
	if g.Unlock != nil {
		at = g.Unlock.Call
	}
	if s != nil {
		at = min(at, s.At)
	}
	return at
}

// late returns what is wrong if the holder of a lease with that deadline was told nothing until at; "" if nothing is. seen is false if that
// cannot be judged.
func late(l *check.Lags, process string, deadline, at int64) (why string, seen bool) {
	if at-int64(signalTime) <= deadline { // which may be Never
		return "", true
	}
	lag := l.Worst(process, deadline-int64(signalTime), at)
	if lag == check.UnknownLag {
		return "", false
	}
	if at-int64(signalTime+2*lag) <= deadline {
		return "", true
	}
	return fmt.Sprintf("not told that it was lost until %v after its deadline", time.Duration(at-deadline).Round(time.Millisecond)), true
}

// spurious returns what is wrong if a lease was lost without a reason; "" if nothing is. seen is false if that cannot be judged.
func spurious(h *history.History, l *check.Lags, g *check.Life, s *history.Signal) (why string, seen bool) {
	early := time.Duration(s.Deadline - s.At)
	if !s.Renewed && early <= h.Header.TTL/100+time.Millisecond+earlyTime {
		return "", true // its time was over, and nothing renewed it
	}
	from := g.Grant.Call - int64(h.Header.TTL)
	for _, p := range []string{s.Process, "harness"} {
		if l.Worst(p, g.Grant.Call, s.At) >= QuietLag {
			return "", false
		}
	}
	voters := strings.Split(g.Grant.Voters, ", ")
	renewed := s.Deadline - int64(h.Header.TTL) // when its last renewal began
	watched := len(h.Votes) == 0
	for _, v := range h.Votes {
		watched = watched || v.Return >= renewed && v.Call <= s.At
		well := v.Outcome == history.OK && v.Return-v.Call < int64(QuietLag)
		if !well && v.Return >= g.Grant.Call && v.Call <= s.At && slices.Contains(voters, v.Node) {
			return "", false
		}
	}
	if !watched {
		return "", false
	}
	for _, f := range h.Faults {
		if f.Start > s.At || f.End < from {
			continue
		}
		if len(f.Targets) == 0 || slices.ContainsFunc(f.Targets, func(t string) bool { return t == s.Process || slices.Contains(voters, t) }) {
			return "", true
		}
	}
	return fmt.Sprintf("lost %v before its deadline, and no fault was near", early.Round(time.Millisecond)), true
}
