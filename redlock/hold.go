// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/internal/counting"
	"github.com/redlock-go/redlock/redlock/internal/holding"
)

// hold is what the masters know one grant by: a holder id with its votes, its
// token and its validity. One or more leases stand on it, more than one when it
// was re-entered.
type hold struct {
	c      *Client
	l      *protocol.Lock
	ls     lockSettings
	holder string
	token  int64
	start  time.Duration // when the round that won began

	mu    sync.Mutex
	ended error // nil while held; then ErrReleased, ErrLost or ErrClosed
	// Invariant: while ended is nil, leases are those that were not unlocked, and
	// there is at least one.
	leases    []*Lease
	reentered bool
	// first and one are the lease that most holds have alone, and leases' array for
	// it: one allocation for all.
	first Lease
	one   [1]*Lease
	// changes counts the changes of leases, told is how many of them the last
	// extend has told the masters of.
	changes, told int
	// grant says which votes count and until when the hold is valid. Read it after
	// countLocked only.
	grant holding.Grant
	// acquireCall is the call of the acquire until every master's answer was counted.
	acquireCall *quorumCall

	extending bool          // one extend in flight at most
	settled   chan struct{} // closed when it is decided; made for those who wait
	extendErr error         // of the last one decided

	// The renewer's, guarded by its mutex.
	due     time.Duration // when it looks at this hold again
	renewAt time.Duration // never, when it is fixed or at its maximum
	pos     int           // in its heap; -1 outside
	dropped bool
}

func (h *hold) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errLocked()
}

// errLocked notices an end of validity that no timer has reported yet, as after
// a suspend: timers stand still with the monotonic clock.
func (h *hold) errLocked() error { return h.errAtLocked(h.c.clock.Elapsed()) }

func (h *hold) errAtLocked(now time.Duration) error {
	if h.ended != nil {
		return h.ended
	}
	switch h.grant.Check(now, h.ls.margin(), h.c.trusted()) {
	case holding.Expired:
		text := "validity is over"
		if why := h.c.keeper.reason(); why != "" {
			text += ": " + why
		}
		h.endLocked(fmt.Errorf("%w: %q: %s", ErrLost, h.l.Name, text))
	case holding.Untrusted:
		h.endLocked(fmt.Errorf("%w: %q: this host's clock jumped, and nobody knows how much of the validity is left", ErrLost, h.l.Name))
	}
	return h.ended
}

// endLocked ends the hold and its leases once and for all; the first cause
// stands.
func (h *hold) endLocked(cause error) {
	if h.ended != nil {
		return
	}
	h.ended = cause
	if errors.Is(cause, ErrLost) {
		h.c.stats.lost.Add(1)
	}
	for _, l := range h.leases {
		l.endLocked(cause)
	}
}

func (h *hold) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked(cause)
}

// extend gives the hold a full TTL from now and its present count to the masters.
// A call during another one shares its outcome, unless that one went out before
// the count was what it is now.
func (h *hold) extend(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for want := h.changes; ; {
		if err := h.errLocked(); err != nil {
			return err
		}
		first := !h.extending
		h.extending = true
		if h.settled == nil {
			h.settled = make(chan struct{})
		}
		settled := h.settled
		h.mu.Unlock()
		if first {
			h.c.extend([]*hold{h})
		}
		var gone error
		select {
		case <-settled:
		case <-ctx.Done():
			gone = gaveUp(ctx, h.l, nil)
		}
		h.mu.Lock()
		switch {
		case gone != nil:
			return gone
		case h.extendErr != nil || h.told >= want:
			return h.extendErr
		}
	}
}

// extended takes the outcome of an extend that began at start. It reports
// whether the hold lives on with a new deadline.
//
// confirmed are the masters of votes that still had theirs, missing those that
// had not. One that has not answered the acquire yet may still have voted.
func (h *hold) extended(start time.Duration, confirmed, missing uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.errLocked() // none after the local deadline: a late yes proves nothing
	if err == nil {
		silent := h.countLocked()
		n := bits.OnesCount64(confirmed)
		switch h.grant.Extended(start, confirmed, missing, silent) {
		case holding.Lost:
			err = fmt.Errorf("%w: %q: %d of %d masters still had the vote, quorum is %d", ErrLost, h.l.Name, n, len(h.c.nodes), h.c.need)
			h.endLocked(err)
		case holding.Unconfirmed:
			err = fmt.Errorf("%w: extending %q: %d of %d masters confirmed the vote, quorum is %d", ErrUnreachable, h.l.Name, n, len(h.c.nodes), h.c.need)
		}
	}
	h.extending, h.extendErr = false, err
	if h.settled != nil {
		close(h.settled)
		h.settled = nil
	}
	return err == nil
}

