// SPDX-License-Identifier: Apache-2.0

// Package attempt makes one try for a lock: it asks all masters for their votes, settles the fencing token of a try that has a quorum of
// them, and gives back what a try took that has not. It knows nothing of holds, of lines of waiters, and of what callers are told.
//
//	a := tries.Begin(ctx, lock, settings, &protocol.Request{})
//	a.Call.Send(tries.Masters.All)
//	won, lost, ok := a.Win(a.Call.Await(ctx, a.Timeout))
//	if !ok {
//		a.GiveBack() // lost says why
//	}
//
// To change when a round is won, change counting.Tally. To change which token a lease gets, change settle and read docs/safety.md, "Fencing
// tokens", first.
package attempt

import (
	"context"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/grant"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Tries is what all attempts of a client share.
type Tries struct {
	Masters *quorum.Masters
	Client  string // its id, with which the ids of all holders begin
	Tokens  counting.TokenSource

	Rounds       atomic.Uint64 // attempts that asked for votes
	SecondRounds atomic.Uint64 // those that asked twice, for their token
	attempts     atomic.Uint64
}

// Settings are the settings of a lock that concern an attempt.
type Settings struct {
	TTL         time.Duration
	MinValidity time.Duration // a grant needs more than that
	MinHold     time.Duration // the lock rests for as long as that; 0: it does not
	Fixed       bool          // nobody renews the lease: a grant needs the whole TTL of its votes
}

// Attempt is one acquire on its way (docs/internals/algorithm.md).
type Attempt struct {
	t       *Tries
	Ctx     context.Context
	Lock    *protocol.Lock
	set     Settings
	Holder  string
	Start   time.Duration
	Asked   time.Duration // the last step at which masters were asked, nothing was decided, and all asked before had answered
	Timeout time.Duration
	Call    *quorum.Call
	Slept   bool   // its caller slept while it was open: the masters were given their time to answer
	lift    string // the holder, if masters were asked to have the lock rest; else empty
}

// Won is a grant.
type Won struct {
	Lock        *protocol.Lock
	Holder      string
	Token       int64
	Start       time.Duration // of the attempt
	From, Until time.Duration // the votes count: the earliest from From, and a quorum of them until Until
	Granted     time.Duration // now
	Short       bool          // a quorum needs votes that a master handed, which end sooner than others
	Call        *quorum.Call  // of the acquire, whose later answers count too; whoever has the grant calls its Done
}

// Lost is how an attempt ended that was not granted.
type Lost struct {
	Verdict   counting.Verdict
	Took      time.Duration
	Overtaken error // why the votes did not get a token; nil if that is not why
}

// nextHolder is the id of one attempt. It is never used again: a late release
// of an earlier attempt cannot match it (docs/safety.md A14). The form,
// uuid:number, is Redisson's.
func (t *Tries) nextHolder() string {
	if mutants.SameHolder {
		return t.Client + ":1"
	}
	var b [64]byte
	return string(strconv.AppendUint(append(append(b[:0], t.Client...), ':'), t.attempts.Add(1), 10))
}

// Propose is a token above all that the client has seen.
func (t *Tries) Propose() int64 { return t.Tokens.Propose(t.Masters.Clock.Wall(), 1) }

// Begin makes an attempt of which no master has been asked. req has what the kind of acquire adds, as a write vote to join, and a
// token if a smaller one is not to be proposed.
func (t *Tries) Begin(ctx context.Context, l *protocol.Lock, set Settings, req *protocol.Request) Attempt {
	m := t.Masters
	a := Attempt{t: t, Ctx: ctx, Lock: l, set: set, Holder: t.nextHolder(), Start: m.Clock.Elapsed(), Timeout: m.RoundTimeout(ctx, set.TTL)}
	a.Asked = a.Start
	if req.Wait == nil || !req.Wait.Only { // that asks for places, and for no votes
		t.Rounds.Add(1)
	}
	if req.Kind == 0 {
		req.Kind = protocol.Acquire
	}
	req.Lock, req.Holder, req.TTL = l, a.Holder, set.TTL
	apart := int64(1)
	if l.Mode == protocol.Read {
		apart = counting.ReadersApart
	}
	req.Token = max(req.Token, t.Tokens.Propose(m.Clock.Wall(), apart))
	req.Start, req.Deadline = a.Start, a.Start+a.Timeout
	a.Call = m.Call(m.Need, req)
	return a
}

// Retime gives the attempt the time of one that begins now, for what is still to be asked.
func (a *Attempt) Retime() { a.Timeout = a.t.Masters.RoundTimeout(a.Ctx, a.set.TTL) }

// Win settles the token of an attempt with the verdict v. It returns a grant, or how the attempt ended if ok is false.
//
// A cancel that races a win wins: a lock is never given for a context that is done. So when
// a Lock returns no error the caller still wants the lock.
func (a *Attempt) Win(v counting.Verdict) (won Won, lost Lost, ok bool) {
	m := a.t.Masters
	var token int64
	var stand uint64
	var overtaken error
	if v == counting.Won {
		token, stand, v, overtaken = a.settle()
	}
	now := m.Clock.Elapsed() // after the last counted reply (Redlock page, step 3)
	if mutants.NoElapsedCheck {
		a.Start = now
	}
	if v == counting.Won {
		if won, ok = a.grant(token, stand&m.All, now); ok {
			return won, lost, true
		}
	}
	return won, Lost{v, now - a.Start, overtaken}, false
}

// grant is the grant of an attempt that was won, with the token that it settled, if enough of
// the validity is left at now. Else ok is false. stand are the masters that stand for the token.
// Only their votes count, each for as long as it lasts: a master whose vote has ended may have
// forgotten the token since (H18 in docs/internals/handoff.md). A quorum of them must be younger than [grant.Late]: see there.
func (a *Attempt) grant(token int64, stand uint64, now time.Duration) (won Won, ok bool) {
	m, set := a.t.Masters, &a.set
	full := m.Drift.Validity(set.TTL, 0)
	from, since, until := lasts(a.Call, m.Need, stand, a.Start, full)
	short := until-from < full
	handed := stand&a.Call.Handed() != 0 // such votes have begun before, with a sign of life
	if until-now <= set.MinValidity || now-since > grant.Late(full)-m.Drift.Constant || (short || handed) && set.Fixed || a.Ctx.Err() != nil {
		return won, false
	}
	return Won{Lock: a.Lock, Holder: a.Holder, Token: token, Start: a.Start, From: from, Until: until, Granted: now, Short: short, Call: a.Call}, true
}

// lasts returns from when the earliest of the votes of the masters in the set counts, since when a quorum of them does, and until
// when a quorum of them does. A vote in a reply counts from start, for full.
func lasts(q *quorum.Call, need int, set uint64, start, full time.Duration) (from, since, until time.Duration) {
	if set&q.Handed() == 0 {
		return start, start, start + full
	}
	begins, ends := make([]time.Duration, 0, bits.OnesCount64(set)), make([]time.Duration, 0, bits.OnesCount64(set))
	for ; set != 0; set &= set - 1 {
		v, ok := q.HandedVote(bits.TrailingZeros64(set))
		if !ok {
			v = quorum.Vote{From: start, Until: start + full}
		}
		begins, ends = append(begins, v.From), append(ends, v.Until)
	}
	return slices.Min(begins), counting.Until(begins, need), counting.Until(ends, need)
}
