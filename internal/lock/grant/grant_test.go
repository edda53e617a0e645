// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/replay"
)

const (
	masters = 5
	need    = 3
	all     = 1<<masters - 1
	span    = 100 * time.Second
)

// told is something that the grant was told.
type told struct {
	kind   byte
	master int
	top    int // of an acknowledged top-up: the index of the event that sent it
	at     time.Duration
	start  time.Duration // of the request that was answered
}

// The kinds of events.
const (
	granted = iota
	confirmed
	topUp
	toppedUp
	failed
	renewed
	seen   // the master answered an extend: the vote is there
	lacked // the master answered an extend: the vote is not there
	queued // the master answered the acquire with a place
	released
)

// counts says by the words of the definition whether the vote on master i counts. It reads
// the whole history each time.
func counts(history []told, i int) bool {
	vote, proved := false, time.Duration(0)
	there := func(start time.Duration) { vote, proved = true, start }
	for at, e := range history {
		switch {
		case e.kind == released:
			return false
		case e.master != i:
		case e.kind == granted:
			there(0)
		case e.kind == confirmed && soon(history, at):
			there(e.start)
		case e.kind == seen && vote:
			if vote = e.at-proved <= span; vote {
				proved = max(proved, e.start)
			}
		case e.kind == topUp, e.kind == lacked:
			vote = false
		case e.kind == toppedUp:
			proof := soon(history, at)
			for _, between := range history[e.top:at] {
				proof = proof && between.kind != failed
			}
			if proof {
				there(history[e.top-1].at)
			}
		}
	}
	return vote
}

// soon says by the words of the definition whether the event at this index came soon after the last round that won.
func soon(history []told, at int) bool {
	won := time.Duration(0)
	for _, e := range history[:at] {
		if e.kind == renewed {
			won = e.at
		}
	}
	return history[at].at-won <= span/3
}

// mayHand says by the words of the definition whether master i has a place that may become a vote which counts.
func mayHand(history []told, i int) bool {
	place := false
	for at, e := range history {
		switch {
		case e.kind == released:
			return false
		case e.master != i:
		case e.kind == queued:
			place = true
		case e.kind == confirmed && soon(history, at), e.kind == topUp:
			place = false
		}
	}
	return place
}

// world is a grant, with its history and what the masters have answered to the acquire.
type world struct {
	t       *testing.T
	g       Grant
	history []told
	granted uint64
	places  uint64
	maybe   uint64
	silent  uint64
	now     time.Duration
	from    time.Duration // of the last round that won
	sent    []sent
}

// sent is a top-up that was not acknowledged.
type sent struct {
	master, at int
	proof      Proof
}

func (w *world) log(kind byte, master int) {
	w.history = append(w.history, told{kind: kind, master: master, at: w.now})
}

// count is what package redlock does before it looks at a grant.
func (w *world) count() {
	w.g.CountAcquire(Answers{Granted: w.granted, Places: w.places, Maybe: w.maybe | w.silent, Silent: w.silent})
}

// answer has master i answer the acquire, if it has not.
func (w *world) answer(i int, vote, place, unknown bool) {
	bit := uint64(1) << i
	if w.silent&bit == 0 {
		return
	}
	w.silent &^= bit
	switch {
	case vote:
		w.granted |= bit
		w.maybe |= bit
		w.log(granted, i)
	case place:
		w.places |= bit
		w.maybe |= bit
		w.log(queued, i)
	case unknown:
		w.maybe |= bit
	}
	w.count()
}

// extend has a set of masters confirm, and others say that the vote is missing. Of the masters that confirm those count whose vote
// counts, and those that have handed the holder their vote, which no message told of.
func (w *world) extend(confirmedBy, missing uint64) {
	w.see(confirmedBy, w.now)
	w.lack(missing)
	confirmedBy &= w.g.Votes() | w.g.Places()
	result := w.g.Extended(w.now, confirmedBy, w.silent)
	n := bits.OnesCount64(confirmedBy)
	left := 0
	for i := range masters {
		bit := uint64(1) << i
		if counts(w.history, i) || w.silent&bit != 0 || mayHand(w.history, i) {
			left++
		}
	}
	if got := w.g.Left(w.silent); got != left {
		w.t.Fatalf("%d votes are left, want %d", got, left)
	}
	want := Unconfirmed
	if n >= need {
		want, w.from = Renewed, w.now
	} else if left < need {
		want = Lost
	}
	if result != want {
		w.t.Fatalf("%d confirmed, %d votes are left: %v, want %v", n, left, result, want)
	}
	if result != Renewed {
		w.log(failed, -1)
		return
	}
	w.log(renewed, -1)
	w.follow(confirmedBy, missing)
}

