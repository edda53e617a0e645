// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Lags says how late the timers of each process were, from its Pulses.
type Lags struct {
	processes []string // the longest names first
	Pulses    map[string][]history.Pulse
}

// LagsOf returns the lags of the processes of h.
func LagsOf(h *history.History) *Lags {
	l := &Lags{Pulses: map[string][]history.Pulse{}}
	for _, p := range h.Pulses {
		l.Pulses[p.Process] = append(l.Pulses[p.Process], p)
	}
	l.processes = slices.Sorted(maps.Keys(l.Pulses))
	slices.SortStableFunc(l.processes, func(a, b string) int { return len(b) - len(a) })
	return l
}

// Process returns the process of an operation's client: c1.2 has the client c1.2.hot1. It is empty if no process of that name has a Pulse, for
// example because it is a program of a user's. The client c1.2.hot1 then is not of the process c1.
func (l *Lags) Process(client string) string {
	for _, p := range l.processes {
		worker, ok := strings.CutPrefix(client, p+".")
		if ok && worker != "" && (p == "harness" || worker[:1] < "0" || worker[:1] > "9") {
			return p
		}
	}
	return ""
}

// UnknownLag stands for the lag of a time that no Pulse covers.
const UnknownLag = time.Duration(history.Never)

// Worst returns the largest lag of the process between from and to. A time before its first Pulse or after its last has an UnknownLag.
func (l *Lags) Worst(process string, from, to int64) (lag time.Duration) {
	ps := l.Pulses[process]
	if len(ps) == 0 || from < ps[0].At || to > ps[len(ps)-1].At {
		return UnknownLag
	}
	// A Pulse covers the time since the one before.
	i, _ := slices.BinarySearchFunc(ps, from, func(p history.Pulse, t int64) int { return int(min(max(p.At-t, -1), 1)) })
	for ; i < len(ps); i++ {
		lag = max(lag, ps[i].Lag)
		if ps[i].At >= to {
			break
		}
	}
	return lag
}

// WithoutQuorum returns when no quorum of the masters was healthy.
func WithoutQuorum(h *history.History) Spans {
	type change struct {
		at int64
		by int
	}
	var changes []change
	for _, ill := range illness(h) {
		for _, s := range ill {
			changes = append(changes, change{s.From, 1}, change{s.To, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	ill, tolerated := 0, (h.Header.Masters-1)/2
	var all []Span
	for _, c := range changes {
		switch before := ill; {
		case before == tolerated && c.by > 0:
			all = append(all, Span{c.at, history.Never})
		case before == tolerated+1 && c.by < 0:
			all[len(all)-1].To = c.at
		}
		ill += c.by
	}
	return Union(all)
}

// illness returns when each master was not healthy: from the strike of a fault until a look finds it voting, and between the looks before and
// after one that did not.
func illness(h *history.History) map[string]Spans {
	votes := map[string][]history.Vote{}
	for _, v := range h.Votes {
		votes[v.Node] = append(votes[v.Node], v)
	}
	ill := map[string]Spans{}
	for node, looks := range votes {
		var all []Span
		for _, f := range h.Faults {
			if slices.Contains(f.Targets, node) || f.Nemesis == "three-at-once" { // it does not say what its parts hit
				all = append(all, Span{f.Start, votesAgain(looks, f.End)})
			}
		}
		for i, v := range looks {
			if v.Outcome != history.OK {
				all = append(all, Span{looks[max(0, i-1)].Call, votesAgain(looks, v.Call)})
			}
		}
		ill[node] = Union(all)
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
