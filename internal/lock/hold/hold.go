// SPDX-License-Identifier: Apache-2.0

// Package hold is the life of a lock that was granted: its votes, its validity, its extends, and its end.
//
// What is decided, package grant decides: it is told what the masters answered and what the time is. This package drives it:
//
//   - [Hold] is one grant. Each lease has a [Share] in it, and the hold ends with the last of them.
//   - [Renewer] extends all holds of a client in batches, and ends those whose validity is over.
//
// The steps of a hold. A step that is not in the table does not happen; "ended" is the end for good:
//
//	| state     | on                      | does                                            | next      |
//	| --------- | ----------------------- | ----------------------------------------------- | --------- |
//	| held      | Extend, the renewer     | sends an extend to all masters                  | extending |
//	| held      | its time is over        | tells the leases                                | ended     |
//	| held      | Release                 | sends or offers it: it may hand the lock on     | ended     |
//	| held      | GiveAway                | leaves the votes to an adopter                  | ended     |
//	| held      | Surrender, Close        | tells the leases                                | ended     |
//	| extending | a quorum confirmed      | a new end; puts missing votes back              | held      |
//	| extending | too few answered        | the old end stands; asks again soon             | held      |
//	| extending | too few votes are left  | tells the leases                                | ended     |
//	| extending | its time is over        | tells the leases; later answers change nothing  | ended     |
//	| extending | Release, GiveAway       | as held; the extend's answers change nothing    | ended     |
//	| ended     | a top-up                | sends nothing: the vote would follow a release  | ended     |
//	| ended     | Release                 | sends a release that hands nothing on           | ended     |
//
// Mutexes are locked in this order: a batch's, the renewer's, a hold's, a call's. Sets of masters are bits of a uint64. Times are on the
// client's clock.
package hold

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/grant"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/event"
)

// Hold is one grant: a holder id, with its votes on the masters, its token and its validity.
type Hold struct {
	r      *Renewer
	Lock   *protocol.Lock
	Terms  Terms
	Holder string
	Token  int64
	// Start is when its votes count from. Granted is when it was made.
	Start, Granted time.Duration

	mu      sync.Mutex
	ended   error // nil while held; then errs.ErrReleased, errs.ErrLost or errs.ErrClosed
	shares  shares
	votes   votes
	extends extends
	parting parting
	// announced says that the term of one of the shares is announced, for all of them.
	announced bool
	untold    *news // what happened since the mutex was locked; see unlock

	slot slot // the renewer's
}

// extends are the extends of one hold: one is in flight at most.
//
// Invariant: begun is over, or one more while one is in flight.
type extends struct {
	begun, over int
	decided     chan struct{} // closed when the one in flight is decided; made for callers that wait
	err         error         // of the last one that was decided
}

func (e *extends) inFlight() bool { return e.begun > e.over }

// parting is how a hold's votes are given back.
type parting uint8

const (
	unlocked    parting = iota
	abandoned           // nobody used it: the release lifts the rest of the lock
	surrendered         // they were released while it was held
)

// Init makes h the hold of an attempt that was won, with s as its first share.
func (h *Hold) Init(r *Renewer, w *attempt.Won, terms Terms, s *Share) {
	m := r.Masters
	h.r, h.Lock, h.Terms, h.Holder, h.Token, h.Start, h.Granted = r, w.Lock, terms, w.Holder, w.Token, w.From, w.Granted
	h.votes = votes{grant: grant.New(m.Need, m.All, w.Start, w.From, w.Until, m.Drift.Validity(terms.TTL, 0)), acquire: w.Call}
	h.slot.pos = -1
	s.h = h
	h.shares.add(s)
}

// Until is when the hold ends unless it is extended before.
func (h *Hold) Until() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.votes.grant.Until()
}

// ttlLocked is for how long the votes last that the validity rests on. Until the first extend that is not the TTL of the lock if a master
// handed them.
func (h *Hold) ttlLocked() time.Duration {
	if h.votes.grant.Short() {
		return min(protocol.Liveness, h.Terms.TTL)
	}
	return h.Terms.TTL
}