// see has masters say that the vote is there, to an extend that began at start.
func (w *world) see(set uint64, start time.Duration) {
	for i := range masters {
		if set&(1<<i) != 0 {
			w.history = append(w.history, told{kind: seen, master: i, at: w.now, start: start})
			if got, want := w.g.Seen(i, start, w.now, false), counts(w.history, i) || mayHand(w.history, i); got != want {
				w.t.Fatalf("the yes of master %d counts: %t, want %t", i, got, want)
			}
		}
	}
}

// lack has masters say that the vote is not there.
func (w *world) lack(set uint64) {
	for i := range masters {
		if set&(1<<i) != 0 {
			w.log(lacked, i)
			w.g.Missing(i)
		}
	}
}

// follow takes the answers to an extend that won.
func (w *world) follow(confirmedBy, missing uint64) {
	for i := range masters {
		switch bit := uint64(1) << i; {
		case missing&bit != 0:
			w.log(topUp, i)
			w.sent = append(w.sent, sent{i, len(w.history), w.g.TopUp(i, w.now)})
		case confirmedBy&bit != 0:
			w.history = append(w.history, told{kind: confirmed, master: i, at: w.now, start: w.from})
			w.g.Confirm(i, w.from, w.now)
		}
	}
}

// valid checks invariants 2 to 4, and that no other masters than all are in a set.
func (g *Grant) valid() bool {
	return (g.votes|g.places)&^g.maybe == 0 && g.votes&g.places == 0 && (g.votes|g.maybe|g.counted)&^g.all == 0 && (!g.released || g.maybe == 0)
}

func (w *world) check() {
	w.t.Helper()
	if !w.g.valid() {
		w.t.Fatalf("invalid: %+v", w.g)
	}
	for i := range masters {
		if got, want := w.g.Votes()&(1<<i) != 0, counts(w.history, i); got != want {
			w.t.Fatalf("master %d counts: %v, want %v, after %v", i, got, want, w.history)
		}
		if got, want := w.g.Places()&(1<<i) != 0, mayHand(w.history, i); got != want {
			w.t.Fatalf("master %d may hand: %v, want %v, after %v", i, got, want, w.history)
		}
	}
	if w.g.Until() != w.from+span {
		w.t.Fatalf("valid until %v, want %v", w.g.Until(), w.from+span)
	}
}

// Each byte is a step, and the one after it says of which masters. The grant counts the
// votes that the model counts, which reads the whole history each time.
func FuzzGrant(f *testing.F) {
	f.Add([]byte{0, 0b11, 1, 0b11100, 0, 0b1100})
	f.Add([]byte{0, 3, 0, 4, 1, 0b00111, 1, 0b11000, 2, 0, 1, 0b00011, 2, 0, 3, 0})
	f.Add([]byte{1, 0b00111, 1, 0b00001, 2, 0, 2, 0, 1, 0b11111})
	f.Add([]byte{0, 133, 1, 0b00111}) // a vote that counted is missing, and a quorum confirms
	f.Fuzz(walk)
}

// The same steps, drawn at random.
func TestGrant_randomWalks_countsWhatTheModelCounts(t *testing.T) {
	for seed := range replay.Many(t, 5000) {
		walk(t, replay.Bytes(seed, 40))
	}
}

