// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strings"
	"time"
)

// What an operator runs. The words below name these commands and no others.
const (
	InitCommand   = "redlock init --nodes URLS"
	AbandonFlag   = "--abandon-change"
	StatusCommand = "redlock status --wait --nodes URLS"
	ChangeCommand = "redlock reconfigure --from URLS --to URLS"
	CancelCommand = "redlock cancel --nodes URLS"
)

// replaceIt is what to do about a master that is gone for good, while no quorum can change the list.
const replaceIt = "start an empty server under its old name (?name=OLD_ADDRESS in the URL of all programs)"

// Code is why an Action waits or refuses.
type Code uint8

const (
	Recovering      Code = iota // masters wait, or learn
	Unreachable                 // too few masters answer
	Unfinished                  // Init: a change from this list was begun
	Foreign                     // a master belongs to other terms
	Moved                       // a change from this list was finished
	BeingChanged                // locks have stopped for a change
	NeedsWord                   // only the operator knows whether this list is the right one: exit code 5
	NeedsMasters                // likewise, and first all masters must be there again: exit code 7
	NothingToChange             // both lists are one
	FixedList                   // such a list is never changed
	OtherChange                 // a change to another list is unfinished
	NoQuorum                    // too few masters of the old list have their record
	NotReady                    // a new master is not ready
	TooFewReady                 // too few new masters can begin
	BothVote                    // both lists vote, and no change connects them
	TooLate                     // a change can only be finished
)

// Why is the reason of an Action, and the master that it is about, or -1.
type Why struct {
	Code   Code
	Master int
}

func refuse(code Code, master int) Action { return Action{Kind: Refuse, Why: Why{code, master}} }

// Explain says in one line why a waits or refuses: what is wrong, on which master, and what to do.
func Explain(v *View, a Action) string {
	lost := v.names(func(at *Master) bool {
		return at.Old && at.Answered && (at.state().Phase == None || at.state().Phase == Quarantined)
	})
	master := "a master"
	if i := a.Why.Master; i >= 0 && i < len(v.Masters) {
		master = v.Masters[i].Name + " " + Describe(v, i)
	}
	switch a.Why.Code {
	case Recovering:
		if m := (machine{v: v}); v.Goal == Init && v.NeverLocked && !m.unused() {
			return fmt.Sprintf("the records contradict that nothing was ever locked, so this waits until every lock may be over: %s", v.states())
		}
		return fmt.Sprintf("masters recover: %s; run %s to wait for them", v.states(), StatusCommand)
	case Unreachable:
		if v.Goal == Init {
			return fmt.Sprintf("%s; start the master, or correct its URL; if it is gone for good, %s", master, replaceIt)
		}
		return fmt.Sprintf("%s; start the master, or correct its URL", master)
	case Unfinished:
		return fmt.Sprintf("%s; finish that change with %s, or give it up with %s; if neither can go on, end every process of that change and add %s",
			master, ChangeCommand, CancelCommand, AbandonFlag)
	case Foreign:
		return fmt.Sprintf("%s; take that master out of this list, or start this program with the list that the master belongs to; delete the key of its record only when no program uses that other list any more: two lists on one master can each grant the same lock", master)
	case Moved:
		if v.Goal == Init {
			return fmt.Sprintf("these masters were left for another list: %s; to use them again, change back: %s", v.leftFor(), ChangeCommand)
		}
		return fmt.Sprintf("these masters were left for another list: %s; start this client with the new list", v.leftFor())
	case BeingChanged:
		return fmt.Sprintf("the masters are being changed %s; locks begin again on the new list in about %v; if the change has no process any more, run %s again",
			v.unfinished(), v.Terms.Wait().Round(time.Second), ChangeCommand)
	case NeedsWord:
		return fmt.Sprintf("%s have no valid record, and nobody here saw a quorum vote in the last %v; if this list is still the right one, and no other list took its place: %s",
			lost, v.Terms.MaxTTL, InitCommand)
	case NeedsMasters:
		silent := v.names(func(at *Master) bool { return at.Old && !at.Answered })
		return fmt.Sprintf("%s have no valid record, nobody here saw a quorum vote in the last %v, and %s are out of reach; no quorum can vote again by itself, and the list cannot be changed; "+
			"start those that are out of reach, and in place of each that is gone for good %s; then, if this list is still the right one, and no other list took its place: %s",
			lost, v.Terms.MaxTTL, silent, replaceIt, InitCommand)
	case NothingToChange:
		return "the old and the new list, maximum TTL and drift are the same; there is nothing to change"
	case FixedList:
		return "one of the lists is fixed (WithFixedMasters); a fixed list cannot be changed, and no list can be changed to it"
	case OtherChange:
		return fmt.Sprintf("another change is unfinished %s; finish it with %s, or give it up with %s", v.unfinished(), ChangeCommand, CancelCommand)
	case NoQuorum:
		return fmt.Sprintf("too few of the old masters have their record: %s; recover them first: %s, which says what to do if they cannot recover", v.states(), StatusCommand)
	case NotReady:
		return fmt.Sprintf("%s; nothing has stopped: the change begins when all masters of the new list are ready", master)
	case TooFewReady:
		return fmt.Sprintf("too few of the new masters can begin: %s; start those that are out of reach; if their records are lost, end this command and begin the list that you want with %s %s",
			v.states(), InitCommand, AbandonFlag)
	case BothVote:
		return "both lists vote, and no change leads from the old one to the new one; use one of them on all clients"
	case TooLate:
		return fmt.Sprintf("the change cannot be given up, because too few masters of the old list still vote: %s; finish it with %s, then change back", v.states(), ChangeCommand)
	}
	return "unknown reason"
}

