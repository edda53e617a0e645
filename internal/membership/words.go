// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What an operator runs. The words below name these commands and no others.
const (
	InitCommand    = "redlock init --nodes URLS"
	InitToCommand  = "redlock init --nodes NEW_URLS" // the list that a change leads to
	StatusTo       = "redlock status --wait --nodes NEW_URLS"
	InitNewCommand = "redlock init --nothing-was-ever-locked --nodes URLS"
	AbandonFlag    = "--abandon-change"
	StatusCommand  = "redlock status --wait --nodes URLS"
	ChangeCommand  = "redlock reconfigure --from URLS --to URLS"
	RetimeCommand  = "redlock reconfigure --from URLS" // of the same masters
	CancelCommand  = "redlock cancel --nodes URLS"
	LookTo         = "redlock status --nodes NEW_URLS"
	LookOld        = "redlock status --nodes OLD_URLS" // of a command that was given the list that a change leads to
	CancelOld      = "redlock cancel --nodes OLD_URLS"
)

// replaceIt is what to do about a master that is gone for good, while no quorum can change the list.
const replaceIt = "start an empty server under its old name (?name=OLD_ADDRESS in the URL of all programs)"

// Code is why an Action waits or refuses.
type Code uint8

const (
	Recovering      Code = iota // masters wait, or learn
	Begun                       // masters wait, and only the init that quarantined them can let them vote
	Prepared                    // a change to this list prepared masters, and none tells that it began
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
	TooFewReady                 // too few new masters can begin, and the old list is over or, if this waits, will be
	NewBegun                    // the new list has begun, and too few of its masters vote
	Stuck                       // a change retired a master, and too few masters of either list can go on
	BothVote                    // both lists vote, and no change connects them
	InUse                       // likewise, and nothing of the change was begun
	TooLate                     // a change can only be finished
)

// Why is the reason of an Action, and the master that it is about, or -1.
type Why struct {
	Code   Code
	Master int
}

func refuse(code Code, master int) Action { return Action{Kind: Refuse, Why: Why{code, master}} }

// Ailing is a master, what is wrong with it, and what to do about it, which may be empty.
type Ailing struct{ Master, Text, Remedy string }

// Together says it of all. What several have in common is said of the first of them.
func Together(all []Ailing) string {
	var parts []string
	for i, a := range all {
		alike := func(b Ailing) bool { return a.Remedy != "" && a.Text == b.Text && a.Remedy == b.Remedy }
		if slices.ContainsFunc(all[:i], alike) {
			continue
		}
		part := a.Master + " " + a.Text
		if a.Remedy != "" {
			part += ": " + a.Remedy
		}
		parts = append(parts, part)
		var others []string
		for _, b := range all[i+1:] {
			if alike(b) {
				others = append(others, b.Master)
			}
		}
		if len(others) > 0 {
			parts = append(parts, strings.Join(others, ", ")+": the same")
		}
	}
	return strings.Join(parts, "; ")
}

// Names has the names of masters in text as people write them. [Terms.String] has no / in a name.
func Names(text string) string { return strings.ReplaceAll(text, "%2F", "/") }

// Describe says in a few words what state master i is in.
func Describe(v *View, i int) string { return Names(v.describe(i)) }

func (v *View) describe(i int) string {
	at := &v.Masters[i]
	rs := at.state()
	switch {
	case !at.Answered && at.Silence.Text != "":
		return at.Silence.Text
	case !at.Answered:
		return "is out of reach"
	case rs.Phase == None && at.Record.State.Phase == None:
		return "has no record: it is new, or was flushed"
	case rs.Phase == None:
		text := "restarted, or was promoted, and may have forgotten votes"
		if id := at.Record.State.Epoch.ID; at.Record.Terms != nil && id != v.Terms.ID && (v.Target == nil || id != v.Target.ID) {
			text += "; its record is of another list: " + at.Record.Terms.String()
		}
		return text
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
	left = left.Round(10 * time.Millisecond)
	switch {
	case v.prepared(i) != nil:
		return "is prepared for a change to this list, which has not begun"
	case !timed:
		return "is quarantined, and no program times its wait"
	case left <= 0 && v.ReadOnly:
		return "is quarantined, and its wait is over"
	case left <= 0:
		return "is quarantined, its wait is over, and it votes when enough masters tell their counters"
	case v.ReadOnly:
		return fmt.Sprintf("is quarantined for another %v", left)
	}
	return fmt.Sprintf("is quarantined, votes in about %v", left)
}

func target(r *Record) string {
	if r.Target != "" {
		return r.Target
	}
	return r.Plan.Target.String()
}

// leftFor is the list that took the place of this one. Master i knows it; any master may if i is -1.
func (v *View) leftFor(i int) string {
	if i >= 0 && i < len(v.Masters) {
		r := &v.Masters[i].Record
		if r.State.Phase == Voting && r.Terms != nil {
			return r.Terms.String()
		}
		return target(r)
	}
	left := v.Memory.Left
	if i := v.finished(); left == (Epoch{}) && i >= 0 {
		left = v.Masters[i].Record.Plan.Target
	}
	for i := range v.Masters {
		r := &v.Masters[i].Record
		switch {
		case left != (Epoch{}) && v.Masters[i].state().Epoch == left && r.Terms != nil:
			return r.Terms.String()
		case r.Finished() && r.Plan.Target == left && r.Target != "":
			return r.Target
		}
	}
	return "epoch " + left.String()
}

// unfinished tells of the change that [UnfinishedChange] finds.
func (v *View) unfinished() string {
	i := UnfinishedChange(v)
	if i < 0 {
		return ""
	}
	last := &v.Masters[i].Record
	to := last.Target
	if to == "" {
		to = last.Intent.Target.String()
	}
	return fmt.Sprintf("to %s (by %s, %v ago)", to, last.Intent.Who, max(v.Wall.Sub(time.Unix(last.Intent.Since, 0)), 0).Round(time.Second))
}

// statesFor is what each master is that a message with that reason is about.
func (v *View) statesFor(code Code) string {
	switch code {
	case NoQuorum:
		return v.states(func(at *Master) bool { return at.Old })
	case TooFewReady, NewBegun:
		return v.states(func(at *Master) bool { return at.New })
	}
	return States(v)
}

// states is what each master is that is picked.
func (v *View) states(pick func(*Master) bool) string {
	var parts []string
	for i := range v.Masters {
		if pick(&v.Masters[i]) {
			parts = append(parts, v.Masters[i].Name+" "+Describe(v, i))
		}
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
