// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Kind is what happened.
type Kind uint8

// The kinds of events.
const (
	Turn         Kind = iota // a caller gets the turn; Ticket
	Awake                    // the caller whose turn it is is awake; Votes
	Decided                  // the attempt under way is decided; some masters may not have been asked
	Outvoted                 // the open attempt has a quorum of votes, and gives no lease
	Refused                  // the attempt under way gave no lease; Round, Votes; Silent, Now, Joined and Patience for an outage
	Placed                   // places without votes were asked for; Votes, Now
	Vote                     // a vote came for the attempt, by a reply or by a message; Votes, of which Some counts as set
	Free                     // on the masters in Set the lock was free when they gave the caller the first place, and no vote
	Wake                     // masters released the lock, or vote again; Set
	Heard                    // masters published on Redisson's channel; Set
	ReleasedHere             // this process released the lock; Votes, Now, Way
	Timer                    // the time is over that was armed
	CtxDone                  // the caller gives up
	Left                     // the caller whose turn it was has left the line; Granted, Next, Now
	Closed                   // the client is over
)

// Votes is what the attempt has that is open or under way.
type Votes struct {
	Won      bool // a quorum of votes
	Some     bool // a vote
	Told     bool // a vote of which a message told
	Handable bool // its places may become votes
}

// Event is what happened. The fields of its kind count, and no others.
type Event struct {
	Kind  Kind
	Votes Votes

	Set           uint64 // Wake, Heard, Free, Placed: masters; of Placed those of Free
	Granted, Next bool   // Left: the caller has the lock; another caller is in the line
	Ticket        int64  // Turn
	// Round is what the refused attempt saw. Silent says that no quorum of masters answered.
	Round  *Round
	Silent bool
	// Now is the client's elapsed time. Joined is when the caller began to wait, and Patience how long it waits for masters that do
	// not answer.
	Now, Joined, Patience time.Duration
	Trip                  time.Duration // of any event: how long the masters took to answer the last attempt
	Way                   time.Duration // ReleasedHere: how long a trip to a quorum takes; 0: it is not known
	// Jitter is the chance in the answer: a random time below its argument.
	Jitter func(time.Duration) time.Duration
}

// Act is what is to be done.
type Act uint8

// The acts of a [Do].
const (
	Nothing   Act = iota
	Begin         // make an attempt, which gives back the open one: next it is Awake
	Ask           // ask the masters in Set
	Skip          // do not ask the masters in Set
	Take          // the open attempt has won: make a lease of it
	QueueOnly     // give the open attempt back, and take places without votes: next it is Placed
	GiveBack      // give back what the attempt has
	PassTurn      // the first in the line gets its turn: next it is Turn
	Fail          // the masters have been out of reach for too long: the caller gets the error
)

// Do is the answer to an event.
type Do struct {
	Act   Act
	Set   uint64        // Ask, Skip
	Again uint64        // the masters that an attempt which is not decided asks a second time, if they have refused it
	Arm   time.Duration // the timer is set to that; 0: it stays
	Retry bool          // Begin: the ticket has asked before
	Wake  bool          // the caller whose turn it is is to be woken
}

// A hold of less than briefHold, or than a trip to masters that are farther, is over before an acquire is answered: see Machine.brief. passAfter
// is how long the next caller waits for the end of a hold that was expected to be brief, beside a trip. Masters to which a trip takes nearby or
// less are near.
const briefHold, passAfter, nearby = 500 * time.Microsecond, 2 * time.Millisecond, 2 * time.Millisecond

// Machine decides for the caller whose turn it is in one line of callers. It is pure, and not safe for concurrent use.
// Make one with [NewMachine].
type Machine struct {
	all     uint64 // all masters
	state   State
	asked   uint64 // the masters that the attempt under way has asked
	wakes   Wakes
	place   Place
	retries int // how often the caller asked again with some votes in its turn
	// patience is how long the caller may sleep without a vote or a wake, from the last refusal on. silence is since when no quorum answers;
	// 0 while one does. It belongs to the line, because an outage concerns all callers at once.
	patience, refused, silence time.Duration
	// grantedAt is when the last lease was granted. brief is not 0 if the line's last hold was brief, and then how long the next caller waits for
	// the end of a hold. The turn is then passed with the release: one call of each master has both the release and the next acquire, and the
	// release need not wait until the acquire is answered. Else the turn is passed at once, and the place is in the queues when the release comes.
	grantedAt, brief time.Duration
	// expecting says that this process released the lock: votes for the attempt that is open or under way are about to come by messages.
	expecting bool
}

// NewMachine returns a machine for a lock on the masters in the set.
func NewMachine(all uint64) Machine { return Machine{all: all} }

