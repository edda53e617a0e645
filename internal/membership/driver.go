// SPDX-License-Identifier: Apache-2.0

package membership

import "time"

// States says of each master what it is, in one line.
func States(v *View) string { return v.states(func(*Master) bool { return true }) }

// LeftFor is the list that took the place of v.Terms, when v.Memory says that one did.
func LeftFor(v *View) string { return v.leftFor(-1) }

// Word names why master i, which answered, does not vote, in words that never change. It is "votes" if the master votes.
func Word(v *View, i int) string {
	at := &v.Masters[i]
	rs := at.state()
	switch {
	case rs.Phase == None && at.Record.State.Phase == None:
		return "no record"
	case rs.Phase == None:
		return "restarted"
	case rs.Epoch.ID != v.Terms.ID:
		return "other list"
	case rs.Phase == Voting:
		return "votes"
	case rs.Phase == Retired:
		return "retired"
	}
	return "waits"
}

// Left is how long master i is still to wait before it may vote in its epoch again. timed is false if the master does not
// wait, and if nobody is known to time its wait: it has no stamp, and this process does not let it vote.
func Left(v *View, i int) (left time.Duration, timed bool) {
	rs := v.Masters[i].state()
	if rs.Phase != Quarantined || rs.Epoch.ID != v.Terms.ID || i >= len(v.Memory.Sights) {
		return 0, false
	}
	m := machine{v: v, rules: &shipped}
	stood := m.stood(i)
	if v.Goal != Init && !m.stamped(i) && (stood <= 0 || !rs.Whole && !m.vouched(i)) {
		return 0, false
	}
	return max(m.wait()-stood, 0), true
}

// Belongs says whether master i votes or waits in an epoch of other terms, and names them.
func Belongs(v *View, i int) (terms string, other bool) {
	at := &v.Masters[i]
	rs := at.state()
	if rs.Phase == None || rs.Epoch.ID == v.Terms.ID {
		if rs.Phase == Retired {
			return target(&at.Record), false
		}
		return "", false
	}
	if at.Record.Terms != nil {
		return at.Record.Terms.String(), true
	}
	return rs.Epoch.String(), true
}

// Votes says whether master i votes in e.
func Votes(v *View, i int, e Epoch) bool {
	rs := v.Masters[i].state()
	return rs.Phase == Voting && rs.Epoch == e
}

// UnfinishedChange is the master that tells of an unfinished change from v.Terms: the one with the promise of the largest ballot. It is -1 if no
// master has such a promise in the epoch that stands, or if a quorum that votes has promised to cancel it. A master that lost its record is
// bound by no promise, and tells of a change only if that retired it.
func UnfinishedChange(v *View) int {
	m := machine{v: v, rules: &shipped}
	e, last, cancelled := Epoch{ID: v.Terms.ID}, -1, int64(0)
	tells := func(at *Master) bool {
		rs := &at.Record.State
		return rs.Epoch.ID == e.ID && (at.state().Phase != None || rs.Phase == Retired)
	}
	for i := range v.Masters {
		if at := &v.Masters[i]; tells(at) {
			e.Number = max(e.Number, at.Record.State.Epoch.Number)
		}
	}
	for i := range v.Masters {
		at := &v.Masters[i]
		switch in := &at.Record.Intent; {
		case !tells(at) || at.Record.State.Epoch != e:
		case in.Target == (Epoch{}):
			if m.cancelled(e, *in) {
				cancelled = max(cancelled, in.Ballot.Round)
			}
		case last < 0 || in.Ballot.Round > v.Masters[last].Record.Intent.Ballot.Round:
			last = i
		case in.Ballot == v.Masters[last].Record.Intent.Ballot && v.Masters[last].Record.Target == "" && at.Record.Target != "":
			last = i // the other one learned the promise when it recovered
		}
	}
	if last >= 0 && v.Masters[last].Record.Intent.Ballot.Round < cancelled {
		return -1
	}
	return last
}

// PreparedFrom is the list from which a change prepared masters of v.Terms without having begun, as far as they tell, or nil.
func PreparedFrom(v *View) *Terms {
	for i := range v.Masters {
		if before := v.prepared(i); before != nil {
			return before
		}
	}
	return nil
}

// Remedy is what to do about master i, which answered and does not vote.
func Remedy(v *View, i int) string {
	if v.prepared(i) != nil {
		return "finish the change, or give it up"
	}
	status, takes := statusCommand(v, v.Terms), "which takes "+v.Terms.Wait().Round(100*time.Millisecond).String()
	switch _, timed := Left(v, i); Word(v, i) {
	case "no record", "restarted":
		return "a program of this list recovers it, " + takes + "; if none runs: " + status
	case "waits":
		if timed && !v.ReadOnly {
			return "" // this process lets it vote
		}
		if !timed {
			return "a program of this list lets it vote, " + takes + "; if none runs: " + status
		}
		return "a program of this list lets it vote then; if none runs: " + status
	case "other list":
		switch theirs := v.theirs(i); {
		case theirs == "":
			return "take it out of this list, or use its list"
		case v.moves(i):
			return theirs + ", or move the list with redlock reconfigure"
		default:
			return theirs
		}
	case "retired":
		switch {
		case v.Masters[i].Record.Finished():
			return "use the list that took the place of this one"
		case v.cancellable():
			return "finish the change, or give it up"
		}
		return "finish the change"
	}
	return ""
}
