// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import "slices"

// stage is how far an attempt has come. From released and abandoned on it grants nothing and its releases may arrive.
type stage uint8

const (
	idle stage = iota
	asking
	counted // the token is fixed
	granted
	released  // was granted, and let go or ran out of validity
	abandoned // gave up, or ran out of validity, before a grant
)

// phase is what a master is doing.
type phase uint8

const (
	voting phase = iota
	quarantined
	learning
)

// recoveries lists the phases a master passes after a crash; the last is always voting.
var recoveries = [...][]phase{
	QuarantineThenRelearn: {quarantined, learning, voting},
	VoteAtOnce:            {voting},
	QuarantineOnly:        {quarantined, voting},
	RelearnThenQuarantine: {learning, quarantined, voting},
	RelearnFromAnyone:     {quarantined, learning, voting},
}

// master is one master's data. Invariant: the counter falls only in a crash.
type master struct {
	counter uint8
	owner   uint8 // attempt + 1, 0 for nobody
	phase   phase
	crash   uint8 // its last crash, counted from 1 over all masters; 0 for none
	readBy  uint8 // bit c: the recovery from crash c has read this counter
}

// reply is what a master answered to an acquire. There is no mark for an answer that has arrived: an answer not yet
// used is the same as one still on its way, and one that is lost the same as one never used.
type reply uint8

const (
	none reply = iota // the acquire was not executed: late, or lost
	refused
	voted
	votedTwice // Resent only: executed again; value is the first answer
)

// ask is what passed between one attempt and one master.
type ask struct {
	reply reply
	value uint8 // the vote; for CompareAndSet also the counter a refusal told
	// confirmed is 1 once the write-back succeeded. It never goes back, whatever happens to the master: the client
	// cannot know.
	confirmed uint8
}

func (k *ask) hasVote() bool { return k.reply >= voted }

// supports reports whether the master stands for the token.
func (k *ask) supports(token uint8) bool { return k.confirmed == 1 || k.hasVote() && k.value == token }

type attempt struct {
	stage stage
	floor uint8
	token uint8 // 0 until fixed
	after uint8 // the largest token granted before this attempt started, 0 for none
	asks  [maxMasters]ask
}

func (a *attempt) ended() bool      { return a.stage == released || a.stage == abandoned }
func (a *attempt) wasGranted() bool { return a.stage == granted || a.stage == released }

// state is one state of a Model: comparable, and copied freely.
type state struct {
	masters  [maxMasters]master
	attempts [maxAttempts]attempt
	crashes  uint8
}

func (m Model) start(counters []int64) state {
	var s state
	for n, c := range counters {
		s.masters[n].counter = uint8(c)
	}
	return s
}

// Next appends every transition possible in s to dst and returns it. A message that is sent may be delivered in any
// later state, or never; so loss and delay need no transitions of their own.
func (y *system) Next(dst []transition, at *state) []transition {
	m, s := &y.Model, *at
	for a := range m.Attempts {
		dst = m.decide(dst, s, a)
		if s.attempts[a].stage == idle {
			continue
		}
		for n := range m.Masters {
			dst = m.acquire(dst, s, a, n)
			dst = m.confirm(dst, s, a, n)
			dst = m.release(dst, s, a, n)
		}
	}
	for n := range m.Masters {
		dst = m.vanish(dst, s, n)
		dst = m.crash(dst, s, n)
		dst = m.recover(dst, s, n)
	}
	return dst
}

// decide lists what attempt a may do by itself: start, fix its token, take the grant, end.
func (m *Model) decide(dst []transition, s state, a int) []transition {
	add := func(step Step, change func(*attempt)) {
		step.Attempt = a
		to := s
		change(&to.attempts[a])
		dst = append(dst, transition{Step: step, To: to})
	}
	me := &s.attempts[a]
	switch me.stage {
	case idle:
		for _, floor := range m.floors() {
			add(Step{Kind: Start, Floor: floor}, func(to *attempt) {
				to.stage, to.floor, to.after = asking, uint8(floor), s.largestGranted()
			})
		}
		return dst
	case asking:
		for n := range m.Masters {
			if token := me.asks[n].value; m.mayCount(me, n) {
				add(Step{Kind: Count, Value: int64(token)}, func(to *attempt) { to.stage, to.token = counted, token })
			}
		}
	case counted:
		if m.Rule == NoWriteBack || m.supporters(me) >= m.quorum() {
			add(Step{Kind: Grant, Value: int64(me.token)}, func(to *attempt) { to.stage = granted })
		}
	}
	switch {
	case me.stage == granted:
		add(Step{Kind: End}, func(to *attempt) { to.stage = released })
	case !me.ended():
		add(Step{Kind: End}, func(to *attempt) { to.stage = abandoned })
	}
	return dst
}

// mayCount reports whether the vote of master n can be the largest of the first q votes to arrive, for some order of
// arrival. Those q votes are all the token depends on; which others had arrived does not matter, because a vote equal
// to the token counts, one below it may be confirmed and one above it is ignored, whenever it comes.
func (m *Model) mayCount(me *attempt, n int) bool {
	vote := &me.asks[n]
	if !vote.hasVote() {
		return false
	}
	upTo := 0
	for i := range m.Masters {
		other := &me.asks[i]
		if !other.hasVote() || other.value > vote.value {
			continue
		}
		if other.value == vote.value && i < n {
			return false // the same token was listed with master i
		}
		upTo++
	}
	return upTo >= m.quorum()
}

// supporters counts the masters that stand for the attempt's token.
func (m *Model) supporters(me *attempt) int {
	w := 0
	for n := range m.Masters {
		if me.asks[n].supports(me.token) {
			w++
		}
	}
	return w
}

