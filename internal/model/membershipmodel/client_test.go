// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
)

// now is the client's clock in every View. Only differences mean anything.
const now = 1000 * tick

// planNonce + rank(k) is the nonce of the ballot of plan k.
const planNonce = 1000

// rank is where plan k stands among the ballots of its round, and the plan that stands at k: see World.Nonces.
func (w *World) rank(k int) int {
	if w.Nonces < 0 {
		return maxPlans - 1 - k
	}
	return k
}

// driver makes Views of states, calls membership.Next and translates what it returns. It keeps buffers, so that a look
// costs few allocations; it is used by one goroutine.
type driver struct {
	w     *World
	view  membership.View
	mem   membership.Memory
	index []int // master of the world, by its position in the view
	plans [maxPlans]membership.Plan
	begin [maxPlans][maxMasters]membership.Nonce
	fresh membership.Nonce
	// counters as they were read, by master of the world
	counters [maxMasters]uint8
	cut      int // steps left out for want of room
	// What looks came to, by all that they read; nil: each is made. A look is half of an exploration, and of ten states nine differ in what
	// it does not read.
	looked map[[2]uint64][]decision
	reads  reads
	seeds  [2]maphash.Seed
}

func newDriver(w *World) *driver { return &driver{w: w} }

// reads is what a look of a process reads: see driver.decisions.
type reads struct {
	state         state
	who, answered uint16
}

// decision is what one look leads to.
type decision struct {
	proc    proc // what the process remembers now
	swap    bool // it makes a compare-and-set; else nothing is to be done
	at      int  // the place of its master in the view
	who     int  // the process
	message message
	plan    plan // the plan that it makes, if it makes one
	made    bool
}

// prepare makes the View of process p from these reads, of masters in answered. ages says how old a read is.
func (d *driver) prepare(s *state, p int, answered uint16, reads func(i int) (*record, uint8)) {
	w, who := d.w, &d.w.Procs[p]
	d.fresh = membership.Nonce(s.fresh())
	d.unpackPlans(s)
	d.index = d.index[:0]
	d.view = membership.View{
		Goal: who.Goal, Terms: w.terms[who.List], Masters: d.view.Masters[:0], Now: now, Wall: time.Unix(int64(who.Wall), 0),
		Nonce: d.fresh, Memory: &d.mem, NeverLocked: who.NeverLocked, Abandon: who.Abandon,
	}
	if who.Goal == membership.Change {
		d.view.Target = w.terms[who.Target]
	}
	for i := range w.masters {
		at := membership.Master{Name: w.masters[i].Name, Old: w.listed(who.List, i)}
		at.New = who.Goal == membership.Change && w.listed(who.Target, i)
		if !at.Old && !at.New {
			continue
		}
		if answered&(1<<i) != 0 {
			r, age := reads(i)
			at.Answered, at.Incarnation = true, "now"
			at.Sent = now - time.Duration(age)*tick
			at.Received = at.Sent
			d.unpackRecord(&at.Record, r)
			if w.Stamps {
				at.Time = w.clock(s, i) - time.Duration(age)*tick
				d.unpackStamp(s, &at.Record, r, age, who.List)
			}
			d.counters[i] = r.counter
		}
		d.view.Masters = append(d.view.Masters, at)
		d.index = append(d.index, i)
	}
	if w.Jumps > 0 && !w.Unwatch {
		j := d.judge(s, answered, p)
		d.view.Doubt = uint64(mask(j.Doubted))
		for k, i := range d.index {
			d.view.Masters[k].Moved, d.view.Masters[k].Note = j.Moved[i], j.Notes[i]
		}
	}
	d.remember(&s.procs[p], who.List)
}

// remember makes the Memory of what a process remembers.
func (d *driver) remember(p *proc, list int) {
	m := &d.mem
	m.Number, m.Left = int64(p.number), d.w.unpackEpoch(p.left)
	m.Whole = now - time.Duration(p.whole)*tick
	m.Doubt, m.Since = uint64(p.doubted), now-time.Duration(max(p.doubt, 1)-1)*tick
	if cap(m.Sights) < len(d.index) {
		m.Sights = make([]membership.Sight, maxMasters)
	}
	m.Sights = m.Sights[:len(d.index)]
	for k, i := range d.index {
		first := now - time.Duration(p.sights[i].age)*tick
		m.Sights[k] = membership.Sight{State: d.unpackRecordState(p.sights[i].state), First: first, Last: first, Since: first}
		if p.sights[i].state == (recordState{}) {
			m.Sights[k] = membership.Sight{}
		}
	}
}

// decide asks membership.Next, beginning with the master at this place of the View. It returns what to learn instead,
// if anything.
func (d *driver) decide(s *state, p, first int) (decision, []int) {
	d.view.First = first
	a := d.w.rules.Next(&d.view)
	if a.Kind == membership.Learn {
		return decision{}, a.Learn
	}
	out := decision{who: p, proc: d.recall(s, p)}
	if a.Kind == membership.Swap {
		from := &d.view.Masters[a.Master].Record
		out.swap, out.at = true, a.Master
		out.message = message{master: uint8(d.index[a.Master] + 1), from: d.packRecordState(s, from.State), pledged: d.packBallot(s, from.Intent.Ballot),
			setPlan: a.Plan != nil, setNote: d.w.Jumps > 0 && a.To.State.Phase == membership.Quarantined && a.To.State != a.From.State}
		out.message.to = d.pack(s, &a, &out)
	}
	return out, nil
}

