// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	inUse  = 5                        // the number of the epoch in which a scene takes place; a change leads to the next one
	sceneW = 30604 * time.Millisecond // W of all lists here
	never  = time.Duration(-1)
	atNow  = 100 * time.Hour
)

// scene is a View in few words. Its masters are those of both lists, sorted, one word each:
//
//	?      does not answer
//	-      has no record
//	VA5    votes in epoch 5 of list A
//	RA5    is quarantined; WA5 likewise, and whole
//	XA5    is retired for the ballot of the plan
//
// Before a word, "o" says that the record state is of another incarnation. After it, "*" says that the record has the
// plan, "+" that the master promised it, and "c" that it promised to cancel it with a larger ballot,
// "u" that it was quarantined on the word that nothing was ever locked.
type scene struct {
	goal    Goal
	from    string // the letter of Terms: A when empty
	target  string // of a change
	masters string
	whole   time.Duration // how long ago the client saw the epoch whole; never: not at all
	stood   time.Duration // how long the client has seen every record state with a nonce
	edit    func(*View)
}

// sceneLists are A with a, b and c; B with b, c and d; C with d, e and f; D with a, b, c and d; F, which is A and fixed.
func sceneLists(t *testing.T) map[string]*Terms {
	fixed, err := NewTerms([]string{"a", "b", "c"}, 30*time.Second, 0.01, 2*time.Millisecond, true)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Terms{"A": terms(t, "a", "b", "c"), "B": terms(t, "b", "c", "d"), "C": terms(t, "d", "e", "f"), "D": terms(t, "a", "b", "c", "d"), "F": fixed}
}

func sceneNonce(i int) Nonce { return Nonce(100 + i) }

// newView has the masters of both lists, unanswered. target is nil but for Change.
func newView(goal Goal, terms, target *Terms, memory *Memory) *View {
	v := &View{Goal: goal, Terms: terms, Target: target, Memory: memory}
	names := slices.Clone(terms.Masters)
	if target != nil {
		names = append(names, target.Masters...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		v.Masters = append(v.Masters, Master{
			Name: name, Old: slices.Contains(terms.Masters, name), New: target != nil && slices.Contains(target.Masters, name),
		})
	}
	return v
}

func (s scene) view(t *testing.T) *View {
	t.Helper()
	lists := sceneLists(t)
	m := NewMemory()
	if s.from == "" {
		s.from = "A"
	}
	v := newView(s.goal, lists[s.from], lists[s.target], m)
	v.Now, v.Wall, v.Nonce, v.Who = atNow, time.Unix(3, 0), 999, "me"
	words := strings.Fields(s.masters)
	if len(words) != len(v.Masters) {
		t.Fatalf("%d words for %d masters", len(words), len(v.Masters))
	}
	p := Plan{Ballot: Ballot{1, 77}, From: Epoch{inUse, lists["A"].ID}, Target: Epoch{inUse + 1, lists["B"].ID}}
	if s.target != "" {
		p.Target.ID = lists[s.target].ID
	}
	for i := range v.Masters {
		if v.Masters[i].New || s.target == "" && v.Masters[i].Old {
			n := Nonce(0)
			if v.Masters[i].New != v.Masters[i].Old || s.from == "B" {
				n = sceneNonce(i)
			}
			p.Begin = append(p.Begin, n)
		}
	}
	for i, word := range words {
		v.Masters[i].seat(t, word, i, p, lists)
		if rs := v.Masters[i].state(); rs.Nonce != 0 {
			m.Sights = append(m.Sights, Sight{State: rs, First: atNow - s.stood, Last: atNow - s.stood})
		} else {
			m.Sights = append(m.Sights, Sight{})
		}
	}
	if s.whole != never {
		m.Number, m.Whole = inUse, atNow-s.whole
	}
	if s.edit != nil {
		s.edit(v)
	}
	m.Observe(v)
	return v
}

// seat makes a master as the word says.
func (at *Master) seat(t *testing.T, word string, i int, p Plan, lists map[string]*Terms) {
	at.Sent, at.Received, at.Incarnation, at.Learned = atNow, atNow, "now", true
	if at.Answered = word != "?"; !at.Answered || word == "-" {
		return
	}
	state, old := strings.CutPrefix(word, "o")
	rs := RecordState{Phase: Phase(state[0]), Incarnation: "now"}
	if rs.Phase == 'W' {
		rs.Phase, rs.Whole = Quarantined, true
	}
	if old {
		rs.Incarnation = "before"
	}
	list := lists[state[1:2]]
	if list == nil {
		t.Fatalf("no list in %q", word)
	}
	rs.Epoch = Epoch{int64(state[2] - '0'), list.ID}
	if rs.Phase != Voting {
		rs.Nonce = sceneNonce(i)
	}
	if rs.Phase == Retired {
		rs.Ballot = p.Ballot
	}
	at.Record = Record{Head: Head{State: rs}, Terms: list}
	for _, mark := range state[3:] {
		switch mark {
		case '*':
			at.Record.Plan = p
		case 'u':
			at.Record.Unused = true
		case '+':
			at.Record.Intent = Intent{Plan: p, Who: "other"}
		case 'c':
			at.Record.Intent = Intent{Plan: Plan{Ballot: Ballot{2, 78}, From: p.From}, Who: "other"}
		}
	}
}

// run asks Next twice: a pure function says the same again.
func (s scene) run(t *testing.T) (*View, Action) {
	t.Helper()
	v := s.view(t)
	a := Next(v)
	if again := Next(v); !reflect.DeepEqual(a, again) {
		t.Errorf("Next says %+v, then %+v", a, again)
	}
	return v, a
}

// move names what a Swap does, as the table of the package does.
func move(v *View, a Action) string {
	if a.Kind != Swap {
		return tell(v, a)
	}
	word := func(at *Master, rs RecordState) string {
		switch {
		case rs.Phase == None || rs.Incarnation != at.Incarnation:
			return "lost"
		case rs.Whole:
			return "R whole"
		}
		return string(rune(rs.Phase))
	}
	at := &v.Masters[a.Master]
	from := word(at, a.From.State)
	if from != "lost" && a.From.State.Epoch != a.To.State.Epoch {
		from += " before"
	}
	return from + " -> " + word(at, a.To.State)
}

// tell says in few words what an Action is.
func tell(v *View, a Action) string {
	switch a.Kind {
	case Look:
		return "look"
	case Learn:
		names := ""
		for _, i := range a.Learn {
			names += " " + v.Masters[i].Name
		}
		return "learn" + names
	case Swap:
		return fmt.Sprintf("%s: %s", v.Masters[a.Master].Name, move(v, a))
	case Wait:
		return fmt.Sprintf("wait %v", a.For)
	case Done:
		if a.For > 0 {
			return fmt.Sprintf("done, then %v", a.For)
		}
		return "done"
	}
	return "refuse: " + Explain(v, a)
}
