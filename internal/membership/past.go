// SPDX-License-Identifier: Apache-2.0

package membership

import "slices"

// begun is the plan by which the target has begun: a master votes in it.
func (m *machine) begun(from Epoch) *Plan {
	for i := range m.v.Masters {
		at := &m.v.Masters[i]
		rs, p := at.state(), &at.Record.Plan
		if at.New && rs.Phase == Voting && rs.Epoch.ID == m.v.Target.ID && p.Target == rs.Epoch &&
			p.From.ID == m.v.Terms.ID && p.From.Number >= from.Number {
			return p
		}
	}
	return nil
}

// past is a master which shows that the time of this change is over, or -1. The target was left for a third list since, or votes in an epoch
// that this change did not begin. It knows the list that is used now.
func (m *machine) past(s *survey, begun *Plan) int {
	if s.from == (Epoch{}) || m.rules.free(s.votes, m.v.Terms.Quorum()) {
		return -1
	}
	if i := m.targetVotes(s.from.Number); i >= 0 {
		if begun != nil && begun.Target == m.v.Masters[i].state().Epoch {
			return -1
		}
		return i
	}
	if i := m.targetOtherwise(s.from.Number); i >= 0 && begun == nil && s.retired > 0 { // else masters that are out of reach may vote
		return i
	}
	left, to := -1, m.v.finishedTo(s.from)
	for i := range m.v.Masters {
		at := &m.v.Masters[i]
		r, e := &at.Record, at.state().Epoch
		switch rs := &r.State; {
		case !at.New:
		case e.ID == m.v.Target.ID && e.Number > s.from.Number && r.Finished():
			left = i
		case to != (Epoch{}) && begun == nil && rs.voted() && rs.Epoch.ID != to.ID && rs.Epoch.Number > to.Number:
			left = i // a third list with the same servers: none of their records tells of the target
		}
	}
	return left
}

// targetVotes is a master that votes in an epoch of the target above number, as a quorum of the target does, or -1.
func (m *machine) targetVotes(number int64) int {
	return m.newVotes(number, func(at *Master) bool { return at.state().Epoch.ID == m.v.Target.ID })
}

// targetOtherwise is one that votes so in an epoch of the masters of the target with other values, or -1: an Init began that.
func (m *machine) targetOtherwise(number int64) int {
	return m.newVotes(number, func(at *Master) bool {
		id, t := at.state().Epoch.ID, at.Record.Terms
		return id != m.v.Terms.ID && id != m.v.Target.ID && t != nil && slices.Equal(t.Masters, m.v.Target.Masters)
	})
}

// newVotes is a master of the new list that votes in an epoch above number of a list that is meant, as a quorum of the target does, or -1.
func (m *machine) newVotes(number int64, meant func(at *Master) bool) int {
	return slices.IndexFunc(m.v.Masters, func(at Master) bool {
		rs := at.state()
		return at.New && rs.Phase == Voting && rs.Epoch.Number > number && meant(&at) && m.votes(rs.Epoch, true) >= m.v.Target.Quorum()
	})
}

// leftForOther: a change to another list than the target has finished, and Terms were not begun since, as far as any master tells.
func (m *machine) leftForOther(s *survey) bool {
	left := m.v.Memory.Left
	return left != (Epoch{}) && left.ID != m.v.Target.ID && left.Number > s.from.Number && !m.rules.free(s.votes, m.v.Terms.Quorum())
}

// foreigner is a master that has, or had before a restart, a record of another list, in which it is not retired; or -1. No Init begins a list
// with it.
func (m *machine) foreigner() int {
	return slices.IndexFunc(m.v.Masters, func(at Master) bool {
		rs := &at.Record.State
		return at.Old && at.Answered && rs.Epoch.ID != m.v.Terms.ID && rs.Phase != None && rs.Phase != Retired
	})
}