// recall is what the process remembers after the look.
func (d *driver) recall(s *state, p int) proc {
	out := s.procs[p]
	out.number, out.left = uint8(d.mem.Number), d.w.epoch(d.mem.Left)
	out.whole = uint8(min((now-d.mem.Whole)/tick, time.Duration(d.w.never(p))))
	if out.doubt, out.doubted = 0, uint16(d.mem.Doubt); d.mem.Doubt != 0 {
		out.doubt = uint8((now-d.mem.Since)/tick) + 1
	}
	for k, i := range d.index {
		v := &d.mem.Sights[k]
		out.sights[i] = sight{}
		if v.State != (membership.RecordState{}) {
			out.sights[i] = sight{d.packRecordState(s, v.State), uint8((now - v.First) / tick)}
		}
	}
	return out
}

// pack translates what a Swap sets.
func (d *driver) pack(s *state, a *membership.Action, out *decision) record {
	from := &d.view.Masters[a.Master].Record
	r := record{counter: d.counters[d.index[a.Master]], unused: a.Unused}
	if a.Stamp != nil {
		if r.unused = from.Unused; a.Stamp.Nonce != from.State.Nonce {
			r.unused = a.Unused
		}
		for k, i := range d.w.Lists[d.w.Procs[out.who].List].Masters {
			r.stamped |= uint16(bit(a.Stamp.Times[k] != 0)) << i
		}
	}
	if d.w.Jumps > 0 {
		r.note = d.w.packNote(s, d.view.Masters[a.Master].Note)
	}
	in := &a.To.Intent.Plan
	if a.Plan != nil && a.Plan.Ballot.Nonce == d.fresh {
		in = a.Plan
	}
	if b := in.Ballot; b.Nonce == d.fresh {
		out.made, out.plan = true, plan{round: uint8(b.Round), from: d.w.epoch(in.From), target: d.w.epoch(in.Target)}
		if in.Target != (membership.Epoch{}) {
			for k, i := range d.w.Lists[d.w.listOf(out.plan.target)].Masters {
				out.plan.begin[i] = uint8(in.Begin[k])
			}
		}
	}
	r.state, r.intent = d.packRecordState(s, a.To.State), d.packBallot(s, a.To.Intent.Ballot)
	r.plan = d.packBallot(s, from.Plan.Ballot)
	if a.Plan != nil {
		r.plan = d.packBallot(s, a.Plan.Ballot)
	}
	if a.Counters != membership.KeepCounters && d.w.Tokens {
		for k := range d.view.Masters {
			if d.view.Masters[k].Learned {
				r.counter = max(r.counter, d.counters[d.index[k]])
			}
		}
	}
	if a.Counters == membership.RaiseCountersToFloor && d.w.Tokens {
		if out.message.leap = true; !d.w.BadClock {
			r.counter = max(r.counter, leapFloor*(s.leaps+1))
		}
	}
	return r
}

// newPlan stands for the plan that a decision makes, until it has an index.
const newPlan = maxPlans + 1

func (d *driver) packBallot(s *state, b membership.Ballot) uint8 {
	switch {
	case b == membership.Ballot{}:
		return 0
	case b.Nonce == d.fresh:
		return newPlan
	}
	return uint8(d.w.rank(int(b.Nonce-planNonce))) + 1
}

func (d *driver) packRecordState(s *state, rs membership.RecordState) recordState {
	if rs.Phase == membership.None {
		return recordState{}
	}
	out := recordState{phase: rs.Phase, epoch: d.w.epoch(rs.Epoch), nonce: uint8(rs.Nonce), whole: rs.Whole,
		plan: d.packBallot(s, rs.Ballot), stale: rs.Incarnation != "now"}
	if rs.Phase == membership.Retired && (rs.Nonce >= planNonce || rs.Nonce == rs.Ballot.Nonce) && d.w.Off&membership.GuardRetiredNonce != 0 {
		out.nonce = s.nonceOf(out, uint8(d.fresh)) // one for all record states of the ballot
	}
	return out
}

// nonceOf is the nonce of a retired record state of this plan, or fresh.
func (s *state) nonceOf(rs recordState, fresh uint8) uint8 {
	for i := range s.masters {
		if o := s.masters[i].state; o.phase == rs.phase && o.plan == rs.plan {
			return o.nonce
		}
	}
	for p := range s.procs {
		for i := range s.procs[p].sights {
			if o := s.procs[p].sights[i].state; o.phase == rs.phase && o.plan == rs.plan {
				return o.nonce
			}
		}
	}
	return fresh
}

