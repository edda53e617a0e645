// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import "slices"

// Next appends every transition possible in s to dst and returns it. A message that is sent may be delivered in any
// later state, or never; so loss and delay need no transitions of their own.
func (y *system) Next(dst []transition, s *state) []transition {
	m := &y.Model
	for a := range m.Attempts {
		dst = m.decide(dst, s, a)
		if s.attempts[a].stage == idle {
			continue
		}
		for n := range m.Masters {
			if m.Handed {
				dst = m.give(dst, s, a, n)
				dst = m.look(dst, s, a, n)
				dst = m.join(dst, s, a, n)
			} else {
				dst = m.acquire(dst, s, a, n)
				dst = m.confirm(dst, s, a, n)
			}
			dst = m.release(dst, s, a, n)
		}
	}
	for n := range m.Masters {
		dst = m.vanish(dst, s, n)
		dst = m.raise(dst, s, n)
		dst = m.crash(dst, s, n)
		dst = m.recover(dst, s, n)
	}
	return dst
}

// add appends a step. What comes of it is still to be set: it is s until then. A step that is a delivery which changes
// nothing, such as a late release, stays so.
func add(dst []transition, s *state, step Step) ([]transition, *state) {
	dst = append(dst, transition{Step: step, To: *s})
	return dst, &dst[len(dst)-1].To
}

// decide lists what attempt a may do by itself: start, fix its token, take the grant, end.
func (m *Model) decide(dst []transition, s *state, a int) []transition {
	me := &s.attempts[a]
	to := func(kind Kind, value int64, stage stage) {
		var t *state
		dst, t = add(dst, s, Step{Kind: kind, Attempt: a, Value: value})
		t.attempts[a].stage = stage
	}
	switch me.stage {
	case idle:
		return m.begin(dst, s, a)
	case asking:
		dst = m.count(dst, s, a)
	case counted:
		if m.Handed {
			dst = m.count(dst, s, a)
		}
		if m.Rule == NoWriteBack || m.supporters(me) >= m.quorum() {
			to(Grant, int64(me.token), granted)
		}
	}
	switch {
	case me.stage == granted:
		to(End, 0, released)
	case !me.ended():
		to(End, 0, abandoned)
	}
	return dst
}

// begin lists the starts of attempt a. Where masters grant by themselves it is they who have the proposals.
func (m *Model) begin(dst []transition, s *state, a int) []transition {
	floors := m.floors()
	if m.Handed {
		floors = []int64{0}
	}
	for _, floor := range floors {
		var t *state
		dst, t = add(dst, s, Step{Kind: Start, Attempt: a, Floor: floor})
		me := &t.attempts[a]
		me.stage, me.floor, me.after = asking, uint8(floor), s.largestGranted()
	}
	return dst
}

// count lists the tokens that the attempt may fix: above the one that it has fixed already, if it has. A larger one begins
// anew: what was confirmed of the smaller one does not count.
func (m *Model) count(dst []transition, s *state, a int) []transition {
	me := &s.attempts[a]
	for n := range m.Masters {
		token := me.asks[n].told()
		if token <= me.token || !m.mayCount(me, n) {
			continue
		}
		var t *state
		dst, t = add(dst, s, Step{Kind: Count, Attempt: a, Value: int64(token)})
		to := &t.attempts[a]
		to.stage, to.token = counted, token
		for i := range to.asks {
			to.asks[i].joined = false
		}
	}
	return dst
}

