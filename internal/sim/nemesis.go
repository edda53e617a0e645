// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/node/nodetest"
)

// fault is one thing that goes wrong for a while: begin it, heal it.
type fault struct {
	nemesis string
	detail  string
	heal    func()
	target  string        // the master whose clock was set back, if one was
	ahead   time.Duration // by how much: what had a TTL there before lasts so much longer
}

func goesWrong(nemesis, detail string, heal func()) fault {
	return fault{nemesis: nemesis, detail: detail, heal: heal}
}

// running is a fault that is at work.
type running struct {
	fault
	at  int64
	end time.Time
}

// striker is what strikes, and when.
type striker struct {
	w      *world
	rnd    *rand.Rand
	old    []*nodetest.Data // what the forgetful masters once had
	names  []string
	due    []string // each strikes once before any strikes twice
	next   time.Time
	faults []running
}

// nemesis makes something go wrong every few hundred milliseconds, often while something else still is, until stop is
// closed; then it heals all.
func (w *world) nemesis(stop <-chan struct{}) {
	n := &striker{w: w, rnd: w.rand("nemesis")}
	for _, i := range w.forgetful {
		n.old = append(n.old, w.masters[i].Snapshot())
	}
	if n.names = w.struck(); len(n.names) == 0 {
		return
	}
	n.due = slices.Compact(slices.Clone(n.names))
	n.rnd.Shuffle(len(n.due), func(i, j int) { n.due[i], n.due[j] = n.due[j], n.due[i] })
	for n.next = time.Now(); ; {
		done := n.wait(stop)
		if n.heal(done); done {
			return
		}
		if !n.next.After(time.Now()) {
			n.strike()
		}
	}
}

// wait waits until a fault ends or the next one is due. It reports whether stop was closed meanwhile.
func (n *striker) wait(stop <-chan struct{}) bool {
	at := n.next
	for _, f := range n.faults {
		if f.end.Before(at) {
			at = f.end
		}
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-stop:
		return true
	}
}

// heal ends and records the faults whose time is over, or all.
func (n *striker) heal(all bool) {
	keep := n.faults[:0]
	for _, f := range n.faults {
		if !all && f.end.After(time.Now()) {
			keep = append(keep, f)
			continue
		}
		f.heal()
		n.w.mu.Lock()
		record := history.Fault{Nemesis: f.nemesis, Start: f.at, End: n.w.now(), Detail: f.detail, Ahead: f.ahead}
		if f.target != "" {
			record.Targets = []string{f.target}
		}
		n.w.h.Faults = append(n.w.h.Faults, record)
		n.w.stats.Faults++
		n.w.mu.Unlock()
	}
	n.faults = keep
}

// strike begins a fault, and draws when it ends and when the next one begins.
func (n *striker) strike() {
	w, rnd := n.w, n.rnd
	for j, i := range w.forgetful {
		if rnd.IntN(4) == 0 {
			n.old[j] = w.masters[i].Snapshot()
		}
	}
	j := rnd.IntN(len(w.forgetful))
	name := n.names[rnd.IntN(len(n.names))]
	if len(n.due) > 0 {
		name, n.due = n.due[0], n.due[1:]
	}
	f := w.strike(name, rnd, w.forgetful[j], n.old[j])
	if w.cfg.Progress != nil {
		w.cfg.Progress(time.Since(w.start), w.stats.Faults)
	}
	lasts := time.Duration(rnd.Int64N(int64(w.cfg.Lasts)))
	if name == frozenStep {
		lasts += frozenFor
	}
	n.faults = append(n.faults, running{f, w.now(), time.Now().Add(lasts)})
	mean := w.cfg.Pace
	if len(n.due) > 0 { // soon enough for all of them
		mean = min(mean, w.cfg.Duration/time.Duration(3*len(w.cfg.Nemeses)))
	}
	n.next = time.Now().Add(time.Duration(rnd.ExpFloat64() * float64(mean)))
}

// always notes what goes wrong all the time, a little here and there, rather than at once and for a while.
func (w *world) always() {
	for _, f := range []history.Fault{
		{Nemesis: "freeze-client", Detail: "one holder in fifty stops for about a TTL, and works on without a look at its lease"},
		{Nemesis: "reorder", Detail: "one command in a thousand is held back, and six in a thousand are late"},
		{Nemesis: "cut-replies", Detail: "of a thousand commands one is executed without a reply, and one is lost"},
		{Nemesis: "skew-clocks", Detail: "a minority of the masters has clocks at 0.5 to 2 times their rate"},
	} {
		if w.cfg.does(f.Nemesis) {
			f.End = w.now()
			w.h.Faults = append(w.h.Faults, f)
			w.stats.Faults++
		}
	}
}

