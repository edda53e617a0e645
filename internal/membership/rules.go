// SPDX-License-Identifier: Apache-2.0

package membership

import "time"

// Rules are what keeps the machine safe: each entry is one rule, as the machine asks for it. [Next] and [Memory.Observe] go by those that
// ship. [Without] has tables in which one entry or more is wrong: the explorer shows what each rule prevents, and the machine itself has no
// condition that a test switches. docs/internals/membership.md numbers the rules.
type Rules struct {
	// needsSight, mayClaim, finishNeedsSight: nobody claims or finishes for an epoch that nobody saw whole. At the finish sight is checked
	// against the nonce (1, 2).
	needsSight       func(t *Terms) bool
	mayClaim         func(seen, word bool) bool
	finishNeedsSight func(t *Terms) bool
	// claim quarantines a master, and does nothing else (5, 6).
	claim func(m *machine, e Epoch, i int, at *Master) *Action
	// ended, retired: after the wait, the same record states still stand (3).
	ended   func(s *Sight) bool
	retired func(m *machine, i int) (RecordState, time.Duration)
	// retiredNonce: a retired state has a fresh nonce (4).
	retiredNonce func(fresh, ballot Nonce) Nonce
	// wait is W, which is the epoch's, and not the timing client's. epochOver, waited: W passes before a new epoch begins, and before a
	// quarantined master votes (5).
	wait              func(m *machine) time.Duration
	epochOver, waited func(stood, wait time.Duration) bool
	// learnedSince: counters are learned after the wait, by whoever did not keep its own (5).
	learnedSince func(since, wait time.Duration) time.Duration
	keptCounters func(rs RecordState) bool
	// begins: a new master begins at once only with a nonce of the plan, and from a state that tells it from a lost one (6, 7).
	begins func(m *machine, p *Plan, i int) bool
	// promise: a quorum promises before anyone is retired. otherChange, free: a plan for which someone in the quorum was retired is
	// adopted (8).
	promise     func(m *machine, e Epoch, in Intent) *Action
	otherChange func(in Intent, target *Terms) bool
	free        func(votes, quorum int) bool
	// prepare: all new masters are ready before anyone is retired (9).
	prepare func(m *machine, p *Plan, i int) *Action
	// bringOver: a master that kept its data is brought over (11).
	bringOver func(m *machine, e Epoch, i int) *Action
	// largerIntent: a master that finishes learns the largest intent.
	largerIntent func(in, than Intent) bool
	// tooFewKnow: counters are learned from so many masters that one has each of them. mayComplete: they leap only when no silent master can have kept them.
	tooFewKnow  func(known, enough int) bool
	mayComplete func(silent int) bool
	// standsFor, tooLate: a change is cancelled only by a quorum that is not retired.
	standsFor func(p Phase) bool
	tooLate   func(votes, quorum int) bool
	// fixed: a fixed list is never changed.
	fixed func(from, to *Terms) bool
	// takesBack: Init takes retired masters back where a minority votes. used: it does not go on with the number of an epoch that is given up.
	takesBack func(v *View) bool
	used      func(seen numbers) bool
	// mayStamp: only a process that vouches for a record state stamps it. agree: a quorum of clocks says how long a record state has stood.
	mayStamp func(m *machine, i int) bool
	agree    func(t *Terms) int
	// unused: the word that nothing was ever locked is not believed against the records.
	unused func(m *machine) bool
}

var shipped = Rules{
	needsSight:       func(t *Terms) bool { return !t.Fixed },
	mayClaim:         func(seen, word bool) bool { return seen || word },
	finishNeedsSight: func(t *Terms) bool { return !t.Fixed },
	claim:            (*machine).claim,
	ended:            func(*Sight) bool { return true },
	retired:          func(m *machine, i int) (RecordState, time.Duration) { return m.v.Masters[i].state(), m.stood(i) },
	retiredNonce:     func(fresh, _ Nonce) Nonce { return fresh },
	wait:             (*machine).wait,
	epochOver:        func(stood, wait time.Duration) bool { return stood >= wait },
	waited:           func(stood, wait time.Duration) bool { return stood >= wait },
	learnedSince:     func(since, wait time.Duration) time.Duration { return since + wait },
	keptCounters:     func(rs RecordState) bool { return rs.Whole },
	begins:           (*machine).begins,
	promise:          (*machine).promise,
	otherChange:      func(in Intent, target *Terms) bool { return in.Target != (Epoch{}) && in.Target.ID != target.ID },
	free:             func(votes, quorum int) bool { return votes >= quorum },
	prepare:          (*machine).prepareOne,
	bringOver:        (*machine).advanceRecord,
	largerIntent:     func(in, than Intent) bool { return in.Ballot.above(than.Ballot) },
	tooFewKnow:       func(known, enough int) bool { return known < enough },
	mayComplete:      func(silent int) bool { return silent > 0 },
	standsFor:        func(p Phase) bool { return p == Voting },
	tooLate:          func(votes, quorum int) bool { return votes < quorum },
	fixed:            func(from, to *Terms) bool { return from.Fixed || to.Fixed },
	takesBack:        func(v *View) bool { return v.Goal == Init && v.Abandon },
	used:             func(seen numbers) bool { return seen.quarantined <= seen.retired },
	mayStamp:         func(m *machine, i int) bool { return m.v.Masters[i].state().Whole || m.vouched(i) },
	agree:            (*Terms).Quorum,
	unused:           (*machine).unused,
}