func (s *state) largestGranted() uint8 {
	var most uint8
	for a := range s.attempts {
		if s.attempts[a].wasGranted() {
			most = max(most, s.attempts[a].token)
		}
	}
	return most
}

// acquire delivers attempt a's acquire to master n. It may come after the attempt has ended (docs/safety.md A13).
func (m *Model) acquire(dst []transition, s state, a, n int) []transition {
	at, ask, floor := &s.masters[n], s.attempts[a].asks[n], s.attempts[a].floor
	free := at.phase == voting && at.owner == 0
	again := m.Rule == Resent && ask.reply == voted && free
	if ask.reply != none && !again {
		return dst
	}
	step, to := Step{Kind: Acquire, Attempt: a, Master: n, Floor: int64(floor)}, s
	known := &to.attempts[a].asks[n]
	if free {
		vote := max(at.counter+1, floor)
		step.Value, step.OK = int64(vote), true
		to.masters[n].counter, to.masters[n].owner = vote, uint8(a+1)
	}
	switch {
	case again: // the client has counted the first answer
		known.reply = votedTwice
	case free:
		known.reply, known.value = voted, to.masters[n].counter
	default:
		known.reply = refused
		if m.Rule == CompareAndSet {
			known.value = at.counter
		}
	}
	return append(dst, transition{Step: step, To: to})
}

// confirm delivers the write-back of attempt a's token to master n, possibly after the attempt has ended.
func (m *Model) confirm(dst []transition, s state, a, n int) []transition {
	me, at := &s.attempts[a], &s.masters[n]
	ask := me.asks[n]
	if me.token == 0 || ask.supports(me.token) {
		return dst
	}
	var sent, held bool
	switch m.Rule {
	case WhileHeld, Resent:
		sent, held = ask.hasVote() && ask.value < me.token, at.owner == uint8(a+1)
	case LateVote:
		sent, held = ask.hasVote(), at.owner == uint8(a+1)
	case Unconditional:
		sent, held = true, true
	case CompareAndSet:
		sent, held = ask.reply != none, at.counter == ask.value
	}
	if !sent {
		return dst
	}
	to := s
	if held {
		to.masters[n].counter = max(at.counter, me.token)
		to.attempts[a].asks[n].confirmed = 1
	}
	return append(dst, transition{Step: Step{Kind: Confirm, Attempt: a, Master: n, Value: int64(me.token), OK: held}, To: to})
}

// release delivers a release of an ended attempt, any number of times. It also stands for the vote's expiry.
func (m *Model) release(dst []transition, s state, a, n int) []transition {
	if !s.attempts[a].ended() {
		return dst
	}
	held, to := s.masters[n].owner == uint8(a+1), s
	if held {
		to.masters[n].owner = 0
	}
	return append(dst, transition{Step: Step{Kind: Release, Attempt: a, Master: n, OK: held}, To: to})
}

func (m *Model) vanish(dst []transition, s state, n int) []transition {
	if !m.VotesMayVanish || s.masters[n].owner == 0 {
		return dst
	}
	to := s
	to.masters[n].owner = 0
	return append(dst, transition{Step: Step{Kind: Vanish, Master: n}, To: to})
}

// crash restarts master n with nothing but the knowledge that it is new.
func (m *Model) crash(dst []transition, s state, n int) []transition {
	if int(s.crashes) >= m.Amnesia {
		return dst
	}
	to := s
	to.crashes++
	// readBy stays: it is the knowledge of whoever read, not of this master.
	to.masters[n] = master{phase: recoveries[m.Recovery][0], crash: to.crashes, readBy: s.masters[n].readBy}
	return append(dst, transition{Step: Step{Kind: Crash, Master: n, OK: to.masters[n].phase == voting}, To: to})
}

// recover lists the next moves of a master that is not voting.
func (m *Model) recover(dst []transition, s state, n int) []transition {
	at := &s.masters[n]
	switch {
	case at.phase == quarantined && (m.VotesMayVanish || !s.countedOn(n)):
		to := s
		votes := m.advance(&to, n)
		return append(dst, transition{Step: Step{Kind: EndQuarantine, Master: n, Value: int64(at.counter), OK: votes}, To: to})
	case at.phase == learning:
		for from := range m.Masters {
			dst = m.learn(dst, s, n, from)
		}
	}
	return dst
}

// countedOn reports whether an attempt that has not ended holds a vote master n gave. While n is not voting, that
// vote was given before its crash.
func (s *state) countedOn(n int) bool {
	for a := range s.attempts {
		if me := &s.attempts[a]; me.asks[n].hasVote() && !me.ended() {
			return true
		}
	}
	return false
}

// learn reads the counter of one other voting master; the reads of one recovery are separate steps, in any order.
func (m *Model) learn(dst []transition, s state, n, from int) []transition {
	bit := uint8(1) << s.masters[n].crash
	readable := s.masters[from].phase == voting || m.Recovery == RelearnFromAnyone
	if from == n || !readable || s.masters[from].readBy&bit != 0 {
		return dst
	}
	to := s
	to.masters[n].counter = max(s.masters[n].counter, s.masters[from].counter)
	to.masters[from].readBy |= bit
	read := 0
	for i := range to.masters {
		if to.masters[i].readBy&bit != 0 {
			read++
		}
	}
	votes := read >= m.quorum() && m.advance(&to, n)
	return append(dst, transition{Step: Step{Kind: Learn, Master: n, From: from, Value: int64(to.masters[n].counter), OK: votes}, To: to})
}

// advance moves a recovering master to its next phase and reports whether it votes again.
func (m *Model) advance(s *state, n int) bool {
	phases, at := recoveries[m.Recovery], &s.masters[n]
	at.phase = phases[slices.Index(phases, at.phase)+1]
	return at.phase == voting
}
