// SPDX-License-Identifier: Apache-2.0

package digest

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Cost says how much service the faults of one nemesis cost. Other nemeses may have struck at the same time, so it does not prove which
// nemesis was the cause.
type Cost struct {
	Faults  int           // really applied
	Lasted  time.Duration // in all
	Windows int           // of costWindow, in which one of them was at work
	Granted int           // of these, how many in which somebody was granted a lock
	// Back has, for each fault, the time from its end to the next grant to any client, in increasing order.
	Back []time.Duration
	// Masters is the longest time from the end of a fault until every master that it had hit was seen voting again, or, if one was not, until the
	// harness looked at it last. It is as exact as the harness looks often. It is 0 if no fault hit a master, or if the harness did not look again.
	Masters time.Duration
}

// costWindow is the unit of availability. It is as short as the shortest outage that a caller notices, and long enough for several locks.
const costWindow = int64(100 * time.Millisecond)

// Availability returns the share of the time under the nemesis in which locks were granted; 1 if the nemesis never struck.
func (c *Cost) Availability() float64 {
	if c.Windows == 0 {
		return 1
	}
	return float64(c.Granted) / float64(c.Windows)
}

// Median returns the median of Back; of an even number, the mean of the two in the middle.
func (c *Cost) Median() time.Duration {
	n := len(c.Back)
	if n == 0 {
		return 0
	}
	return (c.Back[(n-1)/2] + c.Back[n/2]) / 2
}

// Longest returns the longest of Back.
func (c *Cost) Longest() time.Duration {
	if len(c.Back) == 0 {
		return 0
	}
	return c.Back[len(c.Back)-1]
}

// Costs returns the cost of each nemesis, by name. A fault that never ended adds nothing to Back and Masters.
func Costs(h *history.History) map[string]*Cost {
	grants := grantTimes(h)
	after := func(t int64) (int64, bool) {
		i, _ := slices.BinarySearch(grants, t)
		if i == len(grants) {
			return 0, false
		}
		return grants[i], true
	}
	costs := map[string]*Cost{}
	windows := map[string][]check.Span{} // the numbers of those in which a fault was at work. A fault may last for years
	for _, f := range h.Faults {
		if f.Error != "" || f.End == history.Never {
			continue
		}
		c := costs[f.Nemesis]
		if c == nil {
			c = &Cost{}
			costs[f.Nemesis] = c
		}
		c.Faults++
		c.Lasted += time.Duration(f.End - f.Start)
		windows[f.Nemesis] = append(windows[f.Nemesis], check.Span{From: f.Start / costWindow, To: max(f.Start/costWindow, f.End/costWindow+1)})
		if t, ok := after(f.End); ok {
			c.Back = append(c.Back, time.Duration(t-f.End))
		}
		c.Masters = max(c.Masters, votingAgain(h, f))
	}
	granted := windowsOf(grants, costWindow)
	for name, c := range costs {
		slices.Sort(c.Back)
		c.Windows, c.Granted = check.Union(windows[name]).Numbers(granted)
	}
	return costs
}

// windowsOf returns the numbers of the windows in which the times are, which are in order: each once.
func windowsOf(times []int64, window int64) (numbers []int64) {
	for _, t := range times {
		numbers = append(numbers, t/window)
	}
	return slices.Compact(numbers)
}

// grantTimes returns when locks were granted, in order. Probes count.
func grantTimes(h *history.History) []int64 {
	var ts []int64
	for _, op := range h.Ops {
		if (op.Kind == history.KindLock || op.Kind == history.KindProbe) && op.Outcome == history.OK {
			ts = append(ts, op.Return)
		}
	}
	slices.Sort(ts)
	return ts
}

// votingAgain returns how long after the end of f every master that f had hit was seen voting. One that was not counts until it was looked at last.
func votingAgain(h *history.History, f history.Fault) (longest time.Duration) {
	i, _ := slices.BinarySearchFunc(h.Votes, f.End, func(v history.Vote, t int64) int { return int(v.Call - t) })
	for _, node := range f.Targets {
		for _, v := range h.Votes[i:] {
			if v.Node != node {
				continue
			}
			longest = max(longest, time.Duration(v.Return-f.End))
			if v.Outcome == history.OK {
				break
			}
		}
	}
	return longest
}

// Recovery returns how long a call for a lock had to wait at most once the last fault was over: of each lock, from the first call after that, or
// one that was under way, to the next grant. It returns 0 if there were no faults, or if a lock was never taken again; the checker healed
// reports that.
func Recovery(h *history.History) (longest time.Duration) {
	heal := lastEnd(h)
	asked, taken := map[string]int64{}, map[string]int64{}
	for _, op := range h.Ops {
		if op.Kind != history.KindLock && op.Kind != history.KindProbe {
			continue
		}
		if _, known := taken[op.Lock]; !known {
			asked[op.Lock], taken[op.Lock] = history.Never, history.Never
		}
		if op.Return < heal {
			continue
		}
		asked[op.Lock] = min(asked[op.Lock], max(op.Call, heal))
		if op.Outcome == history.OK {
			taken[op.Lock] = min(taken[op.Lock], op.Return)
		}
	}
	for lock, t := range taken {
		if heal == 0 || t == history.Never {
			return 0
		}
		longest = max(longest, time.Duration(t-asked[lock]))
	}
	return longest
}

// lastEnd returns the end of the last fault that was applied and ended.
func lastEnd(h *history.History) (end int64) {
	for _, f := range h.Faults {
		if f.Error == "" && f.End != history.Never {
			end = max(end, f.End)
		}
	}
	return end
}
