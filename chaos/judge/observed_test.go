// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/checktest"
	"github.com/redlock-go/redlock/chaos/check/conduct"
	"github.com/redlock-go/redlock/chaos/check/digest"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/history"
)

// The histories below are of one second and more, on three masters, with two clients c1 and c2 whose timers are in time. An id has the 36 bytes of
// its client's id first.
const (
	id1 = "11111111-1111-8111-8111-111111111111"
	id2 = "22222222-2222-8222-8222-222222222222"
)

func ms(n int64) int64 { return int64(time.Hour) + n*int64(time.Millisecond) }

// calm is a history of ten seconds in which each client took and released the lock L once, with a TTL of 5 s.
func calm() *history.History {
	h := &history.History{Header: history.Header{Masters: 3, TTL: 5 * time.Second, Expect: &history.Expect{}}}
	for i, id := range []string{id1, id2} {
		process, at := []string{"c1", "c2"}[i], int64(1000+1000*i)
		h.Ops = append(h.Ops,
			history.Op{Kind: history.KindLock, Client: process + ".hot1", Call: ms(at), Return: ms(at + 10), Lock: "L", Mode: history.Exclusive, Fair: true, Holder: id + ":1", Deadline: ms(at + 4900), Voters: "m1, m2", Outcome: history.OK},
			history.Op{Kind: history.KindUnlock, Client: process + ".hot1", Call: ms(at + 20), Return: ms(at + 30), Lock: "L", Holder: id + ":1", Outcome: history.OK})
	}
	for at := int64(0); at <= 10_000; at += 500 {
		for _, p := range []string{"c1", "c2", "harness"} {
			h.Pulses = append(h.Pulses, history.Pulse{Process: p, At: ms(at), Goroutines: 5, Idle: p != "harness" && (at == 0 || at == 10_000)})
		}
	}
	return h
}

func key(what history.KeyKind, at int64, ids string) history.Key {
	return history.Key{Node: "m1", Lock: "L", At: ms(at), TTL: 4 * time.Second, What: what, Holders: ids}
}

func fault(nemesis string, from, to int64, targets ...string) history.Fault {
	return history.Fault{Nemesis: nemesis, Start: ms(from), End: ms(to), Targets: targets}
}

// judged checks one checker on changes of the quiet history. want is a part of its first violation; "" if it holds.
func judged(t *testing.T, f func(*history.History) check.Result, tests map[string]struct {
	change func(h *history.History)
	want   string
}) {
	t.Helper()
	for name, test := range tests {
		h := calm()
		test.change(h)
		if sane := check.Whole(safety.Assumptions(), h); sane.Verdict != check.Ok {
			t.Errorf("%s: the history itself is wrong: %s", name, sane.Summary)
		}
		for size := 1; size <= len(h.Ops); size++ {
			sameInChapters(t, h, Expect{X: true, T: true, Heal: time.Second, Timeout: time.Minute}, size)
		}
		switch r := f(h); {
		case test.want == "" && r.Verdict == check.Illegal, test.want != "" && r.Verdict != check.Illegal:
			t.Errorf("%s: %s: %s", name, r.Verdict, r.Summary)
		case test.want != "" && !strings.Contains(r.Violations[0].Text, test.want):
			t.Errorf("%s: said %q, want %q", name, r.Violations[0].Text, test.want)
		}
	}
}

type tests = map[string]struct {
	change func(h *history.History)
	want   string
}

