// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import "github.com/redlock-go/redlock/internal/membership"

func (d *driver) procFaults(dst []transition, s *state, p int) []transition {
	forget := func(to *state) {
		to.procs[p] = proc{whole: d.w.never(p)}
		if to.looking.proc == uint8(p+1) {
			to.looking = looking{}
		}
	}
	if s.left.kills > 0 {
		dst = d.add(dst, s, Step{Kind: Kill, Proc: p}, func(to *state) {
			to.left.kills--
			forget(to)
			to.procs[p].dead = d.w.Procs[p].Mortal
		})
	}
	if s.left.ownJumps > 0 {
		dst = d.add(dst, s, Step{Kind: OwnJump, Proc: p}, func(to *state) {
			to.left.ownJumps--
			if !d.w.Remember {
				forget(to)
				return
			}
			for range d.w.never(p) {
				to.procs[p].tick(d.w, p)
			}
		})
	}
	if d.w.Jumps > 0 && d.w.Procs[p].Goal == membership.Serve {
		dst = d.writeNotes(dst, s, p)
	}
	return dst
}

func (d *driver) masterFaults(dst []transition, s *state, i int) []transition {
	at := &s.masters[i]
	if s.left.losses > 0 && at.record != (record{}) {
		dst = d.add(dst, s, Step{Kind: Lose, Master: i}, func(to *state) {
			to.left.losses--
			to.masters[i] = master{down: at.down, jumped: at.jumped}
		})
	}
	if s.left.restarts > 0 && at.state.phase != membership.None {
		for _, old := range []bool{false, true} {
			dst = d.restart(dst, s, i, old)
		}
	}
	if at.down && !d.w.Gone {
		dst = d.add(dst, s, Step{Kind: Up, Master: i}, func(to *state) { to.masters[i].down = false })
	} else if !at.down && s.left.downs > 0 {
		dst = d.add(dst, s, Step{Kind: Down, Master: i}, func(to *state) {
			to.left.downs--
			to.masters[i].down = true
		})
	}
	if s.left.jumps > 0 && d.told(s, i) {
		dst = d.add(dst, s, Step{Kind: Jump, Master: i}, func(to *state) {
			to.left.jumps--
			to.masters[i].jumped++
			to.jumpStamps(i)
			to.masters[i].owner, to.masters[i].left = 0, 0
			for a := range to.attempts { // a client that waits for votes watches the clocks of its connections
				if me := &to.attempts[a]; me.phase == asking {
					me.voted &^= 1 << i
					me.support &^= 1 << i
				}
			}
		})
	}
	return dst
}

// restart brings master i back as another incarnation. It has forgotten its votes and what was promised last.
func (d *driver) restart(dst []transition, s *state, i int, old bool) []transition {
	first := d.w.start()
	if old && (first.masters[i].state == s.masters[i].state || first.masters[i].state.phase != membership.Voting) {
		return dst
	}
	return d.add(dst, s, Step{Kind: Restart, Master: i, Old: old}, func(to *state) {
		to.left.restarts--
		at := &to.masters[i]
		rs := at.state
		if old {
			rs = recordState{phase: membership.Voting, epoch: first.masters[i].state.epoch}
		}
		rs.stale = true
		at.record = record{state: rs}
		at.owner, at.left = 0, 0
		for k := range to.messages {
			if m := &to.messages[k]; m.master == uint8(i+1) {
				m.to.state.stale = true
				m.from.stale = m.from.phase != membership.None
			}
		}
	})
}
