// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Cost is what the faults of one nemesis did to the service. Others may have been at work at the same time: it is no proof of who was
// to blame.
type Cost struct {
	Faults  int           // really applied
	Lasted  time.Duration // in all
	Windows int           // of costWindow, in which one of them was at work
	Granted int           // of these, how many in which somebody was granted a lock
	// Back is how long after the end of each fault the next lock was granted to anybody, ordered by length.
	Back []time.Duration
	// Masters is the longest time from the end of a fault until every master that it had hit was seen giving votes again, as far as looks
	// at them are apart; 0 if it hit none, or none was looked at again.
	Masters time.Duration
}

// costWindow is short enough for the shortest outage that a caller would notice, and long enough for several locks.
const costWindow = int64(100 * time.Millisecond)

// Availability is the share of the time under the nemesis in which locks were granted; 1 if it was never at work.
func (c *Cost) Availability() float64 {
	if c.Windows == 0 {
		return 1
	}
	return float64(c.Granted) / float64(c.Windows)
}

// Median is how long it took after the middle one of the faults until a lock was granted.
func (c *Cost) Median() time.Duration {
	if len(c.Back) == 0 {
		return 0
	}
	return c.Back[len(c.Back)/2]
}

// Longest is the same of the worst one.
func (c *Cost) Longest() time.Duration {
	if len(c.Back) == 0 {
		return 0
	}
	return c.Back[len(c.Back)-1]
}

// Costs tells what each nemesis cost, by its name in the history. What was never healed has no end to count from.
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
	windows := map[string]map[int64]bool{}
	for _, f := range h.Faults {
		if f.Error != "" || f.End == history.Never {
			continue
		}
		c := costs[f.Nemesis]
		if c == nil {
			c = &Cost{}
			costs[f.Nemesis], windows[f.Nemesis] = c, map[int64]bool{}
		}
		c.Faults++
		c.Lasted += time.Duration(f.End - f.Start)
		for w := f.Start / costWindow; w <= f.End/costWindow; w++ {
			windows[f.Nemesis][w] = true
		}
		if t, ok := after(f.End); ok {
			c.Back = append(c.Back, time.Duration(t-f.End))
		}
		c.Masters = max(c.Masters, votingAgain(h, f))
	}
	for name, c := range costs {
		slices.Sort(c.Back)
		c.Windows = len(windows[name])
		for w := range windows[name] {
			if t, ok := after(w * costWindow); ok && t < (w+1)*costWindow {
				c.Granted++
			}
		}
	}
	return costs
}

// grantTimes is when locks were granted, probes included, ordered.
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

// votingAgain is how long after the end of f every master that it hit had been seen giving votes.
func votingAgain(h *history.History, f history.Fault) (longest time.Duration) {
	i, _ := slices.BinarySearchFunc(h.Votes, f.End, func(v history.Vote, t int64) int { return int(v.Call - t) })
	for _, node := range f.Targets {
		for _, v := range h.Votes[i:] {
			if v.Node == node && v.Outcome == history.OK {
				longest = max(longest, time.Duration(v.Return-f.End))
				break
			}
		}
	}
	return longest
}

// Recovery is how long after the end of the last fault every lock that was ever asked for had been had again; 0 without faults, or if
// one never was, which C7 says.
func Recovery(h *history.History) time.Duration {
	heal := int64(0)
	for _, f := range h.Faults {
		if f.Error == "" && f.End != history.Never {
			heal = max(heal, f.End)
		}
	}
	back := map[string]int64{}
	for _, op := range h.Ops {
		if op.Kind != history.KindLock && op.Kind != history.KindProbe {
			continue
		}
		t, known := back[op.Lock]
		if !known {
			t = history.Never
		}
		if op.Outcome == history.OK && op.Return >= heal {
			t = min(t, op.Return)
		}
		back[op.Lock] = t
	}
	last := heal
	for _, t := range back {
		last = max(last, t)
	}
	if heal == 0 || last == history.Never {
		return 0
	}
	return time.Duration(last - heal)
}