func TestLeftBehind_votesPlacesSigns_judged(t *testing.T) {
	keys := func(ks ...history.Key) func(h *history.History) {
		return func(h *history.History) { h.Keys = append(h.Keys, ks...) }
	}
	after := func(f history.Fault, ks ...history.Key) func(h *history.History) {
		return func(h *history.History) { h.Faults, h.Keys = append(h.Faults, f), append(h.Keys, ks...) }
	}
	killed := func(ks ...history.Key) func(h *history.History) {
		return func(h *history.History) {
			h.Ops = h.Ops[:3] // c2 did not come to its unlock
			h.Faults, h.Keys = append(h.Faults, fault("kill-client", 2015, 2016, "c2")), append(h.Keys, ks...)
		}
	}
	waits := func(ks ...history.Key) func(h *history.History) {
		return func(h *history.History) {
			h.Ops = append(h.Ops, history.Op{Kind: history.KindLock, Client: "c1.hot1", Call: ms(4900), Return: ms(6000), Lock: "L", Mode: history.Exclusive, Outcome: history.Failed})
			h.Keys = append(h.Keys, ks...)
		}
	}
	const votes, queue, alive = history.KeyVotes, history.KeyQueue, history.KeyAlive
	slow := func(node string, from, to int64, o history.Outcome) func(h *history.History) {
		return func(h *history.History) {
			h.Votes = append(h.Votes, history.Vote{Node: node, Call: ms(from), Return: ms(to), Outcome: o})
			h.Keys = append(h.Keys, key(votes, 1600, id1+":1"))
		}
	}
	// The looks at masters are of the whole run: the second chapter has those of the first as well, and those of the last.
	twice := func(h *history.History) {
		for _, from := range []int64{400, 9000} {
			h.Votes = append(h.Votes, history.Vote{Node: "m1", Call: ms(from), Return: ms(from + 200), Outcome: history.Unknown})
		}
		h.Keys = append(h.Keys, key(votes, 2600, id1+":1"))
	}
	judged(t, whole(conduct.LeftBehind), tests{
		"it did not answer long before":    {twice, "after 1.57s"},
		"the master did not answer until":  {slow("m1", 1350, 1550, history.Unknown), ""},
		"it took its time until then":      {slow("m1", 1200, 1500, history.OK), ""},
		"it did not answer, and then did":  {slow("m1", 1050, 1250, history.Unknown), "after 570ms"},
		"it did not answer afterwards":     {slow("m1", 1620, 1820, history.Unknown), "after 570ms"},
		"it answered":                      {slow("m1", 1460, 1550, history.OK), "after 570ms"},
		"another master did not answer":    {slow("m2", 1350, 1550, history.Unknown), "after 570ms"},
		"while it is held":                 {keys(key(votes, 1015, id1+":1")), ""},
		"just after the unlock":            {keys(key(votes, 1300, id1+":1")), ""},
		"long after it, before the TTL":    {keys(key(votes, 1400, id1+":1")), "the vote of a holder that has unlocked is still there after 370ms"},
		"behind another holder":            {keys(key(votes, 2015, id2+":1, "+id1+":1")), "after 985ms"},
		"a fault on the master":            {after(fault("partition", 1020, 1200, "m1"), key(votes, 3700, id1+":1")), ""},
		"long after it":                    {after(fault("partition", 1020, 1200, "m1"), key(votes, 3900, id1+":1")), "after 2.87s"},
		"a fault on another master":        {after(fault("partition", 1020, 1200, "m2"), key(votes, 3700, id1+":1")), "after 2.67s"},
		"a fault that does not say":        {after(fault("partition", 1020, 1200), key(votes, 3700, id1+":1")), ""},
		"replies were lost":                {after(fault("cut-replies", 1020, 1200, "m1"), key(votes, 1600, id1+":1")), "after 570ms"},
		"a fault that never ended":         {after(history.Fault{Nemesis: "partition", Start: ms(1020), End: history.Never, Targets: []string{"m1"}}, key(votes, 9000, id1+":1")), ""},
		"the harness was late":             {func(h *history.History) { keys(key(votes, 1400, id1+":1"))(h); h.Pulses[11].Lag = time.Second }, ""},
		"an attempt, seen once":            {keys(key(votes, 5000, id1+":9")), ""},
		"an attempt, seen for long":        {keys(key(votes, 5000, id1+":9"), key(votes, 5700, id1+":9")), "the vote of an attempt that was never granted is still there after 700ms"},
		"an attempt, while a call waits":   {waits(key(votes, 5000, id1+":9"), key(votes, 6500, id1+":9")), ""},
		"an attempt, long after the call":  {waits(key(votes, 5000, id1+":9"), key(votes, 6700, id1+":9")), "the vote of an attempt that was never granted is still there after 700ms"},
		"a killed client, within the TTL":  {killed(key(votes, 7300, id2+":1")), ""},
		"a killed client, after the TTL":   {killed(key(votes, 7400, id2+":1")), "the vote of a client that was killed"},
		"a place, while a call waits":      {keys(key(queue, 1005, id1)), ""},
		"a place that was left":            {keys(key(queue, 5000, id1)), ""}, // counted
		"a place after its TTL":            {keys(key(queue, 62_000, id1)), "the place of a client in a queue"},
		"a sign of life of a client":       {keys(key(alive, 9000, id1)), ""},
		"just after the client closed":     {keys(key(alive, 13_200, id1)), ""},
		"long after the client had closed": {keys(key(alive, 13_400, id1)), "a sign of life of a client that is gone"},
	})
	h := calm()
	if r := check.Whole(conduct.LeftBehind(), h); r.Verdict != check.Unknown {
		t.Errorf("without a key: %s", r.Verdict)
	}
	h.Keys = []history.Key{key(queue, 5000, id1)}
	if r := check.Whole(conduct.LeftBehind(), h); checktest.Figure(t, r, "places without a call that waits") != 1 {
		t.Errorf("%+v", r.Figures)
	}
}