// walk takes a grant through steps.
func walk(t *testing.T, steps []byte) {
	w := &world{t: t, g: New(need, all, 0, 0, span, span), silent: all}
	for i := range need {
		w.answer(i, true, false, false)
	}
	for len(steps) >= 2 && len(w.history) < 200 {
		step, arg := steps[0], steps[1]
		steps = steps[2:]
		w.now += time.Duration(1+step>>5) * time.Second // so that some answers come late
		switch step % 6 {
		case 0:
			w.answer(int(arg)%masters, arg&0x80 != 0, arg&0x20 != 0, arg&0x40 != 0)
		case 1: // a master in neither set is silent
			w.count()
			confirmedBy := uint64(arg) & all &^ w.silent
			w.extend(confirmedBy, all&^w.silent&^confirmedBy)
		case 2:
			w.count()
			confirmedBy := uint64(arg) & all &^ w.silent
			w.extend(confirmedBy, 0)
		case 3:
			w.acknowledge(int(arg))
		case 4:
			if step%16 == 4 {
				w.release(int(arg) % masters)
				return
			}
		case 5: // more answers to the last extend that won
			w.count()
			confirmedBy := uint64(arg) & all &^ w.silent
			w.see(confirmedBy, w.from)
			missing := all &^ w.silent &^ confirmedBy & (uint64(step) >> 3)
			w.lack(missing)
			w.follow(confirmedBy, missing)
		}
		w.check()
	}
}

// acknowledge has a master acknowledge the k-th of the top-ups that are under way, if there are any.
func (w *world) acknowledge(k int) {
	if len(w.sent) == 0 {
		return
	}
	k %= len(w.sent)
	s := w.sent[k]
	w.history = append(w.history, told{kind: toppedUp, master: s.master, top: s.at, at: w.now})
	w.g.ToppedUp(s.master, s.proof, w.now)
	w.sent = slices.Delete(w.sent, k, k+1)
}

// release ends the grant. What comes late, here from master i, changes nothing.
func (w *world) release(i int) {
	w.count()
	had := w.maybe | w.silent
	for _, e := range w.history {
		if e.kind == topUp || e.kind == confirmed {
			had |= 1 << e.master
		}
	}
	if set := w.g.Release(w.silent); set != had {
		w.t.Fatalf("releases go to %b, want %b", set, had)
	}
	w.log(released, -1)
	w.g.Confirm(i, w.now, w.now)
	late := w.g.TopUp(i, w.now)
	w.g.ToppedUp(i, late, w.now)
	w.count()
	if w.g.Votes() != 0 || !w.g.valid() {
		w.t.Fatalf("after the release: %+v", w.g)
	}
}

// docs/safety.md A19: a vote that a master lost counts again only when the master has acknowledged it after an
// extend that won. If an extend failed in between, nobody knows how long the vote was missing.
func TestGrant_missingVote_countsWhenProved(t *testing.T) {
	for name, tc := range map[string]struct {
		between func(g *Grant)
		counts  bool
	}{
		"nothing in between":         {func(*Grant) {}, true},
		"an extend that won":         {func(g *Grant) { g.Extended(2*time.Second, 0b11100, 0) }, true},
		"an extend without a quorum": {func(g *Grant) { g.Extended(2*time.Second, 0b10000, 0) }, false},
		"an extend that lost":        {func(g *Grant) { g.Missing(2); g.Missing(3); g.Extended(2*time.Second, 0b10000, 0) }, false},
	} {
		g := New(need, all, 0, 0, span, span)
		g.CountAcquire(Answers{Granted: all})
		g.Missing(0)
		g.Extended(time.Second, 0b11110, 0)
		sent := g.TopUp(0, 2*time.Second)
		if g.Votes() != 0b11110 {
			t.Errorf("%s: votes %05b while the top-up is under way", name, g.Votes())
		}
		tc.between(&g)
		g.ToppedUp(0, sent, 3*time.Second)
		if counts := g.Votes()&1 != 0; counts != tc.counts {
			t.Errorf("%s: counts %v, want %v", name, counts, tc.counts)
		}
	}
}

// docs/safety.md A53: a vote that is put back, or heard of, long after the last round that won does not count. The release goes there all the same.
func TestGrant_voteComesLate_doesNotCount(t *testing.T) {
	for _, tc := range []struct {
		after  time.Duration // since the extend that won
		counts bool
	}{{span / 3, true}, {span/3 + 1, false}} {
		g := New(need, all, 0, 0, span, span)
		g.CountAcquire(Answers{Granted: 0b00111})
		g.Extended(time.Second, 0b00111, 0)
		g.ToppedUp(3, g.TopUp(3, time.Second), time.Second+tc.after)
		g.Confirm(4, time.Second, time.Second+tc.after)
		if counts := g.Votes() == all; counts != tc.counts || !counts && g.Votes() != 0b00111 {
			t.Errorf("after %v: votes %05b, want %v", tc.after, g.Votes(), tc.counts)
		}
		if set := g.Release(0); set != all {
			t.Errorf("after %v: releases go to %05b", tc.after, set)
		}
	}
	if Soon(span)+Late(span) > span {
		t.Errorf("%v and %v are more than %v", Soon(span), Late(span), span)
	}
}