// mayCount reports whether the vote of master n can be the largest of the first q votes to arrive, for some order of
// arrival. Those q votes are all the token depends on; which others had arrived does not matter, because a vote equal
// to the token counts, one below it may be confirmed and one above it is ignored, whenever it comes.
func (m *Model) mayCount(me *attempt, n int) bool {
	vote := me.asks[n].told()
	upTo := 0
	for i := range m.Masters {
		other := me.asks[i].told()
		if other == 0 || other > vote {
			continue
		}
		if other == vote && i < n {
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

// acquire delivers attempt a's acquire to master n. It may come after the attempt has ended (docs/safety.md A13).
func (m *Model) acquire(dst []transition, s *state, a, n int) []transition {
	at, ask, floor := &s.masters[n], &s.attempts[a].asks[n], s.attempts[a].floor
	free := at.phase == voting && at.owners == 0
	again := m.Rule == Resent && ask.vote > 0 && !ask.twice && free
	if (ask.vote > 0 || ask.looked == refusal) && !again {
		return dst
	}
	step, vote := Step{Kind: Acquire, Attempt: a, Master: n, Floor: int64(floor)}, max(at.counter+1, floor)
	if free {
		step.Value, step.OK = int64(vote), true
	}
	dst, t := add(dst, s, step)
	known := &t.attempts[a].asks[n]
	if free {
		t.masters[n].counter, t.masters[n].owners = vote, 1<<a
	}
	switch {
	case again: // the client has counted the first answer
		known.twice = true
	case free:
		known.vote = vote
	default:
		known.looked = refusal
		if m.Rule == CompareAndSet {
			known.vote = at.counter
		}
	}
	return dst
}

// confirm delivers the write-back of attempt a's token to master n, possibly after the attempt has ended.
func (m *Model) confirm(dst []transition, s *state, a, n int) []transition {
	me, at := &s.attempts[a], &s.masters[n]
	ask := &me.asks[n]
	if me.token == 0 || ask.supports(me.token) {
		return dst
	}
	var sent, held bool
	switch m.Rule {
	case WhileHeld, Resent:
		sent, held = ask.told() > 0 && ask.told() < me.token, at.has(a)
	case LateVote:
		sent, held = ask.told() > 0, at.has(a)
	case Unconditional:
		sent, held = true, true
	case CompareAndSet:
		sent, held = ask.vote > 0 || ask.looked == refusal, at.counter == ask.vote
	}
	if !sent {
		return dst
	}
	dst, t := add(dst, s, Step{Kind: Confirm, Attempt: a, Master: n, Value: int64(me.token), OK: held})
	if held {
		t.masters[n].counter = max(at.counter, me.token)
		t.attempts[a].asks[n].joined = true
	}
	return dst
}

// release delivers a release of an ended attempt, any number of times. It also stands for the vote's expiry.
func (m *Model) release(dst []transition, s *state, a, n int) []transition {
	held := s.masters[n].has(a)
	if !s.attempts[a].ended() || m.Handed && !held {
		return dst
	}
	dst, t := add(dst, s, Step{Kind: Release, Attempt: a, Master: n, OK: held})
	t.masters[n].owners &^= 1 << a
	return dst
}

func (m *Model) vanish(dst []transition, s *state, n int) []transition {
	for a := range m.Attempts {
		if m.VotesMayVanish && s.masters[n].has(a) {
			var t *state
			dst, t = add(dst, s, Step{Kind: Vanish, Attempt: a, Master: n})
			t.masters[n].owners &^= 1 << a
		}
	}
	return dst
}

// crash restarts master n with nothing but the knowledge that it is new.
func (m *Model) crash(dst []transition, s *state, n int) []transition {
	if int(s.crashes) >= m.Amnesia {
		return dst
	}
	dst, t := add(dst, s, Step{Kind: Crash, Master: n, OK: recoveries[m.Recovery][0] == voting})
	t.crashes++
	// readBy stays: it is the knowledge of whoever read, not of this master.
	t.masters[n] = master{phase: recoveries[m.Recovery][0], crash: t.crashes, readBy: s.masters[n].readBy}
	for a := range m.Attempts {
		t.attempts[a].asks[n].lost = m.Handed && s.attempts[a].asks[n].told() > 0
	}
	return dst
}

// recover lists the next moves of a master that is not voting.
func (m *Model) recover(dst []transition, s *state, n int) []transition {
	at := &s.masters[n]
	switch {
	case at.phase == quarantined && (m.Handed || m.VotesMayVanish || !s.countedOn(n)):
		dst, t := add(dst, s, Step{Kind: EndQuarantine, Master: n, Value: int64(at.counter)})
		dst[len(dst)-1].Step.OK = m.advance(t, n)
		for a := range m.Attempts {
			x := &t.attempts[a].asks[n]
			x.stale = x.stale || x.lost && m.Rule != H18
		}
		return dst
	case at.phase == learning:
		for from := range m.Masters {
			dst = m.learn(dst, s, n, from)
		}
	}
	return dst
}

// learn reads the counter of one other voting master; the reads of one recovery are separate steps, in any order.
func (m *Model) learn(dst []transition, s *state, n, from int) []transition {
	bit := uint8(1) << s.masters[n].crash
	readable := s.masters[from].phase == voting || m.Recovery == RelearnFromAnyone
	if from == n || !readable || s.masters[from].readBy&bit != 0 {
		return dst
	}
	dst, t := add(dst, s, Step{Kind: Learn, Master: n, From: from, Value: int64(max(s.masters[n].counter, s.masters[from].counter))})
	t.masters[n].counter = max(s.masters[n].counter, s.masters[from].counter)
	t.masters[from].readBy |= bit
	read := 0
	for i := range t.masters {
		if t.masters[i].readBy&bit != 0 {
			read++
		}
	}
	dst[len(dst)-1].Step.OK = read >= m.quorum() && m.advance(t, n)
	return dst
}

// advance moves a recovering master to its next phase and reports whether it votes again.
func (m *Model) advance(s *state, n int) bool {
	phases, at := recoveries[m.Recovery], &s.masters[n]
	at.phase = phases[slices.Index(phases, at.phase)+1]
	return at.phase == voting
}
