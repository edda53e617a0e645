// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/holding"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/event"
)

// hold is one grant: a holder id, with its votes on the masters, its token and its validity.
// It has one lease, or more than one when the lock was re-entered. It ends with its last
// lease.
type hold struct {
	c      *Client
	l      *protocol.Lock
	ls     lockSettings
	holder string
	token  int64
	start  time.Duration // when the round that won began
	// granted is when the lease was made.
	granted time.Duration

	mu    sync.Mutex
	ended error // nil while held; then ErrReleased, ErrLost or ErrClosed
	// Invariant: while ended is nil, leases are the leases that were not unlocked. There is
	// at least one.
	leases    []*Lease
	reentered bool
	// first is the first lease, and one is the array of leases while it is the only one.
	// Most holds have no other, and so allocate once.
	first Lease
	one   [1]*Lease
	// changes counts the changes of leases. told is the value of changes whose count the
	// last extend has sent to the masters.
	changes, told int
	// grant says which votes count and until when the hold is valid. Read it after
	// countLocked only.
	grant holding.Grant
	// acquireCall is the call of the acquire until every master's answer was counted.
	acquireCall *quorum.Call
	answered    uint64 // the masters that gave it the vote or a place, and said so
	toppedUp    uint64 // the masters on which its vote was put back
	untold      *news  // what happened since the mutex was locked; see unlock
	abandoned   bool   // the lease was never used: the release lifts the rest of the lock
	surrendered bool   // Shutdown gave it back while it was held
	queued      bool   // a master may have the holder in the lock's queue

	extending bool          // one extend in flight at most
	settled   chan struct{} // closed when the extend is decided; made for callers that wait
	extendErr error         // of the last extend that was decided

	// These are the renewer's, and guarded by its mutex.
	due     time.Duration // when the renewer looks at this hold again
	renewAt time.Duration // never, if the lease is not to be renewed again
	pos     int           // in the renewer's heap; -1 outside
	dropped bool          // the hold was released
}

func (h *hold) err() error {
	h.mu.Lock()
	defer h.unlock()
	return h.errLocked()
}

// errLocked says why the hold is over, or nil. It reads the clock, because a timer may not
// have reported the end of validity yet: timers do not run while the host is suspended.
func (h *hold) errLocked() error { return h.errAtLocked(h.c.clock.Elapsed()) }

func (h *hold) errAtLocked(now time.Duration) error {
	if h.ended != nil {
		return h.ended
	}
	switch h.grant.Check(now, h.ls.margin(), h.c.trusted()) {
	case holding.Expired:
		text := "validity is over"
		if why := h.c.keeper.Reason(); why != "" {
			text += ": " + why
		} else if stood := h.c.renewer.stoodStill(h.grant.Until()-h.ls.ttl, now, h.ls.ttl/10); stood > 0 {
			text += fmt.Sprintf(": this process stood still for %v, so nothing renewed it", stood.Round(time.Millisecond))
		}
		end := event.EndExpired
		if h.ls.fixed || h.ls.maxHold > 0 && now-h.start > h.ls.maxHold {
			end = event.EndNotRenewed
		}
		h.endLocked(end, fmt.Errorf("%w: %q: %s", ErrLost, h.l.Name, text))
	case holding.Untrusted:
		h.endLocked(event.EndClock, fmt.Errorf("%w: %q: this host's clock jumped, and nobody knows how much of the validity is left", ErrLost, h.l.Name))
	}
	return h.ended
}

// endLocked ends the hold and its leases for good. Later calls do not change the cause.
func (h *hold) endLocked(end event.Ending, cause error) {
	if h.ended != nil {
		return
	}
	h.ended = cause
	if end.Lost() {
		h.c.stats.lost.Add(1)
	}
	h.endedLocked(end)
	for _, l := range h.leases {
		l.endLocked(cause)
	}
}

func (h *hold) end(end event.Ending, cause error) {
	h.mu.Lock()
	defer h.unlock()
	h.endLocked(end, cause)
}