// A clock that was ahead by 11 ms has just been put back: what was set before has 11 ms more, and ends all the same.
func TestHealed_keyOfALongTTL_judgedATTLAfterTheLastFault(t *testing.T) {
	found := func(at int64) func(h *history.History) {
		return func(h *history.History) {
			h.Faults = append(h.Faults, fault("step-clock", 1500, 2000, "m1"))
			k := key(history.KeyVotes, at, id2+":1")
			k.TTL = 5011 * time.Millisecond
			h.Keys = append(h.Keys, k)
		}
	}
	judged(t, func(h *history.History) check.Result { return digest.Healed(h, time.Minute) }, tests{
		"at once":     {found(2006), ""},
		"a TTL later": {found(7000), "no client asks for more than 5s"},
	})
}

// A clock was ahead by six seconds: what was set then lasts so much longer, on that master, and no longer than that.
func TestHealed_clockWasAhead_keyMayLastSoMuchLonger(t *testing.T) {
	found := func(at int64, on string) func(h *history.History) {
		return func(h *history.History) {
			f := fault("step-clock", 1500, 2000, on)
			f.Ahead = 6 * time.Second
			h.Faults = append(h.Faults, f)
			k := key(history.KeyVotes, at, id2+":1")
			k.TTL = 5011 * time.Millisecond
			h.Keys = append(h.Keys, k)
		}
	}
	judged(t, func(h *history.History) check.Result { return digest.Healed(h, time.Minute) }, tests{
		"a TTL later, by its own clock":         {found(7000, "m1"), ""},
		"a TTL later, by that of another":       {found(7000, "m2"), "no client asks for more than 5s"},
		"later than its clock can have made it": {found(7995, "m1"), "no client asks for more than 5s"},
	})
}

