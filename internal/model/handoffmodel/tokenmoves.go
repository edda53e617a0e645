// SPDX-License-Identifier: Apache-2.0

package handoffmodel

// Next lists every step that is possible in s. Ops and messages may come in any later state, or never.
func (t *tokenSystem) Next(dst []move[tokenState], s *tokenState) []move[tokenState] {
	for a := range t.Attempts {
		dst = t.decide(dst, s, a)
		if s.attempts[a].stage == unborn {
			continue
		}
		for n := range t.Masters {
			dst = t.give(dst, s, a, n)
			dst = t.look(dst, s, a, n)
			dst = t.confirm(dst, s, a, n)
			dst = t.release(dst, s, a, n)
		}
	}
	for n := range t.Masters {
		dst = t.faults(dst, s, n)
		dst = t.recover(dst, s, n)
	}
	return dst
}

// add appends the step of attempt a on master n and what change makes of s.
func (t *tokenSystem) add(dst []move[tokenState], s *tokenState, step Step, a, n int, change func(me *tokenAttempt, at *tokenMaster)) []move[tokenState] {
	step.Attempt, step.Master = Attempted{Client: a}, n
	dst = append(dst, move[tokenState]{Step: step, To: *s})
	to := &dst[len(dst)-1].To
	change(&to.attempts[a], &to.masters[n])
	return dst
}

// decide lists what attempt a does by itself: begin, fix its token, take the grant, end.
func (t *tokenSystem) decide(dst []move[tokenState], s *tokenState, a int) []move[tokenState] {
	me := &s.attempts[a]
	stage := func(to tokenStage) func(*tokenAttempt, *tokenMaster) {
		return func(me *tokenAttempt, _ *tokenMaster) { me.stage = to }
	}
	switch me.stage {
	case unborn:
		return t.add(dst, s, Step{Kind: Begin}, a, 0, func(me *tokenAttempt, _ *tokenMaster) {
			me.stage, me.after = asking, s.largestGranted()
		})
	case asking:
		dst = t.fix(dst, s, a)
	case fixed:
		dst = t.fix(dst, s, a)
		if t.supporters(me) >= t.quorum() {
			dst = t.add(dst, s, Step{Kind: Grant, Value: int64(me.token)}, a, 0, stage(granted))
		}
	case granted:
		return t.add(dst, s, Step{Kind: Over}, a, 0, stage(released))
	}
	if !me.ended() {
		dst = t.add(dst, s, Step{Kind: Over}, a, 0, stage(abandoned))
	}
	return dst
}

// fix lists the tokens that the attempt may fix: above the one that it has fixed already, if it has. A larger one begins
// rule R3 again: what was confirmed of the smaller one does not count.
func (t *tokenSystem) fix(dst []move[tokenState], s *tokenState, a int) []move[tokenState] {
	me := &s.attempts[a]
	for n := range t.Masters {
		token := t.mayFix(me, n)
		if token <= int64(me.token) {
			continue
		}
		dst = t.add(dst, s, Step{Kind: Fix, Value: token}, a, 0, func(me *tokenAttempt, _ *tokenMaster) {
			me.stage, me.token = fixed, uint8(token)
			for i := range me.asks {
				me.asks[i].joined = false
			}
		})
	}
	return dst
}

// mayFix returns the token that the attempt fixes when the answers that have arrived are all those up to master n's, 0
// if that is no quorum. Those answers are all that the token depends on. Which others have arrived does not matter: an
// answer equal to the token counts, one below may be confirmed, one above is ignored, whenever it comes.
func (t *tokenSystem) mayFix(me *tokenAttempt, n int) int64 {
	most := me.asks[n].told()
	var votes [maxMasters]int64
	for i := range t.Masters {
		told := me.asks[i].told()
		if told == most && i < n {
			return 0 // the same token was listed with master i
		}
		if told <= most {
			votes[i] = told
		}
	}
	if most == 0 {
		return 0
	}
	return FixToken(votes[:t.Masters], t.quorum())
}

// supporters counts the masters that stand for the attempt's token (rule R3).
func (t *tokenSystem) supporters(me *tokenAttempt) int {
	w := 0
	for n := range t.Masters {
		if x := &me.asks[n]; x.joined && !x.stale || x.told() == int64(me.token) {
			w++
		}
	}
	return w
}

func (s *tokenState) largestGranted() uint8 {
	var most uint8
	for a := range s.attempts {
		if s.attempts[a].wasGranted() {
			most = max(most, s.attempts[a].token)
		}
	}
	return most
}

// give executes the attempt's acquire: master n hands its vote to the place, whoever settles, with whatever proposal.
func (t *tokenSystem) give(dst []move[tokenState], s *tokenState, a, n int) []move[tokenState] {
	x, at := &s.attempts[a].asks[n], &s.masters[n]
	if at.phase != tokenVoting || at.owners != 0 && (!t.Readers || at.owners>>a&1 == 1) {
		return dst
	}
	second := x.vote > 0
	if second && !(!x.twice && (t.Drop == H7 || t.Drop == H10Incarnation && x.lost)) {
		return dst
	}
	for i, floor := range t.floors {
		vote := max(at.counter+1, uint8(floor))
		if i > 0 && vote == max(at.counter+1, uint8(t.floors[i-1])) {
			continue
		}
		dst = t.add(dst, s, Step{Kind: Give, Value: int64(vote)}, a, n, func(me *tokenAttempt, at *tokenMaster) {
			at.counter = vote
			at.owners |= 1 << a
			if second {
				me.asks[n].twice, me.asks[n].stale = true, false // the client has the first answer, which stands
			} else {
				me.asks[n].vote = vote
			}
		})
	}
	return dst
}