// struck is the nemeses of the run that strike now and then, most of them equally often.
func (w *world) struck() []string {
	var names []string
	for _, name := range w.cfg.Nemeses {
		switch name {
		case "freeze-client", "reorder", "cut-replies", "skew-clocks":
		case "kill-majority": // costs a whole wait
			names = append(names, name)
		default:
			names = append(names, name, name, name, name)
		}
	}
	if w.cfg.Messages {
		names = append(names, slices.Repeat([]string{badMessages}, 8)...)
	}
	if w.cfg.Steps {
		names = append(names, slices.Repeat([]string{frozenStep}, 8)...)
	}
	return names
}

// strike lets one thing go wrong. forgetful is a master that may lose its data, old what it once had.
func (w *world) strike(nemesis string, rnd *rand.Rand, forgetful int, old *nodetest.Data) fault {
	i := rnd.IntN(len(w.masters))
	any := w.masters[i]
	victim := w.masters[forgetful]
	nothing := func() {}
	switch nemesis {
	case "kill-minority":
		any.Crash()
		return goesWrong(nemesis, any.Name()+" killed, data kept", any.Restart)
	case "kill-majority":
		for _, m := range w.masters {
			m.Crash()
		}
		return goesWrong(nemesis, "all killed, data kept", func() {
			for _, m := range w.masters {
				m.Restart()
			}
		})
	case "wipe-minority":
		victim.Crash()
		victim.Flush()
		return goesWrong(nemesis, victim.Name()+" killed, data lost", victim.Restart)
	case "freeze-masters":
		any.Pause()
		return goesWrong(nemesis, any.Name()+" stopped", any.Resume)
	case "kill-client":
		return w.killClient(rnd)
	case "partition":
		return w.partition(rnd)
	case "slow-replies":
		return w.slowReplies(rnd, i)
	case "flush-data":
		victim.Flush()
		return goesWrong(nemesis, victim.Name()+" flushed", nothing)
	case "fail-over":
		victim.Crash()
		victim.Promote(old)
		return goesWrong(nemesis, victim.Name()+" replaced by a replica that was behind", victim.Restart)
	case "delete-lock":
		return w.deleteLock(rnd)
	case "misconfigure":
		return w.stranger(rnd)
	case frozenStep:
		return w.frozenStep(rnd)
	case badMessages:
		return w.badMessages(rnd)
	case "step-clock":
		return stepClock(any, rnd)
	default: // suspend-client
		m := w.members[rnd.IntN(len(w.members))]
		jump := time.Duration(rnd.Int64N(int64(2 * w.cfg.MaxTTL)))
		m.clock.jumped.Add(int64(jump))
		return goesWrong("suspend-client", fmt.Sprintf("client %d suspended for %v", m.id, jump), nothing)
	}
}

// stepClock steps the clock of a master, for good.
func stepClock(m *nodetest.Master, rnd *rand.Rand) fault {
	step := time.Duration(rnd.Int64N(int64(time.Minute))) - 30*time.Second
	m.StepClock(step)
	f := goesWrong("step-clock", fmt.Sprintf("clock of %s stepped by %v", m.Name(), step), func() {})
	if step < 0 {
		f.target, f.ahead = m.Name(), -step
	}
	return f
}

// slowReplies makes the way to master i slow.
func (w *world) slowReplies(rnd *rand.Rand, i int) fault {
	var wires []*wire
	for _, m := range w.members {
		wires = append(wires, m.wires[i])
	}
	slow := time.Duration(rnd.Int64N(int64(30 * time.Millisecond)))
	return setAll(wires, "slow-replies", fmt.Sprintf("%s slow by %v", w.masters[i].Name(), slow), func(x *wire) { x.slow = slow }, func(x *wire) { x.slow = 0 })
}

// deleteLock deletes one lock on some masters.
func (w *world) deleteLock(rnd *rand.Rand) fault {
	l, of := w.locks[rnd.IntN(len(w.locks))].name, rnd.Perm(len(w.masters))[:1+rnd.IntN(len(w.masters))]
	for _, i := range of {
		_ = w.masters[i].Do(func(db *nodetest.DB) { db.Del(l) })
	}
	return goesWrong("delete-lock", fmt.Sprintf("%s deleted on masters %v", l, of), func() {})
}

// frozenStep is the name of the fault that Config.Steps adds. Its nemesis is step-clock.
const frozenStep = "a clock steps in a frozen master"

// frozenFor is longer than clients wait for an answer: no vote that a master gives in the milliseconds before its clock steps is counted
// (docs/safety.md, section 1).
const frozenFor = 100 * time.Millisecond

