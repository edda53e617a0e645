// SPDX-License-Identifier: Apache-2.0

package digest

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

func TestCosts_grantsAndVotesAroundFaults_counted(t *testing.T) {
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	h := &history.History{}
	for _, at := range []int64{1010, 1150, 1720, 2050} {
		h.Ops = append(h.Ops, history.Op{Kind: history.KindLock, Lock: "L", Call: ms(at - 5), Return: ms(at), Outcome: history.OK})
	}
	h.Ops = append(h.Ops,
		history.Op{Kind: history.KindLock, Lock: "L", Call: ms(1340), Return: ms(1350), Outcome: history.Failed},
		history.Op{Kind: history.KindProbe, Lock: "M", Call: ms(1980), Return: ms(2010), Outcome: history.Failed},
		history.Op{Kind: history.KindProbe, Lock: "M", Call: ms(2080), Return: ms(2100), Outcome: history.OK})
	h.Faults = []history.Fault{
		{Nemesis: "kill-minority", Start: ms(1000), End: ms(1250), Targets: []string{"m1", "m2"}}, // tenths 10, 11 and 12: two of them with a grant
		{Nemesis: "partition", Start: ms(1000), End: ms(1250), Error: "not applied"},
		{Nemesis: "freeze-masters", Start: ms(1400), End: history.Never},
		{Nemesis: "kill-minority", Start: ms(1700), End: ms(1710)}, // tenth 17, with one
		{Nemesis: "freeze-client", Start: ms(1800), End: ms(1990)}, // none
	}
	for _, v := range []struct {
		node string
		at   int64
		out  history.Outcome
	}{{"m1", 1100, history.OK}, {"m1", 1300, history.Unknown}, {"m2", 1310, history.OK}, {"m1", 1500, history.Failed}, {"m1", 1900, history.OK}} {
		h.Votes = append(h.Votes, history.Vote{Node: v.node, Call: ms(v.at), Return: ms(v.at + 1), Outcome: v.out})
	}
	costs := Costs(h)
	c := costs["kill-minority"]
	if len(costs) != 2 || c == nil || costs["freeze-client"] == nil {
		t.Fatalf("costs of %v", costs)
	}
	if c.Faults != 2 || c.Lasted != 260*time.Millisecond || c.Windows != 4 || c.Granted != 3 || c.Availability() != 0.75 {
		t.Errorf("kill-minority: %+v", *c)
	}
	if c.Longest() != 470*time.Millisecond || c.Back[0] != 10*time.Millisecond || c.Masters != 651*time.Millisecond {
		t.Errorf("kill-minority recovers: %+v", *c)
	}
	if c := costs["freeze-client"]; c.Availability() != 0 || c.Median() != 60*time.Millisecond || c.Masters != 0 {
		t.Errorf("freeze-client: %+v", *c)
	}
	if r := Recovery(h); r != 110*time.Millisecond { // a call for M was under way when the last fault ended
		t.Errorf("recovered after %v", r)
	}
	h.Ops = h.Ops[:len(h.Ops)-1]
	h.Ops = append(h.Ops, history.Op{Kind: history.KindLock, Lock: "M", Call: ms(2080), Return: ms(2100), Outcome: history.Failed})
	if r := Recovery(h); r != 0 {
		t.Errorf("M was never had again, and recovered after %v", r)
	}
}

// With two strikes the median is between both. A master that is not seen voting again was away until the harness looked last at least, and one
// that was not looked at adds nothing.
func TestCosts_masterStaysAway_isNotLeftOut(t *testing.T) {
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	h := &history.History{}
	for _, at := range []int64{1110, 2030} {
		h.Ops = append(h.Ops, history.Op{Kind: history.KindLock, Lock: "L", Call: ms(at - 5), Return: ms(at), Outcome: history.OK})
	}
	h.Faults = []history.Fault{
		{Nemesis: "wipe-minority", Start: ms(1000), End: ms(1100), Targets: []string{"m1", "m2", "m3"}},
		{Nemesis: "wipe-minority", Start: ms(1990), End: ms(2000)},
	}
	for _, v := range []struct {
		node string
		at   int64
		out  history.Outcome
	}{{"m1", 1200, history.OK}, {"m2", 1210, history.Failed}, {"m1", 1900, history.OK}, {"m2", 1900, history.Unknown}} {
		h.Votes = append(h.Votes, history.Vote{Node: v.node, Call: ms(v.at), Return: ms(v.at + 1), Outcome: v.out})
	}
	c := Costs(h)["wipe-minority"]
	if c.Median() != 20*time.Millisecond || c.Longest() != 30*time.Millisecond {
		t.Errorf("back after %v, median %v", c.Back, c.Median())
	}
	if c.Masters != 801*time.Millisecond {
		t.Errorf("m2 is away for %v", c.Masters)
	}
}
