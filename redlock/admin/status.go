// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/internal/masters/driver"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/event"
)

// Standing sums up the state of a list of masters in one value.
type Standing uint8

const (
	AllVote        Standing = iota // every master votes
	SomeRecover                    // a quorum votes, so locks work; not every master votes
	Changing                       // a change of masters is unfinished
	NeedsInit                      // only an operator knows whether this list is the right one: see [Init]
	NoQuorum                       // fewer masters than a quorum are reachable
	NotThisList                    // the masters vote with another list, or another list took the place of this one
	BadRecord                      // the record of a master cannot be read
	NeedsMasters                   // as NeedsInit, and masters that are out of reach must be started or replaced first
	OneMasterTwice                 // the list names one master twice, so no program can open it
	TooFewVote                     // a quorum of masters is reachable, and fewer than a quorum vote: nothing can be locked yet
	standingCount  = iota
)

var standings = [standingCount]string{"all vote", "recovering", "changing", "needs init", "no quorum", "not this list", "bad record", "needs masters", "one master twice", "too few vote"}

// String returns s in words, for example "needs init".
func (s Standing) String() string {
	if int(s) >= len(standings) {
		return "?"
	}
	return standings[s]
}

// needsWord reports whether only an operator can help.
func (s Standing) needsWord() bool { return s == NeedsInit || s == NeedsMasters }

// Status is the state of a list of masters when they were read.
type Status struct {
	Standing Standing
	// Reason names what Text says, in words that never change; docs/messages.md lists them. It is empty if all masters vote.
	Reason  string
	Text    string         // one line: what is wrong, on which master, and what to do
	Left    time.Duration  // until the last quarantined master may vote; 0 if that is not known
	Epoch   string         // "number.id"; empty if no quorum was seen to vote
	Masters []MasterStatus // sorted by name
	Change  *ChangeStatus  // nil if no change is unfinished

	_ struct{}
}

// MasterStatus is the state of one master.
type MasterStatus struct {
	Name  string
	Votes bool          // State is votes
	State event.State   // what it is, in the words that Observers and metrics have: votes, recovers, refuses or down
	Text  string        // what it is, in more words
	Left  time.Duration // until the master may vote, if it is quarantined; else 0
	Err   error         // why the master did not answer, refuses writes, or has a record that cannot be read; else nil
	// Cause names why the master does not vote, in words that never change: waits, no record, restarted, retired and other list are what its
	// record says, and docs/messages.md lists the others. Remedy is what to do about it. Both are empty for a master that votes.
	Cause, Remedy string
}

// ChangeStatus is an unfinished change of masters.
type ChangeStatus struct {
	From, To string    // the lists, as texts name them
	Who      string    // the process that proposed the change last, as host/pid; empty in the Status of the new list
	Since    time.Time // when that process did so, on its clock
}

// ReadStatus reads the records of the masters and changes nothing. If they seem to need an operator's
// word, it reads them for a second, because a program that runs may be about to recover them. Masters that do not
// answer, or that cannot be used (a replica, for example), are not an error: their MasterStatus
// says so. The error is an [redlock.ErrConfig] if an option or a URL cannot work, or ctx.Err(). ReadStatus
// waits for one attempt to connect and one answer of each master, of all masters at the same time.
func ReadStatus(ctx context.Context, list List) (*Status, error) {
	op, err := open(ctx, membership.Serve, list, nil)
	if err != nil {
		return nil, fmt.Errorf("redlock: status: %w", err)
	}
	defer op.close()
	_ = op.ready(ctx) // MasterStatus.Err has the errors
	op.cfg.ReadOnly = true
	var s *Status
	var twice masters.SecondLook
	err = op.drive(ctx, func(out *driver.Outcome) (pause time.Duration, done bool, err error) {
		s = op.status(out)
		return masters.LookAgain, !s.Standing.needsWord() || !twice.GoOn(op.cfg.Clock.Elapsed(), op.cfg.Terms.MaxTTL), nil
	})
	if s != nil { // there is a Status, although ctx may have ended before another look
		return s, nil
	}
	return nil, err
}

// AwaitVotes recovers the masters of a list, as an open client does. It is for deploy scripts
// that run while there is no client.
//
// It returns a Status and a nil error when all masters vote (Standing is AllVote, or Changing if a change was begun
// and has stopped nothing yet), or when only an operator can help (NeedsInit, NeedsMasters or NotThisList). When ctx ends first, it returns ctx.Err() and the last
// Status that it saw, or nil if it saw none. If an option or a URL cannot work, or if a master is
// a replica, may evict locks, does not tell ([node.ErrHidden]) or is in the list twice, it returns an [redlock.ErrConfig] and no Status.
func AwaitVotes(ctx context.Context, list List, progress Progress) (*Status, error) {
	op, err := operate(ctx, membership.Serve, list, nil)
	if err != nil {
		return nil, fmt.Errorf("redlock: status: %w", err)
	}
	defer op.close()
	var s *Status
	var twice masters.SecondLook
	err = op.drive(ctx, func(out *driver.Outcome) (pause time.Duration, done bool, err error) {
		s = op.status(out)
		if out.OurClock && progress != nil {
			progress(ourClock, 0)
		}
		switch a := &out.Action; {
		case a.Kind == membership.Look, a.Kind == membership.Learn, a.Kind == membership.Swap && out.Unwritten == nil:
			return masters.Again, false, nil
		case s.everyVotes(), s.Standing == NotThisList,
			s.Standing.needsWord() && a.Kind == membership.Refuse && !twice.GoOn(op.cfg.Clock.Elapsed(), op.cfg.Terms.MaxTTL):
			return 0, true, nil
		}
		pause = progressEvery
		if s.Standing.needsWord() {
			pause = masters.LookAgain
		}
		if left := out.Action.For; left > 0 {
			pause = min(pause, left)
		}
		if progress != nil {
			progress(s.Text, s.Left)
		}
		return pause, false, nil
	})
	return s, err
}

