// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// node takes the ops that calls send.
type node struct {
	protocol.Node
	m *Model
	i int
}

// VotingState is that of a master that keeps its data.
func (n node) VotingState() string { return state }

func (n node) Submit(o *protocol.Op) bool {
	_, ignored := o.To.(quorum.Ignore)
	n.m.sent = append(n.m.sent, sent{n.i, !ignored, *o.Request})
	return true
}

type sent struct {
	i     int
	wants bool
	req   protocol.Request
}

// Voted implements quorum.Sleeper.
func (m *Model) Voted(*quorum.Call) { m.voted = true }

// Freed implements quorum.Sleeper.
func (m *Model) Freed(_ *quorum.Call, free uint64) { m.freed = free }

// run is one step of process k in the making. It does what the contender of package wait does.
type run struct {
	m     *Model
	w     *world
	p     *process
	k     int
	owned *quorum.Call // the call that was copied for this step
}

// call returns the process's call, which may be changed.
func (r *run) call() *quorum.Call {
	if r.p.call != r.owned {
		r.p.call = r.p.call.Clone()
		r.owned = r.p.call
	}
	return r.p.call
}

// ttl is how long a vote lasts that was asked for.
func (m *Model) ttl() time.Duration {
	return cmp.Or(m.TTL, ttl)
}

func (r *run) id(gen int8) string { return r.m.ids[r.k][gen] }

// flush puts what calls have sent into the lanes.
func (r *run) flush() {
	for _, s := range r.m.sent {
		r.push(s.i, op{gen: r.p.gen, wants: s.wants, req: s.req})
	}
	r.m.sent = r.m.sent[:0]
}

func (r *run) push(i int, o op) { r.p.lanes[i] = append(slices.Clip(r.p.lanes[i]), o) }

// next tells the machine what happened, as contender.nextLocked.
func (r *run) next(e waiting.Event) waiting.Do {
	p := r.p
	if r.dropped(e.Kind) {
		return waiting.Do{}
	}
	e.Jitter = func(time.Duration) time.Duration { return 0 }
	do := p.machine.Next(e)
	if do.Again != 0 && p.call != nil {
		r.call().Wake(do.Again)
		r.flush()
	}
	if do.Arm > 0 {
		if p.timer = 1; do.Arm > 2*waiting.PauseMax {
			p.timer = 2
		}
	}
	if do.Act == waiting.PassTurn {
		r.turn()
	}
	if do.Wake && p.listens {
		p.woken = true
	}
	return do
}

// dropped says whether the edge is dropped by which the machine would hear of that.
func (r *run) dropped(k waiting.Kind) bool {
	s := r.p.machine.State()
	switch r.m.Drop {
	case Woken:
		return k == waiting.Wake
	case Votes:
		return k == waiting.Vote && s != waiting.Asking
	case Gathers:
		return k == waiting.Timer && s == waiting.Gathering
	case FreeTold:
		return k == waiting.Free
	case Yields:
		return k == waiting.Timer && s == waiting.Stuck
	case Passes:
		return s == waiting.Passing && (k == waiting.ReleasedHere || k == waiting.Timer)
	}
	return false
}

// turn gives the first in the line its turn.
func (r *run) turn() {
	r.p.came++
	if r.p.offer.call == nil {
		r.p.passes = r.p.line - 1
	}
	r.next(waiting.Event{Kind: waiting.Turn, Ticket: r.ticket()})
	r.p.woken = true
}

// ticket is that of the caller whose turn it is: the callers of all processes came in turns.
func (r *run) ticket() int64 { return int64(r.p.came-1)*processes + int64(r.k) + 1 }

func (r *run) votes() (v waiting.Votes) {
	if c := r.p.call; c != nil {
		v.Won, v.Told, v.Handable = c.Won(), c.Handed() != 0, c.Handable(waiting.Liveness)
	}
	return v
}

// wakes runs the caller that was woken.
func (r *run) wakes() {
	p := r.p
	p.woken = false
	switch p.stage {
	case sleeping:
		if p.offer.call != nil {
			r.takesOver()
		} else if p.machine.Ready(r.votes()) {
			r.act(r.next(waiting.Event{Kind: waiting.Awake, Votes: r.votes()}))
		}
	case asking:
		r.ask(r.next(waiting.Event{Kind: waiting.Awake}))
	}
}

