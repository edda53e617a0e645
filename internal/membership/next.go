// SPDX-License-Identifier: Apache-2.0

package membership

import "time"

// machine is one decision.
type machine struct {
	v     *View
	rules *Rules
	blind bool // serve: this client knows the epoch from stamps only
	voted bool // Init: a master votes already
}

// Next says what to do. It is a pure function of v, whose Memory has observed v.
func Next(v *View) Action { return shipped.Next(v) }

// Next is [Next] by these rules.
func (r *Rules) Next(v *View) Action {
	m := machine{v: v, rules: r}
	if v.Memory.at != v.Now || v.Nonce == 0 {
		return Action{Kind: Look}
	}
	switch v.Goal {
	case Init:
		return m.begin()
	case Change:
		return m.change()
	case Cancel:
		return m.cancel()
	}
	return m.serve()
}

// epoch is the client's epoch. For a fixed list no client has to vouch, so the number is the highest one in any record of
// the list. Where a quorum votes, only masters count that have voted and live on: an old file may have a higher number, of an
// epoch that all others forgot, and its master may wait for that. A client that has seen no quorum vote goes on with what
// others vouched for: it lets those masters vote that are stamped, and does nothing else.
func (m *machine) epoch() Epoch {
	e := Epoch{m.v.Memory.Number, m.v.Terms.ID}
	if m.rules.needsSight(m.v.Terms) {
		if e.Number == 0 && m.v.Memory.Left == (Epoch{}) {
			m.blind = true
			for i := range m.v.Masters {
				if rs := m.v.Masters[i].state(); rs.Epoch.ID == e.ID && m.stamped(i) {
					e.Number = max(e.Number, rs.Epoch.Number)
				}
			}
		}
		return e
	}
	votes := m.votes(e, false) >= m.v.Terms.Quorum()
	e.Number = max(e.Number, 1)
	for i := range m.v.Masters {
		rs, live := m.v.Masters[i].Record.State, m.v.Masters[i].state()
		if rs.Epoch.ID == e.ID && (!votes || live.voted()) {
			e.Number = max(e.Number, rs.Epoch.Number)
		}
	}
	return e
}

// each calls f for the masters, from First on, until f returns an Action.
func (m *machine) each(f func(i int, at *Master) *Action) *Action {
	n := len(m.v.Masters)
	for k := range n {
		i := (m.v.First + k) % n
		if a := f(i, &m.v.Masters[i]); a != nil {
			return a
		}
	}
	return nil
}

// position of master i among the sorted names of one list.
func (m *machine) position(i int, target bool) int {
	n := 0
	for j := range i {
		if at := &m.v.Masters[j]; target && at.New || !target && at.Old {
			n++
		}
	}
	return n
}

// votes counts the masters of one list that vote in e.
func (m *machine) votes(e Epoch, target bool) int {
	n := 0
	for i := range m.v.Masters {
		at := &m.v.Masters[i]
		if (target && at.New || !target && at.Old) && at.state().Phase == Voting && at.state().Epoch == e {
			n++
		}
	}
	return n
}

// wait is W for this decision.
func (m *machine) wait() time.Duration {
	v, w := m.v, m.v.Terms.Wait()
	switch {
	case v.Goal == Init && v.NeverLocked && !m.voted && m.rules.unused(m):
		return 0
	case v.Goal == Init:
		if t := v.longest(); t != nil { // of a list that is abandoned
			w = t.Wait()
		}
	}
	return w
}

// unused: no record contradicts the word that nothing was ever locked. A master that has a record voted before, or
// somebody quarantined it who saw its list vote. Only what another Init quarantined on the same word says nothing.
func (m *machine) unused() bool {
	for i := range m.v.Masters {
		if r := &m.v.Masters[i].Record; r.State.Phase != None && !r.Unused {
			return false
		}
	}
	return true
}

// longest is the list with the longest wait that the records tell of, if it is longer than that of v.Terms. A record that has the target of a
// change does not tell whether that began.
func (v *View) longest() (longest *Terms) {
	w := v.Terms.Wait()
	for i := range v.Masters {
		r := &v.Masters[i].Record
		target, _ := ParseTerms(r.Target)
		for _, t := range []*Terms{r.Terms, r.Before, target} {
			if t != nil && t.Wait() > w {
				longest, w = t, t.Wait()
			}
		}
	}
	return longest
}

// stood is how long this client has seen the record state of master i unbroken, up to this look.
func (m *machine) stood(i int) time.Duration {
	s := &m.v.Memory.Sights[i]
	if rs := m.v.Masters[i].state(); rs.Phase == None || s.State != rs {
		return 0
	}
	return s.Last - s.Since
}

// set is the compare-and-set of master i to a record state of this phase and epoch.
func (m *machine) set(i int, phase Phase, e Epoch) *Action {
	at := &m.v.Masters[i]
	rs := RecordState{Phase: phase, Epoch: e, Incarnation: at.Incarnation}
	if phase != Voting {
		rs.Nonce = m.v.Nonce
	}
	return &Action{Kind: Swap, Master: i, From: at.Record.Head, To: Head{State: rs}}
}

// learn asks for the counters of these masters, unless all of them were read after this time.
func (m *machine) learn(after time.Duration, pick func(i int, at *Master) bool) *Action {
	a, missing := &Action{Kind: Learn}, false
	for i := range m.v.Masters {
		if at := &m.v.Masters[i]; at.Answered && pick(i, at) {
			a.Learn = append(a.Learn, i)
			missing = missing || !at.Learned || at.Sent < after
		}
	}
	if !missing {
		return nil
	}
	return a
}
