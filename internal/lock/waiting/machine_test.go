// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// actWords are what the table calls acts.
var actWords = []string{"", "Begin", "Ask", "Skip", "Take", "QueueOnly", "GiveBack", "PassTurn", "Fail"}

// told is an event with the word that the table has for it.
type told struct {
	word string
	e    Event
}

// events are one of each kind that the machine may be told in a state, over three masters. The words say what the answer depends on.
func events(s State) []told {
	none := func(time.Duration) time.Duration { return 0 }
	held := func(foreign bool, ahead int) *Round {
		r := &Round{Need: 2, Held: true, RetryAfter: time.Second, Behind: ahead > 0}
		for range 3 {
			r.Replies = append(r.Replies, protocol.Reply{Outcome: protocol.Held, Ticket: 1, Ahead: ahead, Remaining: time.Second, Foreign: foreign})
		}
		return r
	}
	open := []Votes{{}, {Handable: true}, {Some: true}, {Some: true, Handable: true}, {Some: true, Told: true, Handable: true}, {Some: true, Won: true, Handable: true}}
	var all []told
	add := func(word string, e Event) {
		e.Jitter = none
		all = append(all, told{word, e})
	}
	if s == Idle || s == Passing {
		add("Turn", Event{Kind: Turn, Ticket: 1})
	}
	add("Wake", Event{Kind: Wake, Set: 1})
	add("Heard", Event{Kind: Heard, Set: 1})
	add("Timer", Event{Kind: Timer})
	add("Closed", Event{Kind: Closed})
	add("Left", Event{Kind: Left})
	if s == Idle {
		return all
	}
	for _, handable := range []bool{false, true} {
		for _, now := range []time.Duration{0, time.Hour} {
			add("ReleasedHere", Event{Kind: ReleasedHere, Votes: Votes{Handable: handable}, Now: now})
		}
	}
	add("Left", Event{Kind: Left, Next: true})
	if s >= Begun {
		add("Left", Event{Kind: Left, Next: true, Granted: true})
		add("Left", Event{Kind: Left, Granted: true})
	}
	if s == Passing {
		return all
	}
	add("Awake", Event{Kind: Awake})
	add("CtxDone", Event{Kind: CtxDone})
	if s == Begun {
		return all
	}
	for _, v := range []Votes{{}, {Handable: true}, {Told: true, Handable: true}} {
		v.Some = true
		add("Vote", Event{Kind: Vote, Votes: v})
	}
	add("Vote", Event{Kind: Vote, Votes: Votes{Some: true, Won: true}})
	if s != Asking {
		add("Free", Event{Kind: Free, Set: 0b100})
		add("Free", Event{Kind: Free, Set: 0b110})
		add("Awake", Event{Kind: Awake, Votes: Votes{Won: true}})
		add("Outvoted", Event{Kind: Outvoted, Votes: Votes{}})
	}
	if s == StepBack {
		for _, v := range open {
			add("Placed", Event{Kind: Placed, Votes: v})
			if v.Told || !v.Some { // no reply has a vote
				add("Placed", Event{Kind: Placed, Votes: v, Set: 0b110})
			}
		}
	}
	if s == Asking {
		add("Decided", Event{Kind: Decided})
		for _, v := range open {
			for _, foreign := range []bool{false, true} {
				for _, ahead := range []int{0, 1} {
					add("Refused", Event{Kind: Refused, Votes: v, Round: held(foreign, ahead)})
				}
			}
		}
		add("Refused", Event{Kind: Refused, Round: &Round{Need: 2}, Silent: true, Now: time.Hour, Patience: time.Second})
		add("Refused", Event{Kind: Refused, Round: &Round{Need: 2}, Silent: true, Now: time.Hour})
	}
	return all
}

// row is a line of the table: what is done, and the state behind it.
func row(from State, event string, to State, do Do) string {
	acts := []string{}
	if do.Act != Nothing {
		acts = append(acts, actWords[do.Act])
	}
	if do.Arm > 0 {
		acts = append(acts, "Arm")
	}
	if do.Wake {
		acts = append(acts, "Wake")
	}
	if len(acts) == 0 {
		acts = append(acts, "-")
	}
	return fmt.Sprintf("%v %s %v %s", from, event, to, strings.Join(acts, "+"))
}

// visited returns the rows of all that a machine over three masters can do, from the beginning.
func visited() map[string]bool {
	rows := map[string]bool{}
	start := NewMachine(0b111)
	seen, next := map[Machine]bool{start: true}, []Machine{start}
	for len(next) > 0 {
		from := next[len(next)-1]
		next = next[:len(next)-1]
		for _, ev := range events(from.state) {
			to := from
			do := to.Next(ev.e)
			rows[row(from.state, ev.word, to.state, do)] = true
			// What only times and pauses depend on does not matter here.
			to.retries, to.patience, to.refused, to.place.pause = 0, time.Second, 0, 0
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return rows
}

// table returns the rows of the table in the package comment.
func table(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimPrefix(line, "//"), "|")
		if len(cells) != 5 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "state" {
			continue
		}
		for _, from := range strings.Split(cells[0], ", ") {
			for _, event := range strings.Split(cells[1], ", ") {
				to := cells[2]
				if to == "same" {
					to = from
				}
				r := fmt.Sprintf("%s %s %s %s", from, event, to, strings.ReplaceAll(cells[3], ", ", "+"))
				if rows[r] {
					t.Errorf("twice in the table: %s", r)
				}
				rows[r] = true
			}
		}
	}
	return rows
}