// Describe says in a few words what state master i is in.
func Describe(v *View, i int) string {
	at := &v.Masters[i]
	rs := at.state()
	switch {
	case !at.Answered:
		return "is out of reach"
	case rs.Phase == None && at.Record.State.Phase == None:
		return "has no record: it is new, or was flushed"
	case rs.Phase == None:
		return "restarted, or was promoted, and may have forgotten votes"
	case rs.Epoch.ID != v.Terms.ID && (v.Target == nil || rs.Epoch.ID != v.Target.ID):
		text := rs.Epoch.String()
		if at.Record.Terms != nil {
			text = at.Record.Terms.String()
		}
		return "belongs to another epoch: " + text
	case rs.Phase == Voting:
		return "votes"
	case rs.Phase == Retired:
		return "was retired for a change to " + target(&at.Record)
	}
	if v.Goal == Change || i >= len(v.Memory.Sights) {
		return "is quarantined"
	}
	left, timed := Left(v, i)
	if !timed {
		return "is quarantined, and no program times its wait"
	}
	return fmt.Sprintf("is quarantined, votes in about %v", left.Round(10*time.Millisecond))
}

func target(r *Record) string {
	if r.Target != "" {
		return r.Target
	}
	return r.Plan.Target.String()
}

// leftFor is the list that took the place of this one.
func (v *View) leftFor() string {
	for i := range v.Masters {
		r := &v.Masters[i].Record
		switch {
		case v.Masters[i].state().Epoch == v.Memory.Left && r.Terms != nil:
			return r.Terms.String()
		case r.Finished() && r.Plan.Target == v.Memory.Left && r.Target != "":
			return r.Target
		}
	}
	return "epoch " + v.Memory.Left.String()
}

// unfinished tells of the promise with the largest ballot.
func (v *View) unfinished() string {
	var last *Record
	for i := range v.Masters {
		if r := &v.Masters[i].Record; r.Intent.Target != (Epoch{}) && (last == nil || r.Intent.Ballot.Round > last.Intent.Ballot.Round) {
			last = r
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf("to %s (by %s, %v ago)", target(last), last.Intent.Who, max(v.Wall.Sub(time.Unix(last.Intent.Since, 0)), 0).Round(time.Second))
}

// states is what each master is.
func (v *View) states() string {
	parts := make([]string, len(v.Masters))
	for i := range v.Masters {
		parts[i] = v.Masters[i].Name + " " + Describe(v, i)
	}
	return strings.Join(parts, ", ")
}

func (v *View) names(pick func(*Master) bool) string {
	var names []string
	for i := range v.Masters {
		if pick(&v.Masters[i]) {
			names = append(names, v.Masters[i].Name)
		}
	}
	return fmt.Sprintf("%d of %d masters (%s)", len(names), len(v.Terms.Masters), strings.Join(names, " "))
}
