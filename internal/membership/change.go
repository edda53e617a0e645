// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"time"
)

// survey is what the masters of Terms say of a change.
type survey struct {
	from            Epoch // the epoch of Terms that stands
	votes, retired  int   // masters of it that lost nothing
	high            Intent
	tie             bool // another intent has the round of high
	round           int64
	adopt           Plan // of the largest ballot for which a master is retired
	silent, missing int  // a master of the list that did not answer; one that lost its record or is quarantined
}

func (m *machine) survey() survey {
	s := survey{silent: -1, missing: -1}
	for i := range m.v.Masters {
		if rs := m.v.Masters[i].state(); m.v.Masters[i].Old && rs.Epoch.ID == m.v.Terms.ID && rs.Epoch.Number > s.from.Number {
			s.from = rs.Epoch
		}
	}
	for i := range m.v.Masters {
		at := &m.v.Masters[i]
		rs, in := at.state(), at.Record.Intent
		switch {
		case !at.Old:
			continue
		case !at.Answered:
			s.silent = i
			continue
		case rs.Epoch != s.from || rs.Phase == Quarantined:
			s.missing = i
			continue
		case rs.Phase == Voting:
			s.votes++
		case rs.Phase == Retired:
			s.retired++
			s.round = max(s.round, rs.Ballot.Round)
			if rs.Ballot.above(s.adopt.Ballot) {
				s.adopt = at.Record.Plan
			}
		}
		switch {
		case in.Ballot.Round > s.high.Ballot.Round:
			s.high, s.tie = in, false
		case in.Ballot != s.high.Ballot && in.Ballot.Round == s.high.Ballot.Round:
			if s.tie = true; in.Ballot.above(s.high.Ballot) {
				s.high = in
			}
		}
	}
	s.round = max(s.round, s.high.Ballot.Round)
	return s
}

// change moves the locks from Terms to Target. Any process may run it, from any point on: all that was decided is on
// the masters. It is single-decree Paxos; the acceptors are the masters of Terms that lost nothing.
func (m *machine) change() Action {
	v := m.v
	switch {
	case v.Terms.ID == v.Target.ID:
		return refuse(NothingToChange, -1)
	case m.rules.fixed(v.Terms, v.Target):
		return refuse(FixedList, -1)
	}
	s := m.survey()
	begun := m.begun(s.from)
	if i := m.past(&s, begun); i >= 0 {
		a := refuse(Moved, i)
		a.Over = s.retired >= v.Terms.Quorum()
		return a
	}
	if begun != nil {
		return m.proceed(*begun)
	}
	if m.leftForOther(&s) {
		return refuse(Moved, -1)
	}
	if p := m.over(s.from); p != nil {
		if p.Target.ID != v.Target.ID {
			return refuse(OtherChange, -1)
		}
		return m.proceed(*p)
	}
	q := v.Terms.Quorum()
	want := s.adopt
	switch {
	case v.finishedTo(s.from) != (Epoch{}): // the masters of the target forgot since
		return refuse(NewBegun, -1)
	case s.votes+s.retired < q:
		return m.tooFew(&s)
	case m.rules.otherChange(s.high, v.Target):
		return refuse(OtherChange, -1)
	case m.rules.free(s.votes, q):
		// A quorum that has not accepted a plan is free to promise any.
		if m.targetVotes(0) >= 0 { // to prepare its masters would stop the programs that lock with it
			return refuse(InUse, -1)
		}
		begin, a := m.prepare(s.from)
		if a != nil {
			return *a
		}
		want = Plan{From: s.from, Target: Epoch{s.from.Number + 1, v.Target.ID}, Begin: begin}
	case want.Target.ID != v.Target.ID:
		return refuse(OtherChange, -1)
	case m.able(want) < v.Target.Quorum():
		return m.unable(&s)
	}
	in := s.high
	if s.tie || !in.sameChange(want) {
		in = m.intend(want, s.round)
	}
	return m.retire(s.from, in)
}

// tooFew: no quorum of Terms has its record. Where so many masters have that of another list that there can be none, or a change has prepared them
// for this one, nothing recovers that quorum: the wrong list was given.
func (m *machine) tooFew(s *survey) Action {
	other, n, retired := -1, 0, m.v.retired()
	for i := range m.v.Masters {
		at := &m.v.Masters[i]
		rs := at.state()
		switch {
		case !at.Old || retired:
		case m.v.prepared(i) != nil:
			return refuse(Prepared, i)
		case rs.Phase != None && rs.Epoch.ID != m.v.Terms.ID:
			other, n = i, n+1
		}
	}
	if len(m.v.Terms.Masters)-n < m.v.Terms.Quorum() {
		return refuse(Foreign, other)
	}
	return refuse(NoQuorum, max(s.silent, s.missing))
}

