// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import "fmt"

// leave executes the give-back of an attempt that is over: it removes the vote or the place, whichever is there (rule
// H4). Where clocks may jump, the op may hand the vote that it removed on to a place, but not a vote that its client
// does not believe (rules H16 and H17).
func (c *clockSystem) leave(dst []move, s *clockState, id, m int) []move {
	x := &s.at[id][m]
	if s.stages[id] != over || x.flags.has(left) {
		return dst
	}
	gone := func(to *clockState) {
		x := &to.at[id][m]
		if c.Drop != H4Leave {
			x.vote = 0
		}
		if c.Drop != H4Unlock {
			x.flags &^= placed
		}
		x.flags |= left
	}
	dst = c.add(dst, s, Step{Kind: Leave, Master: m}, id, gone)
	if c.Jumps == 0 || x.vote == 0 || x.flags.has(dirty) && c.Drop != H17 {
		return dst
	}
	after := *s
	gone(&after)
	for next := range c.ids() {
		if c.handable(&after, next, m) && c.free(&after, next, m) {
			dst = c.add(dst, s, Step{Kind: Leave, Master: m, Next: c.named(next), OK: true}, id, func(to *clockState) {
				gone(to)
				c.hand(to, next, m)
			})
		}
	}
	return dst
}

// broken lists what only a world without one of the rules H3, H5 and H6 does.
func (c *clockSystem) broken(dst []move, s *clockState, id, m int) []move {
	x := &s.at[id][m]
	if s.stages[id] != active {
		return dst
	}
	switch {
	case c.Drop == H3 && x.vote > 0:
		dst = c.add(dst, s, Step{Kind: Heartbeat, Master: m}, id, func(to *clockState) { c.tell(&to.at[id][m], c.Short) })
	case c.Drop == H5 && x.vote > 0:
		dst = c.add(dst, s, Step{Kind: GiveOne, Master: m}, id, func(to *clockState) { to.at[id][m].vote = 0 })
	case c.Drop == H6 && x.flags.has(again):
		dst = c.add(dst, s, Step{Kind: Requeue, Master: m}, id, func(to *clockState) {
			to.at[id][m].vote = 0
			to.at[id][m].flags = arrived | placed | x.flags&message
			to.masters[m].life[c.client(id)], to.masters[m].age[c.client(id)] = uint8(c.Life), 0
		})
	case c.Drop == H6 && m == 0:
		dst = c.add(dst, s, Step{Kind: Again}, id, func(to *clockState) {
			for n := range c.Masters {
				to.at[id][n].flags |= again
				to.at[id][n].counts = 0
			}
		})
	}
	return dst
}

// beats has master m take a sign of life of each client that may need it there.
func (c *clockSystem) beats(dst []move, s *clockState, m int) []move {
	if !c.Beats {
		return dst
	}
	for client := range c.Clients {
		at := &s.masters[m]
		if !c.needsLife(s, client, m) {
			continue
		}
		for age := range c.Delay + 1 {
			life, old := uint8(c.Life), uint8(min(age, c.Short))
			if at.life[client] == life && at.age[client] == old {
				continue
			}
			dst = c.add(dst, s, Step{Kind: Beat, Master: m, Value: int64(age)}, client*c.Attempts, func(to *clockState) {
				to.masters[m].life[client], to.masters[m].age[client] = life, old
			})
		}
	}
	return dst
}

// needsLife reports whether a sign of life of the client on master m can make a difference.
func (c *clockSystem) needsLife(s *clockState, client, m int) bool {
	for a := range c.Attempts {
		id := client*c.Attempts + a
		if s.at[id][m].flags.has(placed) || c.Drop == H2 && s.stages[id] == active {
			return true
		}
	}
	return false
}

// faults lists what may happen to master m.
func (c *clockSystem) faults(dst []move, s *clockState, m int) []move {
	at := &s.masters[m]
	add := func(step Step, change func(to *clockState, at *clockMaster)) {
		step.Master = m
		dst = append(dst, move{Step: step, To: *s})
		to := &dst[len(dst)-1].To
		change(to, &to.masters[m])
		c.forgetAll(to)
	}
	wait := func(at *clockMaster) { at.phase, at.wait = waiting, uint8(c.TTL) }
	if int(s.restarts) < c.Restarts && at.phase == voting {
		add(Step{Kind: Restart}, func(to *clockState, at *clockMaster) {
			c.restart(to, m)
			if c.Drop != H13 {
				wait(at)
			}
		})
	}
	if at.phase == waiting && at.wait == 0 && !c.Epochs {
		add(Step{Kind: Rejoin}, func(_ *clockState, at *clockMaster) { at.phase = voting })
	}
	if c.Strange && (at.stranger || c.nobody(s, m)) {
		add(Step{Kind: Stranger, OK: !at.stranger}, func(_ *clockState, at *clockMaster) { at.stranger = !at.stranger })
	}
	if int(s.jumps) < c.Jumps && at.phase == voting && !at.jumped && !c.nobody(s, m) {
		add(Step{Kind: Jump}, func(to *clockState, at *clockMaster) {
			to.jumps++
			c.empty(to, m)
			at.jumped = true
		})
	}
	if at.jumped {
		add(Step{Kind: Noticed}, func(_ *clockState, at *clockMaster) {
			at.jumped = false
			wait(at)
		})
	}
	if !c.Epochs || m > 0 || at.epoch > 0 {
		return dst
	}
	switch {
	case at.phase == voting:
		add(Step{Kind: Retire}, func(_ *clockState, at *clockMaster) { wait(at) })
	case at.wait == 0:
		add(Step{Kind: Found}, func(to *clockState, _ *clockMaster) {
			for n := range c.Masters {
				to.masters[n].phase, to.masters[n].epoch = voting, 1
			}
		})
	}
	return dst
}