func (r *run) act(do waiting.Do) {
	switch do.Act {
	case waiting.Take:
		r.settle(true)
	case waiting.Begin:
		if r.begin(protocol.Wait{Retry: do.Retry}) {
			r.p.stage, r.p.asked = asking, 0
			r.ask(r.next(waiting.Event{Kind: waiting.Awake}))
		}
	case waiting.QueueOnly:
		if r.begin(protocol.Wait{Only: true}) {
			r.p.call.Send(all)
			r.flush()
			v := r.park()
			set := r.p.call.Free()
			if r.m.Drop == FreeTold {
				set = 0
			}
			r.next(waiting.Event{Kind: waiting.Placed, Votes: v, Set: set, Now: r.w.now})
		}
	}
}

// begin makes an attempt, which gives back the open one on each master ahead of its own acquire.
func (r *run) begin(wait protocol.Wait) bool {
	p := r.p
	if int(p.gen) >= r.m.Attempts {
		r.w.cut = true
		return false
	}
	wait.Ticket, wait.Liveness = p.machine.Ticket(), waiting.Liveness
	gen := p.gen + 1
	holder := r.id(gen)
	if r.m.Drop == FreshID {
		holder = r.id(1)
	}
	c := r.m.quorum.Call(need, &protocol.Request{Kind: protocol.Acquire, Lock: r.m.lock, Holder: holder, TTL: r.m.ttl(), Start: r.w.now, Wait: &wait})
	if p.call != nil {
		old := r.call()
		_, maybe, _ := old.Sets()
		c.Before(&protocol.Request{Kind: protocol.Release, Lock: r.m.lock, Holder: r.id(p.gen)}, maybe|old.Places())
		if r.m.Drop == FreshID {
			c.Before(&protocol.Request{Kind: protocol.Release, Lock: r.m.lock, Holder: holder}, maybe|old.Places())
		}
		old.End()
	}
	p.call, r.owned, p.gen, p.start, p.timer = c, c, gen, r.w.now, 0
	return true
}

// park is contender.parkLocked.
func (r *run) park() waiting.Votes {
	v := waiting.Votes{Handable: r.p.call.Handable(waiting.Liveness)}
	v.Won, v.Some, v.Told = r.call().Park(r.m)
	r.p.stage = sleeping
	return v
}

// ask asks the masters that the machine names. When all were asked the verdict is awaited.
func (r *run) ask(do waiting.Do) {
	p := r.p
	if do.Act == waiting.Skip {
		r.call().Skip(do.Set)
	} else {
		r.call().ClearWoken(do.Set)
		r.call().Send(do.Set)
	}
	r.flush()
	partial := p.asked != 0 || do.Set != all
	if p.asked |= do.Set; p.asked == all {
		p.stage, p.timer = awaiting, 0
		p.woken = p.woken || partial && p.listens
	}
}

// goesOn lets the caller go on where it waits for replies.
func (r *run) goesOn() {
	p := r.p
	if p.call == nil || len(p.call.Decided()) == 0 {
		return
	}
	if p.stage == asking {
		r.ask(r.next(waiting.Event{Kind: waiting.Decided}))
	}
	if p.stage == takingOver {
		c := r.call()
		<-c.Decided()
		r.hurry()
		if c.Won() {
			r.settle(false)
		} else {
			r.notTaken()
		}
		return
	}
	if p.stage == awaiting {
		c := r.call()
		<-c.Decided()
		c.Close()
		if c.Won() {
			r.settle(false)
		} else {
			r.refused()
		}
	}
}

