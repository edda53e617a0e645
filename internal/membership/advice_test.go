// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"strings"
	"testing"
	"time"
)

// values makes terms of a, b and c, or of other masters, with other values.
func values(maxTTL time.Duration, fixed bool, masters ...string) *Terms {
	if len(masters) == 0 {
		masters = []string{"a", "b", "c"}
	}
	t, err := NewTerms(masters, maxTTL, 0.01, 2*time.Millisecond, fixed)
	if err != nil {
		panic(err)
	}
	return t
}

// given has somebody ask with other terms than the masters have.
func given(t *Terms) func(*View) { return func(v *View) { v.Terms = t } }

// towards has the records name that target of the change.
func towards(target *Terms) func(*View) {
	return func(v *View) {
		for i := range v.Masters {
			if r := &v.Masters[i].Record; r.Intent.Target != (Epoch{}) {
				r.Target, r.Intent.Target.ID = target.String(), target.ID
				if r.Plan.Ballot != (Ballot{}) {
					r.Plan.Target.ID = target.ID
				}
			}
		}
	}
}

// The command that finishes another change has the flags of that change, and not those of the command that was refused.
func TestExplain_otherChange_hasTheFlagsOfThatChange(t *testing.T) {
	lists := sceneLists(t)
	slow := values(6*time.Second, false, "d", "e", "f")
	const finish = "finish it, which takes 30.6s: redlock reconfigure --from URLS --to URLS --to-max-ttl 6s"
	for _, s := range []scene{
		{goal: Change, target: "B", masters: "VA5+ VA5+ VA5+ -", whole: never},
		{goal: Change, target: "C", masters: "VA5+ VA5+ VA5+ - - -", whole: never},
		{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - -", whole: never, stood: sceneW},
	} {
		s.edit = towards(slow)
		v, a := s.run(t)
		if got := tell(v, a); a.Why.Code != OtherChange || !strings.Contains(got, finish) {
			t.Errorf("%s: %s\nwant %s", s.masters, got, finish)
		}
	}
	// The same masters need no second list.
	v, a := scene{goal: Change, target: "C", masters: "VA5+ VA5+ VA5+ - - -", whole: never, edit: towards(values(6*time.Second, false))}.run(t)
	if got := tell(v, a); !strings.Contains(got, ": redlock reconfigure --from URLS --to-max-ttl 6s") {
		t.Error(got)
	}
	// A master that another list has retired tells which change that is.
	v, a = scene{goal: Init, from: "B", masters: "XA5*+ - -", whole: never, edit: towards(slow)}.run(t)
	v.Terms = values(9*time.Second, false, lists["B"].Masters...)
	if got := tell(v, a); a.Why.Code != Unfinished || !strings.Contains(got, "redlock reconfigure --from URLS --to URLS --to-max-ttl 6s;") || strings.Contains(got, "redlock cancel") {
		t.Errorf("%s\nwant %s", got, finish)
	}
}

// A change can be given up as long as a quorum of the old masters votes. Only then cancel is offered.
func TestExplain_cancelOfferedWhereItWorks(t *testing.T) {
	for masters, offered := range map[string]bool{"XA5*+ VA5+ VA5+": true, "XA5*+ XA5*+ VA5+": false, "XA5*+ XA5*+ XA5*+": false, "VA5+ VA5+ VA5+": true} {
		for _, s := range []scene{
			{goal: Init, masters: masters, whole: never},
			{goal: Change, target: "C", masters: masters + " - - -", whole: never, edit: towards(values(time.Minute, false, "d", "e", "g"))},
			{masters: masters, whole: never},
		} {
			v, a := s.run(t)
			if a.Kind != Refuse {
				continue
			}
			if got := tell(v, a); strings.Contains(got, "redlock cancel") != offered {
				t.Errorf("%s: cancel works %v: %s", masters, offered, got)
			}
		}
		v := scene{masters: masters, whole: never, edit: readOnly}.view(t)
		for i := range v.Masters {
			if got := Remedy(v, i); v.Masters[i].state().Phase == Retired && strings.Contains(got, "give it up") != offered {
				t.Errorf("%s: cancel works %v: %s", masters, offered, got)
			}
		}
	}
}

// Who is told to begin the old list by an Init is told to look at the new one first, with the flags of that.
func TestExplain_initGivesAChangeUp_looksAtTheNewListFirst(t *testing.T) {
	v, a := scene{goal: Init, masters: "XA5*+ XA5*+ XA5*+", whole: never, edit: towards(values(6*time.Second, false, "d", "e", "f"))}.run(t)
	want := "if it cannot go on and no new master votes (redlock status --nodes NEW_URLS --max-ttl 6s), end every process of that change and add --abandon-change"
	if got := tell(v, a); !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	v, a = scene{masters: "RA5 RA5 -", whole: never, stood: time.Second, edit: changePrepared}.run(t)
	want = "or give it up: redlock cancel --nodes OLD_URLS --max-ttl 1m0s; if no program uses the old list any more, and it does not vote (redlock status --nodes OLD_URLS --max-ttl 1m0s): redlock init"
	if got := Explain(v, a); !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A list that was left for another one is not taken for one whose change is unfinished, whoever asks, and however few tell of it.
func TestNext_changeOfAListThatWasLeft_saysSo(t *testing.T) {
	left := func(v *View) {
		finished(v)
		towards(terms(t, "b", "c", "d"))(v)
	}
	for _, masters := range []string{"XA5*+ XA5*+ XA5*+ - - -", "XA5*+ - - - - -", "oXA5*+ XA5*+ ? - - -", "XA5*+ VB6* VB6* - - -"} {
		for _, stood := range []time.Duration{0, sceneW} {
			v, a := scene{goal: Change, target: "C", masters: masters, whole: never, stood: stood, edit: left}.run(t)
			if got := tell(v, a); a.Why.Code != Moved || !strings.Contains(got, "these masters were left for another list: 3 masters b c d") {
				t.Errorf("%s: %s", masters, got)
			}
		}
	}
	// What a quorum that votes began since is no list that was left.
	if v, a := (scene{goal: Change, target: "C", masters: "XA5*+ VA7 VA7 - - -", whole: never, edit: left}).run(t); tell(v, a) != "d: lost -> R" {
		t.Error(tell(v, a))
	}
}

// Where an Init began the new list, the old masters are told that theirs was left: so that no Init begins the old one beside it.
func TestNext_newListBegunByInit_oldListIsOver(t *testing.T) {
	longer := values(time.Minute, false, "d", "e", "f")
	for name, test := range map[string]struct {
		masters string
		over    bool
		edit    func(*View)
	}{
		"all retired":                    {"XA5*+ XA5*+ XA5*+ VC9 VC9 VC9", true, nil},
		"one is out of reach":            {"XA5*+ XA5*+ ? VC9 VC9 -", true, nil},
		"it has another maximum TTL":     {"XA5*+ XA5*+ XA5*+ VC9 VC9 VC9", true, func(v *View) { v.Target = longer; towards(longer)(v) }},
		"the old list may have a quorum": {"XA5*+ ? ? VC9 VC9 VC9", false, nil},
	} {
		v, a := scene{goal: Change, target: "C", masters: test.masters, whole: never, stood: sceneW, edit: test.edit}.run(t)
		if got := tell(v, a); a.Why.Code != Moved || a.Over != test.over || !strings.Contains(got, "left for another list: 3 masters d e f") {
			t.Errorf("%s: over %v: %s", name, a.Over, got)
		}
	}
	if v, a := (scene{goal: Change, target: "C", masters: "? ? VA5 VC9 VC9 VC9", whole: never, edit: func(v *View) { v.Target = longer; towards(longer)(v) }}).run(t); a.Why.Code == Moved {
		t.Errorf("the old list may vote beyond a cut: %s", tell(v, a))
	}
	if v, a := (scene{goal: Change, target: "C", masters: "XA5*+ VA5+ VA5+ VC9 VC9 VC9", whole: never}).run(t); a.Over || a.Why.Code == Moved {
		t.Errorf("the old list votes: %s", tell(v, a))
	}
}

// Masters of another maximum TTL, drift or kind of list, and the same names: what is advised names the flags, and nothing that cannot work.
func TestExplain_sameMastersOtherValues(t *testing.T) {
	const flags = "the masters are the same, so "
	with := func(of *Terms) func(*View) {
		return func(v *View) {
			for i := range v.Masters {
				at := &v.Masters[i]
				if at.Record.State.Phase != None {
					at.Record.Terms, at.Record.State.Epoch.ID = of, of.ID
				}
			}
		}
	}
	fixed2 := values(2*time.Second, true)
	for name, test := range map[string]struct {
		word, want string
		scene
	}{
		"prepared":                {"other flags", flags + "give --max-ttl 30s", scene{masters: "RA5 RA5 RA5", whole: never, stood: time.Second, edit: given(values(6*time.Second, false))}},
		"prepared, one not yet":   {"other flags", flags + "give --max-ttl 30s", scene{masters: "RA5 RA5 -", whole: never, stood: time.Hour, edit: given(values(6*time.Second, false))}},
		"prepared, asks for init": {"other flags", flags + "give --max-ttl 30s", scene{goal: Init, masters: "RA5 RA5 RA5", whole: never, edit: given(values(6*time.Second, false))}},
		"restarted":               {"other flags", flags + "give --max-ttl 30s", scene{masters: "oVA5 oVA5 oVA5", whole: never, edit: given(values(6*time.Second, false))}},
		"one was left behind": {"other list", "delete the key of its record", scene{masters: "oVA5 oVA5 oVA5", whole: never, edit: func(v *View) {
			v.Masters[1].Record.Terms = values(6*time.Second, false)
			v.Masters[1].Record.State.Epoch.ID = v.Masters[1].Record.Terms.ID
		}}},
		"both fixed":               {"other flags", flags + "give --max-ttl 2s", scene{from: "F", masters: "VA5 VA5 VA5", whole: never, edit: with(fixed2)}},
		"theirs is fixed":          {"other flags", flags + "give --fixed", scene{masters: "VF5 VF5 VF5", whole: never}},
		"theirs is fixed, 2":       {"other flags", flags + "give --max-ttl 2s --fixed", scene{masters: "VA5 VA5 VA5", whole: never, edit: with(fixed2)}},
		"ours is fixed":            {"other flags", flags + "leave --fixed out", scene{from: "F", masters: "VA5 VA5 VA5", whole: never}},
		"ours is fixed, 2":         {"other flags", flags + "give --max-ttl 2s, and leave --fixed out", scene{from: "F", masters: "VA5 VA5 VA5", whole: never, edit: with(values(2*time.Second, false))}},
		"init, theirs is fixed":    {"fixed list, same masters", "its programs begin it, and it is never changed: redlock status --wait --nodes URLS --max-ttl 2s --fixed", scene{goal: Init, masters: "VA5 VA5 VA5", whole: never, edit: with(fixed2)}},
		"change, theirs is fixed":  {"fixed list, same masters", "redlock status --wait --nodes URLS --fixed", scene{goal: Change, target: "C", masters: "VF5 VF5 VF5 - - -", whole: never}},
		"cancel":                   {"other maximum TTL or drift", flags + "give --max-ttl 30s; to move", scene{goal: Cancel, masters: "VA5 VA5 VA5", whole: never, edit: given(values(6*time.Second, false))}},
		"cancel, one is down":      {"other maximum TTL or drift", flags + "give --max-ttl 30s; to move", scene{goal: Cancel, masters: "VA5 VA5 ?", whole: never, edit: given(values(6*time.Second, false))}},
		"cancel, one votes":        {"too few records", "", scene{goal: Cancel, masters: "VB5 - VA5", whole: never}},
		"change":                   {"other maximum TTL or drift", flags + "give --max-ttl 30s; to move", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 - - -", whole: never, edit: given(values(6*time.Second, false))}},
		"change to one that votes": {"other flags", flags + "give --to-max-ttl 30s", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 VC4 VC4 VC4", whole: never, edit: func(v *View) { v.Target = values(6*time.Second, false, "d", "e", "f") }}},
		"cancel by the new list":   {"change prepared", "redlock cancel --nodes OLD_URLS --max-ttl 1m0s", scene{goal: Cancel, masters: "RA5 RA5 RA5", whole: never, edit: changePrepared}},
		"change from the new list": {"change prepared", "redlock cancel --nodes OLD_URLS --max-ttl 1m0s", scene{goal: Change, target: "C", masters: "RA5 RA5 RA5 - - -", whole: never, edit: func(v *View) {
			for i := range v.Masters {
				r := &v.Masters[i].Record
				r.Before, r.Target = values(time.Minute, false, "x", "y", "z"), v.Terms.String()
			}
		}}},
	} {
		v, a := test.run(t)
		got := tell(v, a)
		if Situation(v, a) != test.word || !strings.Contains(got, test.want) || test.word == "other flags" && strings.Contains(got, "redlock ") {
			t.Errorf("%s: %s: %s\nwant %s: %s", name, Situation(v, a), got, test.word, test.want)
		}
		if test.word == "other flags" && Word(v, 0) == "other list" {
			if got := Remedy(v, 0); !strings.HasPrefix(flags+got, test.want) || strings.Contains(got, "move") {
				t.Errorf("%s: remedy %s, want %s", name, got, test.want)
			}
		}
	}
}
