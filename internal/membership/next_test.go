// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// transitions has one scene or more for each row of the table in doc.go. what is the row, "from -> to", after the
// name of the master that it happens to.
var transitions = []struct {
	name, what string
	scene
}{
	{"a lost master is claimed", "c: lost -> R", scene{masters: "VA5 VA5 -", whole: never}},
	{"a restarted master is claimed", "c: lost -> R", scene{masters: "VA5 VA5 oVA5", whole: never}},
	{"seen whole just in time", "a: lost -> R", scene{masters: "- - VA5", whole: 29 * time.Second}},
	{"a fixed list is used first", "a: lost -> R", scene{from: "F", masters: "- - -", whole: never}},
	{"a fixed list has the number that its records have", "a: R -> V", scene{from: "F", masters: "RF5 RF5 VF5", whole: never, stood: sceneW}},
	{"quarantined for an epoch before", "a: R before -> R", scene{masters: "RA4 VA5 VA5", whole: 0}},
	{"it waited", "a: R -> V", scene{masters: "RA5 VA5 VA5", whole: 0, stood: sceneW}},
	{"it waited, two lost, seen whole before", "b: R -> V", scene{masters: "VA5 RA5 RA5", whole: 60 * time.Second, stood: sceneW}},
	{"the plan lists its nonce", "d: R -> V", scene{from: "B", masters: "VB6* VB6* RB6", whole: never}},
	{"the clock of a quarantined master moved", "a: R -> R", scene{masters: "RA5 VA5 VA5", whole: 0, stood: sceneW, edit: moved(0)}},
	{"the clock of a whole master moved again", "a: R whole -> R whole", scene{masters: "WA5 VA5 VA5", whole: 0, stood: sceneW, edit: moved(0)}},
	{"the clock of a voting master moved", "b: V -> R whole", scene{masters: "VA5 VA5 VA5", whole: 0, edit: moved(1)}},
	{"a whole master waited, and nobody vouches", "a: R whole -> V", scene{masters: "WA5 VA5 -", whole: time.Hour, stood: sceneW}},
	{"a voting master of the list before", "b: V before -> V", scene{from: "B", masters: "VA5 VB6* VB6*", whole: never}},
	{"a retired master of the list before", "b: X before -> V", scene{from: "B", masters: "XA5*+ VB6* VB6*", whole: never}},
	{"a client ends a cancelled change", "a: X -> V", scene{masters: "XA5*+ VA5c VA5c", whole: 0}},

	{"init", "a: lost -> R", scene{goal: Init, masters: "- - -", whole: never}},
	{"init takes the higher number", "a: R before -> R", scene{goal: Init, masters: "RA4 RA5 RA5", whole: never}},
	{"init gives a change up", "a: X before -> R", scene{goal: Init, masters: "XA5*+ XA5*+ -", whole: never, edit: func(v *View) { v.Abandon = true }}},
	{"init gives a change up where a minority votes", "b: X -> R", scene{goal: Init, masters: "VA5+ XA5*+ XA5*+", whole: never, edit: func(v *View) { v.Abandon = true }}},
	{"init gives a change up, and a master waits for the list before", "b: R before -> R", scene{goal: Init, from: "B", masters: "RA5 VB6* -", whole: never, edit: func(v *View) { v.Abandon = true }}},
	{"init: all have waited", "a: R -> V", scene{goal: Init, masters: "RA5 RA5 RA5", whole: never, stood: sceneW}},
	{"init: nothing was ever locked", "a: R -> V", scene{goal: Init, masters: "RA5u RA5u RA5u", whole: never, edit: neverLocked}},
	{"init: listed masters begin at once", "c: R -> V", scene{goal: Init, masters: "VA5* VA5* RA5", whole: never, edit: listed}},
	{"init where a minority votes", "b: lost -> R", scene{goal: Init, masters: "VA5 - -", whole: never}},

	{"a new master is prepared", "d: lost -> R", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 - - -", whole: never}},
	{"a new master was prepared before", "d: R before -> R", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 RC4 - -", whole: never}},
	{"a new master was retired before", "d: X before -> R", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 XC4 RC6 RC6", whole: never}},
	{"a new master was left behind before", "d: V before -> R", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 VC4 RC6 RC6", whole: never}},
	{"the change is proposed", "a: V -> V", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 RC6 RC6 RC6", whole: never}},
	{"a quorum of the old masters is enough", "a: V -> V", scene{goal: Change, target: "C", masters: "VA5 VA5 - RC6 RC6 RC6", whole: never}},
	{"the promise of a process that died", "c: V -> V", scene{goal: Change, target: "C", masters: "VA5+ VA5+ VA5 RC6 RC6 RC6", whole: never}},
	{"a retired master promises again", "a: X -> X", scene{goal: Change, target: "C", masters: "XA5*+ VA5+ VA5+ RC6 RC6 RC6", whole: never, edit: prepared(3, 555)}},
	{"all promised", "a: V -> X", scene{goal: Change, target: "C", masters: "VA5+ VA5+ VA5+ RC6 RC6 RC6", whole: never}},
	{"a quorum was retired for W", "d: R -> V", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ RC6 RC6 RC6", whole: never, stood: sceneW}},
	{"the new epoch has begun", "e: R -> V", scene{goal: Change, target: "C", masters: "? ? ? VC6* RC6 RC6", whole: never}},
	{"a straggler of the old list votes still", "c: V before -> V", scene{goal: Change, target: "B", masters: "XA5*+ VB6* VA5+ RB6", whole: never, stood: sceneW}},
	{"retired masters stay in the new list", "b: X before -> V", scene{goal: Change, target: "B", masters: "XA5*+ XA5*+ XA5*+ RB6", whole: never, stood: sceneW}},

	{"a change is cancelled", "a: V -> V", scene{goal: Cancel, masters: "VA5+ VA5 VA5", whole: never}},
	{"a retired master promises to cancel", "a: X -> X", scene{goal: Cancel, masters: "XA5*+ VA5c VA5c", whole: never}},
	{"a cancelled master votes again", "a: X -> V", scene{goal: Cancel, masters: "XA5*c VA5c VA5c", whole: never}},
}

func neverLocked(v *View) { v.NeverLocked = true }

func moved(i int) func(*View) { return func(v *View) { v.Masters[i].Moved = true } }

// listed makes the plan of the voting masters one by which their epoch began with all masters.
func listed(v *View) {
	for i := range v.Masters {
		if r := &v.Masters[i].Record; r.State.Phase == Voting {
			r.Plan = Plan{Ballot: Ballot{1, 77}, From: r.State.Epoch, Target: r.State.Epoch, Begin: []Nonce{100, 101, 102}}
		}
	}
}

// leftForThird marks the masters that only the target has and that are retired as those of a finished change to a third list.
func leftForThird(v *View) {
	for i := range v.Masters {
		at := &v.Masters[i]
		if r := &at.Record; at.New && r.State.Phase == Retired {
			r.Plan = Plan{Ballot: r.State.Ballot, From: r.State.Epoch, Target: Epoch{r.State.Epoch.Number + 1, 99}}
			r.Over, r.Target = r.State.Ballot.String(), "3 masters x y z"
		}
	}
}

// changePrepared marks the quarantined masters as those that a change from x, y and z has prepared.
func changePrepared(v *View) {
	before, err := NewTerms([]string{"x", "y", "z"}, time.Minute, 0.01, 2*time.Millisecond, false)
	if err != nil {
		panic(err)
	}
	for i := range v.Masters {
		if r := &v.Masters[i].Record; r.State.Phase == Quarantined {
			r.Before, r.Target = before, v.Terms.String()
		}
	}
}

// preparedAndGivenUp is the same, and Init gives that change up.
func preparedAndGivenUp(v *View) {
	changePrepared(v)
	v.Abandon = true
}

// finished marks the retired masters as those of a change that is finished.
func finished(v *View) {
	for i := range v.Masters {
		if r := &v.Masters[i].Record; r.State.Phase == Retired {
			r.Over = r.State.Ballot.String()
		}
	}
}

// leftForOther is likewise, and the change was one to another list.
func leftForOther(v *View) {
	finished(v)
	otherTarget(v)
}

// preparedBack is likewise, and a change back has prepared the quarantined masters; Init gives that up.
func preparedBack(v *View) {
	finished(v)
	preparedAndGivenUp(v)
}

// finishedAndGivenUp is the same, and Init gives that change up.
func finishedAndGivenUp(v *View) {
	finished(v)
	v.Abandon = true
}

// prepared gives master i another nonce than the plan has.
func prepared(i int, n Nonce) func(*View) {
	return func(v *View) { v.Masters[i].Record.State.Nonce = n }
}

// halfAsLong lets the client have seen the record state of master i for half as long as the others.
func halfAsLong(i int) func(*View) {
	return func(v *View) {
		s := &v.Memory.Sights[i]
		s.First += (atNow - s.First) / 2
	}
}

// TestNext_transitions runs a scene for each row of the table, and holds the table of doc.go against the scenes.
// Package membershipmodel holds it against what the explorer sees.
func TestNext_transitions(t *testing.T) {
	goals := [...]string{Serve: "serve", Init: "init", Change: "change", Cancel: "cancel"}
	seen := make(map[string]bool)
	for _, test := range transitions {
		t.Run(test.name, func(t *testing.T) {
			v, a := test.run(t)
			if got := tell(v, a); got != test.what {
				t.Fatalf("%s\nwant %s", got, test.what)
			}
			seen[move(v, a)+" "+goals[test.goal]] = true
			if a.To.State.Incarnation != "now" || a.From.State != v.Masters[a.Master].Record.State || a.From.Intent.Ballot != v.Masters[a.Master].Record.Intent.Ballot {
				t.Errorf("%+v", a)
			}
			if rs := a.To.State; rs != a.From.State && (rs.Phase == Voting) != (rs.Nonce == 0) || rs != a.From.State && rs.Nonce != 0 && rs.Nonce != v.Nonce {
				t.Errorf("the nonce of %v is not fresh", rs)
			}
		})
	}
	rows := tableRows(t)
	for row := range rows {
		if !seen[row] {
			t.Errorf("the table has a row without a scene: %s", row)
		}
	}
	for row := range seen {
		if !rows[row] {
			t.Errorf("a scene does what the table does not have: %s", row)
		}
	}
}

// tableRows reads the table of transitions in doc.go, as "from -> to goal".
func tableRows(t *testing.T) map[string]bool {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../../docs/internals/membership.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		row, isRow := strings.CutPrefix(line, "//\t| ")
		f := strings.Split(row, "|")
		if !isRow || len(f) != 5 || strings.TrimSpace(f[0]) == "from" {
			continue
		}
		name := strings.TrimSpace(f[0]) + " -> " + strings.TrimSpace(f[1]) + " " + strings.TrimSpace(f[2])
		if rows[name] {
			t.Errorf("the table has two rows %s", name)
		}
		rows[name] = true
		if !strings.Contains(string(manual), "\n| "+row) {
			t.Errorf("docs/internals/membership.md lacks the row %s", line)
		}
	}
	if len(rows) < 20 {
		t.Fatalf("%d rows found in the table", len(rows))
	}
	return rows
}

// TestNext_counters: a master never begins to vote with counters that are too small.
func TestNext_counters(t *testing.T) {
	for _, test := range []struct {
		name, learns string
		counters     Counters
		scene
	}{
		{"one of three recovers", "learn b c", RaiseCounters, scene{masters: "RA5 VA5 VA5", whole: 0, stood: sceneW}},
		{"retired and whole masters have counters", "learn b c", RaiseCounters, scene{masters: "RA5 XA5*+ WA5", whole: 0, stood: sceneW}},
		{"two lost theirs", "learn a b c", RaiseCountersToFloor, scene{masters: "RA5 RA5 VA5", whole: 60 * time.Second, stood: sceneW}},
		{"a new epoch takes them from the retired", "learn a b c", RaiseCounters, scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ RC6 RC6 RC6", whole: never, stood: sceneW}},
		{"a master brought over takes them from one that votes", "learn c d", RaiseCounters, scene{from: "B", masters: "XA5*+ VB6* VB6*", whole: never}},
		{"init", "learn a b c", RaiseCountersToFloor, scene{goal: Init, masters: "RA5 RA5 RA5", whole: never, stood: sceneW}},
		{"one of four recovers, and another is out of reach", "learn b c", RaiseCounters, scene{from: "D", masters: "RD5 VD5 VD5 ?", whole: 0, stood: sceneW}},
		{"two of four know", "learn c d", RaiseCounters, scene{from: "D", masters: "RD5 RD5 XD5*+ VD5", whole: 0, stood: sceneW}},
		{"one of four knows", "learn a b c d", RaiseCountersToFloor, scene{from: "D", masters: "RD5 RD5 RD5 VD5", whole: 60 * time.Second, stood: sceneW}},
		{"a whole master keeps its own", "", KeepCounters, scene{masters: "WA5 VA5 VA5", whole: 0, stood: sceneW}},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, a := test.run(t)
			if a.Kind != Swap || a.To.State.Phase != Voting || a.Counters != test.counters {
				t.Errorf("%s, counters %d, want %d", tell(v, a), a.Counters, test.counters)
			}
			edit := test.edit
			test.edit = func(v *View) {
				if edit != nil {
					edit(v)
				}
				for i := range v.Masters {
					v.Masters[i].Learned = false
				}
			}
			if v, a = test.run(t); test.learns != "" && tell(v, a) != test.learns {
				t.Errorf("before that: %s, want %s", tell(v, a), test.learns)
			}
		})
	}
	// Nothing leaps while a master is out of reach that may have kept its counters: it may still come back.
	for _, s := range []scene{{masters: "RA5 VA5 ?"}, {from: "D", masters: "RD5 RD5 VD5 ?"}} {
		s.whole, s.stood = 10*time.Second, sceneW
		if v, a := s.run(t); a.Kind == Swap {
			t.Errorf("a master out of reach may have the counters: %s", tell(v, a))
		}
	}
}

// TestNext_notYet has a scene for each condition that is almost met.
func TestNext_notYet(t *testing.T) {
	for _, test := range []struct {
		name, what string
		scene
	}{
		{"nobody saw the epoch whole", "refuse: 2 of 3 masters (a b) have no valid record", scene{masters: "- - VA5", whole: 30 * time.Second}},
		{"a nanosecond too early", "done, then 1ns", scene{masters: "RA5 VA5 VA5", whole: 0, stood: sceneW - 1}},
		{"counters that were read before the wait was over", "learn b c", scene{masters: "RA5 VA5 VA5", whole: 0, stood: sceneW, edit: func(v *View) { v.Masters[1].Sent-- }}},
		{"whole before the record state was seen, but too long", "refuse: 2 of 3", scene{masters: "VA5 RA5 RA5", whole: sceneW + 35*time.Second, stood: sceneW + 5*time.Second}},
		{"quarantined, and vouched by somebody else perhaps", "wait 5.604s", scene{masters: "VA5 RA5 RA5", whole: never, stood: 30 * time.Second}},
		{"the other one waits for an epoch before", "wait 5s", scene{masters: "RA5 RA4 ?", whole: 60 * time.Second, stood: sceneW}},
		{"nobody vouched in time", "refuse: 2 of 3 masters (b c) have no valid record", scene{masters: "VA5 RA5 RA5", whole: never, stood: sceneW + 5*time.Second}},
		{"a client that is new, one votes", "refuse: c is out of reach", scene{masters: "VA5 - ?", whole: never}},
		{"a client that is new, a change goes on", "refuse: the masters are being changed to 6.", scene{masters: "XA5*+ VA5+ ?", whole: never}},
		{"a client that is new, a change goes on, and one forgot", "refuse: the masters are being changed to 6.", scene{masters: "XA5*+ - ?", whole: never}},
		{"a client that is new, a change cannot go on", "refuse: the masters were being changed to 6.", scene{masters: "XA5*+ - -", whole: never}},
		{"a client that is new, a change goes on, and the clock of a master moved", "refuse: the masters are being changed to 6.", scene{masters: "XA5*+ WA5 -", whole: never}},
		{"a client that is new, the change is finished", "refuse: these masters were left for another list: epoch 6.", scene{masters: "XA5*+ XA5*+ ?", whole: never, edit: finished}},
		{"the nonce is not that of the plan", "done, then 30.604s", scene{from: "B", masters: "VB6* VB6* RB6", whole: never, edit: prepared(2, 555)}},
		{"a change has prepared its masters, long ago", "wait 30.604s", scene{masters: "RA5 RA5 -", whole: never, stood: sceneW + 5*time.Second, edit: changePrepared}},
		{"the same, and the others restarted after they voted", "refuse: 3 of 3 masters (a b c) have no valid record", scene{masters: "oVA5 oVA5 oRA5", whole: never, edit: changePrepared}},
		{"a list that was left", "refuse: these masters were left for another list: 3 masters b c d", scene{masters: "- VB6* VB6*", whole: time.Hour}},
		{"a change that goes on", "refuse: the masters are being changed to 6.", scene{masters: "XA5*+ XA5*+ VA5+", whole: 0}},
		{"another list's master", "refuse: b belongs to another epoch: 3 masters b c d,", scene{masters: "VA5 VB4 -", whole: time.Hour}},
		{"two forgot, and whatever the third is, no quorum can vote again", "refuse: 2 of 3 masters (a b) have no valid record, and nobody here saw a quorum vote in the last 30s; no quorum can vote again by itself: c is out of reach: start the master, or correct its URL; mend these, and in place of each that is gone for good start an empty server", scene{masters: "oVA5 - ?", whole: never}},
		{"init: one is gone", "refuse: every master is needed: c is out of reach: start the master, or correct its URL; if one is gone for good, start an empty server under its old name", scene{goal: Init, masters: "oVA5 - ?", whole: never}},
		{"too few answer", "refuse: b is out of reach", scene{masters: "VA5 ? -", whole: time.Hour}},

		{"init: one is silent", "refuse: every master is needed: c is out of reach: start the master", scene{goal: Init, masters: "- - ?", whole: never}},
		{"init: a change goes on", "refuse: a was retired for a change to 6.", scene{goal: Init, masters: "XA5*+ - -", whole: never}},
		{"init: a change is given up that is finished", "refuse: these masters were left for another list: epoch 6.", scene{goal: Init, masters: "XA5*+ XA5*+ XA5*+", whole: never, edit: finishedAndGivenUp}},
		{"init: the same, and the others forgot", "refuse: these masters were left for another list: epoch 6.", scene{goal: Init, masters: "- XA5*+ -", whole: never, edit: finishedAndGivenUp}},
		{"init: the same, and the masters restarted with their records", "refuse: these masters were left for another list: epoch 6.", scene{goal: Init, masters: "oXA5*+ oXA5*+ oXA5*+", whole: never, edit: finishedAndGivenUp}},
		{"init: the same, without the word", "refuse: these masters were left for another list: epoch 6.", scene{goal: Init, masters: "oXA5*+ oXA5*+ oXA5*+", whole: never, edit: finished}},
		{"init: one restarted, and the others forgot", "refuse: these masters were left for another list: epoch 6.", scene{goal: Init, masters: "- oXA5*+ -", whole: never, edit: finishedAndGivenUp}},
		{"init: the same, and a change back has prepared a master", "refuse: these masters were left for another list: epoch 6.", scene{goal: Init, masters: "RA7 oXA5*+ -", whole: never, edit: preparedBack}},
		{"init: the list was left, and began again since", "a: lost -> R", scene{goal: Init, masters: "oXA5*+ VA7 -", whole: never, edit: finishedAndGivenUp}},
		{"init: the same, and those who voted restarted", "a: lost -> R", scene{goal: Init, masters: "oXA5*+ oVA7 -", whole: never, edit: finishedAndGivenUp}},
		{"init: a master that another list left", "refuse: c belongs to another epoch: 3 masters b c d, maximum TTL 30s, drift 0.01 + 2ms; you gave", scene{goal: Init, masters: "- - XB5*+", whole: never, edit: finished}},
		{"init: a master of another list, which restarted", "refuse: c restarted, or was promoted, and may have forgotten votes; its record is of another list: 3 masters b c d, ", scene{goal: Init, masters: "- - oVB5", whole: never}},
		{"init: another list", "refuse: c belongs to another epoch", scene{goal: Init, masters: "- - VB5", whole: never}},
		{"init: a change has prepared a master, and its list may vote", "refuse: a change from 3 masters x y z", scene{goal: Init, masters: "RA5 RA5 -", whole: never, edit: changePrepared}},
		{"init: the same of a master that restarted", "refuse: a change from 3 masters x y z", scene{goal: Init, masters: "oRA5 - -", whole: never, edit: changePrepared}},
		{"init: a change has prepared a master, and is given up", "c: lost -> R", scene{goal: Init, masters: "RA5 RA5 -", whole: never, edit: preparedAndGivenUp}},
		{"init: a change has prepared a master, and began", "c: lost -> R", scene{goal: Init, masters: "VA5 RA5 -", whole: never, edit: changePrepared}},
		{"init: a quorum votes", "done", scene{goal: Init, masters: "- VA5 VA5", whole: never}},
		{"init: two waited, and the third half as long", "wait 15.302s", scene{goal: Init, masters: "RA5 RA5 RA5", whole: never, stood: sceneW, edit: halfAsLong(2)}},
		{"init: nothing was ever locked, but somebody saw this list vote", "wait 30.604s", scene{goal: Init, masters: "RA5u RA5 RA5u", whole: never, edit: neverLocked}},
		{"init: not all waited", "wait 1ms", scene{goal: Init, masters: "RA5 RA5 RA5", whole: never, stood: sceneW - time.Millisecond}},

		{"change: to itself", "refuse: the old and the new list", scene{goal: Change, target: "A", masters: "VA5 VA5 VA5", whole: never}},
		{"change: a fixed list", "refuse: one of the lists is fixed", scene{goal: Change, from: "F", target: "C", masters: "VF5 VF5 VF5 - - -", whole: never}},
		{"change: too few", "refuse: too few of the old masters have their record: a votes, b has no record", scene{goal: Change, target: "C", masters: "VA5 - RA5 - - -", whole: never}},
		{"change: a new master is silent", "refuse: f is out of reach; nothing has stopped", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 RC6 RC6 ?", whole: never}},
		{"change: a new master is in use", "refuse: d belongs to another epoch", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 VB4 - -", whole: never}},
		{"change: the wait", "wait 1ns", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ RC6 RC6 RC6", whole: never, stood: sceneW - 1}},
		{"change: a new master is of a later epoch", "refuse: d is quarantined; you gave 3 masters d e f, maximum TTL 30s, drift 0.01 + 2ms; take that master out of this list", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 RC7 - -", whole: never}},
		{"change: a new master was retired in the target", "refuse: d was retired for a change", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 XC6 - -", whole: never}},
		{"change: all nonces of the plan are gone", "refuse: too few of the new masters can begin", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - -", whole: never, stood: sceneW}},
		{"change: two nonces of the plan are gone, and leases of the old list may live", "wait 1ms", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - RC6", whole: never, stood: sceneW - time.Millisecond}},
		{"change: two nonces of the plan are gone, and the old list may go on", "refuse: the masters were being changed to 6.", scene{goal: Change, target: "C", masters: "XA5*+ VA5+ ? - - RC6", whole: never, stood: sceneW}},
		{"change: the same, and the old list is over", "refuse: too few of the new masters can begin", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - RC6", whole: never, stood: sceneW}},
		{"change: the same, and one has begun", "f: R -> V", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ VC6* - RC6", whole: never, stood: sceneW}},
		{"change: the same, and it restarted", "f: R -> V", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ oVC6* - RC6", whole: never, stood: sceneW}},
		{"change: the new list has begun, and restarted", "refuse: the new list has begun, and too few of its masters vote", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ oVC6* - oVC6*", whole: never, stood: sceneW}},
		{"change: they came back", "e: R -> V", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - RC6 RC6", whole: never, stood: sceneW}},
		{"change: the same, and an old master that stays is able", "b: X before -> V", scene{goal: Change, target: "B", masters: "XA5*+ XA5*+ - RB6", whole: never, stood: sceneW}},
		{"change: done", "done", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ VC6* VC6* -", whole: never}},
		{"change: the target is in use", "refuse: the new list votes already", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 VC4 VC4 VC4", whole: never}},
		{"change: the target is in use, and one of its masters waits", "refuse: the new list votes already", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 VC4 RC4 VC4", whole: never}},
		{"change: the target is in use, and shares masters", "refuse: the new list votes already", scene{goal: Change, target: "B", masters: "VA5 VA5 VB4 VB4", whole: never}},
		{"change: the target may be in use", "refuse: f is out of reach; nothing has stopped", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 VC4 RC6 ?", whole: never}},
		{"change: the target was left for a third list", "refuse: these masters were left for another list: 3 masters x y z", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ XC6 XC6 XC6", whole: never, edit: leftForThird}},
		{"change: the target was left, and one of its masters was not told", "refuse: these masters were left for another list: 3 masters x y z", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ VC6* XC6 XC6", whole: never, edit: leftForThird}},
		{"change: the target was left, which shares masters", "refuse: these masters were left for another list: 3 masters x y z", scene{goal: Change, target: "B", masters: "XA5*+ XB6 VC7 VC7", whole: never, edit: leftForThird}},
		{"change: the target was left, and is used again", "refuse: these masters were left for another list: 3 masters d e f", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ VC8 VC8 XC6", whole: never, edit: leftForThird}},
		{"change: the target was left, and its masters vote for a third list", "refuse: these masters were left for another list: 3 masters b c d", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ VB7 VB7 VB7", whole: never, edit: finished}},
		{"change: the same, and two restarted and one forgot", "refuse: these masters were left for another list: 3 masters b c d", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ oVB7 - oVB7", whole: never, edit: finished}},
		{"change: the same, and one votes in the target still", "refuse: the new list has begun, and too few of its masters vote", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ VC6* VB7 VB7", whole: never, edit: finished}},
		{"change: its masters vote for another list, which is no later one", "refuse: the new list has begun, and too few of its masters vote", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ VB6 VB6 VB6", whole: never, edit: finished}},
		{"change: its masters were prepared for a third list, or began the target again", "refuse: the new list has begun, and too few of its masters vote", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ VC8 RB7 RB7", whole: never, edit: finished}},
		{"change: the old list was left, and began again since", "refuse: the masters were being changed ", scene{goal: Change, target: "C", masters: "XA5*+ oVA7 oVA7 - - -", whole: never, edit: finished}},
		{"change: the old list was left for another one", "refuse: these masters were left for another list", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - -", whole: never, edit: leftForOther}},
		{"change: a change back goes on", "refuse: the masters were being changed ", scene{goal: Change, target: "C", masters: "XA5*+ RA7 RA7 XC6 XC6 -", whole: never, edit: preparedBack}},
		{"change: its masters vote for a third list, and the old masters wait for the new list", "wait 30.604s", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ VB7 VB7 VB7", whole: never}},
		{"change: the new list has begun, and forgot", "refuse: the new list has begun, and too few of its masters vote", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - -", whole: never, edit: finished}},
		{"change: the same, and an old master too, long ago", "refuse: the new list has begun, and too few of its masters vote", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ - - - -", whole: never, stood: sceneW, edit: finished}},
		{"change: there and back", "d: X before -> R", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 XC4 XC4 XC4", whole: never, edit: leftForThird}},
		{"change: both vote", "refuse: both lists vote", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 VC6* - -", whole: never}},

		{"cancel: nothing is there", "done", scene{goal: Cancel, masters: "VA5 VA5 VA5", whole: never}},
		{"cancel: a master that was retired votes again, with the plan", "done", scene{goal: Cancel, masters: "VA5*c VA5c VA5c", whole: never}},
		{"a cancelled change had retired a master, and the others are silent", "refuse: b is out of reach", scene{masters: "VA5*c ? ?", whole: never}},
		{"init: the same, and the others forgot", "b: lost -> R", scene{goal: Init, masters: "VA5*c - -", whole: never, edit: func(v *View) { v.Abandon = true }}},
		{"cancel: a quorum is retired", "refuse: the change cannot be given up", scene{goal: Cancel, masters: "XA5*+ XA5*+ VA5+", whole: never}},
		{"cancel: it was finished", "refuse: these masters were left", scene{goal: Cancel, from: "A", masters: "XA5*+ VB6* VB6*", whole: never}},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, a := test.run(t)
			if got := tell(v, a); !strings.HasPrefix(got, test.what) || test.what == "done" && got != "done" {
				t.Errorf("%s\nwant %s", got, test.what)
			}
		})
	}
}

// TestObserve_wholeSinceTheEarliestReading: an epoch was whole when the first master of the quorum was asked. What a
// master answers says nothing about later.
func TestObserve_wholeSinceTheEarliestReading(t *testing.T) {
	v := scene{masters: "VA5 VA5 VA5", whole: never, edit: func(v *View) { v.Masters[1].Sent -= 10 * time.Second }}.view(t)
	if want := atNow - 10*time.Second; v.Memory.Whole != want || v.Memory.Number != inUse {
		t.Errorf("seen whole at %v in %d, want %v", v.Memory.Whole, v.Memory.Number, want)
	}
}

// TestObserve_anotherRecordState_theWaitBeginsAnew: what stood before proves nothing about the state that stands now.
func TestObserve_anotherRecordState_theWaitBeginsAnew(t *testing.T) {
	v := scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ RC6 RC6 RC6", whole: never, stood: sceneW, edit: prepared(0, 555)}.view(t)
	if s := v.Memory.Sights[0]; s.State.Nonce != 555 || s.First != atNow || s.Last != atNow {
		t.Errorf("a record state that was first seen now: %+v", s)
	}
	if s := v.Memory.Sights[1]; s.Last-s.First != sceneW {
		t.Errorf("a record state that stood: %+v", s)
	}
}

// TestVotes_onlyInTheEpoch: a vote on a master that is quarantined, retired, restarted or of another epoch does not count.
func TestVotes_onlyInTheEpoch(t *testing.T) {
	for word, want := range map[string]bool{
		"VA5": true, "RA5": false, "WA5": false, "XA5*": false, "oVA5": false, "VA4": false, "VB5": false, "-": false, "?": false,
	} {
		v := scene{masters: word + " VA5 VA5", whole: never}.view(t)
		if got := Votes(v, 0, Epoch{inUse, v.Terms.ID}); got != want {
			t.Errorf("%s votes: %v", word, got)
		}
	}
}

// TestNext_anotherChange_refused: a change never takes over the plan of another target.
func TestNext_anotherChange_refused(t *testing.T) {
	s := scene{goal: Change, target: "C", masters: "VA5+ VA5 VA5 RC6 RC6 RC6", whole: never, edit: func(v *View) {
		v.Masters[0].Record.Intent.Target.ID++
		v.Masters[0].Record.Target, v.Masters[0].Record.Intent.Since = "3 masters x y z", v.Wall.Unix()-60
	}}
	v, a := s.run(t)
	if got := tell(v, a); a.Why.Code != OtherChange || !strings.Contains(got, "to 3 masters x y z (by other, 1m0s ago)") {
		t.Errorf("%s", got)
	}
}

// TestNext_init_numbers: of two numbers the higher one is taken, and the first number is above all that were seen.
func TestNext_init_numbers(t *testing.T) {
	for _, test := range []struct {
		masters string
		want    int64
	}{{"- - -", 3}, {"oVA5 - -", 6}, {"RA4 - RA5", 5}, {"XA5*+ - RA5", 6}, {"oVA9 RA4 -", 4}} {
		v, a := scene{goal: Init, masters: test.masters, whole: never, edit: func(v *View) { v.Abandon = true }}.run(t)
		if a.Kind != Swap || a.To.State.Epoch.Number != test.want {
			t.Errorf("%s: %s for epoch %v, want number %d", test.masters, tell(v, a), a.To.State.Epoch, test.want)
		}
	}
	v, a := scene{goal: Init, masters: "RA5 RA5 RA5", whole: never, stood: sceneW}.run(t)
	if a.Plan == nil || !slices.Equal(a.Plan.Begin, []Nonce{sceneNonce(0), sceneNonce(1), sceneNonce(2)}) {
		t.Errorf("%s with plan %v", tell(v, a), a.Plan)
	}
}

// TestNext_fixedList_numbers: an old file may have a higher number than the one in which a quorum votes. Where none votes the highest counts.
func TestNext_fixedList_numbers(t *testing.T) {
	for masters, want := range map[string]int64{"VF5 VF5 oVF9": 5, "VF5 - oVF9": 9, "VF5 VF5 RF9": 5, "oVF5 oVF5 oVF9": 9} {
		v, a := scene{from: "F", masters: masters, whole: never}.run(t)
		if a.Kind != Swap || a.To.State.Epoch.Number != want {
			t.Errorf("%s: %s for epoch %v, want number %d", masters, tell(v, a), a.To.State.Epoch, want)
		}
	}
}

// TestNext_notObserved_looks: a decision rests on what Observe took in.
func TestNext_notObserved_looks(t *testing.T) {
	v := scene{masters: "VA5 VA5 -"}.view(t)
	v.Now++
	if a := Next(v); a.Kind != Look {
		t.Errorf("not observed: %s", tell(v, a))
	}
	v.Now--
	v.Nonce = 0
	if a := Next(v); a.Kind != Look {
		t.Errorf("no nonce: %s", tell(v, a))
	}
}

// TestNext_first_choosesTheMaster: clients that begin elsewhere do not all send the same compare-and-set.
func TestNext_first_choosesTheMaster(t *testing.T) {
	for first, want := range []string{"a: lost -> R", "c: lost -> R", "c: lost -> R"} {
		v, a := scene{from: "A", masters: "- VA5 -", whole: 0, edit: func(v *View) { v.First = first }}.run(t)
		if got := tell(v, a); got != want {
			t.Errorf("first %d: %s, want %s", first, got, want)
		}
	}
}

// TestAction_Fields: what is written beside the head.
func TestAction_Fields(t *testing.T) {
	fields := func(s scene) string {
		v, a := s.run(t)
		return strings.Join(a.Fields(v, "urls"), "\n")
	}
	lists := sceneLists(t)
	claim := fields(scene{masters: "VA5 VA5 -", edit: func(v *View) { v.Masters[2].Note = Note{1, 2000, 3000, 4000} }})
	for _, want := range []string{FieldPlan + "\n\n", FieldTerms + "\n" + lists["A"].String(), FieldClock + "\n" + Note{1, 2000, 3000, 4000}.String()} {
		if !strings.Contains(claim, want) {
			t.Errorf("a claim writes %q, without %q", claim, want)
		}
	}
	if !strings.HasSuffix(claim, "\n"+FieldLatest+"\n") {
		t.Errorf("a claim writes %q, and does not remove %s", claim, FieldLatest)
	}
	prepared := fields(scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 - - -", whole: never})
	for _, want := range []string{FieldTarget + "\n" + lists["C"].String() + "\n" + FieldURLs + "\nurls", FieldBefore + "\n" + lists["A"].String()} {
		if !strings.Contains(prepared, want) {
			t.Errorf("a preparation writes %q, without %q", prepared, want)
		}
	}
	begun := fields(scene{from: "B", masters: "VB6* VB6* RB6", whole: never, edit: changePrepared})
	if want := FieldTarget + "\n\n" + FieldURLs + "\n\n" + FieldBefore + "\n"; !strings.HasSuffix(begun, want) {
		t.Errorf("a client that brings over what was prepared writes %q, without %q", begun, want)
	}
	promise := fields(scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 RC6 RC6 RC6", whole: never})
	if want := FieldTarget + "\n" + lists["C"].String() + "\n" + FieldURLs + "\nurls"; promise != want {
		t.Errorf("a promise writes %q, want %q", promise, want)
	}
	begin := fields(scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ RC6 RC6 RC6", whole: never, stood: sceneW})
	if !strings.Contains(begin, FieldPlan+"\n1.") || strings.Contains(begin, FieldTerms+"\n") {
		t.Errorf("a beginning writes %q", begin)
	}
}

// TestMemory_numberGoesBack: all records were lost, and an Init whose time of day was behind began the list anew. A client
// that was open all the time follows, unless it knows that its list was left.
func TestMemory_numberGoesBack(t *testing.T) {
	s := scene{masters: "VA4 VA4 -", whole: time.Hour}
	if v, a := s.run(t); v.Memory.Number != 4 || a.Kind != Swap {
		t.Errorf("%s with number %d, want 4", tell(v, a), v.Memory.Number)
	}
	s.masters = "VA4 - -" // no quorum: this may be what an old copy says
	if v, a := s.run(t); v.Memory.Number != inUse {
		t.Errorf("%s with number %d, want %d", tell(v, a), v.Memory.Number, inUse)
	}
	s.masters, s.edit = "VA4 VA4 VA4", func(v *View) { v.Memory.Left = Epoch{inUse + 1, 99} }
	if v, a := s.run(t); v.Memory.Number != inUse || a.Why.Code != Moved {
		t.Errorf("%s with number %d, want %d, and that the list was left", tell(v, a), v.Memory.Number, inUse)
	}
}