// restart takes the votes from master m, and the queue unless that outlives a restart.
func (c *clockSystem) restart(s *clockState, m int) {
	s.restarts++
	c.empty(s, m)
	s.masters[m].stranger = false
	for id := range c.ids() {
		if !c.Keeps {
			s.at[id][m].flags &^= placed
		}
	}
}

func (c *clockSystem) empty(s *clockState, m int) {
	for id := range c.ids() {
		s.at[id][m].vote = 0
	}
}

// nobody reports whether master m has no vote of ours.
func (c *clockSystem) nobody(s *clockState, m int) bool {
	for id := range c.ids() {
		if s.at[id][m].vote > 0 {
			return false
		}
	}
	return true
}

// tick is s one tick later.
func (c *clockSystem) tick(s clockState) clockState {
	for m := range c.Masters {
		at := &s.masters[m]
		at.wait -= min(at.wait, 1)
		for client := range c.Clients {
			at.life[client] -= min(at.life[client], 1)
			at.age[client] = min(at.age[client]+1, uint8(c.Short))
		}
		for id := range c.ids() {
			x := &s.at[id][m]
			x.vote -= min(x.vote, 1)
			x.counts -= min(x.counts, 1)
			if c.Drop != H1 || !x.flags.has(message) {
				x.told -= min(x.told, 1)
			}
		}
	}
	c.forgetAll(&s)
	return s
}

func (c *clockSystem) forgetAll(s *clockState) {
	for id := range c.ids() {
		c.forget(s, id)
	}
}

// forget brings what no step can tell apart to one form.
func (c *clockSystem) forget(s *clockState, id int) {
	client := c.client(id)
	for m := range c.Masters {
		x, at := &s.at[id][m], &s.masters[m]
		if s.stages[id] == over {
			x.told, x.counts = 0, 0
			if x.flags.has(arrived) && !x.flags.has(placed) && x.vote == 0 {
				x.flags |= left // the give-back would find nothing
			}
			if x.flags.has(left) {
				x.flags &= left | placed
			}
		}
		if x.told <= x.counts {
			x.told = 0
		}
		if x.told == 0 {
			x.flags &^= message
		}
		if x.vote == 0 {
			x.flags &^= dirty
		}
		if at.life[client] == 0 || !c.needsLife(s, client, m) {
			at.life[client], at.age[client] = 0, 0
		}
	}
}

// Judge says what is wrong with the state after a step.
func (c *clockSystem) Judge(from *clockState, m *move) string {
	s := &m.To
	for id := range c.ids() {
		for n := range c.members(id) {
			x := &s.at[id][n]
			if x.flags.has(left) && (x.vote > 0 || x.flags.has(placed)) {
				return fmt.Sprintf("%v has left master %d, and something of it is there still", c.named(id), n+1)
			}
			if x.vote > from.at[id][n].vote && !from.at[id][n].flags.has(placed) && from.at[id][n].flags.has(given) && m.Step.Kind != Claim {
				return fmt.Sprintf("master %d gives %v a second vote", n+1, c.named(id))
			}
			if at := &s.masters[n]; c.Drop == Sound && x.counts > x.vote && at.wait < x.counts && !at.jumped {
				return fmt.Sprintf("%v counts the vote of master %d for longer than it is there", c.named(id), n+1)
			}
		}
	}
	if m.Step.Kind != Hear {
		return ""
	}
	return c.exclusion(s)
}

// exclusion says which two attempts hold the lock at once, or count the only master.
func (c *clockSystem) exclusion(s *clockState) string {
	for a := range c.ids() {
		for b := range a {
			if c.holdsFor(s, a) > 0 && c.holdsFor(s, b) > 0 && !c.shared(a, b) {
				return fmt.Sprintf("%v and %v hold the lock at once", c.named(b), c.named(a))
			}
		}
	}
	return ""
}
