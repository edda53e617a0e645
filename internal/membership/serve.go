// SPDX-License-Identifier: Apache-2.0

package membership

import "time"

// serve keeps the masters of Terms voting in the client's epoch.
func (m *machine) serve() Action {
	e := m.epoch()
	if e.Number != 0 {
		// A clock that never behaves moves in every look. It must not keep this client from the other masters.
		wild := func(at *Master) bool { return at.Moved && at.state().Phase == Quarantined }
		for _, last := range []bool{false, true} {
			a := m.each(func(i int, at *Master) *Action {
				if wild(at) != last || m.blind && (at.state().Phase != Quarantined || at.state().Epoch != e) {
					return nil
				}
				return m.advance(e, i, at)
			})
			if a != nil {
				return *a
			}
		}
	}
	return m.report(e)
}

// begin is Init: recovery on the operator's word instead of sight. Of two inits the higher number wins, and either only
// ever replaces a quarantined state, so that neither can undo a vote. A change that is finished cannot be given up.
//
// The first master that votes keeps a plan with the nonces of all: those masters begin at once. A master that is lost
// from then on waits like any other, whatever the operator said.
func (m *machine) begin() Action {
	v := m.v
	if v.finished() >= 0 || v.Memory.Left != (Epoch{}) && !v.Abandon {
		return refuse(Moved, -1)
	}
	e := Epoch{0, v.Terms.ID}
	seen, no := m.numbers(&e)
	if no != nil {
		return refuse(no.Code, no.Master)
	}
	if m.votes(e, false) >= v.Terms.Quorum() {
		a := m.each(func(i int, at *Master) *Action {
			if rs := at.state(); rs.Phase == Quarantined && rs.Epoch == e && m.listed(e, i, rs.Nonce) {
				return m.advanceRecord(e, i)
			}
			return nil
		})
		if a == nil {
			a = &Action{Kind: Done}
		}
		return *a
	}
	if !m.voted {
		// The number of an epoch with retired masters is not used again: those masters would be taken for ones of e.
		if e.Number = seen.quarantined; e.Number == 0 || m.rules.used(seen) {
			e.Number = max(seen.highest+1, v.Wall.Unix())
		}
	}
	all := Plan{Ballot: Ballot{1, v.Nonce}, From: e, Target: e, Begin: make([]Nonce, len(v.Masters))}
	ready := 0
	for i := range v.Masters {
		if rs := v.Masters[i].state(); rs.Epoch == e && rs.Phase == Quarantined && m.stood(i) >= m.rules.wait(m) {
			all.Begin[i] = rs.Nonce
			ready++
		}
	}
	a := m.each(func(i int, at *Master) *Action {
		if !m.voted && at.state().Epoch == e && ready < len(v.Masters) {
			return nil // until all have waited: one of them may turn out to vote
		}
		return m.advance(e, i, at)
	})
	switch {
	case a == nil:
		return m.report(e)
	case a.Kind == Swap && a.To.State.Phase == Voting && !m.voted:
		a.Plan = &all
	}
	return *a
}

// numbers are the largest numbers of epochs that masters have.
type numbers struct{ highest, quarantined, retired int64 }

// numbers looks at each master for begin: it takes into e the number with which masters vote, and returns the other numbers, or why
// the list cannot begin.
func (m *machine) numbers(e *Epoch) (seen numbers, no *Why) {
	v := m.v
	for i := range v.Masters {
		at := &v.Masters[i]
		rs := at.Record.State
		seen.highest = max(seen.highest, rs.Epoch.Number)
		if rs.Phase == Retired {
			seen.retired = max(seen.retired, rs.Epoch.Number)
		}
		switch live := at.state().Phase; {
		case !at.Answered:
			return seen, &Why{Unreachable, i}
		case rs.Phase == Retired && rs.Epoch.ID != e.ID && at.Record.Finished() && !v.Abandon:
			return seen, &Why{Foreign, i}
		case rs.Phase == Retired && !v.Abandon:
			return seen, &Why{Unfinished, i}
		case rs.Phase != None && rs.Phase != Retired && rs.Epoch.ID != e.ID && (live == Voting || !v.Abandon):
			return seen, &Why{Foreign, i}
		case v.prepared(i) != nil: // the list before may vote still
			return seen, &Why{Prepared, i}
		case live == Voting:
			e.Number, m.voted = max(e.Number, rs.Epoch.Number), true
		case live == Quarantined:
			seen.quarantined = max(seen.quarantined, rs.Epoch.Number)
		}
	}
	return seen, nil
}