// intend is a new promise, above all that were seen.
func (m *machine) intend(p Plan, round int64) Intent {
	p.Ballot = Ballot{round + 1, m.v.Nonce}
	return Intent{Plan: p, Since: m.v.Wall.Unix(), Who: m.v.Who}
}

// acceptor: the master lost nothing of this epoch.
func (at *Master) acceptor(e Epoch) bool {
	rs := at.state()
	return at.Old && rs.Epoch == e && (rs.Phase == Voting || rs.Phase == Retired)
}

// endable: the masters of Terms that lost nothing of e, and those that are out of reach, can be a quorum of acceptors. A change from e can end then.
func (m *machine) endable(e Epoch) bool {
	n := 0
	for i := range m.v.Masters {
		at := &m.v.Masters[i]
		rs := at.state()
		if at.Old && (!at.Answered || rs.Epoch.ID == e.ID && rs.Epoch.Number >= e.Number && (rs.Phase != Quarantined || rs.Whole)) {
			n++
		}
	}
	return n >= m.v.Terms.Quorum()
}

// promise has the acceptors promise in.
func (m *machine) promise(e Epoch, in Intent) *Action {
	return m.each(func(i int, at *Master) *Action {
		if !at.acceptor(e) || at.Record.Intent.Ballot == in.Ballot {
			return nil
		}
		return &Action{Kind: Swap, Master: i, From: at.Record.Head, To: Head{at.Record.State, in}}
	})
}

// retire has the acceptors promise, retires them for the plan, and waits until the epoch is over.
//
// Invariant: a master is retired for a ballot only after a quorum has promised that ballot. Of that quorum either no
// master was retired for a smaller ballot, or the plan is that of the largest of those smaller ballots.
func (m *machine) retire(e Epoch, in Intent) Action {
	if a := m.rules.promise(m, e, in); a != nil {
		return *a
	}
	a := m.each(func(i int, at *Master) *Action {
		if !at.acceptor(e) || at.Record.State.Ballot == in.Ballot {
			return nil
		}
		a := m.set(i, Retired, e)
		a.To.State.Ballot, a.To.Intent, a.Plan = in.Ballot, in, &in.Plan
		a.To.State.Nonce = m.rules.retiredNonce(a.To.State.Nonce, in.Ballot.Nonce)
		return a
	})
	if a != nil {
		return *a
	}
	return Action{Kind: Wait, For: max(m.left(), 1), Why: Why{BeingChanged, -1}}
}

// unable: too few masters of the target can begin, and locks are stopped. What the new masters told of the old list may be lost with their records,
// so nobody is told that the new list may be begun by an Init before every lease of the old one has ended.
func (m *machine) unable(s *survey) Action {
	if s.retired < m.v.Terms.Quorum() { // nor does the old list end: what is out of reach may vote in it
		return refuse(Stuck, -1)
	}
	if left := m.left(); left > 0 {
		return Action{Kind: Wait, For: left, Why: Why{TooFewReady, -1}}
	}
	return refuse(TooFewReady, -1)
}

// left is when the first quorum of retired masters will have been retired for W.
func (m *machine) left() time.Duration {
	var left []time.Duration
	for i := range m.v.Masters {
		if at := &m.v.Masters[i]; at.Old && at.state().Phase == Retired {
			left = append(left, m.rules.wait(m)-m.stood(i))
		}
	}
	slices.Sort(left)
	return left[min(m.v.Terms.Quorum(), len(left))-1]
}

// over is the plan for which a quorum of one epoch has been retired, unbroken, for W, up to this look. Then every lease
// of the epoch has ended, and nobody can vouch for it any more.
func (m *machine) over(e Epoch) *Plan {
	v := m.v
	for i := range v.Masters {
		at := &v.Masters[i]
		state, _ := m.rules.retired(m, i)
		ballot, waited := state.Ballot, 0
		if !at.Old || ballot == (Ballot{}) || at.Record.Plan.Ballot != ballot {
			continue
		}
		for j := range v.Masters {
			rs, stood := m.rules.retired(m, j)
			if rs.Phase == Retired && rs.Epoch == e && rs.Ballot == ballot && m.rules.epochOver(stood, m.rules.wait(m)) {
				waited++
			}
		}
		if waited >= v.Terms.Quorum() {
			return &at.Record.Plan
		}
	}
	return nil
}

