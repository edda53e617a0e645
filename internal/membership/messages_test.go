// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"strings"
	"testing"
	"time"
)

// messageScenes has a scene for each message, with a part of what it says.
var messageScenes = []struct {
	word, want string
	scene
}{
	{"masters recover", "a is quarantined, votes in about", scene{goal: Init, masters: "RA5 RA5 RA5", whole: never, stood: time.Second}},
	{"masters recover, seen by no program", "if none runs: redlock status --wait --nodes URLS", scene{masters: "VA5 RA5 RA5", whole: 0, stood: time.Second, edit: readOnly}},
	{"records contradict", "waits until every lock may be over", scene{goal: Init, masters: "RA5u RA5 RA5u", whole: never, edit: neverLocked}},
	{"init unfinished", "run it again, which takes 30.6s: redlock init --nodes URLS", scene{masters: "RA5 RA5 RA5", whole: never, stood: time.Second}},
	{"change prepared", "which takes 1m1.2s: redlock reconfigure --from URLS --to URLS --max-ttl 1m0s --to-max-ttl 30s; or give it up: redlock cancel --nodes OLD_URLS --max-ttl 1m0s; if no program uses the old list any more, and it does not vote (redlock status --nodes OLD_URLS --max-ttl 1m0s): redlock init --nodes URLS --abandon-change", scene{masters: "RA5 RA5 -", whole: never, stood: time.Second, edit: changePrepared}},
	{"too few masters", "b refuses the password: correct it", scene{masters: "VA5 ? -", whole: time.Hour, edit: silentFor("b", "refuses the password", "correct it")}},
	{"init needs every master", "every master is needed: c is out of reach: start the master, or correct its URL; if one is gone for good, start", scene{goal: Init, masters: "- - ?", whole: never}},
	{"change unfinished", "a was retired", scene{goal: Init, masters: "XA5*+ - -", whole: never}},
	{"other list", "b belongs to another epoch: 3 masters b c d, maximum TTL 30s, drift 0.01 + 2ms; you gave 3 masters a b c, maximum TTL 30s, drift 0.01 + 2ms; take", scene{masters: "VA5 VB4 -", whole: time.Hour}},
	{"other maximum TTL or drift", "a belongs to another epoch: 3 masters a b c, maximum TTL 30s, drift 0.01 + 2ms; you gave 3 masters a b c, maximum TTL 5s, drift 0.02 + 2ms; the masters are the same, so give --max-ttl 30s --drift 0.01+2ms; to move that list to your values, which takes 30.6s: redlock reconfigure --from URLS --to-max-ttl 5s --to-drift 0.02+2ms", scene{goal: Init, masters: "VA5 VA5 VA5", whole: never, edit: otherTTL}},
	{"other flags", "the masters are the same, so give --fixed", scene{masters: "VF5 VF5 VF5", whole: never}},
	{"fixed list, same masters", "that list is fixed: its programs begin it, and it is never changed: redlock status --wait --nodes URLS --fixed", scene{goal: Init, masters: "VF5 VF5 VF5", whole: never}},
	{"renamed master", "a belongs to another epoch: 3 masters b c d, maximum TTL 30s, drift 0.01 + 2ms; that list has this server under another name; you gave 3 masters a b c, maximum TTL 30s, drift 0.01 + 2ms; names cannot change in place; keep the old name in the URLs of all programs: redis://NEW_ADDRESS?name=d", scene{masters: "VB5 VB5 VB5", whole: never}},
	{"list left", "start this client with the new list", scene{masters: "- VB6* VB6*", whole: time.Hour}},
	{"list left, init", "change back", scene{goal: Init, masters: "XA5*+ XA5*+ -", whole: never, edit: finished}},
	{"locks stopped", "all locks are stopped until that ends, about 30.6s after", scene{masters: "XA5*+ XA5*+ VA5+", whole: 0}},
	{"change promised", "; it has not stopped the locks; if that change runs", scene{masters: "VA5+ VA5+ VA5+", whole: 0}},
	{"new masters", "if they are new: redlock init --nothing-was-ever-locked --nodes URLS; if they were emptied", scene{masters: "- - -", whole: never}},
	{"masters forgot", "run this, which takes 30.6s: redlock init --nodes URLS", scene{masters: "oVA5 - VA5", whole: never}},
	{"needs masters", "c is out of reach: start the master, or correct its URL; mend these", scene{masters: "oVA5 - ?", whole: never}},
	{"nothing to change", "are the same", scene{goal: Change, target: "A", masters: "VA5 VA5 VA5", whole: never}},
	{"fixed list", "is fixed", scene{goal: Change, from: "F", target: "C", masters: "VF5 VF5 VF5 - - -", whole: never}},
	{"other change", "another change is unfinished", scene{goal: Change, target: "B", masters: "XA5*+ XA5*+ VA5+ -", whole: never, edit: otherTarget}},
	{"too few records", "recover them first", scene{goal: Change, target: "C", masters: "VA5 - RA5 - - -", whole: never}},
	{"master not ready", "nothing has stopped", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 RC6 RC6 ?", whole: never}},
	{"too few ready", "all locks are stopped", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - -", whole: never, stood: sceneW}},
	{"too few ready yet", "and the old list is not over yet", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - RC6", whole: never, stood: time.Second}},
	{"new list begun", "or: redlock status --wait --nodes NEW_URLS; if their records are lost, begin the new list only, which takes 30.6s: redlock init --nodes NEW_URLS", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - VC6*", whole: never, stood: sceneW}},
	{"change stuck", "too few of them can go on: a was retired", scene{goal: Change, target: "C", masters: "XA5*+ VA5+ - - - RC6", whole: never, stood: sceneW}},
	{"master not ready, change unfinished", "or give the change up: redlock cancel", scene{goal: Change, target: "C", masters: "VA5+ VA5 VA5 RC6 RC6 ?", whole: never}},
	{"new list votes", "name other masters", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 VC4 VC4 VC4", whole: never}},
	{"both lists vote", "use one of them", scene{goal: Change, target: "C", masters: "VA5 VA5 VA5 VC6* - -", whole: never}},
	{"too late to cancel", "finish it, which takes 30.6s, and then change back: redlock reconfigure", scene{goal: Cancel, masters: "XA5*+ XA5*+ VA5+", whole: never}},
}

// otherTTL is the list of the masters with another maximum TTL and drift.
func otherTTL(v *View) {
	t, err := NewTerms(v.Terms.Masters, 5*time.Second, 0.02, 2*time.Millisecond, false)
	if err != nil {
		panic(err)
	}
	v.Terms = t
}

func readOnly(v *View) {
	v.ReadOnly = true
	stampedFor(time.Second, time.Second, time.Second)(v)
}

func silentFor(name, text, remedy string) func(*View) {
	return func(v *View) {
		for i := range v.Masters {
			if v.Masters[i].Name == name {
				v.Masters[i].Silence = Silence{text, remedy}
			}
		}
	}
}

func otherTarget(v *View) {
	for i := range v.Masters {
		if r := &v.Masters[i].Record; r.Intent.Target != (Epoch{}) {
			r.Intent.Target.ID++
			r.Plan.Target.ID++
		}
	}
}

// Each message is short, is said in one situation only, and has a scene that leads to it.
func TestMessages_shortUniqueAndShown(t *testing.T) {
	words, texts, shown := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, test := range messageScenes {
		t.Run(test.word, func(t *testing.T) {
			v, a := test.run(t)
			shown[test.word] = true
			if got := Explain(v, a); Situation(v, a) != test.word || !strings.Contains(got, test.want) || strings.ContainsAny(got, "{}") {
				t.Errorf("%s: %s\nwant %s: %s", Situation(v, a), got, test.word, test.want)
			}
		})
	}
	for _, m := range Messages() {
		if len(m.Text) > 200 || len(m.Remedy) > 200 {
			t.Errorf("%s: %d and %d characters", m.Word, len(m.Text), len(m.Remedy))
		}
		if words[m.Word] || texts[m.Text+m.Remedy] || !shown[m.Word] || m.Text == "" {
			t.Errorf("%q: said twice (%v, %v), or has no scene (%v)", m.Word, words[m.Word], texts[m.Text+m.Remedy], !shown[m.Word])
		}
		words[m.Word], texts[m.Text+m.Remedy] = true, true
	}
}

// A promise tells of a change as long as it may go on: not when a quorum that votes has given it up, though a master did not hear of that.
func TestUnfinishedChange_byPromises(t *testing.T) {
	for masters, want := range map[string]int{
		"VA5 VA5 VA5": -1, "VA5 VA5+ VA5": 1, "VA5+ VA5c VA5c": -1, "VA5+ VA5+ VA5c": 0, "XA5*+ VA5c VA5c": -1, "VA5c XA5*+ XA5*+": 1,
		"RA5+ VA5 VA5": 0, "oVA5+ VA5 VA5": -1, "oXA5*+ - -": 0, "VA4+ VA5 VA5": -1, "VB5+ VA5 VA5": -1, "? ? ?": -1,
	} {
		if got := UnfinishedChange(scene{masters: masters, whole: never}.view(t)); got != want {
			t.Errorf("%s: master %d, want %d", masters, got, want)
		}
	}
}

// Whoever gave another maximum TTL is not told to take a master out of the list, for all of them and for each.
func TestRemedy_otherMaximumTTL_namesIt(t *testing.T) {
	v := scene{masters: "VA5 VA5 VB5", whole: never, edit: otherTTL}.view(t)
	for i, want := range []string{"give --max-ttl 30s --drift 0.01+2ms, or move the list with redlock reconfigure", "give --max-ttl 30s --drift 0.01+2ms, or move the list with redlock reconfigure", "take it out of this list, or use its list"} {
		if got := Remedy(v, i); got != want {
			t.Errorf("master %d: %s, want %s", i, got, want)
		}
	}
	if got := Explain(v, refuse(Foreign, 2)); !strings.Contains(got, "take that master out of this list") {
		t.Error(got)
	}
}

// A command that is advised has the flags without which it would mean another list.
func TestMessages_commandsHaveTheFlagsOfTheList(t *testing.T) {
	terms, err := NewTerms([]string{"a", "b", "c"}, 500*time.Millisecond, 0.02, time.Millisecond, false)
	if err != nil {
		t.Fatal(err)
	}
	v := newView(Serve, terms, nil, NewMemory())
	v.Namespace = "team"
	if got := v.fill("{init}", Action{}); got != "redlock init --nodes URLS --max-ttl 500ms --drift 0.02+1ms --namespace team" {
		t.Error(got)
	}
	even, err := NewTerms([]string{"a", "b", "c", "d"}, 30*time.Second, 0.01, 2*time.Millisecond, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := newView(Serve, even, nil, NewMemory()).fill("{status}", Action{}); got != "redlock status --wait --nodes URLS --node-count 4 --fixed" {
		t.Error(got)
	}
}

// What is wrong with several masters is said once, and so is what to do about it. Names are as a table has them.
func TestExplain_severalMastersOneCause_saidOnce(t *testing.T) {
	v, a := scene{masters: "VA5 ? ?", whole: time.Hour, edit: func(v *View) {
		silentFor("b", "refuses the password", "correct it")(v)
		silentFor("c", "refuses the password", "correct it")(v)
	}}.run(t)
	if got, want := Explain(v, a), "b refuses the password: correct it; c: the same"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	other, err := NewTerms([]string{"h:1/99", "/tmp/x"}, time.Second, 0.01, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	v, a = scene{masters: "VA5 VB4 -", whole: time.Hour, edit: func(v *View) { v.Masters[1].Record.Terms = other }}.run(t)
	if got := Explain(v, a); !strings.Contains(got, "2 masters /tmp/x h:1/99, maximum") {
		t.Error(got)
	}
}

// A message of too few masters of one list names those of that list.
func TestExplain_statesOfOneList(t *testing.T) {
	for _, test := range []struct {
		named string
		scene
	}{
		{"abc", scene{goal: Change, target: "C", masters: "? - ? ? ? ?", whole: never}},
		{"bcd", scene{goal: Change, from: "B", target: "A", masters: "? ? ? ?", whole: never}},
		{"abc", scene{goal: Cancel, masters: "VA5 ? ?", whole: never}},
		{"def", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - -", whole: never, stood: sceneW}},
		{"def", scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - VC6*", whole: never, stood: sceneW}},
		{"abcdef", scene{goal: Change, target: "C", masters: "XA5*+ VA5+ - - - RC6", whole: never, stood: sceneW}},
	} {
		v, a := test.run(t)
		named := ""
		for i, m := range v.Masters {
			if strings.Contains(Explain(v, a), " "+m.Name+" "+Describe(v, i)) {
				named += m.Name
			}
		}
		if named != test.named {
			t.Errorf("%s: names %s, want %s: %s", test.masters, named, test.named, Explain(v, a))
		}
	}
}

// Who begins one of two lists by an Init is told the flags of each, and how long it waits for the locks of both.
func TestExplain_tooFewReady_eachListHasItsFlags(t *testing.T) {
	v := scene{goal: Change, target: "C", masters: "XA5*+ XA5*+ XA5*+ - - -", whole: never, stood: sceneW}.view(t)
	v.Terms.MaxTTL = 10 * time.Minute
	v.Namespace = "team"
	want := "which takes 10m12s; the new one: redlock init --nodes NEW_URLS --namespace team --abandon-change; " +
		"the old one: redlock init --nodes URLS --max-ttl 10m0s --namespace team --abandon-change"
	if got := Explain(v, refuse(TooFewReady, -1)); !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := Explain(v, refuse(Stuck, -1)); strings.Contains(got, "init --nodes NEW_URLS") || !strings.Contains(got, "begin the old list, which takes 10m12s: redlock init --nodes URLS --max-ttl 10m0s") {
		t.Errorf("the old list may have leases, and it says %s", got)
	}
	v.Terms.MaxTTL, v.Target.MaxTTL = time.Minute, 10*time.Minute
	if got := Explain(v, refuse(TooFewReady, -1)); !strings.Contains(got, "which takes 10m12s; ") {
		t.Errorf("the new list has the longer locks: %s", got)
	}
}

// Who is told to change back is told the flags and the wait of that direction, whoever tells which list took the place of this one.
func TestExplain_changeBack_hasTheFlagsOfTheWayBack(t *testing.T) {
	for _, masters := range []string{"XA5*+ XA5*+ -", "oXA5*+ - -", "- VB6* VB6*"} {
		v := scene{goal: Init, masters: masters, whole: never, edit: func(v *View) {
			finished(v)
			v.Terms.MaxTTL, v.Namespace = 10*time.Minute, "team"
			for i := range v.Masters {
				v.Masters[i].Record.Target = terms(t, "b", "c", "d").String()
			}
		}}.view(t)
		want := "change back while that list votes, which takes 30.6s: redlock reconfigure --from URLS --to URLS --namespace team --to-max-ttl 10m0s"
		if a := Next(v); a.Why.Code != Moved || !strings.HasSuffix(Explain(v, a), want) {
			t.Errorf("%s: %s\nwant %s", masters, tell(v, a), want)
		}
	}
}

// Where a master of the new list votes, nobody is told to begin the old list, or to give the change up.
func TestExplain_newListHasBegun_onlyThatOne(t *testing.T) {
	for _, masters := range []string{"XA5*+ XA5*+ XA5*+ VC6* - -", "XA5*+ XA5*+ XA5*+ - - VC6*", "XA5*+ - ? VC6* ? -", "- - - VC6* - -"} {
		v, a := scene{goal: Change, target: "C", masters: masters, whole: never, stood: sceneW}.run(t)
		if got := tell(v, a); a.Why.Code != NewBegun || strings.Contains(got, AbandonFlag) || strings.Contains(got, InitCommand) {
			t.Errorf("%s: %s", masters, got)
		}
	}
}

// Where a change has retired a master and its list forgot, status and reconfigure both name the way out, and not one another.
func TestExplain_changeCannotGoOn_saysHowToBeginTheOldList(t *testing.T) {
	for _, s := range []scene{
		{masters: "XA5*+ - -", whole: never},
		{goal: Change, target: "C", masters: "XA5*+ - - RC6 RC6 RC6", whole: never},
		{goal: Change, target: "C", masters: "XA5*+ - ? RC6 RC6 RC6", whole: never},
	} {
		v, a := s.run(t)
		if got := tell(v, a); Situation(v, a) != "change stuck" || !strings.Contains(got, "and no new master votes (redlock status --nodes NEW_URLS), end its processes and begin the old list, which takes 30.6s: redlock init --nodes URLS --abandon-change") {
			t.Errorf("%s: %s", s.masters, got)
		}
	}
}

// Who gives up a change while masters are down recovers them first: whether one was begun is not known.
func TestExplain_cancelWhileTwoAreDown_recoverThem(t *testing.T) {
	for masters, want := range map[string]string{"VA5 ? ?": "too few records", "XA5*+ ? ?": "too late to cancel"} {
		v, a := scene{goal: Cancel, masters: masters, whole: never}.run(t)
		if got := Situation(v, a); got != want {
			t.Errorf("%s: %q, want %q", masters, got, want)
		}
	}
}
