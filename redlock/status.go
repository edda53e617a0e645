// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/internal/members"
)

// Standing sums up the state of a list of masters in one value.
type Standing uint8

const (
	AllVote       Standing = iota // every master votes
	SomeRecover                   // a quorum of masters is reachable, but not every master votes
	Changing                      // a change of masters is unfinished
	NeedsInit                     // only an operator knows whether this list is the right one: see [Init]
	NoQuorum                      // fewer masters than a quorum are reachable
	NotThisList                   // the masters vote with another list, or another list took the place of this one
	BadRecord                     // the record of a master cannot be read
	standingCount = iota
)

var standings = [standingCount]string{"all vote", "recovering", "changing", "needs init", "no quorum", "not this list", "bad record"}

// String returns s in words, for example "needs init".
func (s Standing) String() string {
	if int(s) >= len(standings) {
		return "?"
	}
	return standings[s]
}

// Status is the state of a list of masters when they were read.
type Status struct {
	Standing Standing
	Text     string         // one line: what is wrong, on which master, and what to do
	Left     time.Duration  // until the last quarantined master may vote; 0 if that is not known
	Epoch    string         // "number.id"; empty if no quorum was seen to vote
	Masters  []MasterStatus // sorted by name
	Change   *ChangeStatus  // nil if no change is unfinished

	_ struct{}
}

// MasterStatus is the state of one master.
type MasterStatus struct {
	Name  string
	Votes bool          // the master votes in the epoch of the list
	State string        // one of: votes, waits, no record, restarted, retired, other list, refuses, silent
	Text  string        // State in more words
	Left  time.Duration // until the master may vote, if it is quarantined; else 0
	Err   error         // why the master did not answer, refuses writes, or has a record that cannot be read; else nil
}

// ChangeStatus is an unfinished change of masters.
type ChangeStatus struct {
	From, To string    // the lists, as the masters' records name them
	Who      string    // the process that proposed the change last, as host/pid
	Since    time.Time // when that process did so, on its clock
}