// lastCall is when the hold ends if it is not extended.
func (h *Hold) lastCall() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.votes.grant.Until() - Margin(h.ttlLocked())
}

// pause is how long after an extend that too few masters answered the next one begins.
func (h *Hold) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.ttlLocked()/20, time.Millisecond)
}

func (h *Hold) standsLocked(now time.Duration) grant.Standing {
	return h.votes.grant.Check(now, Margin(h.ttlLocked()), h.r.Masters.Trusted())
}

// errLocked says why the hold is over, or nil. It reads the clock, because a timer may not
// have reported the end of validity yet: timers do not run while the host is suspended.
func (h *Hold) errLocked() error { return h.errAtLocked(h.r.Masters.Clock.Elapsed()) }

func (h *Hold) errAtLocked(now time.Duration) error {
	if h.ended != nil {
		return h.ended
	}
	switch h.standsLocked(now) {
	case grant.Expired:
		h.expireLocked(now)
	case grant.Untrusted:
		h.endLocked(event.EndClock, fmt.Errorf("%w: %q: this host's clock jumped, and nobody knows how much of the validity is left", errs.ErrLost, h.Lock.Name))
	}
	return h.ended
}

// expireLocked ends the hold because its validity is over at now.
func (h *Hold) expireLocked(now time.Duration) {
	text, end, ttl := "validity is over", event.EndExpired, h.ttlLocked()
	why, stood := h.r.Events.Why(), h.r.stoodStill(h.votes.grant.Until()-ttl, now)
	switch {
	case h.Terms.Fixed:
		text, end = text+": it is not renewed", event.EndNotRenewed
	case h.Terms.tooLong(h.Start, now):
		text, end = fmt.Sprintf("%s: it reached its maximum hold of %v", text, h.Terms.MaxHold), event.EndNotRenewed
	case why != "":
		text += ": " + why
	case stood >= ttl/10 && h.extends.err == nil:
		text += fmt.Sprintf(": this process stood still for %v, so nothing renewed it", stood.Round(time.Millisecond))
	case stood >= ttl/10:
		text += fmt.Sprintf(": %v; this process stood still for %v", h.extends.err, stood.Round(time.Millisecond))
	case h.extends.err != nil:
		text += ": " + h.extends.err.Error()
	}
	h.endLocked(end, fmt.Errorf("%w: %q: %s", errs.ErrLost, h.Lock.Name, text))
}

// endLocked ends the hold and its shares for good. Later calls do not change the cause.
func (h *Hold) endLocked(end event.Ending, cause error) {
	if h.ended != nil {
		return
	}
	h.ended = cause
	if end.Lost() {
		h.r.Lost.Add(1)
	}
	h.endedLocked(end)
	for _, s := range h.shares.list {
		s.endLocked(cause)
	}
}

func (h *Hold) end(end event.Ending, cause error) {
	h.mu.Lock()
	defer h.unlock()
	h.endLocked(end, cause)
}

// Extend gives the hold a full TTL from now, and sends the number of shares to the masters. Only one extend is in flight at a time. Calls
// during another one share the next: masters may have answered the other before the call, and have lost the vote since.
func (h *Hold) Extend(ctx context.Context) error {
	h.mu.Lock()
	defer h.unlock()
	for want := h.extends.begun + 1; ; {
		if err := h.errLocked(); err != nil {
			return err
		}
		first := !h.extends.inFlight()
		if first {
			h.extends.begun++
		}
		if h.extends.decided == nil {
			h.extends.decided = make(chan struct{})
		}
		decided := h.extends.decided
		h.mu.Unlock()
		if first {
			h.r.extend([]*Hold{h}, nil)
		}
		var gone error
		select {
		case <-decided:
		case <-ctx.Done():
			gone = h.r.Events.GaveUp(ctx, h.Lock)
		}
		h.mu.Lock()
		switch {
		case gone != nil:
			return gone
		case h.extends.over >= want:
			return h.extends.err
		}
	}
}