func TestSignals_lateAndSpurious_judged(t *testing.T) {
	// c1 keeps its lock until unlock, and is told at the instant told; 0: never.
	lost := func(unlock, told int64, renewed bool, more func(h *history.History)) func(h *history.History) {
		return func(h *history.History) {
			h.Ops[1].Call, h.Ops[1].Return, h.Ops[1].Outcome = ms(unlock), ms(unlock+1), history.Failed
			h.Ops[2], h.Ops[3], h.Ops[1] = h.Ops[1], history.Op{}, h.Ops[2] // in the order of calls; c2 still has its lock
			h.Ops = h.Ops[:3]
			if told != 0 {
				h.Signals = append(h.Signals, history.Signal{Process: "c1", Lock: "L", Holder: id1 + ":1", At: ms(told), Deadline: ms(5900), Cause: "lost", Renewed: renewed})
			}
			if more != nil {
				more(h)
			}
		}
	}
	strike := func(f history.Fault) func(h *history.History) {
		return func(h *history.History) { h.Faults = append(h.Faults, f) }
	}
	look := func(node string, outcome history.Outcome, took int64) func(h *history.History) {
		return func(h *history.History) {
			h.Votes = append(h.Votes, history.Vote{Node: node, Call: ms(2500), Return: ms(2500 + took), Outcome: outcome})
		}
	}
	judged(t, whole(conduct.Signals), tests{
		"unlocked in time":               {func(*history.History) {}, ""},
		"told in time":                   {lost(7000, 5849, false, nil), ""},
		"told just after":                {lost(7000, 5990, false, nil), ""},
		"told late":                      {lost(7000, 6100, false, nil), "not told that it was lost until 200ms after its deadline: lock of \"L\" by c1.hot1"},
		"never told":                     {lost(7000, 0, false, nil), "until 1.1s after its deadline"},
		"late because it was stopped":    {lost(7000, 6500, false, func(h *history.History) { h.Pulses[3*13].Lag = 500 * time.Millisecond }), ""},
		"much too soon":                  {lost(7000, 3000, false, nil), "lost 2.9s before its deadline, and no fault was near"},
		"a renewed one, at its deadline": {lost(7000, 5849, true, nil), "lost 51ms before its deadline"},
		"a fault on a voter":             {lost(7000, 3000, false, strike(fault("kill-minority", 2000, 2500, "m1"))), ""},
		"a fault on another master":      {lost(7000, 3000, false, strike(fault("kill-minority", 2000, 2500, "m3"))), "no fault was near"},
		"a fault on the client":          {lost(7000, 3000, false, strike(fault("cut-replies", 2000, 2500, "c1", "m3"))), ""},
		"a voter answered late":          {lost(7000, 3000, false, look("m1", history.OK, 100)), ""},
		"a voter did not answer":         {lost(7000, 3000, false, look("m1", history.Unknown, 1)), ""},
		"a voter did not vote":           {lost(7000, 3000, false, look("m1", history.Failed, 1)), ""},
		"voters answered in time":        {lost(7000, 3000, false, look("m1", history.OK, 99)), "no fault was near"},
		"another master did not vote":    {lost(7000, 3000, false, look("m3", history.Failed, 1)), "no fault was near"},
		"nobody looked at masters then": {lost(7000, 3000, false, func(h *history.History) {
			look("m1", history.OK, 1)(h)
			h.Votes[len(h.Votes)-1].Return = ms(899)
			h.Votes[len(h.Votes)-1].Call = ms(890)
		}), ""},
		"a fault later": {lost(7000, 3000, false, strike(fault("kill-minority", 3001, 3500, "m1"))), "no fault was near"},
	})
}