// extend gives the hold a full TTL from now, and sends the number of leases to the masters.
// Only one extend is in flight at a time. A call during another extend shares its outcome. If
// the number of leases has changed since that extend was sent, the call then makes another.
func (h *hold) extend(ctx context.Context) error {
	h.mu.Lock()
	defer h.unlock()
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

// extended takes the outcome of an extend that began at start, and returns why the hold has no new
// end, or nil. See holding.Grant.Extended for confirmed and missing. The caller tells the news.
func (h *hold) extended(start time.Duration, confirmed, missing uint64) (told *news, over error) {
	h.mu.Lock()
	defer func() { told = h.unlockUntold() }()
	now := h.c.clock.Elapsed()
	left := h.grant.Until() - now
	err := h.errAtLocked(now) // after the end of validity a yes proves nothing
	if err == nil {
		silent := h.countLocked()
		switch h.grant.Extended(start, confirmed, missing, silent) {
		case holding.Lost:
			err = fmt.Errorf("%w: %q: %d of %d masters may still have the vote, quorum is %d", ErrLost,
				h.l.Name, h.grant.Left(missing, silent), len(h.c.masters.Nodes), h.c.masters.Need)
			h.endLocked(event.EndVotes, err)
		case holding.Unconfirmed:
			err = fmt.Errorf("%w: extending %q: %d of %d masters confirmed the vote, quorum is %d", ErrUnreachable,
				h.l.Name, bits.OnesCount64(confirmed), len(h.c.masters.Nodes), h.c.masters.Need)
		}
	}
	if len(h.c.tells.extended) > 0 {
		h.untold = h.untold.and(&news{extended: []event.Extend{{Lock: h.l.Name, Token: h.token, Left: max(left, 0), Err: err}}})
	}
	h.extending, h.extendErr = false, err
	if h.settled != nil {
		close(h.settled)
		h.settled = nil
	}
	return nil, err
}

// countLocked counts what the masters have answered to the acquire by now, and returns the
// masters that have not answered. Call it before the grant is read or told of a later answer:
// see holding.Grant.CountAcquire.
func (h *hold) countLocked() (silent uint64) {
	if h.acquireCall == nil {
		return 0
	}
	answers, definite, queued := acquired(h.acquireCall)
	h.queued = h.queued || queued
	h.answered |= definite
	h.grant.CountAcquire(answers)
	if answers.Silent == 0 {
		h.dropAcquireCallLocked()
	}
	return answers.Silent
}

func (h *hold) dropAcquireCallLocked() {
	if h.acquireCall != nil {
		h.acquireCall.Done()
		h.acquireCall = nil
	}
}

// count is the number of leases to send to the masters with an extend. It is 0, which leaves
// the number on the masters as it is, if there never was more than one lease.
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

// voters returns the masters whose yes counts in an extend, with votes that are known and with places, and the masters whose yes
// may count later, because they have not answered the acquire.
func (h *hold) voters() (votes, places, silent uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	silent = h.countLocked()
	return h.grant.Votes(), h.grant.Places(), silent
}

// confirm notes a vote that master i confirmed to an extend that won, and that did not count
// before.
func (h *hold) confirm(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.countLocked()
	h.grant.Confirm(i)
}

// topUp puts the vote back on master i, which lost it while a quorum of other masters had
// theirs. The vote counts from the next extend on, if the master acknowledges it by then.
func (h *hold) topUp(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return // a vote that follows the release would stay until its TTL ends
	}
	h.countLocked()
	h.toppedUp |= 1 << i
	sent := h.grant.TopUp(i)
	now := h.c.clock.Elapsed()
	h.c.masters.Nodes[i].Submit(&protocol.Op{To: topUpReply{h, sent}, Index: i, Request: &protocol.Request{
		Kind: protocol.TopUp, Lock: h.l, Holder: h.holder, TTL: h.ls.ttl, Count: len(h.leases),
		Start: now, Deadline: now + h.c.timeout(),
	}})
}

// topUpReply takes the answer to a top-up.
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

// giveBack gives back every vote and every place in a queue, and waits until a quorum has confirmed
// that for the votes. was is why the hold ended before, or nil. It returns the errors of Unlock.
//
// A master may hand the vote to the next waiter if it has answered the acquire, and was believed.
// That goes for a master too that answered that it queued the holder: if it has handed the vote to
// the holder since, it had that from one who was believed. A vote that was missing once, and was put
// back, is not handed on: the master's clock may have jumped, and another may still count a vote
// that ended too early there (H17 in docs/handoff.md).
func (h *hold) giveBack(ctx context.Context, was error, now time.Duration) error {
	if mutants.NoUnlock {
		h.c.renewer.remove(h)
		return was
	}
	h.mu.Lock()
	silent := h.countLocked()
	may := h.answered &^ h.toppedUp
	set, queued := h.grant.Release(silent), h.queued
	abandoned := h.abandoned
	h.dropAcquireCallLocked()
	h.mu.Unlock()
	if mutants.HandDoubted {
		may = set
	}
	h.c.renewer.remove(h)
	if set == 0 || errors.Is(was, ErrClosed) {
		return was
	}
	req := protocol.Request{
		Kind: protocol.Release, Lock: h.l, Holder: h.holder, Start: now,
		// An extend that is in flight may give the vote one more TTL.
		Deadline: now + 2*(h.ls.ttl+h.c.drift.Of(h.ls.ttl)),
	}
	if queued {
		req.Deadline = max(req.Deadline, now+leaveFor)
	}
	if abandoned && h.ls.minHold > 0 {
		req.Lift, req.Deadline = h.holder, max(req.Deadline, h.c.restOver(h.ls.minHold))
	}
	if was == nil && h.l.Mode != protocol.Read {
		req.Hand, req.Token = waiting.Liveness, h.c.tokens.Propose(h.c.clock.Wall())
	}
	b := h.c.masters.Call(h.c.masters.Need, &req)
	for rest := set &^ may; rest != 0; rest &= rest - 1 {
		b.Change(bits.TrailingZeros64(rest), func(r *protocol.Request) { r.Hand = 0 })
	}
	b.Send(set)
	b.Skip(h.c.masters.All &^ set)
	defer b.Done()
	h.c.waiting.handOver(h.l)
	v := b.Await(ctx, h.c.timeout())
	switch {
	case was != nil:
		return was
	case v == counting.Won:
		return nil
	}
	return h.unconfirmed(ctx, b)
}

// roundUp is d in whole milliseconds, as the masters get it.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// restOver is when a rest that a master puts now is over for sure.
func (c *Client) restOver(rest time.Duration) time.Duration {
	return c.clock.Elapsed() + rest + c.drift.Of(rest)
}

// unconfirmed is the error of a release that no quorum confirmed: ErrLost if a quorum had no
// vote of the lock any more, else ErrUnconfirmed.
func (h *hold) unconfirmed(ctx context.Context, b *quorum.Call) error {
	released, absent := 0, 0
	for _, r := range b.Replies() {
		switch r.Outcome {
		case protocol.Granted:
			released++
		case protocol.Absent:
			absent++
		}
	}
	n := len(h.c.masters.Nodes)
	if n-absent < h.c.masters.Need {
		return fmt.Errorf("%w: %q: %d of %d masters had no vote of it any more", ErrLost, h.l.Name, absent, n)
	}
	err := fmt.Errorf("%w: %q: %d of %d masters released it, quorum is %d", ErrUnconfirmed, h.l.Name, released, n, h.c.masters.Need)
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return err
}
