// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/event"
)

// Surrender ends a hold that is to be released although its shares were not given back. It says whether it
// was held.
func (h *Hold) Surrender() bool {
	h.mu.Lock()
	defer h.unlock()
	if h.errLocked() != nil {
		return false
	}
	h.parting = surrendered
	h.endLocked(event.EndClosed, errs.ErrClosed)
	return true
}

// Release gives back every vote and every place in a queue of a hold that ended at now, and waits until a quorum has confirmed
// that for the votes. was is why the hold ended before, or nil. It returns was, or
//
//	nil                   a quorum had the vote and dropped it
//	errs.ErrLost          a quorum had no vote any more
//	errs.ErrUnconfirmed   too few masters answered
//
// and tells the observers. Whatever it returns, the releases are sent again until the masters acknowledge them or nothing can be left of them.
func (h *Hold) Release(ctx context.Context, was error, now time.Duration) error {
	err := h.giveBack(ctx, was, now)
	h.tellUnlocked(ctx, now, err)
	return err
}

// giveBack is Release that tells nobody.
func (h *Hold) giveBack(ctx context.Context, was error, now time.Duration) error {
	if mutants.NoUnlock {
		h.r.remove(h)
		return was
	}
	m := h.r.Masters
	var req protocol.Request // Call copies it, so it stays on the stack
	set, mayHand, doubted := h.parts(&req, was, now)
	if set == 0 || errors.Is(was, errs.ErrClosed) {
		h.r.remove(h)
		return was
	}
	call := m.Call(m.Need, &req)
	call.Change(set&^mayHand, func(r *protocol.Request) { r.Hand = 0 })
	defer call.Done()
	var v counting.Verdict
	o := attempt.Offer{Lock: h.Lock, Holder: h.Holder, Token: h.Token, Set: set, Release: call, Holding: h}
	if offered := h.offer(o, was, doubted); offered != nil {
		v = offered.Await(ctx, m)
	} else {
		o.Decline(m.All)
		h.r.Events.Released(h.Lock)
		v = call.Await(ctx, m.Timeout())
	}
	switch {
	case was != nil:
		return was
	case v == counting.Won:
		return nil
	}
	return h.unconfirmed(ctx, call, set)
}

// offer offers the lock to the next caller of this process, and returns what that has of it, or nil if there is none that may have it. A lock that
// rests is nobody's, also not of that caller; a master looks at the rest when it is asked for the lock, and not when it is asked to pass it on. A lock
// with a vote that may not be handed on is not offered either: the next holder would not know, and could hand it on from that master (see parts).
func (h *Hold) offer(o attempt.Offer, was error, doubted bool) *attempt.Offer {
	if was != nil || doubted || h.Lock.Mode != protocol.Plain || h.Terms.MinHold != 0 || h.Terms.Kept || h.r.Events.Offer == nil {
		return nil
	}
	return h.r.Events.Offer(o)
}

// Released says that the releases are on their way, or not needed. When the renewer has no hold any more, Shutdown closes the connections.
func (h *Hold) Released() { h.r.remove(h) }

// parts fills in the release of a hold that ends at now. It returns the masters that get it, and those of them that may hand the vote to the
// next waiter, and whether one that has answered the acquire may have a vote and not hand it.
//
// A master may do that if it has answered the acquire, and was believed. That goes for a master too that answered that it queued the holder: if it
// has handed the vote to the holder since, it had that from one who was believed. A vote that was missing once, and was put back, is not handed on:
// the master's clock may have jumped, and another may still count a vote that ended too early there (H17 in docs/internals/handoff.md).
func (h *Hold) parts(req *protocol.Request, was error, now time.Duration) (set, mayHand uint64, doubted bool) {
	m := h.r.Masters
	h.mu.Lock()
	silent := h.votes.count()
	mayHand, set = h.votes.answered&^h.votes.toppedUp, h.votes.grant.Release(silent)
	doubted = set&^silent&^mayHand != 0
	queued, lifts := h.votes.queued, (h.parting == abandoned || mutants.RestLifted) && h.Terms.MinHold > 0
	h.votes.dropAcquire()
	h.mu.Unlock()
	if mutants.HandDoubted {
		mayHand = set
	}
	*req = protocol.Request{
		Kind: protocol.Release, Lock: h.Lock, Holder: h.Holder, Start: now,
		// An extend that is in flight may give the vote one more TTL.
		Deadline: now + 2*m.Lives(h.Lock, h.Terms.TTL),
	}
	if queued {
		req.Deadline = max(req.Deadline, now+quorum.LeaveFor)
	}
	if lifts {
		req.Lift, req.Deadline = h.Holder, max(req.Deadline, m.RestOver(h.Terms.MinHold))
	}
	if was == nil && h.Lock.Mode != protocol.Read {
		req.Hand, req.Token = protocol.Liveness, h.r.Propose()
	}
	return set, mayHand, doubted
}