// status returns the Status that out shows.
func (op *operation) status(out *driver.Outcome) *Status {
	v := out.View
	s := &Status{Text: membership.Explain(v, out.Action), Reason: membership.Situation(v, out.Action)}
	votes, answered, mute := 0, 0, 0 // mute: refuse writes
	if n := v.Memory.Number; n != 0 {
		s.Epoch = membership.Epoch{Number: n, ID: v.Terms.ID}.String()
	}
	for i := range v.Masters {
		at := &v.Masters[i]
		m := MasterStatus{Name: at.Name, State: out.State(i), Text: membership.Describe(v, i), Err: out.Errs[i], Votes: out.Votes(i)}
		if no := op.writes.of(at.Name); no != nil && at.Answered {
			m.State, m.Text, m.Err, m.Votes = event.MasterRefuses, cause.Of(no).Text, no, false
			if errors.Is(no, node.ErrNoWrites) {
				mute++
			}
		}
		m.Cause, m.Remedy = op.remedy(v, i, &m)
		m.Left, _ = membership.Left(v, i)
		s.Left = max(s.Left, m.Left)
		if m.Votes {
			votes++
		}
		if at.Answered {
			answered++
		}
		s.Masters = append(s.Masters, m)
	}
	s.Change = changeIn(out)
	s.Standing = standing(out, votes, answered, s.Change != nil)
	if s.Standing.needsWord() {
		s.needsInit()
	}
	switch s.Standing {
	case AllVote:
		if s.Reason, s.Text = "", fmt.Sprintf("all %d masters vote", len(v.Masters)); len(v.Masters) == 1 {
			s.Text = "the one master votes"
		}
	case SomeRecover:
		s.say(cause.LocksWork, s.missing())
	case TooFewVote:
		word := cause.LocksWait
		if len(v.Masters)-mute < v.Terms.Quorum() {
			word = cause.NoWrites
		}
		s.say(word, s.missing())
	case NoQuorum:
		s.say(cause.NoQuorum, s.missing())
	case BadRecord:
		s.say(cause.BadRecord, out.BadRecord().Error())
	case OneMasterTwice:
		s.say(cause.OneMasterTwice, cause.Said(wrongList(out.Errs)))
	}
	return s
}

// changeIn is the change of which the masters tell, or nil.
func changeIn(out *driver.Outcome) *ChangeStatus {
	v := out.View
	if i := membership.UnfinishedChange(v); i >= 0 {
		r := &v.Masters[i].Record
		change := &ChangeStatus{From: r.Intent.From.String(), To: membership.Names(r.Target), Who: r.Intent.Who, Since: time.Unix(r.Intent.Since, 0)}
		if r.Terms != nil {
			change.From = membership.Names(r.Terms.String())
		}
		return change
	}
	if from := membership.PreparedFrom(v); from != nil && out.Action.Why.Code == membership.Prepared {
		return &ChangeStatus{From: membership.Names(from.String()), To: membership.Names(v.Terms.String())}
	}
	return nil
}

// everyVotes reports whether all masters vote.
func (s *Status) everyVotes() bool {
	return !slices.ContainsFunc(s.Masters, func(m MasterStatus) bool { return !m.Votes })
}

func (s *Status) say(word, masters string) { s.Reason, s.Text = word, cause.Verdict(word, masters) }

// remedy is why master i, which m describes, does not vote, and what to do about it.
func (op *operation) remedy(v *membership.View, i int, m *MasterStatus) (word, remedy string) {
	switch {
	case m.State == event.MasterVotes:
		return "", ""
	case m.Err != nil:
		c := cause.Of(m.Err)
		return c.Word, c.Remedy
	}
	return membership.Word(v, i), membership.Remedy(v, i)
}

// needsInit has no master told to recover by itself.
func (s *Status) needsInit() {
	for i := range s.Masters {
		if m := &s.Masters[i]; m.Err == nil && m.Remedy != "" {
			m.Remedy = "the list as a whole needs init"
		}
	}
}

// missing says which masters do not vote, and what to do about each.
func (s *Status) missing() string {
	var ailing []membership.Ailing
	for i := range s.Masters {
		if m := &s.Masters[i]; !m.Votes {
			ailing = append(ailing, membership.Ailing{Master: m.Name, Text: m.Text, Remedy: m.Remedy})
		}
	}
	return membership.Together(ailing)
}

// standing returns the Standing of the first condition that holds, the most serious first. votes and answered
// say how many masters do, and change that a change is unfinished.
func standing(out *driver.Outcome, votes, answered int, change bool) Standing {
	refused := out.Action.Kind == membership.Refuse
	switch code := out.Action.Why.Code; {
	case out.BadRecord() != nil:
		return BadRecord
	case wrongList(out.Errs) != nil:
		return OneMasterTwice
	case refused && (code == membership.Foreign || code == membership.Moved):
		return NotThisList
	case answered < out.View.Terms.Quorum():
		return NoQuorum
	case refused && code == membership.NeedsWord, code == membership.Begun:
		return NeedsInit
	case refused && code == membership.NeedsMasters:
		return NeedsMasters
	case change:
		return Changing
	case votes == len(out.View.Masters):
		return AllVote
	case votes < out.View.Terms.Quorum():
		return TooFewVote
	}
	return SomeRecover
}