func TestQueueOrder_overtaken_judged(t *testing.T) {
	// c1 waits in the queue of Q from 3.2 to 3.9 s. c2 takes Q that often meanwhile, each time by a call of its own.
	passed := func(times int, more func(h *history.History)) func(h *history.History) {
		return func(h *history.History) {
			op := history.Op{Kind: history.KindLock, Lock: "Q", Mode: history.Exclusive, Fair: true, Outcome: history.OK}
			op.Client, op.Call, op.Return, op.Holder, op.Deadline = "c1.hot1", ms(3200), ms(3900), id1+":2", ms(8000)
			h.Ops = append(h.Ops, op)
			for i := range int64(times) {
				op.Client, op.Call, op.Return, op.Holder, op.Deadline = "c2.hot1", ms(3300+20*i), ms(3310+20*i), fmt.Sprint(id2, ":", i), ms(3315+20*i)
				h.Ops = append(h.Ops, op)
			}
			if more != nil {
				more(h)
			}
		}
	}
	judged(t, whole(conduct.QueueOrder), tests{
		"passed by few":  {passed(conduct.MayOvertake, nil), ""},
		"passed by many": {passed(conduct.MayOvertake+1, nil), "passed by 6 calls that came later, of which 0 may have taken the lock over within their process: lock of \"Q\" by c1.hot1"},
		"by earlier calls, which lined up": {passed(conduct.MayOvertake+2, func(h *history.History) {
			for i := range h.Ops {
				if h.Ops[i].Lock == "Q" && strings.HasPrefix(h.Ops[i].Client, "c2") {
					h.Ops[i].Client, h.Ops[i].Call = fmt.Sprint("c2.hot", i), ms(3100+int64(i))
				}
			}
			slices.SortStableFunc(h.Ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
		}), ""},
		"by those that took over, and few":   {passed(conduct.MayTakeOver+conduct.MayOvertake, crew(0, 0)), ""},
		"by those that took over, and many":  {passed(conduct.MayTakeOver+conduct.MayOvertake+1, crew(0, 0)), "passed by 22 calls that came later, of which 16 "},
		"by those that came too late for it": {passed(conduct.MayOvertake+2, crew(0, conduct.BriefHold)), "passed by 7 calls that came later, of which 0 "},
		"by those that held it for longer":   {passed(conduct.MayOvertake+2, crew(conduct.BriefHold, 0)), "passed by 7 calls that came later, of which 0 "},
		"in two turns":                       {passed(conduct.MayTakeOver+conduct.MayOvertake+1, func(h *history.History) { crew(0, 0)(h); another(h, ms(3520)) }), ""},
		"by unfair ones":                     {passed(conduct.MayOvertake+1, func(h *history.History) { unfair(h, "c2.hot1") }), ""},
		"it is unfair itself":                {passed(conduct.MayOvertake+1, func(h *history.History) { unfair(h, "c1.hot1") }), ""},
		"a fault at that time":               {passed(conduct.MayOvertake+1, func(h *history.History) { h.Faults = append(h.Faults, fault("reorder", 3500, 3501, "m1")) }), ""},
		"it had just begun": {passed(conduct.MayOvertake+1, func(h *history.History) {
			for i := range h.Ops {
				if h.Ops[i].Lock == "Q" && h.Ops[i].Client == "c1.hot1" {
					h.Ops[i].Call = ms(3295) // the first of c2 can have arrived before
				}
			}
		}), ""},
	})
}

// crew has three callers of c2 take Q in turn and hold it for so long, each of which calls that long after the one before it was granted.
func crew(held, late time.Duration) func(h *history.History) {
	return func(h *history.History) {
		n, before := 0, int64(0)
		var unlocks []history.Op
		for i := range h.Ops {
			op := &h.Ops[i]
			if op.Lock != "Q" || op.Client != "c2.hot1" {
				continue
			}
			if n > 0 {
				op.Client, op.Call = fmt.Sprint("c2.hot", n%3+1), before+int64(late)
			}
			n, before = n+1, op.Return
			ended := op.Return + int64(held)
			unlocks = append(unlocks, history.Op{Kind: history.KindUnlock, Lock: "Q", Holder: op.Holder, Client: op.Client, Call: ended, Return: ended + 1, Outcome: history.OK})
		}
		h.Ops = append(h.Ops, unlocks...)
		slices.SortStableFunc(h.Ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
	}
}

// another has another process take Q at that time.
func another(h *history.History, at int64) {
	h.Ops = append(h.Ops, history.Op{
		Kind: history.KindLock, Lock: "Q", Mode: history.Exclusive, Fair: true, Outcome: history.OK, Client: "harness.hot1", Call: at - 1, Return: at, Deadline: at + 1, Holder: id2 + ":z",
	})
	slices.SortStableFunc(h.Ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
}

func unfair(h *history.History, client string) {
	for i := range h.Ops {
		h.Ops[i].Fair = h.Ops[i].Fair && h.Ops[i].Client != client
	}
}

func TestResources_growth_judged(t *testing.T) {
	long := func(heap func(i int) uint64) func(h *history.History) {
		return func(h *history.History) {
			h.Pulses = nil
			for i := range 100 {
				h.Pulses = append(h.Pulses, history.Pulse{Process: "c1", At: ms(int64(500 * i)), Heap: heap(i), Goroutines: 5, Idle: i == 0 || i == 99})
			}
		}
	}
	judged(t, digest.Resources, tests{
		"nothing grows":        {func(*history.History) {}, ""},
		"a goroutine is left":  {func(h *history.History) { h.Pulses[len(h.Pulses)-2].Goroutines = 6 }, "c2 had 5 goroutines before it opened, and 6 after it closed"},
		"the heap is flat":     {long(func(i int) uint64 { return uint64(20+i%3) << 20 }), ""},
		"it grows at first":    {long(func(i int) uint64 { return uint64(min(i, 30)) << 20 }), ""},
		"it grows all along":   {long(func(i int) uint64 { return uint64(10+i) << 20 }), "the heap of c1 grew from 49 to 109 MiB"},
		"its beginning counts": {long(func(i int) uint64 { return uint64(max(10-i, 1)) << 20 }), ""},
	})
}

func TestRefusalsAndHarness_findings_judged(t *testing.T) {
	misfit := func(o history.Outcome) func(h *history.History) {
		return func(h *history.History) {
			h.Ops = append(h.Ops, history.Op{Kind: history.KindMisfit, Client: "harness.misfit1", Lock: "misconfigured", Call: ms(5000), Return: ms(5001), Outcome: o, Error: "other masters"})
		}
	}
	judged(t, whole(conduct.Refusals), tests{
		"refused": {misfit(history.Failed), ""},
		"granted": {misfit(history.OK), "a client with other masters was given a lock"},
	})
	h := calm()
	if misfit(history.Unknown)(h); check.Whole(conduct.Refusals(), h).Verdict != check.Unknown {
		t.Error("without a quorum that refused the checker says something")
	}
	judged(t, digest.Harness, tests{
		"nothing": {func(*history.History) {}, ""},
		"what effort reports": {func(h *history.History) {
			h.Findings = []history.Finding{{At: ms(1), Checker: "effort", Detail: "too few faults"}}
		}, ""},
		"a crash": {func(h *history.History) { h.Findings = []history.Finding{{At: ms(1), Detail: "client c1 ended"}} }, "client c1 ended"},
	})
}

// A history without Expect need not have the records that these checkers judge.
func TestAll_noExpect_theseCheckersDoNotCount(t *testing.T) {
	for _, r := range All(read(t, "testdata/exclusion_illegal_overlap.jsonl"), Expect{Heal: time.Second, Timeout: time.Second}) {
		switch r.ID {
		case "left-behind", "signals", "queue-order", "availability", "resources", "refusals":
			if r.Promised {
				t.Errorf("%s counts: %s", r.ID, r.Summary)
			}
		}
	}
	h := calm()
	for _, r := range All(h, Expected(h, time.Second)) {
		if (r.ID == "left-behind" || r.ID == "refusals") && (!r.Promised || r.Verdict != check.Unknown) {
			t.Errorf("%s saw nothing, and is %s", r.ID, r.Verdict)
		}
	}
}

// A lease that cannot be judged is none that was: with no other, there is no verdict.
func TestSignals_nothingToGoBy_unknown(t *testing.T) {
	late := calm()
	late.Ops[1].Call, late.Ops[1].Return = ms(15_900), ms(15_910) // ten seconds after its deadline, and the last pulse is of 10 s
	late.Ops = late.Ops[:2]
	busy := calm()
	busy.Ops = busy.Ops[:2]
	busy.Ops[1].Call, busy.Ops[1].Return, busy.Ops[1].Outcome = ms(7000), ms(7001), history.Failed
	busy.Signals = []history.Signal{{Process: "c1", Lock: "L", Holder: id1 + ":1", At: ms(3000), Deadline: ms(5900), Cause: "lost", Renewed: true}}
	for i := range busy.Pulses {
		busy.Pulses[i].Lag = conduct.QuietLag
	}
	for name, h := range map[string]*history.History{"no pulse near": late, "a busy machine": busy} {
		if r := check.Whole(conduct.Signals(), h); r.Verdict != check.Unknown || r.Observed != 0 {
			t.Errorf("%s: %s, %d observed: %s", name, r.Verdict, r.Observed, r.Summary)
		}
	}
}
