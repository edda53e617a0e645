// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"fmt"

	"github.com/redlock-go/redlock/internal/membership"
)

func (a *attempt) tick(w *World) {
	switch {
	case a.epoch == 0:
		return
	case a.phase == asking || a.phase == holding:
		if a.age++; a.age >= w.ttl(w.listOf(a.epoch)) {
			a.end()
			return
		}
	}
	if a.extAge > 0 {
		if a.extAge++; a.extAge > w.ttl(w.listOf(a.epoch)) {
			a.extAge, a.extended, a.mended = 0, 0, 0
		}
	}
}

// end forgets all but the token. Votes that masters still have expire by themselves.
func (a *attempt) end() { *a = attempt{phase: over, token: a.token, won: a.won} }

// votes: master i takes a new vote for an attempt of this epoch, or with mends puts one back.
func votes(at *master, epoch uint8, mends bool) bool {
	rs := &at.state
	return !at.down && rs.epoch == epoch && !rs.stale && (rs.phase == membership.Voting || mends && rs.phase == membership.Quarantined)
}

// attempt appends what attempt a may do.
func (d *driver) attempt(dst []transition, s *state, a int) []transition {
	me := &s.attempts[a]
	switch {
	case me.phase == over:
		return dst
	case me.phase == holding:
		return d.extend(dst, s, a)
	case d.w.Tokens || d.w.Steps:
		return d.acquire(dst, s, a)
	}
	return d.hold(dst, s, a)
}

// epochs calls f with every epoch of a list in which some master votes.
func (d *driver) epochs(s *state, list int, f func(epoch uint8)) {
	var done [maxEpochs]bool
	for i := range d.w.masters {
		if rs := &s.masters[i].state; d.w.listed(list, i) && rs.phase == membership.Voting && !rs.stale && d.w.listOf(rs.epoch) == list && !done[rs.epoch] {
			done[rs.epoch] = true
			f(rs.epoch)
		}
	}
}

// hold lets an attempt take the lock in one step, with every quorum that would vote for it.
func (d *driver) hold(dst []transition, s *state, a int) []transition {
	list := d.w.Attempts[a].List
	d.epochs(s, list, func(epoch uint8) {
		free := uint16(0)
		for i := range d.w.masters {
			if at := &s.masters[i]; d.w.listed(list, i) && votes(at, epoch, false) && at.owner == 0 && !d.suspect(s, i, list) {
				free |= 1 << i
			}
		}
		for set := free; set != 0; set = (set - 1) & free {
			if count(set) != d.w.quorum(list) {
				continue
			}
			step := Step{Kind: Hold, Attempt: a, Set: set, wrong: d.twice(s, a)}
			dst = d.add(dst, s, step, func(to *state) {
				to.attempts[a] = attempt{phase: holding, epoch: epoch, voted: set, won: true}
				for i := range d.w.masters {
					if set&(1<<i) != 0 {
						to.masters[i].owner, to.masters[i].left = uint8(a+1), d.w.ttl(list)
					}
				}
			})
		}
	})
	return dst
}

// twice says who holds the lock already.
func (d *driver) twice(s *state, a int) string {
	for o := range d.w.Attempts {
		if o != a && s.attempts[o].phase == holding {
			return fmt.Sprintf("%s and %s hold the lock at the same time", d.w.Attempts[o].Name, d.w.Attempts[a].Name)
		}
	}
	return ""
}

// acquire lets masters vote for an attempt one by one, and confirm its token.
func (d *driver) acquire(dst []transition, s *state, a int) []transition {
	me, list := &s.attempts[a], d.w.Attempts[a].List
	need := d.w.quorum(list)
	vote := func(i int, epoch uint8, floor int) {
		step := Step{Kind: Vote, Attempt: a, Master: i, Floor: floor}
		to := *s
		at, my := &to.masters[i], &to.attempts[a]
		if my.phase == idle {
			*my = attempt{phase: asking, epoch: epoch, after: s.granted}
		}
		at.owner, at.left = uint8(a+1), d.w.ttl(list)
		my.voted |= 1 << i
		if d.w.Tokens {
			at.counter = d.w.raise(at.counter, floor)
			switch {
			case at.counter > my.token:
				my.token, my.support = at.counter, 1<<i
			case at.counter == my.token:
				my.support |= 1 << i
			}
		} else {
			my.support = my.voted
		}
		dst = d.granted(dst, s, &to, step, a)
	}
	each := func(epoch uint8) {
		for i := range d.w.masters {
			if at := &s.masters[i]; d.w.listed(list, i) && votes(at, epoch, false) && at.owner == 0 && count(me.voted) < need && me.voted&(1<<i) == 0 && !d.suspect(s, i, list) {
				vote(i, epoch, 0)
				for _, floor := range d.w.Attempts[a].Floors {
					vote(i, epoch, floor)
				}
			}
		}
	}
	if me.phase == idle {
		d.epochs(s, list, each)
		return dst
	}
	each(me.epoch)
	if count(me.voted) < need {
		return dst
	}
	for i := range d.w.masters {
		if at := &s.masters[i]; me.voted&^me.support&(1<<i) != 0 && at.owner == uint8(a+1) && votes(at, me.epoch, false) {
			to := *s
			to.masters[i].counter = max(at.counter, me.token)
			to.attempts[a].support |= 1 << i
			dst = d.granted(dst, s, &to, Step{Kind: Confirm, Attempt: a, Master: i}, a)
		}
	}
	return dst
}

