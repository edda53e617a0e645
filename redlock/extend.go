// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"math/bits"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/lock/holding"
	"github.com/redlock-go/redlock/internal/protocol"
)

// extension is one extend of many holds, sent to all masters.
type extension struct {
	c     *Client
	start time.Duration
	ops   []protocol.Op
	timer *time.Timer

	mu       sync.Mutex
	answered uint64
	items    []extending
	open     int   // items not decided
	untold   *news // what happened since the mutex was locked
}

// extending is one hold in an extension.
type extending struct {
	lease            *hold
	answers          holding.Extension
	decided, renewed bool
}

// extend renews holds in one round trip. All have the same TTL and were marked by beginExtend. Each hold is decided separately: see holding.Extension.
func (c *Client) extend(leases []*hold) {
	if len(leases) == 0 {
		return
	}
	e := &extension{c: c, start: c.clock.Elapsed(), ops: make([]protocol.Op, len(c.masters.Nodes)),
		items: make([]extending, len(leases)), open: len(leases)}
	votes := make([]protocol.Item, len(leases))
	for i, l := range leases {
		votes[i] = protocol.Item{Lock: l.l, Holder: l.holder, Count: l.count()}
		e.items[i].lease, e.items[i].answers = l, holding.NewExtension(l.voters())
	}
	ttl := leases[0].ls.ttl
	timeout := min(ttl/time.Duration(len(c.masters.Nodes)), c.timeout())
	e.mu.Lock() // Receive stops the timer, so no answer is received before the timer is set
	e.timer = time.AfterFunc(timeout, e.timeout)
	e.mu.Unlock()
	req := &protocol.Request{Kind: protocol.Extend, TTL: ttl, Items: votes, Start: e.start, Deadline: e.start + timeout}
	for i, n := range c.masters.Nodes {
		op := &e.ops[i]
		*op = protocol.Op{Request: req, To: e, Index: i}
		if !n.Submit(op) {
			e.Receive(op)
		}
	}
}

// Receive implements [protocol.Receiver].
func (e *extension) Receive(op *protocol.Op) {
	e.mu.Lock()
	defer e.unlock()
	bit := uint64(1) << op.Index
	e.answered |= bit
	for i := range e.items {
		it := &e.items[i]
		if op.Reply.Outcome == protocol.Granted {
			it.answers.Answer(op.Index, op.Reply.Intact[i])
		}
		if !it.decided {
			e.decide(it, false)
		} else if it.renewed {
			it.topUpOrConfirm(bit)
		}
	}
	if e.open == 0 {
		e.timer.Stop()
	}
}

// unlock unlocks the mutex, and tells what happened meanwhile.
func (e *extension) unlock() {
	n := e.untold
	e.untold = nil
	e.mu.Unlock()
	n.tell(e.c)
}

// timeout decides the holds for which the masters that answered were too few.
func (e *extension) timeout() {
	e.mu.Lock()
	defer e.unlock()
	for i := range e.items {
		if it := &e.items[i]; !it.decided {
			e.decide(it, true)
		}
	}
}

// decide decides it if the answers that are there decide it, or if must is set.
func (e *extension) decide(it *extending, must bool) {
	if it.answers.Silent() != 0 { // a master answers the acquire before it answers this
		it.answers.Recount(it.lease.voters())
	}
	if !must && !it.answers.Decided(e.answered, e.c.masters.Need) {
		return
	}
	it.decided = true
	e.open--
	e.c.stats.extends.Add(1)
	told, err := it.lease.extended(e.start, it.answers.Confirmed(), it.answers.Missing())
	e.untold = e.untold.and(told)
	if it.renewed = err == nil; it.renewed {
		it.topUpOrConfirm(e.answered)
		e.c.renewer.reschedule(it.lease, e.start+it.lease.ls.every())
	} else if errors.Is(err, ErrUnreachable) {
		// Too few masters answered. The old end stands, and there is time to ask again.
		e.c.renewer.reschedule(it.lease, e.c.clock.Elapsed()+max(it.lease.ls.ttl/20, time.Millisecond))
	}
}

// topUpOrConfirm brings the masters in set up to what an extend that won has proved. A vote
// that is missing is put back. A vote that is there, and did not count before, counts from
// now on.
func (it *extending) topUpOrConfirm(set uint64) {
	topUp, confirm := it.answers.Follow(set)
	for ; topUp != 0; topUp &= topUp - 1 {
		it.lease.topUp(bits.TrailingZeros64(topUp))
	}
	for ; confirm != 0; confirm &= confirm - 1 {
		it.lease.confirm(bits.TrailingZeros64(confirm))
	}
}
