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
	p.settle = settle{token: t.Max, agree: t.Agree, below: t.Below, open: open}
	p.stage = settling
	if bits.OnesCount64(t.Agree) < need && r.m.Drop != Confirmed {
		for set := t.Below; set != 0; set &= set - 1 {
			r.push(bits.TrailingZeros64(set), op{p.gen, true, protocol.Request{Kind: protocol.Confirm, Lock: r.m.lock, Holder: r.id(p.gen), Token: t.Max}})
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
	open := r.p.settle.open
	r.p.settle = settle{}
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
		r.release()
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

// release sends the release of the hold.
func (r *run) release() {
	h := r.p.hold
	_, set, _ := h.call.Sets()
	set |= h.call.Places()
	may := h.call.Definite()
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		req := protocol.Request{Kind: protocol.Release, Lock: r.m.lock, Holder: r.id(h.gen)}
		if may>>i&1 != 0 {
			req.Hand = waiting.Liveness
			if r.m.Drop == ShortHand {
				req.Hand = r.m.ttl()
			}
		}
		r.push(i, op{h.gen, false, req})
	}
	r.p.hold = hold{}
}

// unlocks is the end of a hold.
func (r *run) unlocks(now time.Duration) {
	r.release()
	if r.p.line > 0 {
		r.next(waiting.Event{Kind: waiting.ReleasedHere, Votes: r.votes(), Now: now})
	}
}
