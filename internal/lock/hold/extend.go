// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"errors"
	"math/bits"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/grant"
	"github.com/redlock-go/redlock/internal/protocol"
)

// batch is one extend of many holds, sent to all masters.
//
// Invariant: no hold is decided before every master was asked. The next extend of a hold begins when this one is decided, and has a newer number
// of shares: a caller that loses its processor between two masters would send the older one after it.
type batch struct {
	r     *Renewer
	start time.Duration
	ops   []protocol.Op

	mu       sync.Mutex
	asked    bool           // every master was
	timer    *time.Timer    // nil until then, and if nothing was open then
	limit    protocol.Limit // when timer fires
	answered uint64
	items    []extending
	failed   string // text of what a master said that did not extend
	open     int    // items not decided
	over     func() // is called when all are; nil after that
	untold   *news  // what happened since the mutex was locked
}

// extending is one hold in a batch.
type extending struct {
	hold             *Hold
	answers          grant.Extension
	decided, renewed bool
}

// extend renews holds in one round trip. All have the same TTL and were marked by begin. Each hold is decided separately: see
// [grant.Extension]. over, which may be nil, is called without a mutex when all are decided.
func (r *Renewer) extend(holds []*Hold, over func()) {
	if len(holds) == 0 {
		over()
		return
	}
	m := r.Masters
	e := &batch{r: r, start: m.Clock.Elapsed(), ops: make([]protocol.Op, len(m.Nodes)),
		items: make([]extending, len(holds)), open: len(holds), over: over}
	votes := make([]protocol.Item, len(holds))
	for i, h := range holds {
		votes[i] = h.item()
		e.items[i].hold, e.items[i].answers = h, grant.NewExtension(h.Voters())
	}
	ttl := holds[0].Terms.TTL
	timeout := min(ttl/time.Duration(len(m.Nodes)), m.Timeout())
	e.limit = protocol.NewLimit(timeout)
	req := &protocol.Request{Kind: protocol.Extend, TTL: ttl, Items: votes, Start: e.start, Deadline: e.start + timeout}
	for i, n := range m.Nodes {
		op := &e.ops[i]
		*op = protocol.Op{Request: req, To: e, Index: i}
		if !n.Submit(op) {
			e.Receive(op)
		}
	}
	e.allAsked()
}

// allAsked decides what the answers that came meanwhile decide, and sets the timer for the rest.
func (e *batch) allAsked() {
	e.mu.Lock()
	defer e.unlock()
	e.asked = true
	for i := range e.items {
		e.decide(&e.items[i], false)
	}
	if e.open > 0 {
		e.timer = time.AfterFunc(time.Until(e.limit.At), e.timeout)
	}
}

// Receive implements [protocol.Receiver].
func (e *batch) Receive(op *protocol.Op) {
	e.mu.Lock()
	defer e.unlock()
	bit := uint64(1) << op.Index
	e.answered |= bit
	now := e.r.Masters.Clock.Elapsed()
	if op.Reply.Err != nil {
		e.failed = "; " + op.Reply.Err.Error()
	}
	for i := range e.items {
		it := &e.items[i]
		if op.Reply.Outcome == protocol.Granted && (op.Reply.Denied == nil || !op.Reply.Denied[i]) {
			intact := op.Reply.Intact[i]
			if !it.hold.seen(op.Index, intact, e.start, now) {
				it.answers.Forget(op.Index)
			}
			it.answers.Answer(op.Index, intact)
		}
		switch {
		case !e.asked:
		case !it.decided:
			e.decide(it, false)
		case it.renewed:
			it.topUpOrConfirm(bit, e.start)
		}
	}
	if e.open == 0 && e.timer != nil {
		e.timer.Stop()
	}
}

// unlock unlocks the mutex, tells what happened meanwhile, and calls over if it is time.
func (e *batch) unlock() {
	n, over := e.untold, func() {}
	e.untold = nil
	if e.open == 0 && e.over != nil {
		over, e.over = e.over, nil
	}
	e.mu.Unlock()
	n.tell(&e.r.Events)
	over()
}

// timeout decides the holds for which the masters that answered were too few.
func (e *batch) timeout() {
	e.mu.Lock()
	defer e.unlock()
	if e.open > 0 && !e.limit.Over(time.Now()) {
		e.timer.Reset(time.Until(e.limit.At))
		return
	}
	for i := range e.items {
		if it := &e.items[i]; !it.decided {
			e.decide(it, true)
		}
	}
}

// decide decides it if the answers that are there decide it, or if must is set.
func (e *batch) decide(it *extending, must bool) {
	h, m := it.hold, e.r.Masters
	if it.answers.Silent() != 0 { // a master answers the acquire before it answers this
		it.answers.Recount(h.Voters())
	}
	if !must && !it.answers.Decided(e.answered, m.Need) {
		return
	}
	it.decided = true
	e.open--
	e.r.Extends.Add(1)
	told, err := h.extended(e.start, it.answers.Confirmed(), e.failed)
	e.untold = e.untold.and(told)
	switch it.renewed = err == nil; {
	case it.renewed:
		it.topUpOrConfirm(e.answered, e.start)
		e.r.reschedule(h, e.start+h.Terms.Every)
	case errors.Is(err, errs.ErrUnreachable):
		// Too few masters answered. The old end stands, and there is time to ask again.
		e.r.reschedule(h, m.Clock.Elapsed()+h.pause())
	case errors.Is(err, errs.ErrLost): // one that is being released leaves when its releases are on their way
		e.r.remove(h)
	}
}

// topUpOrConfirm brings the masters in set up to what an extend that began at start and won has proved. A vote
// that is missing is put back. A vote that is there, and did not count before, counts from
// now on.
func (it *extending) topUpOrConfirm(set uint64, start time.Duration) {
	topUp, confirm := it.answers.Follow(set)
	for ; topUp != 0; topUp &= topUp - 1 {
		it.hold.topUp(bits.TrailingZeros64(topUp))
	}
	for ; confirm != 0; confirm &= confirm - 1 {
		it.hold.confirm(bits.TrailingZeros64(confirm), start)
	}
}
