// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"testing"
	"time"
)

// An init that gives up a change to a list with a shorter maximum TTL waits for the locks of the old list, on masters that
// only the new list has, and also when it is called again after its first claims.
func TestInit_abandonedChange_waitsForTheLongerList(t *testing.T) {
	old, err := NewTerms([]string{"a", "b", "c"}, 30*time.Second, 0.01, 2*time.Millisecond, false)
	if err != nil {
		t.Fatal(err)
	}
	short, err := NewTerms([]string{"d", "e", "f"}, time.Second, 0.01, 2*time.Millisecond, false)
	if err != nil {
		t.Fatal(err)
	}
	// What a change writes when it prepares d.
	v := newView(Change, old, short, NewMemory())
	d := slices.IndexFunc(v.Masters, func(m Master) bool { return m.Name == "d" })
	prepare := Action{Kind: Swap, Master: d, To: Head{State: RecordState{Phase: Quarantined, Epoch: Epoch{2, short.ID}, Incarnation: "d1", Nonce: 7}}}
	record := make(map[string]string)
	apply := func(v *View, a *Action) {
		f := append([]string{FieldState, a.To.State.String(), FieldIntent, a.To.Intent.String()}, a.Fields(v, "")...)
		for i := 0; i < len(f); i += 2 {
			record[f[i]] = f[i+1]
		}
	}
	apply(v, &prepare)
	memory := NewMemory()
	for round, now := 0, time.Hour; round < 3; round, now = round+1, now+40*time.Second {
		r, err := ParseRecord(record)
		if err != nil {
			t.Fatal(err)
		}
		v := newView(Init, short, nil, memory)
		v.Now, v.Wall, v.Nonce, v.Abandon = now, time.Unix(1e9, 0), Nonce(round+10), true
		for i := range v.Masters {
			at := &v.Masters[i]
			at.Answered, at.Sent, at.Received, at.Incarnation, at.Record = true, now, now, "d1", r
		}
		m := machine{v: v, rules: &shipped}
		if w := m.wait(); w != old.Wait() {
			t.Errorf("round %d: the wait is %v, want %v: %v", round, w, old.Wait(), record)
		}
		claim := Action{Kind: Swap, Master: 0, From: r.Head, To: Head{State: RecordState{Phase: Quarantined, Epoch: Epoch{int64(1e9 + round), short.ID}, Incarnation: "d1", Nonce: v.Nonce}}}
		apply(v, &claim)
	}
	// A master that votes has nothing to wait for.
	r, err := ParseRecord(record)
	if err != nil {
		t.Fatal(err)
	}
	v = newView(Init, short, nil, NewMemory())
	v.Masters[0].Record = r
	apply(v, &Action{Kind: Swap, Master: 0, From: r.Head, To: Head{State: RecordState{Phase: Voting, Epoch: r.State.Epoch, Incarnation: "d1"}}})
	if record[FieldBefore] != "" {
		t.Errorf("it votes, and its record says %q", record[FieldBefore])
	}
}

// An init that gives up a change waits for the locks of its new list, which may have begun: what the old masters promised tells of it, also to an
// init that is called again after its first claims.
func TestInit_abandonedChangeToALongerList_waitsForItsLocks(t *testing.T) {
	long, err := NewTerms([]string{"d", "e", "f"}, 10*time.Minute, 0.01, 2*time.Millisecond, false)
	if err != nil {
		t.Fatal(err)
	}
	s := scene{goal: Init, masters: "XA5*+ XA5*+ XA5*+", whole: never, edit: func(v *View) {
		v.Abandon = true
		for i := range v.Masters {
			v.Masters[i].Record.Target = long.String()
		}
	}}
	v, a := s.run(t)
	m := machine{v: v, rules: &shipped}
	if w := m.wait(); w != long.Wait() {
		t.Errorf("the wait is %v, want %v", w, long.Wait())
	}
	fields := a.Fields(v, "")
	if i := slices.Index(fields, FieldBefore); a.Kind != Swap || i < 0 || fields[i+1] != long.String() {
		t.Errorf("%s writes %q, without %s", tell(v, a), fields, long)
	}
}

// A change to a list with longer locks was cancelled. An init of later, when masters were emptied, waits for the locks of its own list only. Where
// no quorum has promised to cancel, the target counts.
func TestInit_cancelledChangeToALongerList_isForgotten(t *testing.T) {
	long, err := NewTerms([]string{"a", "b", "c"}, 12*time.Hour, 0.01, 2*time.Millisecond, false)
	if err != nil {
		t.Fatal(err)
	}
	told := func(v *View) {
		for i := range v.Masters {
			v.Masters[i].Record.Target, v.Masters[i].Record.URLs = long.String(), "urls"
		}
	}
	for masters, swaps := range map[string]int{"VA5+ VA5+ VA5+": 6, "XA5*+ VA5+ VA5": 6, "VA5c VA5c VA5c": 3, "VA5c VA5+ VA5+": 5} {
		v := scene{goal: Cancel, masters: masters, whole: never, edit: told}.view(t)
		for range swaps {
			a := Next(v)
			if a.Kind != Swap {
				t.Fatalf("%s: %s", masters, tell(v, a))
			}
			r, f := &v.Masters[a.Master].Record, a.Fields(v, "")
			if r.Head = a.To; slices.Contains(f, FieldTarget) {
				r.Target, r.URLs = "", ""
			}
			if promised := UnfinishedChange(v) < 0; !promised && v.longest() == nil {
				t.Errorf("%s: no quorum has promised to cancel, and no record tells of the target", masters)
			}
		}
		if a := Next(v); a.Kind != Done || v.longest() != nil {
			t.Errorf("%s: %s, and an init waits for %v", masters, tell(v, a), v.longest())
		}
	}
	// A client that takes back a master which was out of reach meanwhile.
	v, a := scene{masters: "XA5*+ VA5c VA5c", whole: 0, edit: told}.run(t)
	if f := a.Fields(v, ""); a.Kind != Swap || !slices.Contains(f, FieldTarget) {
		t.Errorf("%s writes %q", tell(v, a), f)
	}
}

// All records of an epoch are lost but that of a master which was out of reach when it began. That one was retired for the plan, so it can be
// brought over.
func TestNext_epochForgotten_stragglerTellsItsPlan(t *testing.T) {
	s := scene{from: "B", masters: "XA5*+ RB6 RB6", whole: 60 * time.Second, stood: sceneW, edit: func(v *View) { v.Memory.Number = inUse + 1 }}
	v, a := s.run(t)
	if want := v.Masters[0].Record.Plan; tell(v, a) != "c: R -> V" || a.Plan == nil || a.Plan.Ballot != want.Ballot || a.Plan.From != want.From || a.To.Intent.Ballot != (Ballot{}) {
		t.Fatalf("%s with plan %v, want that of b, %v", tell(v, a), a.Plan, want)
	}
	at := &v.Masters[a.Master].Record
	at.Head, at.Plan = a.To, *a.Plan
	if v.Memory.Observe(v); tell(v, Next(v)) != "b: X before -> V" {
		t.Errorf("after that: %s", tell(v, Next(v)))
	}
	s.masters = "VA5*c RB6 RB6"
	if v, a := s.run(t); tell(v, a) != "c: R -> V" || a.Plan != nil {
		t.Errorf("a change that was cancelled: %s with plan %v", tell(v, a), a.Plan)
	}
}