// advance is what can be done for one master that does not vote in e, and for one that must not.
func (m *machine) advance(e Epoch, i int, at *Master) *Action {
	if !at.Answered || !at.Old {
		return nil
	}
	rs := at.state()
	switch {
	case (rs.Phase == Voting || rs.Phase == Quarantined) && rs.Epoch == e && at.Moved:
		// Votes that a live lease has here, or put back here during a quarantine, may be gone.
		a := m.set(i, Quarantined, e)
		a.To.State.Whole, a.To.Intent = rs.Phase == Voting || rs.Whole, at.Record.Intent
		return a
	case rs.Phase == Voting && rs.Epoch == e:
	case rs.Phase == Retired && rs.Epoch == e:
		if a := m.restore(e, i, at); a != nil || !m.rules.takesBack(m.v) {
			return a
		}
		return m.rules.claim(m, e, i, at) // a minority of e votes still
	case rs.Phase == Quarantined && rs.Epoch == e:
		if m.listed(e, i, rs.Nonce) {
			return m.advanceRecord(e, i)
		}
		if a := m.finish(e, i, at); a != nil {
			return a
		}
		return m.stamp(i, at)
	case rs.Phase == Retired && m.v.Goal == Init && m.v.Abandon:
		return m.rules.claim(m, e, i, at)
	case rs.Phase == Voting || rs.Phase == Retired:
		if m.before(e, rs.Epoch) {
			return m.rules.bringOver(m, e, i)
		}
	default:
		return m.rules.claim(m, e, i, at)
	}
	return nil
}

// claim quarantines a master that lost its record, or is quarantined for another epoch.
func (m *machine) claim(e Epoch, i int, at *Master) *Action {
	rs := at.Record.State
	seen := m.v.Memory.Whole != Never && m.v.Now-m.v.Memory.Whole < m.v.Terms.MaxTTL
	word := m.v.Goal == Init || m.v.Terms.Fixed && (rs.Phase == None || rs.Epoch.ID == e.ID)
	if !m.rules.mayClaim(seen, word) {
		return nil
	}
	a := m.set(i, Quarantined, e)
	a.Plan = &Plan{}
	a.Unused = m.v.Goal == Init && m.v.NeverLocked && m.unused()
	if rs.Epoch == e { // what is left of a promise is kept
		a.To.Intent = at.Record.Intent
	}
	return a
}

// vouched: somebody saw e whole less than a maximum TTL before this client first saw the record state of master i, or
// later. Whoever stamps a record state vouches for it, for good: that it was seen so is said of this nonce alone.
//
// Invariant: a process that finds that an epoch is over has seen a quorum of it retired, without a break, for W. W is
// more than a maximum TTL. From then on every sight of that epoch is too old to vouch for a record state. A record
// state that was vouched for before would stand in place of one of those retired.
func (m *machine) vouched(i int) bool {
	v := m.v
	if v.Goal == Init || !m.rules.finishNeedsSight(v.Terms) {
		return true
	}
	return m.stamped(i) || v.Memory.Whole != Never && v.Memory.Whole > v.Memory.Sights[i].First-v.Terms.MaxTTL
}

// intact picks the masters that have all counters and intents of e: none of them lost its record since it began.
func (m *machine) intact(e Epoch) func(int, *Master) bool {
	return func(_ int, at *Master) bool {
		rs := at.state()
		return at.Old && rs.Epoch == e && (rs.Phase == Voting || rs.Phase == Retired || rs.Whole)
	}
}

// ready: master i may vote in e as soon as its counters are known.
func (m *machine) ready(e Epoch, i int) bool {
	rs := m.v.Masters[i].state()
	if rs.Epoch != e || rs.Phase != Quarantined {
		return rs.Epoch == e && rs.Phase == Voting
	}
	return m.rules.waited(m.stood(i), m.rules.wait(m)) && (rs.Whole || m.vouched(i))
}

