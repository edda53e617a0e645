// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"math/bits"
	"slices"
	"time"

	"github.com/redlock-go/redlock/clock"
)

// Times of a waiter. The fixed ones are those of package redlock today.
const (
	beat = time.Second // how often a client gives a sign of life, at most
	// PauseMin and PauseMax bound the back-off of claims while no quorum can be had, and of retries.
	PauseMin, PauseMax = 2 * time.Millisecond, 100 * time.Millisecond
	// Idle is the longest pause between two claims of a waiter that is next, or that has a vote: what is handed to it
	// unheard is found before its short TTL is over.
	Idle = Liveness - beat
	// calm is the pause between claims of an attempt with a few votes while another holds a quorum: they are renewed,
	// and no more.
	calm = beat
	// deafPause is the pause between claims of a client that knows that messages do not reach it: whoever waits behind
	// it waits for that claim.
	deafPause = 20 * time.Millisecond
)

// Attempt is what a client knows of one attempt: one holder id, with one ticket, on all masters. Hear and Take note what
// arrives, Next says what to do. All are functions of what is in here and of the time.
type Attempt struct {
	Holder      string
	Quorum      int
	TTL         time.Duration
	Drift       clock.Drift
	MinValidity time.Duration
	Trusted     time.Duration // no start of a vote before it counts: the client's clock jumped then
	Began       time.Duration // when the enqueue was sent
	Retries     int           // attempts before this one in the same turn
	Deaf        bool          // the client knows that messages do not reach it, and asks often
	Luck        float64       // 0 to 1, drawn for this attempt: pauses are half fixed, half random

	Proposal int64         // of its ops; see Propose
	Proposed time.Duration // when that was drawn

	Over      bool          // its give-back is sent or owed
	Token     int64         // 0 until it is fixed
	First     time.Duration // when Next first saw a vote that counts; 0 before
	Claimed   time.Duration // when the last claim was sent; 0 before
	Asked     int64         // the token of the last claim
	Pause     time.Duration // after the last claim
	NextSince time.Duration // since when answers say that it is next; 0 while they do not
	Seen      []Seen        // by master
}

// Act is a kind of Action.
type Act uint8

const (
	Wait     Act = iota // for messages and answers, and look again at At
	Take                // the lock is held until At
	ClaimNow            // claim on Masters, with the token if that is fixed
	Retry               // give back everywhere and queue again under a fresh id, with the same ticket
)

// Action is what a client is to do next.
type Action struct {
	Act     Act
	Masters uint64
	At      time.Duration
}

// Sent notes that a claim was sent, as Next said.
func (a *Attempt) Sent(now time.Duration, claim Action) {
	a.Claimed, a.Asked, a.Pause = now, a.Token, claim.At
}

// Propose returns the proposal for an op that is sent at now, floor at least. Ops to several masters that are sent soon
// after each other share one: else their votes differ, and the token needs a second trip.
func (a *Attempt) Propose(now time.Duration, floor int64) int64 {
	if a.Proposed == 0 || now-a.Proposed > PauseMax {
		a.Proposal, a.Proposed = floor, now
	}
	return a.Proposal
}

// Next says what to do at now. When it says ClaimNow the caller sends the claim and calls Sent.
func (a *Attempt) Next(now time.Duration) Action {
	votes, until := a.counted(now)
	have := 0
	for _, v := range votes {
		if v > 0 {
			have++
		}
	}
	a.fix(now, votes)
	held := HoldsUntil(until, a.Quorum)
	switch {
	case a.Token != 0 && a.supporters(now) >= a.Quorum && held-now > a.MinValidity:
		return Action{Act: Take, At: held}
	case have == 0 && a.First == 0:
		return a.idle(now)
	}
	if a.First == 0 {
		a.First = now
	}
	wait := a.pause(a.Retries)
	if (have < a.Quorum && a.yields(now) || !a.reachable()) && now >= a.Began+wait {
		return Action{Act: Retry}
	}
	due := a.First + PauseMin + a.lucky(PauseMin)
	if a.Claimed >= a.First {
		due = a.Claimed + a.Pause
	}
	set := a.present()
	if have >= a.Quorum {
		set = a.lacking(now, held)
		if a.Asked != a.Token {
			due = now
		}
	}
	if now < due {
		return Action{Act: Wait, At: due}
	}
	return Action{Act: ClaimNow, Masters: set, At: a.backOff()}
}

// lacking are the masters to ask when a quorum of votes counts: those that may join, or all that voted when only the
// validity is too short.
func (a *Attempt) lacking(now, held time.Duration) (set uint64) {
	for n := range a.Seen {
		s := &a.Seen[n]
		supports := s.Joined && s.Until > now
		if s.Standing == Voted && (held-now <= a.MinValidity || !supports && s.Vote <= a.Token) {
			set |= 1 << n
		}
	}
	return set
}

// counted are the votes that count at now, and until when each does.
func (a *Attempt) counted(now time.Duration) (votes []int64, until []time.Duration) {
	votes, until = make([]int64, len(a.Seen)), make([]time.Duration, len(a.Seen))
	for n := range a.Seen {
		if s := &a.Seen[n]; s.Standing == Voted && s.Until > now {
			votes[n], until[n] = s.Vote, s.Until
		}
	}
	return votes, until
}

