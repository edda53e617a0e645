// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"strings"
	"time"
)

// Message is what the commands and the errors of programs say in one situation. {words} in Text and Remedy are filled in.
type Message struct {
	Word   string // names the situation for programs that read --json, and never changes
	Text   string // what is wrong, and on which master
	Remedy string // what to do; empty if waiting is enough, or if Text says it all
}

// say names a Message.
type say uint8

const (
	sayRecovers say = iota
	sayRecoversUnseen
	sayContradicted
	sayInitUnfinished
	sayPrepared
	sayUnreachable
	sayUnreachableInit
	sayUnfinished
	sayForeign
	sayOtherTTL
	sayOtherFlags
	sayFixedSame
	sayRenamed
	sayMoved
	sayMovedInit
	sayBeingChanged
	sayPromised
	sayNew
	sayForgot
	sayNeedsMasters
	sayNothingToChange
	sayFixedList
	sayOtherChange
	sayTooFewRecords
	sayNotReady
	sayNotReadyYet
	sayTooFewReady
	sayTooFewReadyYet
	sayNewBegun
	sayStuck
	sayBothVote
	sayInUse
	sayTooLate
	sayCount
)

var messages = [sayCount]Message{
	sayRecovers: {"masters recover", "masters recover: {states}", ""},
	sayRecoversUnseen: {"masters recover, seen by no program", "masters recover: {states}",
		"a program of this list lets them vote; if none runs: {status}"},
	sayContradicted: {"records contradict", "the records contradict that nothing was ever locked, so this waits until every lock may be over: {states}", ""},
	sayInitUnfinished: {"init unfinished", "an init of this list has not ended, and no program votes for it: {states}",
		"if that init runs, wait for it; if it was ended, run it again, which takes {wait}: {init}"},
	sayPrepared: {"change prepared", "a change from {from} has prepared masters of this list, and no master votes for it: {states}",
		"if that change runs, wait for it; else finish it, which takes {wait}: {change}; or give it up: {cancelold}; if no program uses the old list any more, and it does not vote ({lookold}): {init} {abandon}"},
	sayUnreachable:     {"too few masters", "{silent}", ""},
	sayUnreachableInit: {"init needs every master", "every master is needed: {silent}", "if one is gone for good, {replace}"},
	sayUnfinished: {"change unfinished", "{master}",
		"finish that change, which takes {wait}: {change}{orcancel}; if it cannot go on and no new master votes ({look}), end every process of that change and add {abandon}"},
	sayForeign: {"other list", "{master}; you gave {ours}",
		"take that master out of this list, or use the list that it belongs to; " +
			"delete the key of its record only when no program uses that other list: two lists on one master can each grant the same lock"},
	sayOtherTTL: {"other maximum TTL or drift", "{master}; you gave {ours}",
		"the masters are the same, so {theirs}; to move that list to your values, which takes {wait}: {change}"},
	sayOtherFlags: {"other flags", "{master}; you gave {ours}", "the masters are the same, so {theirs}"},
	sayFixedSame:  {"fixed list, same masters", "{master}; you gave {ours}", "that list is fixed: its programs begin it, and it is never changed: {status}"},
	sayRenamed: {"renamed master", "{master}; that list has this server under another name; you gave {ours}; names cannot change in place",
		"keep the old name in the URLs of all programs: redis://NEW_ADDRESS?name={old}"},
	sayMoved:     {"list left", "these masters were left for another list: {left}", "start this client with the new list"},
	sayMovedInit: {"list left, init", "these masters were left for another list: {left}", "to use them again, change back while that list votes, which takes {wait}: {change}"},
	sayBeingChanged: {"locks stopped", "the masters are being changed {unfinished}; all locks are stopped until that ends, about {wait} after it stopped them",
		"if the change has no process any more, run it again: {change}"},
	sayPromised: {"change promised", "a change of the masters {unfinished} was begun and has not ended; it has not stopped the locks",
		"if that change runs, wait for it; else finish it, which takes {wait}: {change}; or give it up: {cancel}"},
	sayNew: {"new masters", "{lost} have no record, so they are new or were emptied",
		"if they are new: {initnew}; if they were emptied and no other list took their place, wait {wait} with: {init}"},
	sayForgot: {"masters forgot", "{lost} have no valid record, and nobody here saw a quorum vote in the last {maxttl}",
		"if this list is still the right one, and no other list took its place, run this, which takes {wait}: {init}"},
	sayNeedsMasters: {"needs masters", "{lost} have no valid record, and nobody here saw a quorum vote in the last {maxttl}; no quorum can vote again by itself: {silent}",
		"mend these, and in place of each that is gone for good {replace}; then, if no other list took the place of this one, which takes {wait}: {init}"},
	sayNothingToChange: {"nothing to change", "the old and the new list, maximum TTL and drift are the same; there is nothing to change", ""},
	sayFixedList:       {"fixed list", "one of the lists is fixed (WithFixedMasters); a fixed list cannot be changed, and no list can be changed to it", ""},
	sayOtherChange:     {"other change", "another change is unfinished {unfinished}", "finish it, which takes {wait}: {change}{orcancel}"},
	sayTooFewRecords: {"too few records", "too few of the old masters have their record: {states}",
		"recover them first, or hear what to do if they cannot recover: {status}"},
	sayNotReady: {"master not ready", "{master}; nothing has stopped: the change begins when all masters of the new list are ready", "{cure}"},
	sayNotReadyYet: {"master not ready, change unfinished", "{master}; nothing has stopped: the change {unfinished} goes on when all masters of the new list are ready",
		"{cure}; or give the change up: {cancel}"},
	sayTooFewReady: {"too few ready", "too few of the new masters can begin, and all locks are stopped: {states}",
		"start those that are out of reach, and mend those that refuse; if their records are lost, begin one list, which takes {wait}; the new one: {initto} {abandon}; the old one: {init} {abandon}"},
	sayTooFewReadyYet: {"too few ready yet", "too few of the new masters can begin, all locks are stopped, and the old list is not over yet: {states}",
		"start those that are out of reach, and mend those that refuse: then this goes on"},
	sayNewBegun: {"new list begun", "the new list has begun, and too few of its masters vote: {states}",
		"start those that are out of reach, and mend those that refuse; its programs let the rest vote, or: {statusto}; if their records are lost, begin the new list only, which takes {wait}: {initto}"},
	sayStuck: {"change stuck", "the masters were being changed {unfinished}, and too few of them can go on: {states}",
		"start those that are out of reach and run it again: {change}; if it ends so again, and no new master votes ({look}), end its processes and begin the old list, which takes {wait}: {init} {abandon}"},
	sayBothVote: {"both lists vote", "both lists vote, and no change leads from the old one to the new one", "use one of them on all clients"},
	sayInUse: {"new list votes", "the new list votes already, without a change from the old one, which goes on",
		"if programs use the new list, name other masters; if none does, delete the key of the record on each of its masters and call this again"},
	sayTooLate: {"too late to cancel", "the change cannot be given up, because too few masters of the old list still vote: {states}",
		"finish it, which takes {wait}, and then change back: {change}"},
}