// finish lets a quarantined master vote that has waited, with counters and an intent that are not too small.
func (m *machine) finish(e Epoch, i int, at *Master) *Action {
	if !m.ready(e, i) {
		return nil
	}
	a := m.set(i, Voting, e)
	if m.rules.keptCounters(at.state()) {
		a.To.Intent = at.Record.Intent
		return a
	}
	pick, known, silent, ready := m.intact(e), 0, 0, 0
	for j := range m.v.Masters {
		switch o := &m.v.Masters[j]; {
		case !o.Old:
		case !o.Answered:
			silent++
		case pick(j, o):
			known++
		}
		if m.v.Masters[j].Old && m.ready(e, j) {
			ready++
		}
	}
	q := m.v.Terms.Quorum()
	a.Counters = RaiseCounters
	// Any quorum has a member among any n-q+1 masters: q of an odd list, q-1 of an even one. So of so many masters that forgot nothing, one has the
	// counters of each token that was granted, and one has each promise for which a master was retired, because a quorum made it. A master that comes
	// back takes both over, so this stays true. Four masters, q is 3: c promised with a and b, b is retired, a forgot. Of any two of b, c and d, one
	// promised. A plan is kept by the retired masters themselves: that their epoch is over asks for q of them, and not for those that know.
	if m.rules.tooFewKnow(known, len(m.v.Terms.Masters)-q+1) {
		// If no master is silent, the counters are taken from the clock. A silent one may know them, or be retired for a plan, of which this master
		// has to learn the promise. It costs no service to wait for it: where known and silent masters together are too few, masters that come back one
		// after the other stop when they are enough together, and those that vote are fewer than n-q+1 then, which is no quorum.
		if m.rules.mayComplete(silent) || ready < q {
			return nil
		}
		a.Counters, pick = RaiseCountersToFloor, func(_ int, o *Master) bool { return o.Old }
	}
	if l := m.learn(m.rules.learnedSince(m.v.Memory.Sights[i].Since, m.rules.wait(m)), pick); l != nil {
		return l
	}
	a.To.Intent = at.Record.Intent
	for j := range m.v.Masters {
		o := &m.v.Masters[j]
		if !o.Answered || !pick(j, o) {
			continue
		}
		ours := o.Record.State.Epoch == e
		if ours && m.rules.largerIntent(o.Record.Intent, a.To.Intent) {
			a.To.Intent = o.Record.Intent
		}
		// Where all others forgot how e began, a master that was retired for it tells, and can be brought over then.
		if o.Record.Plan.Target == e && (ours || o.Record.State.Phase == Retired) {
			a.Plan = &o.Record.Plan
		}
	}
	return a
}

// before: masters of this epoch are brought over to e, for e began with a change from it, or it is an earlier epoch of
// the same list.
func (m *machine) before(e, earlier Epoch) bool {
	if m.votes(e, false) == 0 {
		return false
	}
	if earlier.ID == e.ID && earlier.Number < e.Number {
		return true
	}
	p := m.planOf(e)
	return p != nil && p.From == earlier
}

// planOf is the plan by which e began, if a master that votes in it tells one.
func (m *machine) planOf(e Epoch) *Plan {
	for i := range m.v.Masters {
		at := &m.v.Masters[i]
		if at.state().Phase == Voting && at.state().Epoch == e && at.Record.Plan.Target == e {
			return &at.Record.Plan
		}
	}
	return nil
}

// listed: e has begun, and master i begins in it at once with this nonce.
func (m *machine) listed(e Epoch, i int, n Nonce) bool {
	p, k := m.planOf(e), m.position(i, m.v.Goal == Change)
	return p != nil && k < len(p.Begin) && p.Begin[k] == n
}

// advanceRecord lets a master vote in e that is whole: one of the epoch before, or a new one with a nonce of the plan. Any
// master that votes in e has counters that are large enough.
func (m *machine) advanceRecord(e Epoch, i int) *Action {
	a := m.set(i, Voting, e)
	a.Plan, a.Counters = m.planOf(e), RaiseCounters
	if l := m.learn(Never, func(_ int, o *Master) bool { return o.state().Phase == Voting && o.state().Epoch == e }); l != nil {
		return l
	}
	return a
}

