// SPDX-License-Identifier: Apache-2.0

package tokenmodel

// The steps of this file are those of masters that grant by themselves.

// give executes the attempt's acquire: master n hands its vote to the place, whoever has it handed on, with whatever
// proposal.
func (m *Model) give(dst []transition, s *state, a, n int) []transition {
	x, at := &s.attempts[a].asks[n], &s.masters[n]
	if at.phase != voting || at.owners != 0 && (!m.Readers || at.has(a)) {
		return dst
	}
	second := x.vote > 0
	if second && (x.twice || m.Rule != H7 && (m.Rule != H10Incarnation || !x.lost)) {
		return dst
	}
	var before uint8
	for _, floor := range m.floors() {
		vote := max(at.counter+1, uint8(floor))
		if vote == before {
			continue
		}
		before = vote
		var t *state
		dst, t = add(dst, s, Step{Kind: Acquire, Attempt: a, Master: n, Floor: floor, Value: int64(vote), OK: true})
		t.masters[n].counter = vote
		t.masters[n].owners |= 1 << a
		if known := &t.attempts[a].asks[n]; second {
			known.twice, known.stale = true, false // the client has the first answer, which stands
		} else {
			known.vote = vote
		}
	}
	return dst
}

// look answers a claim without a token, before any message of the master was read. It tells the counter where the vote
// is held: that is the vote or above. A reader is told its vote as it was stored (H15), which is no news.
func (m *Model) look(dst []transition, s *state, a, n int) []transition {
	me, at := &s.attempts[a], &s.masters[n]
	x, held := &me.asks[n], at.has(a) || m.Rule == H8Look
	if me.ended() || x.looked > 0 || at.phase != voting || !held || at.counter == 0 || at.counter == x.vote || m.Readers && m.Rule != H15 {
		return dst
	}
	dst, t := add(dst, s, Step{Kind: Look, Attempt: a, Master: n, Value: int64(at.counter)})
	t.attempts[a].asks[n].looked = at.counter
	return dst
}

// join answers a claim with the attempt's token, whose client may have read what the master told before, or not. It
// may be executed after the attempt has ended.
func (m *Model) join(dst []transition, s *state, a, n int) []transition {
	me, at := &s.attempts[a], &s.masters[n]
	x, token := &me.asks[n], me.token
	if token == 0 || x.joined || x.told() == token || at.phase != voting {
		return dst
	}
	if !at.has(a) && m.Rule != H8Confirm {
		return dst // answered "gone", or "queued": nothing changes
	}
	answer := max(at.counter, token)
	joins := Joins(int64(x.told()), int64(token), int64(answer)) || Joins(0, int64(token), int64(answer))
	switch {
	case m.Rule == R4, m.Rule == H8Confirm:
		joins = true
	case m.Readers:
		joins = joins && at.counter < token // two readers may stand at one counter: only the one that raised it has the number
	}
	dst, t := add(dst, s, Step{Kind: Join, Attempt: a, Master: n, Value: int64(answer), OK: joins})
	t.masters[n].counter = answer
	t.attempts[a].asks[n].joined = joins
	return dst
}

// raise has another lock raise the counter of master n.
func (m *Model) raise(dst []transition, s *state, n int) []transition {
	if int(s.raises) >= m.Raises || s.masters[n].phase != voting {
		return dst
	}
	dst, t := add(dst, s, Step{Kind: Raise, Master: n, Value: int64(s.masters[n].counter + 1)})
	t.masters[n].counter++
	t.raises++
	return dst
}

// Joins reports whether a claim with the attempt's token makes a master stand for it. The claim has found the vote held
// and raised the counter to the token; answer is the counter then. vote is what the master told before, 0 if nothing.
//
// A vote above the token never joins (rule R4). If nothing was told before, the vote is somewhere up to answer, so only
// an answer equal to the token proves that it is not above.
func Joins(vote, token, answer int64) bool {
	if vote == 0 {
		return answer == token
	}
	return vote <= token && answer >= token
}