// extended takes the outcome of an extend that began at start, and returns why the hold has no new
// end, or nil. See [grant.Grant.Extended] for confirmed. why is text, of a master that did not confirm, or empty. The caller tells the news.
func (h *Hold) extended(start time.Duration, confirmed uint64, why string) (told *news, over error) {
	h.mu.Lock()
	defer func() { told = h.unlockUntold() }()
	m := h.r.Masters
	now := m.Clock.Elapsed()
	left := h.votes.grant.Until() - now
	err := h.errAtLocked(now) // after the end of validity a yes proves nothing
	if err == nil {
		silent := h.votes.count()
		switch h.votes.grant.Extended(start, confirmed, silent) {
		case grant.Lost:
			err = fmt.Errorf("%w: %q: %d of %d masters may still have the vote, quorum is %d", errs.ErrLost,
				h.Lock.Name, h.votes.grant.Left(silent), len(m.Nodes), m.Need)
			h.endLocked(event.EndVotes, err)
		case grant.Unconfirmed:
			err = fmt.Errorf("%w: extending %q: %d of %d masters confirmed the vote, quorum is %d%s", errs.ErrUnreachable,
				h.Lock.Name, bits.OnesCount64(confirmed), len(m.Nodes), m.Need, why)
		}
	}
	h.extendedLocked(left, err)
	h.extends.over, h.extends.err = h.extends.begun, err
	if h.extends.decided != nil {
		close(h.extends.decided)
		h.extends.decided = nil
	}
	return nil, err
}

// Announces says that the term of a share is announced from now on, or no more. It returns what was said before.
func (h *Hold) Announces(now bool) (before bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.announced = h.announced, now
	return before
}

// item is what an extend asks of the masters for the hold.
func (h *Hold) item() protocol.Item {
	h.mu.Lock()
	defer h.mu.Unlock()
	return protocol.Item{Lock: h.Lock, Holder: h.Holder, Count: h.shares.count()}
}

// Voters returns the masters whose yes counts in an extend, with votes that are known and with places, and the masters whose yes
// may count later, because they have not answered the acquire.
func (h *Hold) Voters() (votes, places, silent uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	silent = h.votes.count()
	return h.votes.grant.Votes(), h.votes.grant.Places(), silent
}

// seen takes, at now, the answer of master i, whether its vote is there, to an extend that began at start. It says whether a yes may count in that extend.
func (h *Hold) seen(i int, intact bool, start, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.votes.count()
	if !intact {
		h.votes.grant.Missing(i)
		return true
	}
	return h.votes.grant.Seen(i, start, now, h.votes.replaced(i, h.r.Masters.Nodes[i]))
}

// confirm notes a vote that master i confirmed to an extend that began at start and won, and that did not count
// before.
func (h *Hold) confirm(i int, start time.Duration) {
	now := h.r.Masters.Clock.Elapsed()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.votes.count()
	h.votes.grant.Confirm(i, start, now)
}

// topUp puts the vote back on master i, which lost it while a quorum of other masters had
// theirs. The vote counts from the next extend on, if the master acknowledges it by then.
func (h *Hold) topUp(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return // a vote that follows the release would stay until its TTL ends
	}
	h.votes.count()
	h.votes.toppedUp |= 1 << i
	m := h.r.Masters
	now := m.Clock.Elapsed()
	sent := h.votes.grant.TopUp(i, now)
	m.Nodes[i].Submit(&protocol.Op{To: topUpReply{h, sent}, Index: i, Request: &protocol.Request{
		Kind: protocol.TopUp, Lock: h.Lock, Holder: h.Holder, TTL: h.Terms.TTL, Count: len(h.shares.list),
		Start: now, Deadline: now + m.Timeout(),
	}})
}

// topUpReply takes the answer to a top-up.
type topUpReply struct {
	h    *Hold
	sent grant.Proof
}

func (t topUpReply) Receive(op *protocol.Op) {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if op.Reply.Outcome == protocol.Granted {
		t.h.votes.grant.ToppedUp(op.Index, t.sent, t.h.r.Masters.Clock.Elapsed())
	}
}
