// SPDX-License-Identifier: Apache-2.0

package membership

import "time"

// Guard is one rule that keeps the machine safe. Tests take guards out, to show what each one prevents.
type Guard uint32

const (
	GuardSight           Guard = 1 << iota // 1: nobody claims or finishes for an epoch that nobody saw whole
	GuardSightAtFinish                     // 2: sight is checked against the nonce, at the finish
	GuardLookAgain                         // 3: after the wait, the same record states still stand
	GuardRetiredNonce                      // 4: a retired state has a fresh nonce
	GuardWaitRetired                       // 5: W passes before a new epoch begins
	GuardWaitQuarantined                   // 5: W passes before a quarantined master votes
	GuardLearnAfterWait                    // 5: counters are learned after the wait
	GuardFromNonce                         // 6: a master begins to vote from a state that tells it from a lost one
	GuardListed                            // 7: a new master begins at once only with a nonce of the plan
	GuardPromise                           // 8: a quorum promises before anyone is retired
	GuardAdopt                             // 8: a plan for which someone in the quorum was retired is adopted
	GuardAllReady                          // 9: all new masters are ready before anyone is retired
	GuardBringOver                         // 11: a master that kept its data is brought over
	GuardLearnIntent                       // a master that finishes learns the largest intent
	GuardLearnQuorum                       // counters are learned from a quorum that has all of them
	GuardKnownLost                         // counters leap only when no quorum can have kept them
	GuardCancelQuorum                      // a change is cancelled only by a quorum that is not retired
	GuardEpochDrift                        // W is the epoch's, not the timing client's
	GuardNotDurable                        // a master that restarted has lost its record, whatever is on its disk
	GuardFixed                             // a fixed list is never changed
	GuardAbandon                           // init takes retired masters back where a minority votes
	GuardAbandonNumber                     // init does not go on with the number of an epoch that is given up
	GuardStampStands                       // a stamp is of clocks that were read when the record state stood
	GuardStampVouched                      // only a process that vouches for a record state stamps it
	GuardStampQuorum                       // a quorum of clocks says how long a record state has stood
	GuardUnused                            // the word that nothing was ever locked is not believed against the records
)

// machine is one decision.
type machine struct {
	v     *View
	off   Guard
	blind bool // serve: this client knows the epoch from stamps only
	voted bool // Init: a master votes already
}

// Next says what to do. It is a pure function of v, whose Memory has observed v.
func Next(v *View) Action { return NextWithout(v, 0) }

// NextWithout is Next with some guards taken out, for tests and mutants.
func NextWithout(v *View, off Guard) Action {
	m := machine{v: v, off: off}
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

func (m *machine) keeps(g Guard) bool { return m.off&g == 0 }

// epoch is the client's epoch. For a fixed list no client has to vouch, so the number is the highest one in any record of
// the list. A client that has seen no quorum vote goes on with what others vouched for: it lets those masters vote that
// are stamped, and does nothing else.
func (m *machine) epoch() Epoch {
	e := Epoch{m.v.Memory.Number, m.v.Terms.ID}
	if !m.v.Terms.Fixed && m.keeps(GuardSight) {
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
	e.Number = max(e.Number, 1)
	for i := range m.v.Masters {
		if rs := m.v.Masters[i].Record.State; rs.Epoch.ID == e.ID {
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
	case !m.keeps(GuardEpochDrift):
		return v.Terms.MaxTTL
	case v.Goal == Init && v.NeverLocked && !m.voted && (m.unused() || !m.keeps(GuardUnused)):
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

// longest is the list with the longest wait that the records tell of, if it is longer than that of v.Terms.
func (v *View) longest() (longest *Terms) {
	w := v.Terms.Wait()
	for i := range v.Masters {
		r := &v.Masters[i].Record
		for _, t := range []*Terms{r.Terms, r.Before} {
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
