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
	Liveness, HeartbeatEvery = protocol.Liveness, time.Second
	// PauseMin and PauseMax bound the back-off after rounds that split the votes or found
	// too few masters.
	PauseMin, PauseMax = 2 * time.Millisecond, 100 * time.Millisecond
	// tripMax is the longest trip that a contender allows messages for. An attempt that took longer had masters that did not answer,
	// and votes that wait for others keep those from a quorum.
	tripMax = time.Second
	// checkMax is the longest time that a waiter relies on being woken, and nextMax that of a
	// waiter that is next: it finds a vote that it was handed unheard before that vote is over.
	checkMax, nextMax = 5 * time.Second, Liveness - HeartbeatEvery
	// recoveryLook is the longest time until a waiter looks at masters that recover again.
	// Another client may end the recovery, and this one need not notice.
	recoveryLook = 5 * time.Second
	// silentLook is the same while masters that do not answer could make the quorum. One that
	// answers again wakes the contender.
	silentLook = time.Second
)

// Place is the contender's place in the masters' queues. Each round takes it under a holder id of
// its own. The caller whose turn it is has it. The zero value is no place.
type Place struct {
	// Ticket is the same for all masters and all rounds, so that all masters have one order (H11
	// in docs/internals/handoff.md).
	Ticket int64
	Asked  bool // a round has asked with the ticket

	pause time.Duration // the last back-off
}

// Ticket returns the time on the masters' clocks in microseconds, as the client estimates it:
// now, on the client's clock, and the median of how far the masters' clocks are ahead of it. So no
// client's time of day and no single master's clock decides the order. It is 1 or more.
func Ticket(now time.Duration, ahead []time.Duration) int64 {
	if len(ahead) == 0 {
		return 1
	}
	slices.Sort(ahead)
	return max((now + ahead[len(ahead)/2]).Microseconds(), 1)
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
	// MayVote is how many masters vote, or did not answer and may vote.
	MayVote int
	// Within is how long a waiter that is next sleeps at most; 0: for as long as it may rely on being woken.
	Within time.Duration
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

// soonest is when a quorum could be free if each master that has not answered yet is free by then. A round ends at the refusals of
// a quorum, and RetryAfter is of these; the other masters, which may have answered since, may have less time left.
func (r *Round) soonest() time.Duration {
	var left []time.Duration
	at, open := r.Need-1, 0
	for i := range r.Replies {
		switch reply := &r.Replies[i]; {
		case reply.Outcome == protocol.Unknown && reply.Err == nil:
			open++
		case reply.Outcome == protocol.Granted:
			at--
		case reply.Outcome == protocol.Held && reply.Remaining > 0:
			left = append(left, reply.Remaining)
		}
	}
	at -= open
	if at < 0 || at >= len(left) {
		return r.RetryAfter
	}
	slices.Sort(left)
	return min(r.RetryAfter, left[at])
}

// Patience is how long to wait without being woken. jitter(d) is a random time below d.
func (p *Place) Patience(r *Round, jitter func(time.Duration) time.Duration) time.Duration {
	pause := p.pause
	p.pause = 0
	switch {
	case r.Recovering && r.RetryAfter > 0:
		// The masters say when. Each that votes sooner wakes the contender.
		look := recoveryLook
		if r.MayVote >= r.Need {
			look = silentLook
		}
		return min(r.RetryAfter, look) + jitter(10*time.Millisecond)
	case r.split():
		// Half fixed, half random: contenders that split the votes must not meet
		// again (docs/safety.md A23).
		p.pause = min(max(2*pause, PauseMin), PauseMax)
		return p.pause/2 + jitter(p.pause/2)
	case !r.Behind:
		within := nextMax
		if r.Within > 0 {
			within = min(within, r.Within)
		}
		return min(r.soonest(), within) + time.Millisecond + jitter(time.Millisecond)
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