// countLocked takes what the acquire's stragglers have answered by now into the
// hold's sets: a vote that was granted in the round that won counts, however late
// the answer. It returns those that have not answered yet.
//
// A master answers the acquire before anything that was sent to it later, so what
// later answers say of it is never undone here, if they are counted after this.
func (h *hold) countLocked() (silent uint64) {
	if h.acquireCall == nil {
		return 0
	}
	granted, maybe, silent := h.acquireCall.votes()
	h.grant.CountAcquire(granted, maybe, silent)
	if silent == 0 {
		h.dropAcquireCallLocked()
	}
	return silent
}

func (h *hold) dropAcquireCallLocked() {
	if h.acquireCall != nil {
		h.acquireCall.done()
		h.acquireCall = nil
	}
}

// count is the hold count to tell the masters: 0, which leaves it, while there is
// but one lease and always was.
func (h *hold) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = h.changes
	if !h.reentered {
		h.reentered = len(h.leases) > 1
	}
	if !h.reentered {
		return 0
	}
	return len(h.leases)
}

// voters are the masters whose yes counts in an extend, and silent those whose
// yes may do so yet: they have not answered the acquire.
func (h *hold) voters() (votes, silent uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	silent = h.countLocked()
	return h.grant.Votes(), silent
}

// confirm notes a vote that a master has although it was not counted, in a round
// that won without it.
func (h *hold) confirm(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.countLocked()
	h.grant.Confirm(i)
}

// topUp puts the vote back on master i, which lost it while a quorum of others
// had theirs. It counts from the next extend on, if it is acknowledged by then.
func (h *hold) topUp(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return // the releases have gone out; nothing may follow them
	}
	h.countLocked()
	sent := h.grant.TopUp(i)
	now := h.c.clock.Elapsed()
	h.c.nodes[i].Submit(&protocol.Op{To: topUpReply{h, sent}, Index: i, Request: &protocol.Request{
		Kind: protocol.TopUp, Lock: h.l, Holder: h.holder, TTL: h.ls.ttl, Count: len(h.leases),
		Start: now, Deadline: now + h.c.nodeTimeout,
	}})
}

// topUpReply takes the answer of a top-up.
type topUpReply struct {
	h    *hold
	sent holding.Proof
}

func (t topUpReply) Receive(op *protocol.Op) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if op.Reply.Outcome == protocol.Granted {
		t.h.grant.ToppedUp(op.Index, t.sent)
	}
}

// release gives every vote back, ends the hold and waits until a quorum has
// confirmed. It reports the errors of Unlock.
func (h *hold) release(ctx context.Context, was error, now time.Duration) error {
	h.mu.Lock()
	set := h.grant.Release(h.countLocked())
	h.dropAcquireCallLocked()
	h.mu.Unlock()
	h.c.renewer.remove(h)
	if set == 0 || errors.Is(was, ErrClosed) {
		return was
	}
	b := h.c.poll(set, h.c.need, &protocol.Request{
		Kind: protocol.Release, Lock: h.l, Holder: h.holder, Start: now,
		// A vote that is extended by an extend on its way just now lasts for one more TTL.
		Deadline: now + 2*(h.ls.ttl+h.c.drift.Of(h.ls.ttl)),
	})
	defer b.done()
	h.c.waiting.handOver(h.l)
	v := b.await(ctx, h.c.nodeTimeout)
	switch {
	case was != nil:
		return was
	case v == counting.Won:
		return nil
	}
	return h.unconfirmed(ctx, b)
}

// unconfirmed tells a lock that was gone from one that may still be there.
func (h *hold) unconfirmed(ctx context.Context, b *quorumCall) error {
	released, absent := 0, 0
	for _, r := range b.replies() {
		switch r.Outcome {
		case protocol.Granted:
			released++
		case protocol.Absent:
			absent++
		}
	}
	n := len(h.c.nodes)
	if n-absent < h.c.need {
		return fmt.Errorf("%w: %q: %d of %d masters had no vote of it any more", ErrLost, h.l.Name, absent, n)
	}
	err := fmt.Errorf("%w: %q: %d of %d masters released it, quorum is %d", ErrUnconfirmed, h.l.Name, released, n, h.c.need)
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return err
}
