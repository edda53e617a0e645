// SPDX-License-Identifier: Apache-2.0

// Package grant decides whether a lock that was granted is still held. It is told what the masters answered and what the time is, and has
// no clock, no goroutine and no I/O:
//
//   - [Grant] is the votes of one hold: which of them count, until when they are valid, when they are lost.
//   - [Extension] is one extend of one hold: when it is decided, and what follows.
//
// To change when a lease is lost, change [Grant.Check] and [Grant.Extended]. To change which votes count, change Grant's invariant first,
// then its methods, then the model in grant_test.go.
package grant

import (
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/mutants"
)

// Grant is what a client knows about the votes of one grant. It is not safe for concurrent
// use.
//
// Votes are the masters where this holder's vote is known to have been there without a break
// since a round that won. The master granted in that round, or it confirmed its vote to an
// extend that won, or it acknowledged a top-up after an extend that won, soon after (see [Soon]).
//
// Places are the masters that answered that they queue the holder, and that may hand it their vote. A place is an acquire that the
// master has not executed yet, and becomes a vote once. So a vote that an extend finds there has never broken, and counts in that
// extend, whether or not its message came. Until the vote is put back there: what an extend finds then may be that.
//
// Invariants, of which grant_test.go checks 2 to 4 after each step, and the others with a model:
//
//  1. Only votes count when the grant is extended. A vote that was put back by a round that
//     failed proves nothing about the time before (docs/safety.md A19).
//  2. votes and places are subsets of maybe, the masters that may hold a vote or a place and so get a release.
//  3. votes and places have no master in common.
//  4. After Release all three are empty and stay empty.
//  5. A vote counts in an extend only if it was known to be there less than span before, and a place only while the master has the data with which
//     it gave it: see [Grant.Seen].
type Grant struct {
	need     int           // the quorum
	span     time.Duration // how long an extend that won is valid, from its beginning
	from     time.Duration // when the last round that a quorum confirmed began; the earliest vote of the first one
	until    time.Duration // the end of validity
	all      uint64        // all masters
	counted  uint64        // the masters whose answer to the acquire was counted
	votes    uint64
	places   uint64
	maybe    uint64
	failed   int // extends that no quorum confirmed
	released bool

	acquired time.Duration   // when the acquire began
	proved   []time.Duration // of each vote, when the last request began that its master answered with "the vote is there"
}

// New returns the grant of a round that was won, whose acquire began at acquired: the earliest of its votes counts from the time
// from, and a quorum of them until the time until. need is the quorum, all are the masters, and
// span is the validity of an extend that took no time.
func New(need int, all uint64, acquired, from, until, span time.Duration) Grant {
	return Grant{need: need, all: all, from: from, until: until, span: span, acquired: acquired, proved: make([]time.Duration, bits.Len64(all))}
}

// Until is the end of validity.
func (g *Grant) Until() time.Duration { return g.until }

// Short says whether the grant ends sooner than one that was extended: it needs votes that a master handed, which last for less.
func (g *Grant) Short() bool { return g.until-g.from < g.span }

// Standing is whether a grant is still good.
type Standing uint8

const (
	Held      Standing = iota
	Expired            // the validity is over
	Untrusted          // the clock jumped since the round that the validity counts from
)

// Check says how the grant stands at now. It ends margin before its validity does, so that
// the caller is told in time. Times up to trusted were measured by a clock that has jumped
// since: trusted too, because a clock that stood still shows the same time before and after.
func (g *Grant) Check(now, margin, trusted time.Duration) Standing {
	switch {
	case now >= g.Until()-margin:
		return Expired
	case g.from <= trusted:
		return Untrusted
	}
	return Held
}

// Answers are what the masters have answered to the acquire by now: Granted gave a vote, Places may hand the holder one, Maybe may
// have given one or have the holder in their queue, Silent have not answered.
type Answers struct{ Granted, Places, Maybe, Silent uint64 }

// CountAcquire counts the answers to the acquire. A vote of the round that won
// counts, however late the answer. Each master's answer is counted once.
//
// A master answers the acquire before anything that was sent to it later. Call CountAcquire
// before the grant is told of later answers, so that it undoes none of them.
func (g *Grant) CountAcquire(a Answers) {
	fresh := g.all &^ (g.counted | a.Silent)
	g.counted |= fresh
	if !g.released {
		for set := a.Granted & fresh; set != 0; set &= set - 1 {
			g.proved[bits.TrailingZeros64(set)] = g.acquired
		}
		g.votes |= a.Granted & fresh
		g.places |= a.Places &^ a.Granted & fresh
		g.maybe |= (a.Granted | a.Places | a.Maybe) & fresh
	}
}

// Handed says that the vote of master i, which CountAcquire counted, was handed: it ends at until.
func (g *Grant) Handed(i int, until time.Duration) { g.proved[i] = until - g.span }

// Votes are the masters whose vote is known. Their yes counts in an extend.
func (g *Grant) Votes() uint64 { return g.votes }