// State returns where the caller stands.
func (m *Machine) State() State { return m.state }

// Ticket is that of the caller whose turn it is.
func (m *Machine) Ticket() int64 { return m.place.Ticket }

// Foreign says whether Redisson held the lock somewhere when the last attempt was refused.
func (m *Machine) Foreign() bool { return m.wakes.Foreign() }

// Outage says whether no quorum has answered for longer than the patience of a caller that has waited since joined.
func (m *Machine) Outage(now, joined, patience time.Duration) bool {
	return m.silence != 0 && now-max(m.silence, joined) >= patience
}

// Offers says whether a hold that ends now is offered to the next caller of this process, where a trip to the farthest master takes so long: it was
// brief, and so was the one before it, and the masters are near. Farther away the masters' time is not what is short, a hand costs the same trip as
// that, and other processes would wait for a trip for each caller that takes over. One master that is far falls behind: it learns of 16 holders
// when other processes have had their turn, and its votes split from the rest.
func (m *Machine) Offers(now, farthest time.Duration) bool {
	return m.state == Passing && now-m.grantedAt < briefHold && farthest <= nearby
}

// Ready says whether there is something to do for the caller, so that [Awake] is of use.
func (m *Machine) Ready(v Votes) bool {
	switch {
	case m.state == StepBack || v.Won:
		return true
	case m.state == Gathering: // it was handed votes: a wake of another master must not end that
		return m.wakes.All()
	}
	return m.wakes.Ready()
}

// Next takes an event and says what is to be done.
func (m *Machine) Next(e Event) Do {
	switch e.Kind {
	case Turn:
		m.state, m.retries = Begun, 0
		m.place = Place{Ticket: e.Ticket, Asked: m.place.Asked}
		m.wakes.Turn()
	case Awake:
		return m.awake(&e)
	case Decided:
		return m.ask(m.all &^ m.asked)
	case Outvoted:
		m.wakes.Timer()
		return m.begin()
	case Refused:
		return m.refuse(&e)
	case Placed:
		return m.placed(&e)
	case Free:
		return Do{Wake: m.wakes.Free(e.Set, m.all)}
	case Vote:
		return m.vote(&e)
	case Wake:
		m.wakes.Wake(e.Set)
		return Do{Again: e.Set, Wake: true}
	case Heard:
		for set := e.Set; set != 0; set &= set - 1 {
			m.wakes.Heard(bits.TrailingZeros64(set))
		}
		return Do{Wake: true}
	case ReleasedHere:
		return m.releasedHere(&e)
	case Timer:
		return m.timer()
	case CtxDone:
		return m.ctxDone()
	case Left:
		return m.left(&e)
	case Closed:
		if m.state == Passing {
			m.state = Idle
		}
		return Do{Wake: true}
	}
	return Do{}
}

// awake is the caller that looks what there is to do.
func (m *Machine) awake(e *Event) Do {
	v := e.Votes
	switch {
	case m.state == Asking:
		first := m.asked == 0
		do := m.ask(m.wakes.Due(m.all, m.asked))
		if first && m.asked != m.all { // a master that does not wake the caller soon may be down, or its message lost
			do.Arm = PauseMin + e.Jitter(PauseMin)
		}
		return do
	case m.state.sleeping() && v.Won:
		return Do{Act: Take}
	case m.state == StepBack && !m.wakes.Ready():
		return Do{Act: QueueOnly}
	case m.state == Begun, m.Ready(v):
		return m.begin()
	}
	return Do{}
}

// begin begins an attempt.
func (m *Machine) begin() Do {
	do := Do{Act: Begin, Retry: m.place.Asked}
	m.state, m.asked, m.place.Asked, m.expecting = Asking, 0, true, false
	return do
}

func (m *Machine) ask(set uint64) Do {
	m.asked |= set
	return Do{Act: Ask, Set: set}
}

// refuse is the end of an attempt that gave no lease.
func (m *Machine) refuse(e *Event) Do {
	if !e.Silent {
		m.silence = 0
	} else {
		if m.silence == 0 {
			m.silence = e.Now
		}
		if m.Outage(e.Now, e.Joined, e.Patience) {
			return Do{Act: Fail}
		}
	}
	free, foreign := e.Round.sets()
	m.wakes.Refused(free, foreign, e.Round.Behind)
	m.patience, m.refused = m.place.Patience(e.Round, e.Jitter), e.Now
	return m.sleep(e)
}

// placed is an attempt that asked for places alone. Where the lock is free by now, nobody will wake the caller.
func (m *Machine) placed(e *Event) Do {
	free := m.wakes.Free(e.Set, m.all)
	do := m.sleep(e)
	do.Wake = do.Wake || free
	return do
}