// unconfirmed is the error of a release to the masters in the set that no quorum confirmed: ErrLost if a
// quorum had no vote of the lock any more, else ErrUnconfirmed.
func (h *Hold) unconfirmed(ctx context.Context, call *quorum.Call, set uint64) error {
	m, n := h.r.Masters, len(h.r.Masters.Nodes)
	released, absent, why := 0, n-bits.OnesCount64(set), "" // the others never had the vote
	for _, r := range call.Replies() {
		if r.Err != nil {
			why = "; " + r.Err.Error()
		}
		switch r.Outcome {
		case protocol.Granted:
			released++
		case protocol.Absent:
			absent++
		}
	}
	if n-absent < m.Need {
		return fmt.Errorf("%w: %q: %d of %d masters had no vote of it any more", errs.ErrLost, h.Lock.Name, absent, n)
	}
	err := fmt.Errorf("%w: %q: %d of %d masters released it, quorum is %d%s", errs.ErrUnconfirmed, h.Lock.Name, released, n, m.Need, why)
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, errs.OfContext(ctx))
	}
	return err
}

// GiveAway ends the share, which must be the only one, and with it the hold. It leaves the hold's votes, on the masters that it returns, to
// whoever adopts them. What may be on the other masters is released: a place there must not become a vote of a holder that is over. On an
// error nothing has changed. If the share has ended, the error is why: others may go on with the hold.
func (s *Share) GiveAway() (given uint64, err error) {
	h, m := s.h, s.h.r.Masters
	now := m.Clock.Elapsed()
	h.mu.Lock()
	if err := s.errLocked(); err != nil {
		h.unlock()
		return 0, err
	}
	if n := len(h.shares.list); n != 1 {
		h.unlock()
		return 0, fmt.Errorf("%w: %q was re-entered: unlock the other %d leases before it is handed off", errs.ErrConfig, h.Lock.Name, n-1)
	}
	silent := h.votes.count()
	// A vote that was put back may be put back once more, by what lies unread on a connection that broke. With it the voucher could be used a second time.
	given = h.votes.grant.Votes() &^ h.votes.toppedUp
	if n := bits.OnesCount64(given); n < m.Need {
		h.unlock()
		return 0, fmt.Errorf("%w: handing off %q: %d of %d masters have had the vote since the grant, quorum is %d; unlock it, and have the other process lock it", errs.ErrUnreachable, h.Lock.Name, n, len(m.Nodes), m.Need)
	}
	if mutants.GiverGoesOn {
		h.unlock()
		return given, nil
	}
	h.endLocked(event.EndReleased, errs.ErrReleased) // the giver's context ends before anybody can have the voucher
	h.shares.drop(s)
	others := h.votes.grant.Release(silent) &^ given
	h.votes.dropAcquire()
	h.unlock()
	if others != 0 {
		m.Poll(others, 0, &protocol.Request{Kind: protocol.Release, Lock: h.Lock, Holder: h.Holder, Start: now,
			Deadline: now + max(2*m.Lives(h.Lock, h.Terms.TTL), quorum.LeaveFor)}).Done()
	}
	h.r.remove(h) // as in giveBack
	return given, nil
}