// A vote that was not heard of for its TTL may have ended meanwhile, and what is there now may have been put back late by a top-up that was on its way: it
// counts again when it is confirmed soon after an extend that the others won.
func TestGrant_voteLastHeardOfLongAgo_doesNotCount(t *testing.T) {
	for _, tc := range []struct {
		after  time.Duration
		counts bool
	}{{span, true}, {span + 1, false}} {
		g := New(need, all, 0, 0, span, span)
		g.CountAcquire(Answers{Granted: 0b01111})
		half := g.span / 2
		for i := range 3 {
			g.Seen(i, half, half, false)
		}
		g.Extended(half, 0b00111, 0)
		if g.Seen(3, half+1, tc.after, false) != tc.counts || (g.Votes()&0b01000 != 0) != tc.counts {
			t.Errorf("heard of after %v: votes %05b", tc.after, g.Votes())
		}
		if !g.Seen(0, half+1, tc.after, false) || g.Release(0) != 0b01111 {
			t.Errorf("after %v: votes %05b", tc.after, g.Votes())
		}
	}
}

// A grant is short until an extend is won. One whose earliest vote was handed before the others counted is not: a quorum lasts for span.
func TestGrant_short_untilExtended(t *testing.T) {
	const from = 10 * time.Second
	for _, tc := range []struct {
		until time.Duration
		short bool
	}{{from + 3*time.Second, true}, {from + span - 1, true}, {from + span, false}, {from + span + time.Second, false}} {
		g := New(need, all, from, from, tc.until, span)
		g.CountAcquire(Answers{Granted: all})
		if g.Short() != tc.short {
			t.Errorf("from %v to %v: short %v", from, tc.until, g.Short())
		}
		if g.Extended(from+time.Second, 0b00001, 0); g.Short() != tc.short {
			t.Errorf("from %v to %v, and an extend that failed: short %v", from, tc.until, g.Short())
		}
		if g.Extended(from+time.Second, all, 0); g.Short() {
			t.Errorf("from %v to %v, and extended: short", from, tc.until)
		}
	}
}

// A vote that was handed ends long before span. What an extend finds on its master after that may have been put back. A vote of a reply, in the same
// round, lasts for span.
func TestGrant_handedVote_countsAsLongAsItLasts(t *testing.T) {
	const from, lasts = 10 * time.Second, 3 * time.Second
	for _, tc := range []struct {
		at     time.Duration
		counts bool
	}{{from + lasts, true}, {from + lasts + 1, false}} {
		g := New(need, all, from, from, from+span, span)
		g.CountAcquire(Answers{Granted: all})
		g.Handed(0, from+lasts)
		if got := g.Seen(0, from+time.Second, tc.at, false); got != tc.counts || g.Votes()&1 != 0 != tc.counts {
			t.Errorf("at %v: %v, votes %b", tc.at, got, g.Votes())
		}
		if !g.Seen(1, from+time.Second, from+span, false) {
			t.Error("a vote of a reply does not last for span")
		}
	}
}

// A vote of a reply lasts for span from the beginning of its acquire, which may be before all votes that were handed.
func TestGrant_lateReplyBesideHandedVotes_countsFromTheAcquire(t *testing.T) {
	const acquired, from = 10 * time.Second, 12 * time.Second
	g := New(need, all, acquired, from, from+3*time.Second, span)
	g.CountAcquire(Answers{Granted: all})
	if !g.Seen(0, acquired+span, acquired+span, false) || g.Seen(1, acquired+span, acquired+span+1, false) {
		t.Error("it does not count as long as it lasts")
	}
}

// A place counts while its master has the data with which it gave it.
func TestGrant_placeOfAReplacedMaster_doesNotCount(t *testing.T) {
	g := New(need, all, 0, 0, span, span)
	g.CountAcquire(Answers{Granted: 0b00111, Places: 0b11000, Maybe: 0b11000})
	if !g.Seen(3, span/2, span/2, false) || g.Seen(4, span/2, span/2, true) || g.Places() != 0b01000 || g.Votes() != 0b00111 || !g.valid() {
		t.Errorf("%+v", g)
	}
}