// sets returns the masters that granted in vain, and those where Redisson holds the lock.
func (r *Round) sets() (free, foreign uint64) {
	for i := range r.Replies {
		switch reply := &r.Replies[i]; {
		case reply.Foreign:
			foreign |= 1 << i
		case reply.Outcome == protocol.Granted:
			free |= 1 << i
		}
	}
	return free, foreign
}

// sleep leaves the attempt open until the timer fires. If it has votes by now, that is in a moment: the others should come with
// them.
func (m *Machine) sleep(e *Event) Do {
	do := Do{Arm: max(m.refused+m.patience-e.Now, time.Millisecond)} // some of it may be over, with votes that were too few
	v := e.Votes
	expecting := m.expecting && !m.wakes.Behind()
	m.expecting = false
	switch {
	case v.Won:
		m.state, do.Wake = Queued, true
	case v.Some:
		m.some(e, &do)
	case expecting:
		m.state, do.Arm = Gathering, m.moment(e)
	default:
		m.state = Queued
	}
	return do
}

// some is what follows on votes that are too few.
func (m *Machine) some(e *Event, do *Do) {
	switch v := e.Votes; {
	case v.Told:
		m.state, do.Arm = Gathering, m.moment(e)
	case m.wakes.Foreign() || !v.Handable:
		m.state, do.Wake = StepBack, true // no message can complete them, and others want those masters
	default:
		m.state, do.Arm = Stuck, m.moment(e)
	}
}

// moment is the time within which the votes should come that complete some. Their messages may be lost, or other waiters have those
// votes.
//
// It is a trip at least, and doubles each time in a turn: on a slow way, or a busy machine, the messages take their time, and to ask
// before they come would throw them away.
func (m *Machine) moment(e *Event) time.Duration {
	trip := max(PauseMin, min(e.Trip, tripMax))
	d := min(trip<<min(m.retries, 10), max(PauseMax, trip))
	return d + e.Jitter(d)
}

// vote is a vote that came for the attempt. One that came by a reply does not say that others are about to come: the masters that it came from may have
// forgotten the holder, who puts its votes back there when the caller has given these back.
func (m *Machine) vote(e *Event) (do Do) {
	switch v := e.Votes; {
	case v.Won:
		do.Wake = true
		if m.state == Stuck {
			m.state = Gathering
		}
	case m.state == Queued:
		m.some(e, &do)
	case m.state == Stuck && v.Told:
		m.state = Gathering
	}
	return do
}

// releasedHere is a release of the lock by this process. If the attempt's places can become votes, the release makes them so, and
// the caller asks when the messages do not come. Else it asks right behind the release, unless other processes are ahead.
func (m *Machine) releasedHere(e *Event) Do {
	m.brief = 0
	if e.Now-m.grantedAt < max(briefHold, e.Way) {
		m.brief = passAfter + e.Way
	}
	switch {
	case m.state == Passing:
		return Do{Act: PassTurn}
	case m.wakes.Behind():
		return Do{}
	case e.Votes.Handable:
		m.expecting = true
		if m.state == Queued {
			m.state = Gathering
			return Do{Arm: m.moment(e)}
		}
		return Do{}
	}
	m.wakes.HandOver()
	return Do{Wake: true}
}

// timer is the end of the time that was armed: a message may have been lost.
func (m *Machine) timer() Do {
	switch m.state {
	case Passing:
		m.brief = 0
		return Do{Act: PassTurn}
	case Stuck:
		m.retries++
		m.state = StepBack
		return Do{Wake: true}
	case Gathering:
		m.retries++
	}
	m.wakes.Timer()
	return Do{Wake: true}
}

// ctxDone is a caller that gives up.
func (m *Machine) ctxDone() Do {
	switch {
	case m.state == Asking && m.asked != m.all:
		rest := m.all &^ m.asked
		m.asked = m.all
		return Do{Act: Skip, Set: rest}
	case m.state == Asking, m.state.sleeping():
		return Do{Act: GiveBack}
	}
	return Do{}
}

// left is the end of a turn, or of the wait for one that was to be passed.
func (m *Machine) left(e *Event) Do {
	if e.Granted {
		m.silence, m.place.Asked, m.grantedAt = 0, false, e.Now
	}
	switch {
	case !e.Next:
		m.state = Idle
	case m.state == Passing: // the first in the line left before its turn came
	default:
		m.state = Idle
		if e.Granted && m.brief != 0 {
			m.state = Passing
			return Do{Arm: m.brief}
		}
		return Do{Act: PassTurn}
	}
	return Do{}
}