// Messages are all that Explain can say, for the table of the docs.
func Messages() []Message { return messages[:] }

// plainly are the messages of reasons that have one only.
var plainly = map[Code]say{Begun: sayInitUnfinished, Prepared: sayPrepared, Unfinished: sayUnfinished, BeingChanged: sayBeingChanged,
	NothingToChange: sayNothingToChange, FixedList: sayFixedList, OtherChange: sayOtherChange, NewBegun: sayNewBegun, Stuck: sayStuck,
	BothVote: sayBothVote, InUse: sayInUse, TooLate: sayTooLate}

// says finds the message of a.
func says(v *View, a Action) say {
	either := func(of bool, one, other say) say {
		if of {
			return one
		}
		return other
	}
	init := v.Goal == Init
	switch a.Why.Code {
	case Recovering:
		switch m := (machine{v: v, rules: &shipped}); {
		case init && v.NeverLocked && !m.unused():
			return sayContradicted
		case v.Goal == Serve && m.votes(Epoch{v.Memory.Number, v.Terms.ID}, false) >= v.Terms.Quorum() && UnfinishedChange(v) >= 0:
			return sayPromised
		}
		return either(v.ReadOnly, sayRecoversUnseen, sayRecovers)
	case Unreachable:
		return either(init, sayUnreachableInit, sayUnreachable)
	case Foreign:
		switch i := a.Why.Master; {
		case v.theirs(i) == "":
			return either(v.renamed() >= 0, sayRenamed, sayForeign)
		case v.Goal != Serve && v.Masters[i].Record.Terms.Fixed:
			return sayFixedSame
		default:
			return either(v.moves(i), sayOtherTTL, sayOtherFlags)
		}
	case Moved:
		return either(init, sayMovedInit, sayMoved)
	case NeedsWord, NeedsMasters, NoQuorum:
		switch {
		case v.retired():
			return sayStuck
		case a.Why.Code == NeedsWord:
			return either(v.allNew(), sayNew, sayForgot)
		}
		return either(a.Why.Code == NoQuorum, sayTooFewRecords, sayNeedsMasters)
	case NotReady:
		return either(v.unfinished() != "", sayNotReadyYet, sayNotReady)
	case TooFewReady:
		return either(a.Kind == Wait, sayTooFewReadyYet, sayTooFewReady)
	}
	return plainly[a.Why.Code]
}

// Situation is the word of what Explain says of a.
func Situation(v *View, a Action) string { return messages[says(v, a)].Word }

