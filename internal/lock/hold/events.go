// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/event"
)

// Events are what the holds of a client tell the rest of it. They are called while no mutex of this package is locked, but for Why.
type Events struct {
	// Released is told that the release of a lock was sent, and not that it was confirmed: whoever asks next asks behind it.
	Released func(*protocol.Lock)
	// Offer has the next caller of this process take over a lock, and returns what it has of the offer. If there is none the function, or what it returns, is nil.
	Offer func(attempt.Offer) *attempt.Offer
	// Why returns why no quorum of masters votes, or "". It is called with a hold locked.
	Why func() string
	// GaveUp returns the error of a caller whose context ended.
	GaveUp func(context.Context, *protocol.Lock) error

	// What observers are told. Nil: nobody wants to know.
	Ended    func(event.End)
	Extended func(event.Extend)
	Unlocked func(context.Context, event.Unlock)
}

// news is what happened to holds while a mutex was locked. Nil: nothing.
type news struct {
	ended    []event.End
	extended []event.Extend
}

func (n *news) tell(to *Events) {
	if n == nil {
		return
	}
	for _, e := range n.ended {
		to.Ended(e)
	}
	for _, e := range n.extended {
		to.Extended(e)
	}
}

// and returns the news of both.
func (n *news) and(o *news) *news {
	switch {
	case n == nil:
		return o
	case o != nil:
		n.ended, n.extended = append(n.ended, o.ended...), append(n.extended, o.extended...)
	}
	return n
}

// unlock unlocks the hold and tells what happened meanwhile. Who may have ended the hold calls it instead of
// h.mu.Unlock, and has no other mutex locked.
func (h *Hold) unlock() { h.unlockUntold().tell(&h.r.Events) }

// unlockUntold is unlock for a caller that has another mutex locked, and tells the news later.
func (h *Hold) unlockUntold() *news {
	n := h.untold
	h.untold = nil
	h.mu.Unlock()
	return n
}

// endedLocked is the news of the end of h.
func (h *Hold) endedLocked(end event.Ending) {
	if h.r.Events.Ended == nil {
		return
	}
	now := h.r.Masters.Clock.Elapsed()
	h.untold = h.untold.and(&news{ended: []event.End{{Lock: h.Lock.Name, Mode: h.Lock.Mode.Name(), Token: h.Token, Holder: h.Holder,
		Ending: end, Held: now - h.Granted, Left: max(h.votes.grant.Until()-now, 0), Err: h.ended}}})
}

// extendedLocked is the news of an extend that was decided with so much of the validity left.
func (h *Hold) extendedLocked(left time.Duration, err error) {
	if h.r.Events.Extended != nil {
		h.untold = h.untold.and(&news{extended: []event.Extend{{Lock: h.Lock.Name, Token: h.Token, Left: max(left, 0), Err: err}}})
	}
}

// tellUnlocked tells of a release that began at start.
func (h *Hold) tellUnlocked(ctx context.Context, start time.Duration, err error) {
	if told := h.r.Events.Unlocked; told != nil {
		told(ctx, event.Unlock{Lock: h.Lock.Name, Mode: h.Lock.Mode.Name(), Token: h.Token, Took: h.r.Masters.Clock.Elapsed() - start, Err: err})
	}
}
