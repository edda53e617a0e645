// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/votesmodel"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Model is the world of a Config as the explorer wants it. It is not safe for concurrent use.
type Model struct {
	Config
	quorum  quorum.Masters
	lock    *protocol.Lock
	clients [processes]string
	ids     [processes][]string // of holders, by process and attempt
	sent    []sent              // by calls, in this step
	voted   bool                // a call has told of a vote, in this step
	freed   uint64
	rests   map[waiting.Machine]uint64
	seeds   [2]maphash.Seed
	buf     []byte
	parts   [masters][]byte
}

// New returns a model.
func New(c Config) *Model {
	m := &Model{Config: c, lock: protocol.NewLock("x", protocol.Plain), rests: map[waiting.Machine]uint64{}}
	m.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	m.quorum = quorum.Masters{Need: need, All: all, Clock: still{}}
	for i := range masters {
		m.quorum.Nodes = append(m.quorum.Nodes, node{m: m, i: i})
	}
	for k := range processes {
		m.clients[k] = fmt.Sprintf("0000000%d-0000-8000-8000-000000000000", k)
		for gen := range c.Attempts + 1 {
			m.ids[k] = append(m.ids[k], fmt.Sprintf("%s:%d", m.clients[k], gen))
		}
	}
	return m
}

// still is the clock of the calls, in which an answer is as old as when it came: what time does is in the world's own clock.
type still struct{ clock.Clock }

func (still) Elapsed() time.Duration { return 0 }

type move = explore.Move[*world, Step]

// Starts is the beginning: all callers are in their lines, and nobody has asked.
func (m *Model) Starts() []*world {
	w := &world{}
	for i := range masters {
		w.masters[i] = votesmodel.NewMaster("x")
		w.masters[i].State = state
		for k := range m.Lines {
			w.masters[i].Hears[m.clients[k]] = true
		}
	}
	for k, n := range m.Lines {
		w.procs[k].machine = waiting.NewMachine(all)
		w.procs[k].line = int8(n)
		r := m.run(w, k)
		if m.Brief {
			r.next(waiting.Event{Kind: waiting.ReleasedHere})
		}
		r.turn()
		m.settleDown(w)
	}
	return []*world{w}
}

func (m *Model) run(w *world, k int) *run { return &run{m: m, w: w, p: &w.procs[k], k: k} }

// settleDown lets callers that were woken run, unless they may dally.
func (m *Model) settleDown(w *world) {
	for k := range m.Lines {
		p := &w.procs[k]
		r := m.run(w, k)
		for i := 0; !m.Dally && p.runs() && !w.cut; i++ {
			r.wakes()
			r.goesOn()
			if i > 50 {
				w.wrong = "a caller runs for ever"
				return
			}
		}
	}
}

// Next appends every move that is possible in s.
func (m *Model) Next(dst []move, s **world) []move {
	w := *s
	if w.cut || w.wrong != "" {
		return dst
	}
	for k := range m.Lines {
		for i := range masters {
			dst = m.between(dst, w, k, i)
		}
		dst = m.inside(dst, w, k)
	}
	if w.may(ticks, m.Ticks) {
		dst = append(dst, m.move(w, Step{Kind: Ticks}))
	}
	for i := range masters {
		if w.may(jumps, m.Jumps) {
			dst = append(dst, m.move(w, Step{Kind: Jumps, I: int8(i)}))
		}
	}
	return dst
}

// may says whether something that goes wrong may do so once more.
func (w *world) may(budget, most int) bool { return int(w.used[budget]) < most }

// between appends what may happen between a process and a master.
func (m *Model) between(dst []move, w *world, k, i int) []move {
	p := &w.procs[k]
	add := func(kind StepKind, possible bool) {
		if possible {
			dst = append(dst, m.move(w, Step{kind, int8(k), int8(i)}))
		}
	}
	ops, told := len(p.lanes[i]), len(p.told[i]) > 0
	add(Executes, ops > 0)
	add(Breaks, ops > 0 && w.may(cuts, m.Cuts))
	add(BreaksLate, ops > 0 && w.may(cuts, m.Cuts))
	add(Overtakes, ops > 1 && m.Drop == Order)
	add(Answers, len(p.back[i]) > 0)
	add(Hears, told)
	add(Loses, told && w.may(lost, m.Lost))
	add(HearsTwice, told && w.may(twice, m.Twice))
	return dst
}