func TestGrant_check_endsAMarginEarlyAndWithTheClock(t *testing.T) {
	g := New(need, all, 10*time.Second, 10*time.Second, 10*time.Second+span, span)
	for _, tc := range []struct {
		now, trusted time.Duration
		want         Standing
	}{
		{10 * time.Second, 0, Held},
		{109*time.Second - 1, 10*time.Second - 1, Held},
		{20 * time.Second, 10 * time.Second, Untrusted},
		{109 * time.Second, 0, Expired},
		{200 * time.Second, 11 * time.Second, Expired},
		{20 * time.Second, 10*time.Second + 1, Untrusted},
	} {
		if got := g.Check(tc.now, time.Second, tc.trusted); got != tc.want {
			t.Errorf("at %v, trusted from %v: %v, want %v", tc.now, tc.trusted, got, tc.want)
		}
	}
}

// Every state of an extend of four masters. It is decided exactly when the answers that are
// still to come cannot change the outcome.
func TestExtension_everyState_decidedWhenNothingCanChange(t *testing.T) {
	const n = 4
	// Each master: whose vote counts, may count, does not, or counts though only its place is known; and what it answered.
	const states = 4 * 4
	total := 1
	for range n {
		total *= states
	}
	for s := range total {
		var e Extension
		var answered, missing, back uint64 // back: it has a vote that was not known, or did not count
		fewest, most := 0, 0               // masters that confirm, by the answers that are still to come
		least, likely := 0, 0              // masters that may have the vote then
		for i, rest := 0, s; i < n; i, rest = i+1, rest/states {
			bit := uint64(1) << i
			vote, answer := rest%states%4, rest%states/4
			switch vote {
			case 0:
				e.voters |= bit
				e.known |= bit
			case 1:
				e.silent |= bit
			case 3:
				e.voters |= bit
			}
			if vote == 1 && answer != 3 {
				answer = 3 // it answers the acquire before it answers the extend
			}
			switch answer {
			case 0:
				e.Answer(i, true)
			case 1:
				e.Answer(i, false)
				missing |= bit
			}
			if answer != 3 {
				answered |= bit
			}
			if vote >= 2 && answer == 0 {
				back |= bit
			}
			if (vote == 0 || vote == 3) && answer == 0 {
				fewest++
			}
			if (vote == 0 || vote == 3) && answer == 0 || vote != 2 && answer == 3 {
				most++
			}
			place := vote == 3
			if place || vote != 2 && answer != 1 {
				likely++
			}
			if place || vote != 2 && (answer == 0 || answer == 2) {
				least++
			}
		}
		for need := 1; need <= n; need++ {
			outcomes := 0
			for _, possible := range []bool{most >= need, fewest < need && least < need, fewest < need && likely >= need} { // Renewed, Lost, Unconfirmed
				if possible {
					outcomes++
				}
			}
			if got, want := e.Decided(answered, need), outcomes == 1; got != want {
				t.Fatalf("%+v, answered %b, need %d: decided %v, want %v", e, answered, need, got, want)
			}
		}
		topUp, confirm := e.Follow(answered)
		if topUp != missing || e.missing != missing || confirm != back {
			t.Fatalf("%+v: top-up %b, confirm %b", e, topUp, confirm)
		}
	}
}

// Masters answer the acquire while the extend is under way. The yes of one that voted counts from then on. A vote
// that was put back meanwhile does not: it proves nothing about the time before.
func TestExtension_acquireAnsweredMeanwhile_votesCount(t *testing.T) {
	e := NewExtension(0b00011, 0, 0b01100)
	e.Recount(0b00111, 0, 0b01000) // master 2 voted
	e.Recount(0b10111, 0, 0)       // master 3 did not; the vote of master 4 was put back
	if e.Silent() != 0 {
		t.Errorf("silent %05b", e.Silent())
	}
	for i := range masters {
		e.Answer(i, true)
	}
	if e.Confirmed() != 0b00111 {
		t.Errorf("confirmed %05b", e.Confirmed())
	}
}