// frozenStep freezes a master that votes, and moves its clock before it goes on. If a master does not vote, or the last step is not long
// over, it freezes the master only: no two clocks may step at once.
func (w *world) frozenStep(rnd *rand.Rand) fault {
	m := w.masters[rnd.IntN(len(w.masters))]
	m.Pause()
	by := time.Second + time.Duration(rnd.Int64N(int64(30*time.Second)))
	if rnd.IntN(4) == 0 {
		by = -min(by, 2*time.Second)
	}
	if time.Since(w.stepped) < 4*w.cfg.MaxTTL || !w.allVote() {
		return goesWrong("freeze-masters", m.Name()+" stopped", m.Resume)
	}
	w.stepped = time.Now()
	return goesWrong("step-clock", fmt.Sprintf("%s stopped, and its clock stepped by %v", m.Name(), by), func() {
		m.StepClock(by)
		m.Resume()
	})
}

// badMessages is the name of the fault that Config.Messages adds. Its nemesis is reorder.
const badMessages = "messages are late or lost"

// lateMost is how late a message is at most. A waiter that is next asks again by then, and what it was handed before does not count.
const lateMost = 2 * time.Second

// badMessages has the messages to one client come late from all masters, by the same time, or not at all from some. A message that is lost takes all that follow it
// on its connection with it. Where they are late the client's own commands are lost, in half of the cases, from its next extend on.
func (w *world) badMessages(rnd *rand.Rand) fault {
	m := w.members[rnd.IntN(len(w.members))]
	if rnd.IntN(3) > 0 {
		late, dumb := time.Duration(rnd.Int64N(int64(lateMost))), rnd.IntN(2) == 0
		return setAll(m.wires, "reorder", fmt.Sprintf("messages to client %d late by %v, commands from its next extend on lost: %v", m.id, late, dumb),
			func(x *wire) { x.late, x.dumb = late, dumb }, func(x *wire) { x.late, x.dumb, x.cut = 0, false, x.cut && !x.dumb })
	}
	var wires []*wire
	of := rnd.Perm(len(w.masters))[:1+rnd.IntN(len(w.masters))]
	for _, i := range of {
		wires = append(wires, m.wires[i])
	}
	return setAll(wires, "reorder", fmt.Sprintf("messages of masters %v to client %d lost", of, m.id),
		func(x *wire) { x.unheard = true }, func(x *wire) { x.unheard = false })
}

// allVote says whether the record of every master says that it votes.
func (w *world) allVote() bool {
	for i := range w.masters {
		if rs, err := membership.ParseRecordState(w.recordState(i)); err != nil || rs.Phase != membership.Voting {
			return false
		}
	}
	return true
}

// recordState is what the record of a master says.
func (w *world) recordState(i int) (text string) {
	_ = w.masters[i].Do(func(db *nodetest.DB) { text, _ = db.HGet(w.recordKey(), membership.FieldState) })
	return text
}

// partition cuts one client, or all, from some masters, or each client from a minority of its own. In the last case everybody still gets
// locks, with bare quorums that have few masters in common.
func (w *world) partition(rnd *rand.Rand) fault {
	if rnd.IntN(3) == 0 {
		return w.bareQuorums(rnd)
	}
	masters := rnd.Perm(len(w.masters))[:1+rnd.IntN(len(w.masters))]
	members := w.members
	if rnd.IntN(2) == 0 {
		members = []*member{members[rnd.IntN(len(members))]}
	}
	var wires []*wire
	for _, m := range members {
		for _, i := range masters {
			wires = append(wires, m.wires[i])
		}
	}
	return setAll(wires, "partition", fmt.Sprintf("%d clients cut from masters %v", len(members), masters),
		func(x *wire) { x.cut = true }, func(x *wire) { x.cut = false })
}

// bareQuorums cuts each client from a minority of its own.
func (w *world) bareQuorums(rnd *rand.Rand) fault {
	var wires []*wire
	for _, m := range w.members {
		for _, i := range rnd.Perm(len(w.masters))[:(len(w.masters)-1)/2] {
			wires = append(wires, m.wires[i])
		}
	}
	return setAll(wires, "partition", "each client cut from a minority of its own",
		func(x *wire) { x.cut = true }, func(x *wire) { x.cut = false })
}

func setAll(wires []*wire, nemesis, detail string, on, off func(*wire)) fault {
	for _, x := range wires {
		x.set(on)
	}
	return goesWrong(nemesis, detail, func() {
		for _, x := range wires {
			x.set(off)
		}
	})
}