// proceed lets masters vote in the target: those that kept their data, and the new ones with a nonce of the plan. The
// clients of the new list recover the rest.
func (m *machine) proceed(p Plan) Action {
	v := m.v
	e, begun := p.Target, m.votes(p.Target, true)
	switch {
	case m.votes(p.From, false) >= v.Terms.Quorum():
		return refuse(BothVote, -1)
	case begun == 0 && m.able(p) < v.Target.Quorum() && !v.targetBegan(e): // fewer would keep the old list from being begun, and grant nothing
		return refuse(TooFewReady, -1)
	}
	source := func(_ int, at *Master) bool {
		rs := at.state()
		if begun > 0 {
			return at.New && rs.Phase == Voting && rs.Epoch == e
		}
		return at.Old && rs.Phase == Retired && rs.Epoch == p.From
	}
	a := m.each(func(i int, at *Master) *Action {
		if !at.New || !m.rules.begins(m, &p, i) {
			return nil
		}
		a := m.set(i, Voting, e)
		a.Plan, a.Counters = &p, RaiseCounters
		if l := m.learn(Never, source); l != nil {
			return l
		}
		return a
	})
	switch {
	case a != nil:
		return *a
	case begun >= v.Target.Quorum():
		return Action{Kind: Done}
	}
	return refuse(NewBegun, -1) // its masters can complete a quorum at any time
}

// able counts the masters that can vote in the plan's target at once when the epoch before is over.
func (m *machine) able(p Plan) int {
	n := 0
	for i := range m.v.Masters {
		if m.v.Masters[i].New && m.begins(&p, i) {
			n++
		}
	}
	return n
}

// begins: master i of the target can vote in it at once when the epoch before is over. It lost nothing, or the plan lists its nonce.
func (m *machine) begins(p *Plan, i int) bool {
	at := &m.v.Masters[i]
	rs, k := at.state(), m.position(i, true)
	return at.acceptor(p.From) || rs.Phase == Quarantined && rs.Epoch == p.Target && k < len(p.Begin) && rs.Nonce == p.Begin[k]
}

// prepare quarantines the masters that only the target has, and returns their nonces when all masters of the target
// are ready.
func (m *machine) prepare(from Epoch) ([]Nonce, *Action) {
	p := &Plan{From: from, Target: Epoch{from.Number + 1, m.v.Target.ID}, Begin: make([]Nonce, len(m.v.Target.Masters))}
	a := m.each(func(i int, at *Master) *Action {
		if !at.New {
			return nil
		}
		return m.rules.prepare(m, p, i)
	})
	return p.Begin, a
}

// prepareOne prepares master i of the target, or adds the nonce of one that is ready to the plan.
func (m *machine) prepareOne(p *Plan, i int) *Action {
	at := &m.v.Masters[i]
	rs, r := at.state(), at.Record.State
	fail := refuse(NotReady, i)
	switch {
	case !at.Answered || at.Old && !at.acceptor(p.From):
		return &fail
	case at.Old:
		return nil
	case rs.Phase == Quarantined && rs.Epoch == p.Target:
		p.Begin[m.position(i, true)] = rs.Nonce
		return nil
	case rs.Phase == Voting && rs.Epoch.ID != p.Target.ID || r.Epoch.Number > p.Target.Number || r.Epoch == p.Target && rs.Phase != None:
		fail.Why.Code = Foreign
		return &fail
	}
	if rs.Phase == Voting {
		for j := range m.v.Masters {
			if o := &m.v.Masters[j]; o.New && !o.Answered { // it may vote too, and make a quorum
				fail.Why.Master = j
				return &fail
			}
		}
	}
	// A retired or voting master here is of an epoch before p.From, which is over, or of nobody's.
	a := m.set(i, Quarantined, p.Target)
	a.Plan = &Plan{}
	return a
}

// cancel gives up a change for which no quorum was retired yet.
func (m *machine) cancel() Action {
	v, s := m.v, m.survey()
	in, q := s.high, v.Terms.Quorum()
	switch {
	case s.round == 0 && s.votes+s.retired >= q:
		return Action{Kind: Done}
	case v.Memory.Left != (Epoch{}):
		return refuse(Moved, -1)
	case m.rules.tooLate(s.votes, q) && s.retired == 0:
		return m.tooFew(&s) // nobody was seen to be retired: they must be recovered first
	case m.rules.tooLate(s.votes, q):
		return refuse(TooLate, max(s.silent, s.missing))
	case s.tie || in.Target != (Epoch{}) || in.Ballot.Round < s.round:
		in = m.intend(Plan{From: s.from}, s.round)
	}
	if a := m.promise(s.from, in); a != nil {
		return *a
	}
	if a := m.each(func(i int, at *Master) *Action {
		switch rs := at.state(); {
		case !at.acceptor(s.from):
		case rs.Phase == Retired:
			return m.restore(s.from, i, at)
		case at.Record.Target != "": // no later Init is to wait for the locks of that list
			return &Action{Kind: Swap, Master: i, From: at.Record.Head, To: at.Record.Head}
		}
		return nil
	}); a != nil {
		return *a
	}
	return Action{Kind: Done}
}
