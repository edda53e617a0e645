// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/membership"
)

// Path is a run of a World.
type Path struct {
	World  *World
	Steps  []Step
	states []state // before each step, and after the last
}

// String tells the path as a story, one line a step. An epoch is called by number and list, as 1A. A nonce keeps its
// name, as n7, as long as the story goes.
func (p Path) String() string {
	var b strings.Builder
	t := teller{w: p.World}
	for i := range p.World.masters {
		if p.states[0].masters[i].state.nonce != 0 {
			t.labels[i] = t.label()
		}
	}
	for i, step := range p.Steps {
		before := t
		t.follow(step, &p.states[i], &p.states[i+1])
		fmt.Fprintf(&b, "%3d. %s\n", i+1, tellStep(&before, &t, step, &p.states[i], &p.states[i+1]))
	}
	return b.String()
}

// teller knows what the nonces of one state are called in the story. In the states their numbers change.
type teller struct {
	w       *World
	labels  [maxMasters]int  // of the masters' record states
	delayed [maxMessages]int // of the record states that delayed actions set
	last    int
}

func (t *teller) label() int {
	t.last++
	return t.last
}

// follow finds what nonces are called after a step.
func (t *teller) follow(step Step, s, to *state) {
	old := *t
	for i := range t.w.masters {
		switch rs := to.masters[i].state; {
		case rs.nonce == 0:
			t.labels[i] = 0
		case step.Kind == Deliver && i == step.Master && s.masters[i].state != rs:
			t.labels[i] = old.delayed[step.Set]
		case step.Kind == Act && i == step.Master && !promises(&s.masters[i].record, &to.masters[i].record) && (s.masters[i].state.shape() != rs.shape() || s.masters[i].state.nonce == 0):
			t.labels[i] = t.label()
		}
	}
	t.delayed = [maxMessages]int{}
	for k := range to.messages {
		m := &to.messages[k]
		for o := range s.messages {
			gone := (step.Kind == Deliver || step.Kind == Drop) && o == int(step.Set)
			if n := &s.messages[o]; !gone && n.master == m.master && n.to.state.shape() == m.to.state.shape() && !slices.Contains(t.delayed[:], old.delayed[o]) {
				t.delayed[k] = old.delayed[o]
				break
			}
		}
		if m.to.state.nonce != 0 && t.delayed[k] == 0 {
			t.delayed[k] = t.label()
		}
	}
}

func (t *teller) epoch(k uint8) string {
	if k == 0 {
		return "none"
	}
	return fmt.Sprintf("%d%s", t.w.unpackEpoch(k).Number, t.w.Lists[t.w.listOf(k)].Name)
}

func (t *teller) master(i int) string { return t.w.masters[i].Name }

func (t *teller) masters(set uint16) string {
	var names []string
	for i := range t.w.masters {
		if set&(1<<i) != 0 {
			names = append(names, t.master(i))
		}
	}
	return strings.Join(names, " ")
}

// recordState tells a record state of master i, whose nonce has this label.
func (t *teller) recordState(s *state, rs recordState, label int) string {
	text := "empty"
	switch rs.phase {
	case membership.Quarantined:
		text = fmt.Sprintf("R n%d of %s", label, t.epoch(rs.epoch))
		if rs.whole {
			text = fmt.Sprintf("R n%d of %s, whole", label, t.epoch(rs.epoch))
		}
	case membership.Voting:
		text = "V of " + t.epoch(rs.epoch)
	case membership.Retired:
		text = fmt.Sprintf("X n%d of %s for %s", label, t.epoch(rs.epoch), t.ballot(s, rs.plan))
	}
	if rs.stale {
		text += " of another incarnation"
	}
	return text
}

func (t *teller) ballot(s *state, k uint8) string {
	if k == 0 {
		return "no ballot"
	}
	return fmt.Sprintf("ballot %d", s.plans[k-1].round)
}

// plan tells a ballot with what it proposes.
func (t *teller) plan(s *state, k uint8) string {
	p := &s.plans[k-1]
	if p.target == 0 {
		return t.ballot(s, k) + " (cancel)"
	}
	begin := ""
	for i, n := range p.begin {
		switch {
		case n == gone:
			begin += fmt.Sprintf(", %s with a nonce that is gone", t.master(i))
		case n != 0 && n == s.masters[i].state.nonce:
			begin += fmt.Sprintf(", %s with n%d", t.master(i), t.labels[i])
		}
	}
	return fmt.Sprintf("%s (to %s%s)", t.ballot(s, k), t.epoch(p.target), begin)
}

// tellStep tells one step. before and after know the names in the states s and to.
func tellStep(before, after *teller, step Step, s, to *state) string {
	m := after.master(step.Master)
	switch step.Kind {
	case Tick:
		return "a tick passes" + after.ended(s, to)
	case Look, Act, Post, Read, WriteNote, Kill, OwnJump:
		return tellProc(before, after, step, s, to)
	case Deliver:
		at := &to.masters[step.Master]
		if s.masters[step.Master].record == at.record {
			return "the delayed action reaches " + m + " and is refused"
		}
		return fmt.Sprintf("the delayed action reaches %s: it is %s", m, after.recordState(to, at.state, after.labels[step.Master]))
	case Drop:
		return "the delayed action for " + m + " is lost"
	case Lose:
		return m + " loses its record and its votes"
	case Restart:
		return fmt.Sprintf("%s restarts: it is %s, and has forgotten its votes", m, after.recordState(to, to.masters[step.Master].state, after.labels[step.Master]))
	case Down:
		return m + " is out of reach"
	case Up:
		return m + " is back in reach"
	case Jump:
		return "the clock of " + m + " jumps, its votes expire"
	}
	return after.tellAttempt(step, to)
}