// ReadStatus reads the records of the masters once and changes nothing. Masters that do not
// answer, or that cannot be used (a replica, for example), are not an error: their MasterStatus
// says so. The error is an [ErrConfig] if an option or a URL cannot work, or ctx.Err(). ReadStatus
// waits for one attempt to connect and one answer of each master, of all masters at the same time.
func ReadStatus(ctx context.Context, list List) (*Status, error) {
	op, err := open(ctx, membership.Serve, list, nil)
	if err != nil {
		return nil, fmt.Errorf("redlock: status: %w", err)
	}
	defer op.close()
	_ = op.ready(ctx) // MasterStatus.Err has the errors
	op.cfg.ReadOnly = true
	out := members.New(op.cfg).Step(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return op.status(&out), nil
}

// AwaitVotes recovers the masters of a list, as an open client does. It is for deploy scripts
// that run while there is no client.
//
// It returns a Status and a nil error when all masters vote, or when only an operator can help
// (Standing is NeedsInit or NotThisList). When ctx ends first, it returns ctx.Err() and the last
// Status that it saw, or nil if it saw none. If an option or a URL cannot work, or if a master is
// a replica, may evict locks or does not tell ([node.ErrHidden]), it returns an [ErrConfig] and no Status.
func AwaitVotes(ctx context.Context, list List, progress Progress) (*Status, error) {
	op, err := operate(ctx, membership.Serve, list, nil)
	if err != nil {
		return nil, fmt.Errorf("redlock: status: %w", err)
	}
	defer op.close()
	d := members.New(op.cfg)
	var s *Status
	for {
		out := d.Step(ctx)
		if err := ctx.Err(); err != nil {
			return s, err
		}
		s = op.status(&out)
		pause := again
		switch a := &out.Action; {
		case a.Kind == membership.Look, a.Kind == membership.Learn, a.Kind == membership.Swap && out.Unwritten == nil:
		default:
			if s.Standing == AllVote || s.Standing == NeedsInit || s.Standing == NotThisList {
				return s, nil
			}
			pause = progressEvery
			if a.For > 0 {
				pause = min(pause, a.For)
			}
			if progress != nil {
				progress(s.Text, s.Left)
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// status returns the Status that out shows.
func (op *operation) status(out *members.Outcome) *Status {
	v := out.View
	s := &Status{Text: membership.Explain(v, out.Action)}
	votes, answered, mute := 0, 0, 0 // mute: refuse writes
	if n := v.Memory.Number; n != 0 {
		s.Epoch = membership.Epoch{Number: n, ID: v.Terms.ID}.String()
	}
	for i := range v.Masters {
		at := &v.Masters[i]
		m := MasterStatus{Name: at.Name, State: membership.Word(v, i), Text: membership.Describe(v, i), Err: out.Errs[i],
			Votes: membership.Votes(v, i, membership.Epoch{Number: v.Memory.Number, ID: v.Terms.ID})}
		if no := op.writes.of(at.Name); no != nil && at.Answered {
			m.State, m.Text, m.Err, m.Votes, mute = "refuses", "refuses writes", no, false, mute+1
		}
		m.Left, _ = membership.Left(v, i)
		s.Left = max(s.Left, m.Left)
		if m.Votes {
			votes++
		}
		if at.Answered {
			answered++
		}
		s.Masters = append(s.Masters, m)
		if in := &at.Record.Intent; in.Target != (membership.Epoch{}) {
			s.Change = &ChangeStatus{From: in.From.String(), To: at.Record.Target, Who: in.Who, Since: time.Unix(in.Since, 0)}
			if at.Record.Terms != nil {
				s.Change.From = at.Record.Terms.String()
			}
		}
	}
	s.Standing = standing(out, votes == len(v.Masters), answered, s.Change != nil)
	if s.Standing == AllVote {
		s.Text = fmt.Sprintf("all %d masters vote", len(v.Masters))
	} else if s.Standing == SomeRecover && votes >= v.Terms.Quorum() {
		s.Text = "a quorum votes, so locks work; " + s.missing()
	} else if s.Standing == SomeRecover && len(v.Masters)-mute < v.Terms.Quorum() {
		s.Text = "no quorum takes writes, so nothing can be locked; " + s.missing()
	} else if s.Standing == BadRecord {
		s.Text = out.BadRecord().Error()
	}
	return s
}

// missing says which masters do not vote, and what to do about each.
func (s *Status) missing() string {
	var parts []string
	for i := range s.Masters {
		m := &s.Masters[i]
		switch {
		case m.Votes:
		case isUnusable(m.Err):
			parts = append(parts, fmt.Sprintf("%s cannot be used: %s", m.Name, strings.TrimPrefix(plain(m.Err), m.Name+": master unreachable: ")))
		case errors.Is(m.Err, node.ErrNoWrites):
			parts = append(parts, plain(m.Err))
		case m.Err != nil:
			parts = append(parts, fmt.Sprintf("%s %s: start it, or correct its URL", m.Name, m.Text))
		default:
			parts = append(parts, fmt.Sprintf("%s %s: a client of this list recovers it, or %s", m.Name, m.Text, membership.StatusCommand))
		}
	}
	return strings.Join(parts, "; ")
}

// plain is the text of an error that says what to do, without the prefixes that each layer added.
func plain(err error) string { return strings.ReplaceAll(err.Error(), "node: ", "") }

// standing returns the Standing of the first condition that holds, the most serious first. all
// says that all masters vote, answered how many answered, and change that a change is unfinished.
func standing(out *members.Outcome, all bool, answered int, change bool) Standing {
	refused := out.Action.Kind == membership.Refuse
	switch code := out.Action.Why.Code; {
	case out.BadRecord() != nil:
		return BadRecord
	case refused && (code == membership.Foreign || code == membership.Moved):
		return NotThisList
	case answered < out.View.Terms.Quorum():
		return NoQuorum
	case change:
		return Changing
	case all:
		return AllVote
	case refused && code == membership.NeedsWord:
		return NeedsInit
	}
	return SomeRecover
}