// inside appends what may happen in a process.
func (m *Model) inside(dst []move, w *world, k int) []move {
	p := &w.procs[k]
	add := func(kind StepKind, possible bool) {
		if possible {
			dst = append(dst, m.move(w, Step{kind, int8(k), 0}))
		}
	}
	holds, waits := p.hold.call != nil, p.line > 0
	add(Runs, m.Dally && p.runs())
	add(Moment, p.timer == 1)
	add(Timer, p.timer == 2)
	add(Unlocks, holds)
	add(UnlocksLate, holds && waits)
	add(GivesUp, waits && w.may(cancels, m.Cancels))
	add(Dies, (waits || holds) && w.may(crashes, m.Crashes))
	add(Lives, waits && p.signed < w.now)
	return dst
}

// runs says whether the caller whose turn it is was woken.
func (p *process) runs() bool {
	return p.woken && p.line > 0 && (p.stage == sleeping || p.stage == asking)
}

// move makes a step.
func (m *Model) move(from *world, s Step) move {
	w := new(world)
	*w = *from
	k, i := int(s.P), int(s.I)
	r := m.run(w, k)
	p := r.p
	switch s.Kind {
	case Executes, BreaksLate, Breaks:
		if s.Kind == Breaks {
			m.breaks(w, k, i)
		} else {
			m.executes(w, k, i, s.Kind == BreaksLate)
		}
		for m.Prompt && len(p.back[i]) > 0 {
			r.answers(i)
		}
	case Overtakes:
		p.lanes[i] = slices.Clone(p.lanes[i])
		p.lanes[i][0], p.lanes[i][1] = p.lanes[i][1], p.lanes[i][0]
	case Answers:
		r.answers(i)
	case Hears:
		text := p.told[i][0]
		p.told[i] = p.told[i][1:]
		r.hears(i, text)
	case HearsTwice:
		w.used[twice]++
		r.hears(i, p.told[i][0])
	case Loses:
		w.used[lost]++
		w.hurt = true
		p.told[i] = p.told[i][1:]
	case Runs:
		r.wakes()
		r.goesOn()
	case Moment, Timer:
		p.timer = 0
		if m.Drop != Asks || s.Kind == Moment {
			r.next(waiting.Event{Kind: waiting.Timer})
		}
	case Unlocks:
		r.unlocks(w.now)
	case UnlocksLate:
		r.unlocks(w.now + ttl)
	case GivesUp:
		w.used[cancels]++
		r.givesUp()
	default:
		m.fault(w, s)
	}
	m.settleDown(w)
	return move{Step: s, To: w}
}

// holders is how many hold the lock.
func (w *world) holders() (n int) {
	for k := range w.procs {
		if h := &w.procs[k].hold; h.call != nil && w.now < h.until {
			n++
		}
	}
	return n
}

// Holders is holders for the explorer.
func (m *Model) Holders(s **world) int { return (*s).holders() }

// idle says whether nobody wants or has the lock, and nothing is on its way to a master.
func (w *world) idle() bool {
	for k := range w.procs {
		p := &w.procs[k]
		if p.line > 0 || p.hold.call != nil {
			return false
		}
		for i := range masters {
			if len(p.lanes[i]) > 0 || len(p.told[i]) > 0 || slices.ContainsFunc(p.back[i], func(a answer) bool { return a.release != nil }) {
				return false
			}
		}
	}
	return true
}

