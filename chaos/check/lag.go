// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// lags says how late the timers of each process were, from its Pulses.
type lags struct {
	processes []string // the longest names first
	pulses    map[string][]history.Pulse
}

func lagsOf(h *history.History) *lags {
	l := &lags{pulses: map[string][]history.Pulse{}}
	for _, p := range h.Pulses {
		l.pulses[p.Process] = append(l.pulses[p.Process], p)
	}
	l.processes = sortedKeys(l.pulses)
	slices.SortStableFunc(l.processes, func(a, b string) int { return len(b) - len(a) })
	return l
}

// process returns the process of an operation's client: c1.2 has the client c1.2.hot1. It is empty if no process of that name has a Pulse, for
// example because it is a program of a user's. The client c1.2.hot1 then is not of the process c1.
func (l *lags) process(client string) string {
	for _, p := range l.processes {
		worker, ok := strings.CutPrefix(client, p+".")
		if ok && worker != "" && (p == "harness" || worker[:1] < "0" || worker[:1] > "9") {
			return p
		}
	}
	return ""
}

// unknownLag stands for the lag of a time that no Pulse covers.
const unknownLag = time.Duration(history.Never)

// worst returns the largest lag of the process between from and to. A time before its first Pulse or after its last has an unknownLag.
func (l *lags) worst(process string, from, to int64) (lag time.Duration) {
	ps := l.pulses[process]
	if len(ps) == 0 || from < ps[0].At || to > ps[len(ps)-1].At {
		return unknownLag
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
