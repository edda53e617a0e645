// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

const (
	// Liveness is how long a client's waiters stay in the masters' queues without a
	// heartbeat. HeartbeatEvery is how often a client sends one.
	Liveness, HeartbeatEvery = 3 * time.Second, time.Second
	// PauseMin and PauseMax bound the back-off after rounds that split the votes or found
	// too few masters.
	PauseMin, PauseMax = 2 * time.Millisecond, 100 * time.Millisecond
	// checkMax is the longest time that a waiter relies on being woken.
	checkMax = 5 * time.Second
	// recoveryLook is the longest time until a waiter looks at masters that recover again.
	// Another client may end the recovery, and this one need not notice.
	recoveryLook = 5 * time.Second
)

// Place is a contender's place in the masters' queues. The caller whose turn it is has it,
// and the next caller takes it over. The zero value is no place.
type Place struct {
	Ticket int64  // the place; 0 while it is not known
	Queued uint64 // the masters that may have the contender in their queue

	given []int64       // by master, the tickets that too few masters gave to fix the ticket; nil when it is fixed
	pause time.Duration // the last back-off
}

// TicketAt is the ticket to present to master i: the one that is fixed, else the one that the
// master gave. Without it the master would give a later one.
func (p *Place) TicketAt(i int) int64 {
	if p.given != nil {
		return p.given[i]
	}
	return p.Ticket
}

// MayQueue says whether a master that gave reply to an acquire that waits may have the
// waiter in its queue.
func MayQueue(reply *protocol.Reply) bool {
	return reply.Outcome != protocol.Granted && reply.Outcome != protocol.NotSent
}

// Granted is the end of a round that gave a lease. queued are the masters that may have the
// contender in their queue by their answers, settled those that granted. A master that
// granted has taken the contender out of its queue.
func (p *Place) Granted(queued, settled uint64) { p.Queued = p.Queued&^settled | queued }

// Refused is the end of a round that gave no lease. It says whether the place is known: then
// the contender is to be put into the queues of the masters that granted in vain.
//
// The ticket is fixed by the first need masters that gave one, in one round or in several. It
// is the median of theirs, so that no client's clock and no single master's clock decides the
// order. It is sent to all masters from then on, which makes the order the same everywhere.
func (p *Place) Refused(replies []protocol.Reply, need int) (known bool) {
	if p.Ticket == 0 {
		if p.given == nil {
			p.given = make([]int64, len(replies))
		}
		var tickets []int64
		for i, r := range replies {
			if p.given[i] == 0 {
				p.given[i] = r.Ticket
			}
			if p.given[i] > 0 {
				tickets = append(tickets, p.given[i])
			}
		}
		if len(tickets) >= need {
			slices.Sort(tickets)
			p.Ticket, p.given = tickets[len(tickets)/2], nil
		}
	}
	known = p.Ticket != 0
	for i := range replies {
		switch {
		case MayQueue(&replies[i]), known && replies[i].Outcome == protocol.Granted:
			p.Queued |= 1 << i
		case replies[i].Outcome == protocol.Granted:
			p.Queued &^= 1 << i
		}
	}
	return known
}

// Behind says whether others wait before the contender on so many masters that it is not
// next.
func Behind(replies []protocol.Reply, need int) bool {
	head := 0
	for _, r := range replies {
		if r.Outcome == protocol.Granted || r.Outcome == protocol.Held && r.Ahead == 0 {
			head++
		}
	}
	return head < need
}

// Round is what a round saw that gave no lease.
type Round struct {
	Replies []protocol.Reply
	Need    int
	Behind  bool // see [Behind]
	// Held and Recovering are the round's error. Granted says whether a master granted.
	Held, Recovering, Granted bool
	// RetryAfter is when a quorum could be free; 0 when that is not known.
	RetryAfter time.Duration
}

// split says whether the votes are split, or too few masters answered. If a quorum is taken
// the votes are not split: masters that granted then lack the holder's vote, and to ask again
// before they wake the contender would be polling.
func (r *Round) split() bool {
	taken := 0
	for i := range r.Replies {
		if at := &r.Replies[i]; at.Outcome == protocol.Held && at.Remaining > 0 {
			taken++
		}
	}
	return taken < r.Need && (r.Granted || !r.Held || r.RetryAfter == 0 && !r.Behind)
}

// Patience is how long to wait without being woken. jitter(d) is a random time below d.
func (p *Place) Patience(r *Round, jitter func(time.Duration) time.Duration) time.Duration {
	pause := p.pause
	p.pause = 0
	switch {
	case r.Recovering && r.RetryAfter > 0:
		// The masters say when. Each that votes sooner wakes the contender.
		return min(r.RetryAfter, recoveryLook) + jitter(10*time.Millisecond)
	case r.split():
		// Half fixed, half random: contenders that split the votes must not meet
		// again (docs/safety.md A23).
		p.pause = min(max(2*pause, PauseMin), PauseMax)
		return p.pause/2 + jitter(p.pause/2)
	case !r.Behind:
		return min(r.RetryAfter, checkMax) + time.Millisecond + jitter(time.Millisecond)
	}
	// The waiter right behind a dead head finds that out first. Waiters further back give
	// it time to.
	patience := checkMax
	for i := range r.Replies {
		if at := &r.Replies[i]; at.Outcome == protocol.Held && at.Ahead != 0 {
			patience = min(patience, time.Duration(min(at.Ahead, 4))*(HeartbeatEvery-HeartbeatEvery/4))
		}
	}
	return patience + jitter(HeartbeatEvery/8)
}