// Judge says what is wrong with a move.
func (m *Model) Judge(_ **world, mv *move) string {
	w := mv.To
	switch {
	case w.wrong != "":
		return w.wrong
	case w.holders() > 1:
		return "two hold the lock"
	case m.Still && !m.Live(&mv.To) && !m.goesOn(w):
		return deadEnd
	case m.outlives(w):
		return "a process died while it waited, and its votes outlive its sign of life"
	case w.idle() && w.used[crashes] == 0:
		for i := range masters {
			if !w.masters[i].Clean() {
				return fmt.Sprintf("nobody wants the lock, and something is left on m%d", i)
			}
		}
	}
	return ""
}

// deadEnd is what is wrong with a world in which waiting does not end by itself.
const deadEnd = "the lock is free, somebody waits, and only a timer helps"

// byItself are the steps that need no luck: not the long timer, and nothing that goes wrong.
func byItself(s *Step) bool { return s.Kind < Timer }

// goesOn says whether anything happens by itself.
func (m *Model) goesOn(w *world) bool {
	return slices.ContainsFunc(m.Next(nil, &w), func(mv move) bool { return byItself(&mv.Step) })
}

// Live says whether somebody has the lock, or nobody waits for it. A process that died with votes has them until they end.
func (m *Model) Live(s **world) bool {
	w := *s
	waits := false
	for k := range m.Lines {
		p := &w.procs[k]
		if p.hold.call != nil || p.death.voted {
			return true
		}
		waits = waits || p.line > 0
	}
	return !waits || w.cut
}

// unserved is what is wrong with a world in which somebody waits for ever once nothing goes wrong any more.
const unserved = "somebody is not served, though nothing goes wrong any more"

// rightly are the steps that are no fault: time passes, timers fire, and living processes give signs of life.
func rightly(s *Step) bool { return s.Kind <= Lives }

// Served says whether nobody waits. Each caller wants the lock once.
func (m *Model) Served(s **world) bool {
	return (*s).cut || !slices.ContainsFunc((*s).procs[:], func(p process) bool { return p.line > 0 })
}

// waits says whether the process sleeps with no vote but those that it was handed: nothing that it sent or asked is on its way.
func (p *process) waits() bool {
	for i := range masters {
		if len(p.lanes[i])+len(p.back[i]) > 0 {
			return false
		}
	}
	if p.hold.call != nil || p.call == nil || p.stage != sleeping {
		return false
	}
	_, maybe, silent := p.call.Sets()
	return silent == 0 && maybe&^p.call.Handed() == 0
}

// outlives says whether a process that waited has votes for longer than a sign of life after its death.
func (m *Model) outlives(w *world) bool {
	for k := range m.Lines {
		if p := &w.procs[k]; p.death.waited && w.now >= p.death.at+waiting.Liveness && m.votesOf(w, k) {
			return true
		}
	}
	return false
}

// votesOf says whether a process has a vote.
func (m *Model) votesOf(w *world, k int) bool {
	for _, id := range m.ids[k] {
		for i := range masters {
			if w.masters[i].Has(m.lock.Field(id)) > 0 {
				return true
			}
		}
	}
	return false
}

// States returns the states of the machines.
func (m *Model) States(s **world) (all []waiting.State) {
	for k := range m.Lines {
		all = append(all, (*s).procs[k].machine.State())
	}
	return all
}

// Path tells a run.
func (m *Model) Path(_ **world, moves []move) Story {
	var s Story
	for i := range moves {
		line := moves[i].Step.String()
		w := moves[i].To
		for k := range m.Lines {
			p := &w.procs[k]
			line += fmt.Sprintf("; p%d %v", k, p.machine.State())
			if p.line > 0 && p.call != nil {
				granted, _, _ := p.call.Sets()
				line += fmt.Sprintf(", attempt %d, stage %d, votes %03b", p.gen, p.stage, granted)
			}
			if p.hold.call != nil {
				line += fmt.Sprintf(", holds with %d until %v", p.hold.token, p.hold.until)
			}
			for i := range masters {
				for _, o := range p.lanes[i] {
					line += fmt.Sprintf(" m%d<%d:%d", i, o.req.Kind, o.gen)
				}
			}
		}
		s.lines = append(s.lines, line)
	}
	return s
}
