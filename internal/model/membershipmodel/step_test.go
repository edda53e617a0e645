// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"slices"

	"github.com/redlock-go/redlock/internal/membership"
)

// Kind names a transition.
type Kind uint8

const (
	Tick      Kind = iota // time passes
	Look                  // a process looks and remembers; nothing is to be done
	Act                   // a process looks, decides and acts at once
	Post                  // a process looks and decides; the action is delayed
	Deliver               // a delayed action arrives
	Drop                  // a delayed action is lost
	Read                  // a process reads one master
	Lose                  // a master loses its record
	Restart               // a master restarts with an old record
	Down                  // a master is out of reach
	Up                    // it is back
	Kill                  // a process is killed
	OwnJump               // the clock of a process jumps
	Jump                  // the clock of a master jumps
	WriteNote             // a process writes a clock note
	Vote                  // a master votes for an attempt
	Confirm               // a master confirms the token of an attempt
	Hold                  // an attempt takes the lock in one step
	Extend                // a master extends a vote
	TopUp                 // a master takes the vote of a live lease
	kinds
)

// fault: the step is none that a machine without faults makes, or one of a lock's holder. What comes back must come
// back without it.
var fault = [kinds]bool{Post: true, Deliver: true, Drop: true, Lose: true, Restart: true, Down: true, Kill: true,
	OwnJump: true, Jump: true, Vote: true, Confirm: true, Hold: true, Extend: true, TopUp: true}

// naming: the step changes what names nonces and plans.
var naming = [kinds]bool{Look: true, Act: true, Post: true, Deliver: true, Drop: true, Read: true, Lose: true, Restart: true, Kill: true, OwnJump: true, WriteNote: true}

// Step is one transition. Fields that its Kind does not use are zero.
type Step struct {
	Kind    Kind
	Proc    int
	Attempt int
	Master  int
	Set     uint16 // Look, Act, Post: masters that were read; Hold, Extend: masters that voted
	Old     bool   // Restart: with the record state that the master began with
	Floor   int
	wrong   string // what is wrong with it
}

// Next appends all transitions from s to dst.
func (d *driver) Next(dst []transition, s *state) []transition {
	w := d.w
	dst = d.tick(dst, s)
	for p := range w.Procs {
		if s.procs[p].dead || w.Procs[p].Informed && !w.recorded(s) {
			continue
		}
		if w.Procs[p].Stepwise {
			dst = d.stepwise(dst, s, p)
		} else {
			d.looks(s, p, func(out decision, answered uint16) { dst = d.outcome(dst, s, p, out, answered) })
		}
		dst = d.procFaults(dst, s, p)
	}
	for k := range s.messages {
		if s.messages[k].master != 0 {
			dst = d.deliver(dst, s, k)
		}
	}
	for i := range w.masters {
		dst = d.masterFaults(dst, s, i)
	}
	for a := range w.Attempts {
		dst = d.attempt(dst, s, a)
	}
	return dst
}

// recorded: some master has a record.
func (w *World) recorded(s *state) bool {
	for i := range w.masters {
		if s.masters[i].state.phase != membership.None {
			return true
		}
	}
	return false
}

// add appends the transition to a copy of s that change makes, unless it leads nowhere.
func (d *driver) add(dst []transition, s *state, step Step, change func(*state)) []transition {
	dst = append(dst, transition{Step: step, To: *s})
	t := &dst[len(dst)-1]
	change(&t.To)
	if naming[step.Kind] {
		d.w.tidy(&t.To)
	}
	if t.To == *s && step.wrong == "" {
		return dst[:len(dst)-1]
	}
	return dst
}

func (d *driver) tick(dst []transition, s *state) []transition {
	return d.add(dst, s, Step{Kind: Tick}, func(to *state) {
		for i := range d.w.masters {
			at := &to.masters[i]
			if at.left > 0 {
				if at.left--; at.left == 0 {
					at.owner = 0
				}
			}
			if at.note.frame != 0 && at.note.age < noteAges {
				at.note.age++
			}
		}
		if d.w.Stamps {
			d.w.tickStamps(to)
		}
		for p := range d.w.Procs {
			if to.procs[p].tick(d.w, p); d.w.Procs[p].Brief {
				to.procs[p] = proc{whole: d.w.never(p)}
			}
		}
		for a := range d.w.Attempts {
			to.attempts[a].tick(d.w)
		}
		for i := range to.looking.reads {
			if r := &to.looking.reads[i]; to.looking.read&(1<<i) != 0 {
				if r.age++; r.age > d.w.never(int(to.looking.proc-1)) {
					to.looking = looking{}
					break
				}
			}
		}
	})
}