func (d *driver) unpackPlans(s *state) {
	for k := range s.plans {
		p := &s.plans[k]
		if p.round == 0 {
			return
		}
		d.plans[k] = membership.Plan{
			Ballot: membership.Ballot{Round: int64(p.round), Nonce: membership.Nonce(planNonce + d.w.rank(k))},
			From:   d.w.unpackEpoch(p.from), Target: d.w.unpackEpoch(p.target),
		}
		if p.target == 0 {
			continue
		}
		list := d.w.Lists[d.w.listOf(p.target)].Masters
		for j, i := range list {
			d.begin[k][j] = membership.Nonce(p.begin[i])
		}
		d.plans[k].Begin = d.begin[k][:len(list)]
	}
}

func (d *driver) unpackRecordState(rs recordState) membership.RecordState {
	if rs.phase == membership.None {
		return membership.RecordState{}
	}
	out := membership.RecordState{Phase: rs.phase, Epoch: d.w.unpackEpoch(rs.epoch), Incarnation: "now", Nonce: membership.Nonce(rs.nonce), Whole: rs.whole}
	if rs.stale {
		out.Incarnation = "old"
	}
	if rs.plan != 0 {
		out.Ballot = d.plans[rs.plan-1].Ballot
	}
	return out
}

// unpackStamp makes the stamp of a record that was read by a process with this list.
func (d *driver) unpackStamp(s *state, to *membership.Record, r *record, age uint8, list int) {
	if r.stamped == 0 || d.w.listOf(r.state.epoch) != list {
		return
	}
	to.Stamp.Nonce = to.State.Nonce
	for _, i := range d.w.Lists[list].Masters {
		at := time.Duration(0)
		if r.stamped&(1<<i) != 0 {
			if at = d.w.clock(s, i) - time.Duration(r.stampAge+age)*tick; r.leapt&(1<<i) != 0 {
				at -= jump
			}
		}
		to.Stamp.Times = append(to.Stamp.Times, at)
	}
}

func (d *driver) unpackRecord(to *membership.Record, r *record) {
	to.State = d.unpackRecordState(r.state)
	if r.intent != 0 {
		to.Intent.Plan = d.plans[r.intent-1]
	}
	if r.plan != 0 {
		to.Plan = d.plans[r.plan-1]
	}
	to.Unused = r.unused
	if r.state.epoch != 0 {
		to.Terms = d.w.terms[d.w.listOf(r.state.epoch)]
	}
}

// looks calls f with every decision that process p can come to by looking now.
func (d *driver) looks(s *state, p int, f func(decision, uint16)) {
	all := d.w.reachable(s)
	for _, i := range d.w.Procs[p].Cut {
		all &^= 1 << i
	}
	look := func(answered uint16) {
		for _, out := range d.decisions(s, p, answered) {
			f(out, answered)
		}
	}
	look(all)
	if s.left.blind > 0 {
		for i := range d.w.masters {
			if all&(1<<i) != 0 {
				look(all &^ (1 << i))
			}
		}
	}
}

// decisions is look, or what it came to before. A look does not read leases, votes and what may still go wrong, and of what other
// processes remember it reads the record states alone, whose nonces and plans have names.
func (d *driver) decisions(s *state, p int, answered uint16) []decision {
	if d.looked == nil {
		return d.look(s, p, answered)
	}
	d.reads = reads{*s, uint16(p), answered}
	r := &d.reads.state
	r.attempts, r.left, r.granted = [maxAttempts]attempt{}, budget{}, 0
	for i := range r.masters {
		r.masters[i].down, r.masters[i].owner, r.masters[i].left = false, 0, 0
	}
	for o := range r.procs {
		if o != p {
			r.procs[o] = proc{sights: r.procs[o].sights}
			for i := range r.procs[o].sights {
				r.procs[o].sights[i].age = 0
			}
		}
	}
	k := hash(&d.seeds, &d.reads)
	found, ok := d.looked[k]
	if !ok {
		found = d.look(s, p, answered)
		d.looked[k] = found
	}
	return found
}

// look reads the masters in answered at one moment and returns every decision, one for each master that the
// client can begin with.
func (d *driver) look(s *state, p int, answered uint16) (found []decision) {
	d.prepare(s, p, answered, func(i int) (*record, uint8) { return &s.masters[i].record, 0 })
	d.w.rules.Observe(&d.mem, &d.view)
	for first := 0; first < len(d.index); {
		for k := range d.view.Masters {
			d.view.Masters[k].Learned = false
		}
		out, learn := d.decide(s, p, first)
		for k := 0; learn != nil; k++ {
			if k == 3 {
				panic(fmt.Sprintf("membershipmodel: %s learns without end", d.w.Procs[p].Name))
			}
			for _, k := range learn {
				d.view.Masters[k].Learned = true
			}
			out, learn = d.decide(s, p, first)
		}
		if out.swap && out.at < first {
			break // the first one again
		}
		found = append(found, out)
		if !out.swap {
			break // there is nothing to do for any master
		}
		first = out.at + 1
	}
	return found
}