// look answers a claim without a token, before any message of the master was read. It tells the counter where the vote
// is held: that is the vote or above. A reader is told its vote as it was stored (rule H15), which is no news.
func (t *tokenSystem) look(dst []move[tokenState], s *tokenState, a, n int) []move[tokenState] {
	me, at := &s.attempts[a], &s.masters[n]
	x := &me.asks[n]
	held := at.owners>>a&1 == 1 || t.Drop == H8Look
	if me.ended() || x.looked > 0 || at.phase != tokenVoting || !held || at.counter == 0 || at.counter == x.vote || t.Readers && t.Drop != H15 {
		return dst
	}
	return t.add(dst, s, Step{Kind: Look, Value: int64(at.counter)}, a, n, func(me *tokenAttempt, at *tokenMaster) {
		me.asks[n].looked = at.counter
	})
}

// confirm answers a claim with the attempt's token, whose client may have read what the master told before, or not. It
// may be executed after the attempt has ended.
func (t *tokenSystem) confirm(dst []move[tokenState], s *tokenState, a, n int) []move[tokenState] {
	me, at := &s.attempts[a], &s.masters[n]
	x, token := &me.asks[n], int64(me.token)
	if token == 0 || x.joined || x.told() == token || at.phase != tokenVoting {
		return dst
	}
	held, below := at.owners>>a&1 == 1, int64(at.counter) < token
	if !held && t.Drop != H8Confirm {
		return dst // answered "gone", or "queued": nothing changes
	}
	answer := max(int64(at.counter), token)
	joined := Joins(x.told(), token, answer) || Joins(0, token, answer)
	switch {
	case t.Drop == R4, t.Drop == H8Confirm:
		joined = true
	case t.Readers:
		joined = joined && below // two readers may stand at one counter: only the one that raised it has the number
	}
	return t.add(dst, s, Step{Kind: Confirm, Value: answer, OK: joined}, a, n, func(me *tokenAttempt, at *tokenMaster) {
		at.counter = uint8(answer)
		me.asks[n].joined = joined
	})
}

// release executes a give-back of an attempt that has ended, any number of times. It also stands for the vote's expiry.
func (t *tokenSystem) release(dst []move[tokenState], s *tokenState, a, n int) []move[tokenState] {
	if !s.attempts[a].ended() || s.masters[n].owners>>a&1 == 0 {
		return dst
	}
	return t.add(dst, s, Step{Kind: Leave}, a, n, func(_ *tokenAttempt, at *tokenMaster) { at.owners &^= 1 << a })
}

// faults lists what may happen to master n: a vote vanishes, another lock raises the counter, all data is lost.
func (t *tokenSystem) faults(dst []move[tokenState], s *tokenState, n int) []move[tokenState] {
	at := &s.masters[n]
	for a := range t.Attempts {
		if t.VotesMayVanish && at.owners>>a&1 == 1 {
			dst = t.add(dst, s, Step{Kind: Vanish}, a, n, func(_ *tokenAttempt, at *tokenMaster) { at.owners &^= 1 << a })
		}
	}
	if int(s.raises) < t.Raises && at.phase == tokenVoting {
		dst = t.add(dst, s, Step{Kind: Raise, Value: int64(at.counter + 1)}, 0, n, func(_ *tokenAttempt, at *tokenMaster) { at.counter++ })
		dst[len(dst)-1].To.raises++
	}
	if int(s.crashes) < t.Crashes {
		dst = t.add(dst, s, Step{Kind: Restart}, 0, n, func(*tokenAttempt, *tokenMaster) {})
		to := &dst[len(dst)-1].To
		to.crashes++
		// readBy stays: it is the knowledge of whoever read, not of this master.
		to.masters[n] = tokenMaster{phase: tokenWaiting, crash: to.crashes, readBy: at.readBy}
		for a := range t.Attempts {
			to.attempts[a].asks[n].lost = to.attempts[a].asks[n].told() > 0
		}
	}
	return dst
}

// recover lists the next moves of a master that is not voting: its wait ends, then it reads the counters of a quorum of
// others that vote.
func (t *tokenSystem) recover(dst []move[tokenState], s *tokenState, n int) []move[tokenState] {
	at := &s.masters[n]
	switch {
	case at.phase == tokenWaiting:
		dst = t.add(dst, s, Step{Kind: Rejoin}, 0, n, func(_ *tokenAttempt, at *tokenMaster) { at.phase = tokenLearning })
		to := &dst[len(dst)-1].To
		for a := range t.Attempts {
			x := &to.attempts[a].asks[n]
			x.stale = x.stale || x.lost && t.Drop != H18
		}
	case at.phase == tokenLearning:
		bit := uint8(1) << at.crash
		for from := range t.Masters {
			if from == n || s.masters[from].phase != tokenVoting || s.masters[from].readBy&bit != 0 {
				continue
			}
			dst = t.add(dst, s, Step{Kind: Learn, To: from}, 0, n, func(_ *tokenAttempt, at *tokenMaster) {
				at.counter = max(at.counter, s.masters[from].counter)
			})
			t.learnt(&dst[len(dst)-1].To, n, from, bit)
		}
	}
	return dst
}

// learnt notes that master n has read the counter of from, and lets it vote when that was the last of a quorum.
func (t *tokenSystem) learnt(to *tokenState, n, from int, bit uint8) {
	to.masters[from].readBy |= bit
	read := 0
	for i := range t.Masters {
		if to.masters[i].readBy&bit != 0 {
			read++
		}
	}
	if read >= t.quorum() {
		to.masters[n].phase = tokenVoting
	}
}