func (p *proc) tick(w *World, k int) {
	rate, wait, ttl := uint8(1), w.wait(w.Procs[k].List), w.ttl(w.Procs[k].List)
	if w.Procs[k].Fast {
		rate = 2
	}
	for i := range p.sights {
		v := &p.sights[i]
		if v.state == (recordState{}) || v.age > wait {
			continue
		}
		if v.age+rate < wait {
			v.age += rate
			continue
		}
		// From here on the age is only what the sight is worth.
		vouched := p.whole < v.age+ttl
		if v.age = wait; vouched {
			v.age++
		}
	}
	if p.doubt > 0 && p.doubt <= wait {
		p.doubt++
	}
	p.whole = min(p.whole+rate, w.never(k))
}

// outcome appends what may come of a decision.
func (d *driver) outcome(dst []transition, s *state, p int, out decision, answered uint16) []transition {
	blind := func(to *state) {
		to.looking = looking{}
		to.procs[p] = out.proc
		for i := range d.w.masters {
			if answered&(1<<i) == 0 && !s.masters[i].down && !d.w.Procs[p].Stepwise && !slices.Contains(d.w.Procs[p].Cut, i) {
				to.left.blind--
			}
		}
	}
	if !out.swap {
		return d.add(dst, s, Step{Kind: Look, Proc: p, Set: answered}, blind)
	}
	if e := max(out.message.to.state.epoch, out.plan.target); d.w.Numbers > 0 && d.w.unpackEpoch(e).Number > int64(d.w.Numbers) {
		return dst
	}
	m := out.message
	step := Step{Kind: Act, Proc: p, Master: int(m.master - 1), Set: answered}
	if len(d.w.Procs) == 0 || !s.masters[m.master-1].down {
		dst = d.add(dst, s, step, func(to *state) {
			if d.make(to, &out, &m) {
				blind(to)
				d.arrive(to, &m)
			}
		})
	}
	if d.late(s) && (d.w.Posts == 0 || s.left.posts > 0) {
		step.Kind = Post
		dst = d.add(dst, s, step, func(to *state) {
			if !d.make(to, &out, &m) {
				return
			}
			blind(to)
			for k := range to.messages {
				if to.messages[k].master == 0 {
					to.messages[k] = m
					break
				}
			}
			if d.w.Posts > 0 {
				to.left.posts--
			}
		})
	}
	return dst
}

func b2u(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// late: one more action may be delayed.
func (d *driver) late(s *state) bool {
	n := 0
	for k := range s.messages {
		if s.messages[k].master != 0 {
			n++
		}
	}
	return n < d.w.Late
}

// make puts the plan of a decision among the plans and names it in the message. Where there are too many plans the
// step is left out, and counted.
func (d *driver) make(to *state, out *decision, m *message) bool {
	if !out.made {
		return true
	}
	k := 0
	for k < maxPlans && to.plans[k].round != 0 {
		k++
	}
	if k == maxPlans {
		d.cut++
		return false
	}
	to.plans[k] = out.plan
	for _, p := range []*uint8{&m.to.state.plan, &m.to.intent, &m.to.plan} {
		if *p == newPlan {
			*p = uint8(k + 1)
		}
	}
	return true
}

// arrive executes a compare-and-set.
func (d *driver) arrive(to *state, m *message) {
	at := &to.masters[m.master-1]
	if !d.fits(at, m) {
		return
	}
	was := at.record
	to.leaps += b2u(m.leap)
	at.record = m.to
	at.counter = max(was.counter, m.to.counter)
	if !m.setPlan {
		at.plan = was.plan
	}
	if at.note = was.note; m.setNote {
		to.setNote(int(m.master-1), m.to.note)
	}
}

func (d *driver) fits(at *master, m *message) bool {
	if at.state == m.from && at.intent == m.pledged {
		return true
	}
	// A driver that follows sets the record state from whatever stands there of the same epoch, and from nothing.
	return d.w.Follow && (at.state.phase == membership.None || at.state.phase == membership.Quarantined && at.state.epoch == m.to.state.epoch)
}

func (d *driver) deliver(dst []transition, s *state, k int) []transition {
	m := s.messages[k]
	i := int(m.master - 1)
	if !s.masters[i].down {
		dst = d.add(dst, s, Step{Kind: Deliver, Master: i, Set: uint16(k)}, func(to *state) {
			to.messages[k] = message{}
			d.arrive(to, &m)
		})
	}
	return d.add(dst, s, Step{Kind: Drop, Master: i, Set: uint16(k)}, func(to *state) { to.messages[k] = message{} })
}