// raise is the counter after a vote with this proposal.
func (w *World) raise(counter uint8, floor int) uint8 {
	limit := tokenMinute // of the master's clock, which stands at 0
	if w.Ratchet {
		limit = max(limit, int(counter)+tokenMinute)
	}
	if floor > limit {
		floor = 0
	}
	return max(counter+1, uint8(floor))
}

// granted appends the step, by which the attempt may have won.
func (d *driver) granted(dst []transition, s, to *state, step Step, a int) []transition {
	my := &to.attempts[a]
	if count(my.support) >= d.w.quorum(d.w.Attempts[a].List) {
		step.wrong = d.twice(s, a)
		for o := range d.w.Attempts {
			if other := &s.attempts[o]; d.w.Tokens && o != a && other.won && other.token == my.token && step.wrong == "" {
				step.wrong = fmt.Sprintf("token %d is granted twice", my.token)
			}
		}
		if d.w.Tokens && my.token <= my.after && step.wrong == "" {
			step.wrong = fmt.Sprintf("token %d is granted to an attempt that began after token %d was granted", my.token, my.after)
		}
		my.phase, my.won, my.support = holding, true, 0
		to.granted = max(to.granted, my.token)
	}
	return d.add(dst, s, step, func(t *state) { *t = *to })
}

// extend appends what the holder of a lease may do: extend its votes, and put missing ones back.
//
// A vote on a quarantined master is put back and kept alive there, but it does not count. The master may have forgotten
// a vote for an attempt that is still counting it. What ships counts it: docs/internals/membership.md says on what that rests.
func (d *driver) extend(dst []transition, s *state, a int) []transition {
	me, list := &s.attempts[a], d.w.Attempts[a].List
	if int(me.extends) >= d.w.Attempts[a].Extends && me.extAge == 0 {
		return dst
	}
	there, missing := uint16(0), uint16(0)
	for i := range d.w.masters {
		at := &s.masters[i]
		switch {
		case !d.w.listed(list, i) || !votes(at, me.epoch, true) || at.owner != 0 && at.owner != uint8(a+1):
		case at.owner == 0 || at.state.phase == membership.Quarantined && !d.w.CountMended:
			missing |= 1 << i
		case !d.suspect(s, i, list) && me.mended&(1<<i) == 0:
			there |= 1 << i
		}
	}
	confirm := func(set uint16) {
		dst = d.add(dst, s, Step{Kind: Extend, Attempt: a, Set: set}, func(to *state) {
			my := &to.attempts[a]
			if my.extAge == 0 {
				my.extAge, my.extends = 1, my.extends+1
			}
			my.extended |= set
			for i := range d.w.masters {
				if set&(1<<i) != 0 {
					to.masters[i].left = d.w.ttl(list)
				}
			}
			if count(my.extended) >= d.w.quorum(list) {
				my.age, my.extAge, my.extended, my.mended = my.extAge-1, 0, 0, 0
			}
		})
	}
	for i := range d.w.masters {
		if d.w.Steps && there&^me.extended&(1<<i) != 0 {
			confirm(1 << i)
		}
		if missing&(1<<i) != 0 {
			dst = d.add(dst, s, Step{Kind: TopUp, Attempt: a, Master: i}, func(to *state) {
				to.masters[i].owner, to.masters[i].left = uint8(a+1), d.w.ttl(list)
				if me.extAge != 0 {
					to.attempts[a].mended |= 1 << i // it counts from the next round on
				}
			})
		}
	}
	for set := there; set != 0 && !d.w.Steps; set = (set - 1) & there {
		if count(set) == d.w.quorum(list) {
			confirm(set)
		}
	}
	return dst
}