// restore takes a retired master back when the change for which it was retired was cancelled.
func (m *machine) restore(e Epoch, i int, at *Master) *Action {
	for j := range m.v.Masters {
		in := m.v.Masters[j].Record.Intent
		if in.Ballot.Round > at.Record.State.Ballot.Round && in.Target == (Epoch{}) && m.cancelled(e, in) {
			a := m.set(i, Voting, e)
			a.To.Intent = in
			if at.Record.Intent.Ballot.above(in.Ballot) {
				a.To.Intent = at.Record.Intent
			}
			return a
		}
	}
	return nil
}

// cancelled: a quorum promised in, which has no target, and none of it is retired. So no quorum was ever retired for a
// smaller ballot, nor will be.
func (m *machine) cancelled(e Epoch, in Intent) bool {
	n := 0
	for i := range m.v.Masters {
		at := &m.v.Masters[i]
		rs := at.state()
		if at.Old && rs.Epoch == e && at.Record.Intent.Ballot == in.Ballot && m.rules.standsFor(rs.Phase) {
			n++
		}
	}
	return n >= m.v.Terms.Quorum()
}

// slowest is how long another process that waits for a master may take to let it vote once W is over.
const slowest = 5 * time.Second

// report says how it stands when nothing can be done now.
func (m *machine) report(e Epoch) Action {
	v, soonest, others, vouched := m.v, time.Duration(0), time.Duration(0), false
	silent, retired, lost, foreign, prepared, forgot := -1, -1, -1, -1, -1, 0
	before := m.foreigner() // of before a restart too
	for i := range v.Masters {
		at := &v.Masters[i]
		rs := at.state()
		if v.prepared(i) != nil {
			prepared = i
		}
		switch {
		case !at.Old:
		case !at.Answered:
			silent = i
		case at.Aside: // who may claim it does, or it is believed when the votes given in its place are over
			others = max(others, m.rules.wait(m))
		case rs.Phase == Quarantined && rs.Epoch == e && (rs.Whole || m.vouched(i)):
			if left := m.rules.wait(m) - m.stood(i); left > 0 && (soonest == 0 || left < soonest) {
				soonest = left
			}
		case rs.Phase == Quarantined && rs.Epoch.ID == v.Terms.ID && m.stood(i) < m.rules.wait(m)+slowest:
			// This client may not vouch for the master. The client that claimed it may.
			others = max(others, m.rules.wait(m)+slowest-m.stood(i))
			vouched = vouched || m.stamped(i)
		case rs.Phase == Retired && rs.Epoch.ID == e.ID && rs.Epoch.Number >= e.Number:
			retired = i
		case rs.Phase == Voting && rs.Epoch.ID == e.ID:
		case rs.Phase == None || rs.Phase == Quarantined || rs.Epoch.ID == e.ID:
			lost = i
			forgot++
		default:
			foreign = i
		}
	}
	switch {
	case m.votes(e, false) >= v.Terms.Quorum():
		return Action{Kind: Done, For: soonest}
	case v.Memory.Left != (Epoch{}):
		return refuse(Moved, -1)
	case retired >= 0 && m.endable(e):
		return refuse(BeingChanged, retired)
	case soonest > 0:
		return Action{Kind: Wait, For: soonest}
	case foreign >= 0:
		return refuse(Foreign, foreign)
	case prepared >= 0:
		return Action{Kind: Wait, For: m.rules.wait(m), Why: Why{Prepared, prepared}} // for the change: no wait of these masters ends it
	case others > 0 && !vouched && v.Memory.Number == 0:
		return Action{Kind: Wait, For: others, Why: Why{Begun, -1}} // a program would have stamped them at once
	case others > 0:
		return Action{Kind: Wait, For: others}
	case before >= 0 && len(v.Terms.Masters)-forgot < v.Terms.Quorum():
		return refuse(Foreign, before)
	case silent >= 0 && len(v.Terms.Masters)-forgot < v.Terms.Quorum():
		return refuse(NeedsMasters, silent) // whatever the silent ones are
	case silent >= 0:
		return refuse(Unreachable, silent)
	}
	return refuse(NeedsWord, lost)
}
