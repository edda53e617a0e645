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

// without says for each guard which rules are wrong without it, in what way. Where a rule does something, the wrong one does what the
// rule does, and more, or does it earlier.
var without = map[Guard]func(r *Rules){
	GuardSight: func(r *Rules) {
		r.needsSight = func(*Terms) bool { return false }
		r.mayClaim = func(_, _ bool) bool { return true }
		r.finishNeedsSight = func(*Terms) bool { return false }
	},
	GuardSightAtFinish: func(r *Rules) { r.finishNeedsSight = func(*Terms) bool { return false } },
	GuardLookAgain: func(r *Rules) {
		r.ended = func(s *Sight) bool { return s.State.Phase != Retired }
		r.retired = func(m *machine, i int) (RecordState, time.Duration) {
			s := &m.v.Memory.Sights[i]
			return s.State, m.v.Now - s.First
		}
	},
	GuardRetiredNonce: func(r *Rules) { r.retiredNonce = func(_, ballot Nonce) Nonce { return ballot } },
	GuardWaitRetired:  func(r *Rules) { r.epochOver = func(_, _ time.Duration) bool { return true } },
	GuardWaitQuarantined: func(r *Rules) {
		r.waited = func(_, _ time.Duration) bool { return true }
		r.learnedSince = func(_, _ time.Duration) time.Duration { return Never }
	},
	GuardLearnAfterWait: func(r *Rules) {
		r.keptCounters = func(RecordState) bool { return true }
		alsoAtClaim(r, func(m *machine, e Epoch, a *Action) *Action {
			if l := m.learn(Never, m.intact(e)); l != nil {
				return l
			}
			a.Counters = RaiseCounters
			return a
		})
	},
	GuardFromNonce: func(r *Rules) {
		votesInsteadOfClaim(r, func(m *machine, _ Epoch, _ *Master) bool { return m.v.Goal == Init && m.v.NeverLocked })
		begins := r.begins
		r.begins = func(m *machine, p *Plan, i int) bool {
			at := &m.v.Masters[i]
			return begins(m, p, i) || at.Answered && at.state().Phase == None
		}
	},
	GuardListed: func(r *Rules) {
		begins := r.begins
		r.begins = func(m *machine, p *Plan, i int) bool {
			rs := m.v.Masters[i].state()
			return begins(m, p, i) || rs.Phase == Quarantined && rs.Epoch == p.Target
		}
	},
	GuardPromise: func(r *Rules) { r.promise = func(*machine, Epoch, Intent) *Action { return nil } },
	GuardAdopt: func(r *Rules) {
		r.otherChange = func(Intent, *Terms) bool { return false }
		r.free = func(_, _ int) bool { return true }
	},
	GuardAllReady: func(r *Rules) {
		prepare := r.prepare
		r.prepare = func(m *machine, p *Plan, i int) *Action {
			a := prepare(m, p, i)
			if a != nil && (a.Why.Code == NotReady || a.Kind == Swap && m.able(*p) >= m.v.Target.Quorum()) {
				return nil
			}
			return a
		}
	},
	GuardBringOver: func(r *Rules) {
		r.bringOver = func(m *machine, e Epoch, i int) *Action { return m.set(i, Quarantined, e) }
	},
	GuardLearnIntent: func(r *Rules) { r.largerIntent = func(_, _ Intent) bool { return false } },
	GuardLearnQuorum: func(r *Rules) { r.tooFewKnow = func(known, _ int) bool { return known == 0 } },
	GuardKnownLost:   func(r *Rules) { r.mayComplete = func(int) bool { return false } },
	GuardCancelQuorum: func(r *Rules) {
		r.standsFor = func(p Phase) bool { return p == Voting || p == Retired }
		r.tooLate = func(_, _ int) bool { return false }
	},
	GuardEpochDrift: func(r *Rules) { r.wait = func(m *machine) time.Duration { return m.v.Terms.MaxTTL } },
	GuardNotDurable: func(r *Rules) {
		votesInsteadOfClaim(r, func(_ *machine, e Epoch, at *Master) bool {
			rs := at.Record.State
			return at.state().Phase == None && rs.Phase == Voting && rs.Epoch == e
		})
	},
	GuardFixed:         func(r *Rules) { r.fixed = func(_, _ *Terms) bool { return false } },
	GuardAbandon:       func(r *Rules) { r.takesBack = func(*View) bool { return false } },
	GuardAbandonNumber: func(r *Rules) { r.used = func(numbers) bool { return false } },
	GuardStampStands: func(r *Rules) {
		alsoAtClaim(r, func(m *machine, _ Epoch, a *Action) *Action {
			a.Stamp = m.times(a.To.State.Nonce)
			return a
		})
	},
	GuardStampVouched: func(r *Rules) { r.mayStamp = func(*machine, int) bool { return true } },
	GuardStampQuorum:  func(r *Rules) { r.agree = func(*Terms) int { return 1 } },
	GuardUnused:       func(r *Rules) { r.unused = func(*machine) bool { return true } },
}

// Without returns the rules without some of the guards, for tests and mutants.
func Without(off Guard) *Rules {
	if off == 0 {
		return &shipped
	}
	r := shipped
	for g := Guard(1); g <= GuardUnused; g <<= 1 {
		if off&g != 0 {
			without[g](&r)
		}
	}
	return &r
}

// alsoAtClaim has also change the action of each claim that quarantines a master.
func alsoAtClaim(r *Rules, also func(m *machine, e Epoch, a *Action) *Action) {
	claim := r.claim
	r.claim = func(m *machine, e Epoch, i int, at *Master) *Action {
		a := claim(m, e, i, at)
		if a == nil || a.Kind != Swap || a.To.State.Phase != Quarantined {
			return a
		}
		return also(m, e, a)
	}
}

// votesInsteadOfClaim has a master vote at once where when holds.
func votesInsteadOfClaim(r *Rules, when func(m *machine, e Epoch, at *Master) bool) {
	claim := r.claim
	r.claim = func(m *machine, e Epoch, i int, at *Master) *Action {
		if when(m, e, at) {
			return m.set(i, Voting, e)
		}
		return claim(m, e, i, at)
	}
}