// refused is contender.refused.
func (r *run) refused() {
	p := r.p
	replies := p.call.Replies()
	saw := waiting.Round{Replies: replies, Need: need, Behind: waiting.Behind(replies, need)}
	var left []time.Duration
	for i := range replies {
		switch replies[i].Outcome {
		case protocol.Granted:
			saw.Granted = true
			left = append(left, 0)
			saw.MayVote++
		case protocol.Held:
			saw.Held = true
			left = append(left, replies[i].Remaining)
			saw.MayVote++
		}
	}
	if slices.Sort(left); len(left) >= need {
		saw.RetryAfter = left[need-1]
	}
	r.next(waiting.Event{Kind: waiting.Refused, Round: &saw, Votes: r.park(), Now: r.w.now})
	if !p.listens {
		p.listens, p.woken = true, true
	}
}

// givesUp is a caller whose context ends.
func (r *run) givesUp() {
	p := r.p
	if p.machine.State() == waiting.Passing {
		r.p.came++
		r.leave(false)
		return
	}
	if p.stage == takingOver {
		r.hurry()
		r.giveBack()
	}
	if p.offer.call != nil && r.m.Drop != Offered {
		r.release(p.offer)
	}
	p.offer = hold{}
	do := r.next(waiting.Event{Kind: waiting.CtxDone})
	if do.Act == waiting.Skip {
		r.call().Skip(do.Set)
		r.flush()
		do = r.next(waiting.Event{Kind: waiting.CtxDone})
	}
	if do.Act == waiting.GiveBack {
		c := r.call()
		c.End()
		_, set, _ := c.Sets()
		if r.m.Drop != Leave {
			set |= c.Places()
		}
		for ; set != 0; set &= set - 1 {
			req := protocol.Request{Kind: protocol.Release, Lock: r.m.lock, Holder: r.id(p.gen)}
			if r.m.Drop == Believed {
				req.Hand = ttl
			}
			r.push(bits.TrailingZeros64(set), op{gen: p.gen, req: req})
		}
	}
	p.settle = settle{}
	r.leave(false)
}

// answers is a reply that is read.
func (r *run) answers(i int) {
	p := r.p
	a := p.back[i][0]
	p.back[i] = p.back[i][1:]
	if a.release != nil && a.reply.Outcome != protocol.Granted && r.m.Drop != Remains {
		r.push(i, op{gen: a.gen, req: *a.release})
	}
	switch {
	case a.kind == protocol.Confirm:
		if p.stage == settling && a.gen == p.gen {
			if a.reply.Outcome == protocol.Granted {
				p.settle.yes |= 1 << i
			} else {
				p.settle.no |= 1 << i
			}
			r.settled()
		}
	case p.call != nil && a.gen == p.gen:
		r.m.voted, r.m.freed = false, 0
		r.call().Answer(i, a.reply)
		r.flush()
		if r.m.voted {
			r.next(waiting.Event{Kind: waiting.Vote, Votes: r.votes()})
		}
		if r.m.freed != 0 {
			r.next(waiting.Event{Kind: waiting.Free, Set: r.m.freed})
		}
		r.goesOn()
	case p.hold.call != nil && a.gen == p.hold.gen:
		p.hold.call = p.hold.call.Clone()
		p.hold.call.Answer(i, a.reply)
		r.m.sent = r.m.sent[:0]
	}
}

// hears is a message that is read.
func (r *run) hears(i int, text string) {
	p := r.p
	if h, ok := protocol.ParseHand(text); ok {
		if p.call == nil || p.line == 0 || h.Stamp > r.w.now {
			return
		}
		if r.m.Drop == Stamp {
			h.Stamp = r.w.now
		}
		if r.m.Drop == Over && h.Field == r.id(p.gen-1) {
			h.Field = r.id(p.gen)
		}
		if r.call().Hand(i, h.Field, h.State, quorum.Vote{Token: h.Vote, From: h.Stamp, Until: h.Stamp + h.TTL}) {
			r.next(waiting.Event{Kind: waiting.Vote, Votes: r.votes()})
			r.goesOn()
		}
		return
	}
	_, place := protocol.ParseWake(text)
	field, _ := protocol.ParsePlace(place)
	if p.line > 0 {
		r.next(waiting.Event{Kind: waiting.Wake, Set: 1 << i})
		r.goesOn()
	}
	if p.call == nil || !p.call.AsksFor(field) {
		r.push(i, op{req: protocol.Request{Kind: protocol.Dequeue, Lock: r.m.lock, Place: place}})
	}
}