// fix fixes the token when a quorum of votes counts. When too few masters can still stand for it, because others told
// a larger vote since, it fixes a larger one: rule R3 begins again.
func (a *Attempt) fix(now time.Duration, votes []int64) {
	token := FixToken(votes, a.Quorum)
	if token == 0 || token <= a.Token {
		return
	}
	can := 0
	for n := range a.Seen {
		if s := &a.Seen[n]; votes[n] > 0 && (s.Joined || s.Vote <= a.Token) {
			can++
		}
	}
	if a.Token != 0 && can >= a.Quorum {
		return
	}
	a.Token = token
	for n := range a.Seen {
		a.Seen[n].Joined = a.Seen[n].Vote == token
	}
}

// supporters counts the masters that stand for the token. A master does only while its vote counts (rule H18): one that
// has restarted since may have forgotten it.
func (a *Attempt) supporters(now time.Duration) int {
	w := 0
	for n := range a.Seen {
		if a.Seen[n].Joined && a.Seen[n].Until > now {
			w++
		}
	}
	return w
}

// yields reports whether a smaller ticket waits where this attempt has a vote, as a master has told since the first
// vote came (rule H11). It is asked only while there is no quorum.
func (a *Attempt) yields(now time.Duration) bool {
	for n := range a.Seen {
		if s := &a.Seen[n]; s.Standing == Voted && s.Until > now && s.Ahead > 0 && s.Asked >= a.First {
			return true
		}
	}
	return false
}

// reachable reports whether a quorum may still come together from votes and places.
func (a *Attempt) reachable() bool { return bits.OnesCount64(a.present()) >= a.Quorum }

// present are the masters where the attempt may have a place or a vote.
func (a *Attempt) present() (set uint64) {
	for n := range a.Seen {
		if a.Seen[n].Standing != Gone {
			set |= 1 << n
		}
	}
	return set
}

// backOff is the pause after a claim: longer each time, up to PauseMax, or calm while another holds a quorum.
func (a *Attempt) backOff() time.Duration {
	most := PauseMax
	if a.taken() >= a.Quorum {
		most = calm
	}
	d := min(max(2*a.Pause, 2*PauseMin), most)
	return d/2 + a.lucky(d/2)
}

// taken counts the masters that somebody else has.
func (a *Attempt) taken() int {
	n := 0
	for i := range a.Seen {
		if s := &a.Seen[i]; s.Standing == Queued && s.Held > 0 {
			n++
		}
	}
	return n
}

func (a *Attempt) lucky(d time.Duration) time.Duration { return time.Duration(a.Luck * float64(d)) }

// pause is how long after its beginning an attempt may be given up for a fresh one.
func (a *Attempt) pause(retries int) time.Duration {
	if retries == 0 {
		return 0
	}
	d := min(PauseMin<<min(retries, 10), PauseMax)
	return d/2 + a.lucky(d/2)
}

// idle is Next of an attempt that no master is known to have voted for.
func (a *Attempt) idle(now time.Duration) Action {
	if !a.reachable() {
		if at := a.Began + a.pause(a.Retries); now < at {
			return Action{Act: Wait, At: at}
		}
		return Action{Act: Retry}
	}
	due := max(a.Began, a.Claimed) + a.patience(now)
	if now < due {
		return Action{Act: Wait, At: due}
	}
	return Action{Act: ClaimNow, Masters: a.present()}
}

// Insists reports whether the client's signs of life are to say that masters must wait for it, although PUBLISH may
// reach nobody: it knows that it does not hear, or it has been next for so long that it may have been passed over.
func (a *Attempt) Insists(now time.Duration) bool {
	return a.Deaf || a.NextSince != 0 && now-a.NextSince > Idle
}

// patience is how long a waiter without a vote trusts in messages. One that is next looks when a quorum of masters will
// be free, and before Idle is over; one further back gives those ahead of it time to.
func (a *Attempt) patience(now time.Duration) time.Duration {
	heads, ahead := 0, 4
	var held []time.Duration
	for i := range a.Seen {
		s := &a.Seen[i]
		if s.Standing == Queued && s.Ahead == 0 {
			heads++
		} else if s.Standing == Queued {
			ahead = min(ahead, s.Ahead)
		}
		if s.Standing == Queued {
			held = append(held, s.Held)
		}
	}
	next := heads >= a.Quorum
	if !next {
		a.NextSince = 0
	} else if a.NextSince == 0 {
		a.NextSince = now
	}
	switch {
	case a.Deaf:
		return deafPause/2 + a.lucky(deafPause/2)
	case !next:
		return time.Duration(ahead)*(beat-beat/4) + a.lucky(beat/8)
	}
	slices.Sort(held)
	return min(held[a.Quorum-1], Idle) + time.Millisecond + a.lucky(time.Millisecond)
}

// ExtendAt is when a holder extends first: at a third of what is left of its validity. Later extends follow the
// product's own rule.
func ExtendAt(taken, until time.Duration) time.Duration { return taken + (until-taken)/3 }
