// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// settle begins to settle the token of an attempt that has a quorum of votes.
func (r *run) settle(open bool) {
	p := r.p
	t := p.call.Tokens()
	p.settle = settle{token: t.Max, agree: t.Agree, below: t.Below, open: open, offered: p.stage == takingOver}
	p.stage = settling
	if bits.OnesCount64(t.Agree) < need && r.m.Drop != Confirmed {
		for set := t.Below; set != 0; set &= set - 1 {
			r.push(bits.TrailingZeros64(set), op{gen: p.gen, wants: true, req: protocol.Request{Kind: protocol.Confirm, Lock: r.m.lock, Holder: r.id(p.gen), Token: t.Max}})
		}
	}
	r.settled()
}

// settled looks whether the token is settled, or cannot be.
func (r *run) settled() {
	p := r.p
	s := p.settle
	got := bits.OnesCount64(s.agree | s.yes)
	switch {
	case got >= need || r.m.Drop == Confirmed:
		if r.m.Drop == Confirmed {
			s.yes = s.below
		}
		if !r.granted(s.token, s.agree|s.yes) {
			r.call().End()
			r.vain()
		}
	case got+bits.OnesCount64(s.below&^s.yes&^s.no) < need:
		if s.open {
			r.call().End()
		}
		r.vain()
	}
}

// vain is an attempt that had a quorum of votes and gives no lease.
func (r *run) vain() {
	open, offered := r.p.settle.open, r.p.settle.offered
	r.p.settle = settle{}
	if offered {
		r.notTaken()
		return
	}
	if !open {
		r.refused()
		return
	}
	r.p.stage = sleeping
	r.act(r.next(waiting.Event{Kind: waiting.Outvoted}))
}

// granted makes a hold of an attempt whose token is settled, if it is valid.
func (r *run) granted(token int64, stand uint64) bool {
	p := r.p
	var ends []time.Duration
	for i := range masters {
		if stand>>i&1 == 0 {
			continue
		}
		if v, ok := p.call.HandedVote(i); ok {
			ends = append(ends, v.Until)
		} else {
			ends = append(ends, p.start+r.m.ttl())
		}
	}
	slices.Sort(ends)
	if len(ends) < need || ends[len(ends)-need] <= r.w.now {
		return false
	}
	until := ends[len(ends)-need]
	if p.hold.call != nil { // the one before is over
		r.release(p.hold)
	}
	if token <= r.w.token {
		r.w.wrong = fmt.Sprintf("token %d was granted after %d", token, r.w.token)
	}
	r.w.token = token
	p.hold = hold{p.call, p.gen, token, until}
	p.settle = settle{}
	r.leave(true)
	return true
}

// leave takes the caller whose turn it is out of the line.
func (r *run) leave(granted bool) {
	p := r.p
	p.call, r.owned, p.stage, p.asked = nil, nil, sleeping, 0
	if p.line--; p.line == 0 || p.machine.State() != waiting.Passing {
		p.timer = 0
	}
	if p.line == 0 {
		p.woken, p.listens = false, false
	}
	r.next(waiting.Event{Kind: waiting.Left, Granted: granted, Next: p.line > 0, Now: r.w.now})
}

// takesOver is contender.takeOver.
func (r *run) takesOver() {
	p := r.p
	if int(p.gen) >= r.m.Attempts {
		r.w.cut = true
		return
	}
	p.gen++
	c := r.m.quorum.Call(need, &protocol.Request{Kind: protocol.Adopt, From: r.id(p.offer.gen), Passed: true, Token: p.offer.token + 1,
		Lock: r.m.lock, Holder: r.id(p.gen), TTL: r.m.ttl(), Start: r.w.now})
	p.call, r.owned, p.start, p.timer, p.stage = c, c, r.w.now, 0, takingOver
	releases := r.releases(p.offer)
	p.offer = hold{}
	for i := range masters {
		if releases[i] == nil {
			c.Skip(1 << i)
			continue
		}
		c.Send(1 << i)
		s := r.m.sent[len(r.m.sent)-1]
		r.push(i, op{p.gen, true, s.req, releases[i]})
	}
	r.m.sent = r.m.sent[:0]
}

// notTaken is a caller that did not get what it was offered.
func (r *run) notTaken() {
	r.giveBack()
	r.p.passes = 0
	r.p.call, r.owned, r.p.stage = nil, nil, sleeping
	r.act(r.next(waiting.Event{Kind: waiting.Awake}))
}

// hurry is quorum.Call.Hurry.
func (r *run) hurry() {
	p := r.p
	for i := range masters {
		var release *protocol.Request
		take := func(gen int8, of **protocol.Request) {
			if gen == p.gen && *of != nil {
				release, *of = *of, nil
			}
		}
		p.lanes[i] = slices.Clone(p.lanes[i])
		for n := range p.lanes[i] {
			take(p.lanes[i][n].gen, &p.lanes[i][n].release)
		}
		p.back[i] = slices.Clone(p.back[i])
		for n := range p.back[i] {
			take(p.back[i][n].gen, &p.back[i][n].release)
		}
		if release != nil && r.m.Drop != Remains {
			r.push(i, op{gen: p.gen, req: *release})
		}
	}
}

// giveBack gives back what the call may have.
func (r *run) giveBack() {
	_, maybe, _ := r.p.call.Sets()
	for ; maybe != 0; maybe &= maybe - 1 {
		r.push(bits.TrailingZeros64(maybe), op{gen: r.p.gen, req: protocol.Request{Kind: protocol.Release, Lock: r.m.lock, Holder: r.id(r.p.gen)}})
	}
}

// release sends the release of h.
func (r *run) release(h hold) {
	for i, req := range r.releases(h) {
		if req != nil {
			r.push(i, op{gen: h.gen, req: *req})
		}
	}
}

// releases are the releases of h, by master.
func (r *run) releases(h hold) (all [masters]*protocol.Request) {
	_, set, _ := h.call.Sets()
	set |= h.call.Places()
	may := h.call.Definite()
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		all[i] = &protocol.Request{Kind: protocol.Release, Lock: r.m.lock, Holder: r.id(h.gen)}
		if may>>i&1 != 0 {
			all[i].Hand = waiting.Liveness
			if r.m.Drop == ShortHand {
				all[i].Hand = r.m.ttl()
			}
		}
	}
	return all
}

// unlocks is the end of a hold.
func (r *run) unlocks(now time.Duration) {
	p := r.p
	if p.passes > 0 && p.machine.Offers(now, 0) { // as Lines.Offer
		p.passes--
		p.offer = p.hold
	} else {
		r.release(p.hold)
	}
	p.hold = hold{}
	if p.line > 0 {
		r.next(waiting.Event{Kind: waiting.ReleasedHere, Votes: r.votes(), Now: now})
	}
}