func tellProc(before, after *teller, step Step, s, to *state) string {
	w := after.w
	proc, i := &w.Procs[step.Proc], step.Master
	who, m := proc.what()+" "+proc.Name, after.master(i)
	if blind := w.reachable(s) &^ step.Set; blind != 0 && step.Kind <= Post && !proc.Stepwise {
		who += " (which does not reach " + after.masters(blind) + ")"
	}
	switch step.Kind {
	case Look:
		if to.procs[step.Proc].whole == 0 && s.procs[step.Proc].whole != 0 {
			return who + " looks, and sees a quorum vote"
		}
		return who + " looks"
	case Act:
		return fmt.Sprintf("%s: %s", who, tellSwap(before, after, i, s, to, &to.masters[i].record, after.labels[i]))
	case Post:
		for k := range to.messages {
			if g := &to.messages[k]; g.master == uint8(i+1) && (after.delayed[k] == 0 || !slices.Contains(before.delayed[:], after.delayed[k])) {
				return fmt.Sprintf("%s: %s; but that is delayed", who, tellSwap(before, after, i, s, to, &g.to, after.delayed[k]))
			}
		}
		return who + " decides something about " + m + ", which will be refused"
	case Read:
		return fmt.Sprintf("%s reads %s: it is %s", who, m, before.recordState(s, s.masters[i].state, before.labels[i]))
	case WriteNote:
		return who + " writes a clock note of " + m
	case Kill:
		if proc.Mortal {
			return who + " is killed, and nobody goes on"
		}
		return who + " is killed; another process goes on, which remembers nothing"
	}
	return "the clock of " + who + " jumps"
}

func (p *Proc) what() string {
	switch p.Goal {
	case membership.Serve:
		return "client"
	case membership.Init:
		return "init"
	case membership.Change:
		return "change"
	}
	return "cancel"
}

// tellSwap tells what a compare-and-set of master i does.
func tellSwap(before, after *teller, i int, s, to *state, r *record, label int) string {
	m, was := after.master(i), &s.masters[i].record
	is := before.recordState(s, was.state, before.labels[i])
	switch rs := r.state; {
	case promises(was, r):
		return fmt.Sprintf("%s is %s and promises %s", m, is, after.plan(to, r.intent))
	case rs.phase == membership.Quarantined && r.stamped != 0 && rs == was.state:
		return fmt.Sprintf("%s is %s; stamps it", m, is)
	case rs.phase == membership.Quarantined && rs.whole:
		return fmt.Sprintf("%s is %s and its clock moved; it is R n%d, whole", m, is, label)
	case rs.phase == membership.Quarantined:
		return fmt.Sprintf("%s is %s; claims it for %s (R n%d)", m, is, after.epoch(rs.epoch), label)
	case rs.phase == membership.Retired:
		return fmt.Sprintf("%s is %s; retires it for %s (X n%d)", m, is, after.ballot(to, rs.plan), label)
	default:
		return fmt.Sprintf("%s is %s; lets it vote in %s", m, is, after.epoch(rs.epoch))
	}
}

// promises: the compare-and-set changes the intent alone. A master that is retired has the intent for which it was.
func promises(was, to *record) bool {
	rs := &to.state
	same := rs.phase == was.state.phase && rs.epoch == was.state.epoch && !was.state.stale
	return same && (rs.phase == membership.Voting || rs.phase == membership.Retired && to.intent != rs.plan)
}

func (t *teller) tellAttempt(step Step, to *state) string {
	who, m := t.w.Attempts[step.Attempt].Name, t.master(step.Master)
	me := &to.attempts[step.Attempt]
	held := ""
	if me.phase == holding {
		held = "; " + who + " HOLDS the lock"
		if t.w.Tokens {
			held += fmt.Sprintf(" with token %d", me.token)
		}
	}
	switch step.Kind {
	case Vote:
		if t.w.Tokens {
			return fmt.Sprintf("%s votes for %s, its counter is %d%s", m, who, to.masters[step.Master].counter, held)
		}
		return fmt.Sprintf("%s votes for %s%s", m, who, held)
	case Confirm:
		return fmt.Sprintf("%s confirms token %d of %s%s", m, me.token, who, held)
	case Hold:
		return fmt.Sprintf("%s asks %s, which vote in %s%s", who, t.masters(step.Set), t.epoch(me.epoch), held)
	case Extend:
		return fmt.Sprintf("%s extends its votes on %s", who, t.masters(step.Set))
	}
	return fmt.Sprintf("%s puts its vote back on %s", who, m)
}

// ended tells which leases a tick ended.
func (t *teller) ended(s, to *state) string {
	text := ""
	for a := range t.w.Attempts {
		if s.attempts[a].phase == holding && to.attempts[a].phase == over {
			text += "; the lease of " + t.w.Attempts[a].Name + " ends"
		}
	}
	return text
}
