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

// Standing is what a list of masters is in.
type Standing uint8

const (
	AllVote       Standing = iota // every master votes
	SomeRecover                   // some do not vote yet, or are out of reach; a quorum is reachable
	Changing                      // a change of masters is unfinished
	NeedsInit                     // an operator's word is needed: see [Init]
	NoQuorum                      // fewer masters than a quorum are reachable
	NotThisList                   // the masters vote with another list, or were left for one
	BadRecord                     // the record of a master cannot be read
	standingCount = iota
)

var standings = [standingCount]string{"all vote", "recovering", "changing", "needs init", "no quorum", "not this list", "bad record"}

func (s Standing) String() string {
	if int(s) >= len(standings) {
		return "?"
	}
	return standings[s]
}

// Status is how the masters of a list stand.
type Status struct {
	Standing Standing
	Text     string        // one line: what is wrong, on which master, and what to do
	Left     time.Duration // until every master that recovers votes; 0 when that is not known
	Epoch    string        // "number.id", or empty when no quorum votes
	Masters  []MasterStatus
	Change   *ChangeStatus // of a change that is unfinished

	_ struct{}
}

// MasterStatus is how one master stands.
type MasterStatus struct {
	Name  string
	Votes bool
	State string        // a word or two: votes, waits, no record, restarted, retired, other list, silent
	Text  string        // the same in more words
	Left  time.Duration // until it votes, if it is quarantined
	Err   error         // why it did not answer, or its record cannot be read
}

// ChangeStatus is a change of masters that was begun.
type ChangeStatus struct {
	From, To string // the lists, as their records name them
	Who      string // the process that worked on it last
	Since    time.Time
}

// ReadStatus looks at the masters of a list and changes nothing. A master that cannot be
// used, for it is a replica, say, is told as one, and is no error.
func ReadStatus(ctx context.Context, list List) (*Status, error) {
	op, err := open(ctx, membership.Serve, list, nil)
	if err != nil {
		return nil, fmt.Errorf("redlock: status: %w", err)
	}
	defer op.close()
	_ = op.ready(ctx) // what is wrong with a master is in its status
	op.cfg.ReadOnly = true
	out := members.New(op.cfg).Step(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return newStatus(&out), nil
}

// AwaitVotes recovers the masters of a list as a client does, for deploy scripts where no
// client runs. It returns when all of them vote, when only an operator can help, or with
// ctx. The Status is what was seen last, also beside an error.
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
		s = newStatus(&out)
		pause := again
		switch a := &out.Action; a.Kind {
		case membership.Look, membership.Learn, membership.Swap:
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

// newStatus reads a look.
func newStatus(out *members.Outcome) *Status {
	v := out.View
	s := &Status{Text: membership.Explain(v, out.Action)}
	votes, answered := 0, 0
	if n := v.Memory.Number; n != 0 {
		s.Epoch = membership.Epoch{Number: n, ID: v.Terms.ID}.String()
	}
	for i := range v.Masters {
		at := &v.Masters[i]
		m := MasterStatus{Name: at.Name, State: membership.Word(v, i), Text: membership.Describe(v, i), Err: out.Errs[i],
			Votes: membership.Votes(v, i, membership.Epoch{Number: v.Memory.Number, ID: v.Terms.ID})}
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
	} else if s.Standing == BadRecord {
		s.Text = out.BadRecord().Error()
	}
	return s
}

// missing says which masters do not vote, and what to do.
func (s *Status) missing() string {
	var parts []string
	for i := range s.Masters {
		m := &s.Masters[i]
		switch {
		case m.Votes:
		case errors.Is(m.Err, node.ErrDenied), errors.Is(m.Err, node.ErrEviction), errors.Is(m.Err, node.ErrReplica):
			// The error says what to do. It was wrapped on its way, and each layer said where.
			parts = append(parts, fmt.Sprintf("%s cannot be used: %s", m.Name,
				strings.TrimPrefix(strings.ReplaceAll(m.Err.Error(), "node: ", ""), m.Name+": master unreachable: ")))
		case m.Err != nil:
			parts = append(parts, fmt.Sprintf("%s %s: start it, or correct its URL", m.Name, m.Text))
		default:
			parts = append(parts, fmt.Sprintf("%s %s: a client of this list recovers it, or %s", m.Name, m.Text, membership.StatusCommand))
		}
	}
	return strings.Join(parts, "; ")
}

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