// A release by this process hands its votes to the attempt that is open or under way, and to none that follows.
func TestMachine_releasedHere_countsForTheAttemptThen(t *testing.T) {
	none := func(time.Duration) time.Duration { return 0 }
	refused := Event{Kind: Refused, Votes: Votes{Handable: true}, Round: &Round{Need: 2, Held: true, RetryAfter: time.Second}}
	released := Event{Kind: ReleasedHere, Votes: Votes{Handable: true}, Now: time.Hour}
	turn, awake, left := Event{Kind: Turn, Ticket: 1}, Event{Kind: Awake}, Event{Kind: Left, Next: true}
	for _, test := range []struct {
		name   string
		events []Event
		want   State
	}{
		{"under way", []Event{turn, awake, released, refused}, Gathering},
		{"before it", []Event{turn, released, awake, refused}, Queued},
		{"the turn before", []Event{turn, awake, released, left, turn, awake, refused}, Queued},
		{"the attempt before", []Event{turn, awake, refused, released, {Kind: Timer}, awake, refused}, Queued},
	} {
		m := NewMachine(0b111)
		for _, e := range test.events {
			e.Jitter = none
			m.Next(e)
		}
		if m.State() != test.want {
			t.Errorf("%s: %v, want %v", test.name, m.State(), test.want)
		}
	}
}

// The votes that a release of this process hands come a trip after it. A caller that asks before throws them away.
func TestMachine_releasedHere_allowsForATrip(t *testing.T) {
	for trip, want := range map[time.Duration]time.Duration{
		0:                      PauseMin,
		20 * time.Millisecond:  20 * time.Millisecond,
		200 * time.Millisecond: 200 * time.Millisecond,
		tripMax + 1:            tripMax,
	} {
		m := NewMachine(0b111)
		var do Do
		for _, e := range []Event{{Kind: Turn, Ticket: 1}, {Kind: Awake},
			{Kind: Refused, Votes: Votes{Handable: true}, Round: &Round{Need: 2, Held: true, RetryAfter: time.Second}},
			{Kind: ReleasedHere, Votes: Votes{Handable: true}, Now: time.Hour}} {
			e.Trip, e.Jitter = trip, func(time.Duration) time.Duration { return 0 }
			do = m.Next(e)
		}
		if m.State() != Gathering || do.Arm != want {
			t.Errorf("a trip of %v: %v for %v, want %v for %v", trip, m.State(), do.Arm, Gathering, want)
		}
	}
}

// A hold is brief by when its lock was granted. That a caller gave up in between changes nothing.
func TestMachine_callerGaveUp_holdIsNoBriefer(t *testing.T) {
	const hold = 10 * time.Second
	m := NewMachine(0b111)
	var do Do
	for _, e := range []Event{{Kind: Turn, Ticket: 1}, {Kind: Left, Granted: true, Next: true}, {Kind: Turn, Ticket: 2},
		{Kind: Left, Next: true, Now: hold}, {Kind: Turn, Ticket: 3}, {Kind: ReleasedHere, Now: hold + briefHold/2},
		{Kind: Left, Granted: true, Next: true, Now: hold + time.Second}} {
		do = m.Next(e)
	}
	if do.Act != PassTurn || m.State() == Passing {
		t.Errorf("%v, %v", do, m.State())
	}
}

// A caller that stepped back sleeps until the lock may be free, and not for as long again as it had votes that were too few.
func TestMachine_steppedBack_isThereWhenTheLockIsFree(t *testing.T) {
	m := NewMachine(0b111)
	var last Do
	for _, e := range []Event{
		{Kind: Turn, Ticket: 1}, {Kind: Awake},
		{Kind: Refused, Votes: Votes{Some: true, Handable: true}, Round: &Round{Need: 2, Held: true, Granted: true, RetryAfter: time.Second,
			Replies: []protocol.Reply{{Outcome: protocol.Granted}, {Outcome: protocol.Held, Remaining: time.Second}, {Outcome: protocol.Held, Remaining: time.Second}}}, Now: time.Hour},
		{Kind: Timer}, {Kind: Awake}, {Kind: Placed, Now: time.Hour + 300*time.Millisecond},
	} {
		e.Jitter = func(time.Duration) time.Duration { return 0 }
		last = m.Next(e)
	}
	if want := 701 * time.Millisecond; m.State() != Queued || last.Arm != want {
		t.Errorf("%v for %v, want %v for %v", m.State(), last.Arm, Queued, want)
	}
}

// The table in the package comment has each transition that the machine makes, and no other.
func TestMachine_everyTransition_standsInTheTable(t *testing.T) {
	made, written := visited(), table(t)
	for _, r := range slices.Sorted(maps.Keys(made)) {
		if !written[r] {
			t.Errorf("not in the table: %s", r)
		}
	}
	for _, r := range slices.Sorted(maps.Keys(written)) {
		if !made[r] {
			t.Errorf("in the table, and never made: %s", r)
		}
	}
	if len(made) < 60 {
		t.Errorf("only %d transitions", len(made))
	}
}
