// SPDX-License-Identifier: Apache-2.0

package handoffmodel

// Next lists every step that is possible in s. A message that is sent may be read in any later state, or never; an op
// likewise. So loss and delay need no steps of their own.
func (c *clockSystem) Next(dst []move, s *clockState) []move {
	for id := range c.ids() {
		dst = c.decide(dst, s, id)
		if s.stages[id] == idle {
			continue
		}
		for m := range c.members(id) {
			dst = c.enqueue(dst, s, id, m)
			dst = c.give(dst, s, id, m)
			dst = c.hear(dst, s, id, m)
			dst = c.claim(dst, s, id, m)
			dst = c.leave(dst, s, id, m)
			dst = c.broken(dst, s, id, m)
		}
	}
	for m := range c.Masters {
		dst = c.beats(dst, s, m)
		dst = c.faults(dst, s, m)
	}
	return append(dst, move{Step: Step{Kind: Tick}, To: c.tick(*s)})
}

func (c *clockSystem) named(id int) Attempted {
	return Attempted{c.client(id), id % c.Attempts}
}

// add appends the step and what change makes of s, in the smallest form.
func (c *clockSystem) add(dst []move, s *clockState, step Step, id int, change func(to *clockState)) []move {
	step.Attempt = c.named(id)
	dst = append(dst, move{Step: step, To: *s})
	to := &dst[len(dst)-1].To
	change(to)
	c.forget(to, id)
	return dst
}

// decide lists what the client does by itself: begin, and end.
func (c *clockSystem) decide(dst []move, s *clockState, id int) []move {
	switch s.stages[id] {
	case idle:
		if id%c.Attempts == 0 || s.stages[id-1] == over {
			dst = c.add(dst, s, Step{Kind: Begin}, id, func(to *clockState) { to.stages[id] = active })
		}
	case active:
		dst = c.add(dst, s, Step{Kind: Over}, id, func(to *clockState) { to.stages[id] = over })
	}
	return dst
}

// state reports whether master m has the record state that the attempt's ops name: it votes, in their epoch.
func (c *clockSystem) state(s *clockState, id, m int) bool {
	return s.masters[m].phase == voting && s.masters[m].epoch == c.epoch(id)
}

// free reports whether master m has no vote that excludes the attempt's.
func (c *clockSystem) free(s *clockState, id, m int) bool {
	if s.masters[m].stranger {
		return false
	}
	for other := range c.ids() {
		if s.at[other][m].vote > 0 && (other == id || !c.shared(id, other)) {
			return false
		}
	}
	return true
}

// enqueue executes the attempt's enqueue: late perhaps, and once at most. It may come after the attempt is over, but
// not after its leave (rule H14).
func (c *clockSystem) enqueue(dst []move, s *clockState, id, m int) []move {
	x := &s.at[id][m]
	if x.flags.has(arrived) || x.flags.has(left) && c.Drop != H14 || !c.state(s, id, m) {
		return dst
	}
	for age := range c.Delay + 1 {
		dst = c.add(dst, s, Step{Kind: Enqueue, Master: m, Value: int64(age)}, id, func(to *clockState) {
			to.at[id][m].flags |= arrived | placed
			to.masters[m].life[c.client(id)], to.masters[m].age[c.client(id)] = uint8(c.Life), uint8(min(age, c.Short))
		})
		if c.free(s, id, m) && !c.Handed {
			dst = c.add(dst, s, Step{Kind: Enqueue, Master: m, Value: int64(age), OK: true}, id, func(to *clockState) {
				to.at[id][m].flags |= arrived
				c.vote(to, id, m, age)
			})
		}
	}
	return dst
}

// vote gives the vote in a reply, to an op that was sent age ticks ago.
func (c *clockSystem) vote(s *clockState, id, m, age int) {
	x := &s.at[id][m]
	x.flags |= given
	x.flags &^= placed
	x.vote = uint8(c.TTL)
	if s.masters[m].jumped {
		x.flags |= dirty // TIME in the same pipeline betrays the clock; or the reply is lost
		return
	}
	c.tell(x, c.TTL-age)
}

// tell puts an answer on its way. An answer by which the vote counts longer supersedes one by which it counts less.
func (c *clockSystem) tell(x *at, ticks int) {
	if ticks > int(x.told) {
		x.told = uint8(ticks)
		x.flags &^= message
	}
}

// give hands the vote by message to a place whose client shows signs of life. In a world where clocks jump this needs a
// give-back in the same op: see leave.
func (c *clockSystem) give(dst []move, s *clockState, id, m int) []move {
	if c.Jumps > 0 && c.Drop != H16 || !c.handable(s, id, m) || !c.free(s, id, m) {
		return dst
	}
	return c.add(dst, s, Step{Kind: Give, Master: m}, id, func(to *clockState) { c.hand(to, id, m) })
}

// handable reports whether an op that names the master's record state may hand the vote of master m to the attempt: it has a
// place there, of this epoch, and its client a sign of life.
func (c *clockSystem) handable(s *clockState, id, m int) bool {
	at := &s.masters[m]
	return s.at[id][m].flags.has(placed) && at.life[c.client(id)] > 0 &&
		(at.phase == voting || c.Drop == H9Settle && at.phase == waiting) && (at.epoch == c.epoch(id) || c.Drop == H10Epoch)
}

func (c *clockSystem) hand(s *clockState, id, m int) {
	x, at := &s.at[id][m], &s.masters[m]
	x.flags |= given
	x.flags &^= placed
	x.vote = uint8(c.Short)
	if ticks := c.Short - int(at.age[c.client(id)]); ticks > int(x.told) {
		x.told = uint8(ticks)
	}
	x.flags |= message
}

// hear has the client read what is on its way. What it has read may come again; so the answer stays.
func (c *clockSystem) hear(dst []move, s *clockState, id, m int) []move {
	x := &s.at[id][m]
	if s.stages[id] != active || x.told == 0 {
		return dst
	}
	told := int(x.told)
	if at := &s.masters[m]; x.flags.has(message) {
		switch {
		case c.Drop == H1:
			told = c.Short
		case c.Drop == H2 && at.life[c.client(id)] > 0:
			told = max(told, c.Short-int(at.age[c.client(id)]))
		}
	}
	counts := max(x.counts, uint8(told))
	if counts == x.counts {
		return dst
	}
	return c.add(dst, s, Step{Kind: Hear, Master: m, Value: int64(counts)}, id, func(to *clockState) { to.at[id][m].counts = counts })
}

// claim executes a claim: it renews a vote, or gives one to a place. It may come late, but not after the leave.
func (c *clockSystem) claim(dst []move, s *clockState, id, m int) []move {
	x := &s.at[id][m]
	if !c.Claims || x.flags.has(left) || !c.state(s, id, m) && (c.Drop != H9Claim || x.flags.has(placed)) {
		return dst
	}
	for age := range c.Delay + 1 {
		switch {
		case x.vote > 0:
			dst = c.add(dst, s, Step{Kind: Claim, Master: m, Value: int64(age)}, id, func(to *clockState) {
				to.at[id][m].vote = uint8(c.TTL)
				if !to.masters[m].jumped {
					c.tell(&to.at[id][m], c.TTL-age)
				}
			})
		case x.flags.has(placed) && c.free(s, id, m):
			dst = c.add(dst, s, Step{Kind: Claim, Master: m, Value: int64(age), OK: true}, id, func(to *clockState) { c.vote(to, id, m, age) })
		}
	}
	return dst
}