// Places are the other masters whose yes counts in an extend.
func (g *Grant) Places() uint64 { return g.places }

// Left is how many masters may have a vote that counts, now or later, when those in silent have not answered the acquire.
func (g *Grant) Left(silent uint64) int {
	return bits.OnesCount64(g.votes | g.places | silent)
}

// Result is what an extend came to.
type Result uint8

const (
	Renewed     Result = iota // a quorum confirmed: the grant has a new end
	Unconfirmed               // too few masters answered: the old end stands, and a next extend may win
	Lost                      // too few votes are left for any extend to win
)

// Extended takes the outcome of an extend that began at start. confirmed are the masters of
// Votes and Places that had the vote. silent are the masters
// that have not answered the acquire yet: they may have voted.
func (g *Grant) Extended(start time.Duration, confirmed, silent uint64) Result {
	n := bits.OnesCount64(confirmed)
	switch {
	case n >= g.need || mutants.ExtendMinority && n > 0:
		g.from, g.until = start, start+g.span
		return Renewed
	case g.Left(silent) < g.need:
		g.failed++
		return Lost
	}
	g.failed++
	return Unconfirmed
}

// Soon is for how long after a round that won a vote that did not count may begin to, where span is the validity of that round. [Late] is
// for how long an attempt may take that is granted, from its earliest vote on.
//
// Invariant: Soon(span) + Late(span) <= span, and the attempt takes off the drift's constant once more, because two clients measure. The master where the vote is put back may have voted for another attempt before it lost that
// vote. That attempt is over Late after the vote, and so Late after it is put back, and by then none of the votes of the round that won has
// ended: there is no quorum for the attempt (docs/safety.md A53).
func Soon(span time.Duration) time.Duration { return span / 3 }

// Late is for how long an attempt may take: see [Soon].
func Late(span time.Duration) time.Duration { return span - Soon(span) }

// soon says whether a vote that did not count may begin to at now.
func (g *Grant) soon(now time.Duration) bool {
	return now-g.from <= Soon(g.span)
}

// Seen takes the answer of master i to an extend that began at start: at now it is known that the vote is there. It says whether the vote may count in
// that extend. If it was last known for span or longer before, it may have ended since, another attempt may have had the master, and what is there
// may have been put back by a top-up that was on its way. The same goes for a place, if the master is replaced: it has other data than those with which
// it gave the place, and a vote in them may have been handed, and have ended, before they were copied or restored. Then it is one that did not
// count: see [Grant.Confirm]. The same goes for a vote that a top-up has put back since the extend began, ahead of it on the way to the master, and
// that [Grant.ToppedUp] did not count.
func (g *Grant) Seen(i int, start, now time.Duration, replaced bool) bool {
	switch bit := uint64(1) << i; {
	case (g.votes|g.places)&bit == 0:
		return false
	case g.places&bit != 0 && replaced, g.votes&bit != 0 && now-g.proved[i] > g.span:
		g.votes &^= bit
		g.places &^= bit
		return false
	case g.votes&bit != 0:
		g.proved[i] = max(g.proved[i], start)
	}
	return true
}

// Missing takes the answer of master i to an extend that the vote is not there. A place may still become one.
func (g *Grant) Missing(i int) { g.votes &^= 1 << i }

// Confirm notes, at now, a vote that master i confirmed to an extend that began at start and won, and that did not count
// before.
func (g *Grant) Confirm(i int, start, now time.Duration) {
	if g.released {
		return
	}
	g.maybe |= 1 << i
	if g.soon(now) {
		g.votes |= 1 << i
		g.places &^= 1 << i
		g.proved[i] = start
	}
}

// Proof is the state in which a top-up was sent. See [Grant.ToppedUp].
type Proof struct {
	failed int
	sent   time.Duration
}

// TopUp says that the vote is put back on master i, which lost it while a quorum of others
// had theirs. The vote does not count until the master acknowledges it.
func (g *Grant) TopUp(i int, now time.Duration) Proof {
	if !g.released {
		g.votes &^= 1 << i
		g.places &^= 1 << i
		g.maybe |= 1 << i
	}
	return Proof{g.failed, now}
}

// ToppedUp counts a vote that master i has acknowledged at now, unless an extend has failed since
// the top-up was sent. The vote may have been missing since before the last extend that a
// quorum confirmed, so it proves nothing then. Nor does one that is put back late: see [Soon].
func (g *Grant) ToppedUp(i int, sent Proof, now time.Duration) {
	if !g.released && sent.failed == g.failed && g.soon(now) {
		g.votes |= 1 << i
		g.proved[i] = sent.sent
	}
}

// Release ends the grant. It returns the masters that are to be sent a release: those that
// may hold a vote, and those in silent, which have not answered the acquire.
func (g *Grant) Release(silent uint64) uint64 {
	set := silent | g.maybe
	g.votes, g.places, g.maybe, g.released = 0, 0, 0, true
	return set
}