// Explain says in one line why a waits or refuses: what is wrong, on which master, and what to do.
func Explain(v *View, a Action) string {
	m := messages[says(v, a)]
	text := m.Text
	if m.Remedy != "" {
		text += "; " + m.Remedy
	}
	return Names(v.fill(text, a))
}

// fill puts what v says in place of the {words} of text.
func (v *View) fill(text string, a Action) string {
	master, cure, old := "a master", StartIt, ""
	i := a.Why.Master
	theirs := v.theirs(i)
	if a.Why.Code == Foreign && theirs == "" && v.renamed() >= 0 {
		i = v.renamed()
	}
	if i >= 0 && i < len(v.Masters) {
		at := &v.Masters[i]
		master = at.Name + " " + Describe(v, i)
		old = Renamed(v, i)
		if cure = at.cure(); at.Answered {
			cure = statusCommand(v, v.Terms) + " says what to do about it"
		}
	}
	lost := func(at *Master) bool {
		return at.Old && at.Answered && (at.state().Phase == None || at.state().Phase == Quarantined)
	}
	from, onward := v.advised(a)
	wait, orCancel, status := from.Wait(), "", v.Terms
	if from == v.Terms && v.cancellable() {
		orCancel = "; or give it up: " + CancelCommand + v.flagsOf(from)
	}
	if a.Why.Code == Foreign && theirs != "" {
		status = v.Masters[i].Record.Terms
	}
	switch a.Why.Code {
	case TooFewReady, NewBegun, Stuck, NoQuorum, NeedsWord, NeedsMasters, Begun: // what an Init waits for
		for _, t := range []*Terms{v.longest(), v.Target} {
			if t != nil {
				wait = max(wait, t.Wait())
			}
		}
	}
	flags, to := v.flags(), v.flagsOf(onward)
	return strings.NewReplacer("{states}", v.statesFor(a.Why.Code), "{master}", master, "{cure}", cure, "{old}", old,
		"{replace}", replaceIt, "{abandon}", AbandonFlag, "{ours}", v.ours(i).String(), "{theirs}", theirs, "{left}", v.leftFor(a.Why.Master), "{unfinished}", v.unfinished(),
		"{lost}", v.names(lost), "{silent}", v.silent(), "{maxttl}", v.Terms.MaxTTL.String(), "{wait}", wait.Round(100*time.Millisecond).String(),
		"{initnew}", InitNewCommand+flags, "{init}", InitCommand+flags, "{initto}", InitToCommand+to, "{statusto}", StatusTo+to, "{look}", LookTo+to,
		"{status}", statusCommand(v, status), "{lookold}", LookOld+v.flagsOf(from), "{cancelold}", CancelOld+v.flagsOf(from), "{orcancel}", orCancel,
		"{from}", from.String(), "{change}", v.changeCommand(from, onward), "{cancel}", CancelCommand+v.flagsOf(from)).Replace(text)
}

// StartIt is what helps where no error tells more.
const StartIt = "start the master, or correct its URL"

// cure is what to do about a master that did not answer.
func (at *Master) cure() string {
	if at.Silence.Remedy != "" {
		return at.Silence.Remedy
	}
	return StartIt
}

// allNew reports whether no master that answered has a record of any time.
func (v *View) allNew() bool {
	return !slices.ContainsFunc(v.Masters, func(at Master) bool { return at.Old && at.Answered && at.Record.State.Phase != None })
}

// retired reports whether a change has retired a master of v.Terms.
func (v *View) retired() bool {
	return slices.ContainsFunc(v.Masters, func(at Master) bool {
		return at.Old && at.state().Phase == Retired && at.state().Epoch.ID == v.Terms.ID
	})
}

// silent is what each master that did not answer is, and what to do about it.
func (v *View) silent() string {
	var ailing []Ailing
	for i := range v.Masters {
		if at := &v.Masters[i]; at.Old && !at.Answered {
			ailing = append(ailing, Ailing{at.Name, Describe(v, i), at.cure()})
		}
	}
	return Together(ailing)
}

// Renamed is the name that the list of master i has for the server, if that list does not have its name here: the
// server wrote its record itself, so it is no copy. It is OLD_NAME if several names may be meant, and empty for a master that was
// not renamed.
func Renamed(v *View, i int) string {
	at := &v.Masters[i]
	t := at.Record.Terms
	if at.state().Phase == None || t == nil || slices.Contains(t.Masters, at.Name) {
		return ""
	}
	var gone []string
	for _, name := range t.Masters {
		if !slices.Contains(v.Terms.Masters, name) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 1 {
		return gone[0]
	}
	return "OLD_NAME"
}

// renamed is the first master that was renamed, or -1.
func (v *View) renamed() int {
	for i := range v.Masters {
		if Renamed(v, i) != "" {
			return i
		}
	}
	return -1
}
