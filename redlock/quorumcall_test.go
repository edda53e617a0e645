// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"testing"
	"testing/quick"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/internal/counting"
)

// A lease whose settings passed can be renewed: its renewal is due before its
// holder would be told that it is lost.
func TestCheckLock_whatPasses_canBeRenewed(t *testing.T) {
	check := func(ttl, every uint32, factor, constant uint16) bool {
		s := defaults()
		s.drift.Factor, s.drift.Constant = float64(factor)/65536, time.Duration(constant)*time.Microsecond
		s.maxTTL = time.Hour
		l := &s.lock
		l.ttl = (time.Duration(ttl) * time.Microsecond).Truncate(time.Millisecond)
		if every%4 != 0 {
			l.renewSet, l.renewEvery = true, l.ttl-time.Duration(every%2_000_000)*time.Microsecond/10
		}
		if s.check() != nil {
			return true
		}
		return l.every() < s.drift.Validity(l.ttl, 0)-l.margin()
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 200_000}); err != nil {
		t.Error(err)
	}
}

func TestBallotSets_everyAnswer_releasedAndDequeuedWhereNeeded(t *testing.T) {
	replies := []protocol.Reply{{Outcome: protocol.Granted}, {Outcome: protocol.Held, Ticket: 7}, {}, {Outcome: protocol.NotSent}, {Outcome: protocol.Refused}, {Outcome: protocol.Absent}}
	for answered := range uint64(1 << len(replies)) {
		b := &quorumCall{ops: make([]protocol.Op, len(replies)), answered: answered, req: protocol.Request{Wait: &protocol.Wait{}}}
		for i, r := range replies {
			b.ops[i].Reply = r
		}
		granted, maybe, silent := b.sets()
		queued := b.places()
		if granted != answered&1 || granted&queued != 0 || granted&^maybe != 0 {
			t.Errorf("answered %b: granted %b, maybe %b, queued %b", answered, granted, maybe, queued)
		}
		// A master that was asked and gave no definite answer may have a vote. One that
		// was not sent the acquire has none.
		if want := ^answered&(1<<len(replies)-1) | answered&0b101; maybe != want {
			t.Errorf("answered %b: maybe %b, want %b", answered, maybe, want)
		}
		if want := ^answered & (1<<len(replies) - 1); silent != want {
			t.Errorf("answered %b: silent %b, want %b", answered, silent, want)
		}
		if want := answered & 0b110110; queued != want {
			t.Errorf("answered %b: queued %b, want %b", answered, queued, want)
		}
	}
}

// A vote that a message tells of counts once, for its own holder, before or after the reply, and not
// when what the call has is given back (H5 and H6 in docs/handoff.md).
func TestQuorumCall_hand_countsOnceForItsHolder(t *testing.T) {
	c := &Client{need: 2, all: 0b111}
	lock := protocol.NewLock("x", protocol.Write)
	call := func() *quorumCall {
		q := &quorumCall{c: c, decided: make(chan struct{}, 1), ops: make([]protocol.Op, 3), users: 4,
			req: protocol.Request{Lock: lock, Holder: "h", Wait: &protocol.Wait{}}, tally: counting.Tally{Voters: 3, Need: 2}}
		for i := range q.ops {
			q.ops[i] = protocol.Op{Request: &q.req, To: q, Index: i}
		}
		return q
	}
	reply := func(q *quorumCall, i int, r protocol.Reply) {
		q.ops[i].Reply = r
		q.Receive(&q.ops[i])
	}
	held := protocol.Reply{Outcome: protocol.Held, Ticket: 7}
	vote := handedVote{token: 5, from: 1, until: 9}
	const field = "h:write"

	q := call()
	if q.hand(0, "other:write", vote) || q.hand(0, "h", vote) {
		t.Error("a vote for another holder counts")
	}
	if !q.hand(0, field, vote) || q.hand(0, field, handedVote{token: 6}) || q.won() {
		t.Error("a vote before the reply")
	}
	reply(q, 0, held) // it was queued, and then handed the vote: the reply is the older of the two
	reply(q, 1, held)
	reply(q, 2, protocol.Reply{Outcome: protocol.Granted, Token: 4})
	if granted, _, _ := q.sets(); granted != 0b101 || !q.won() || q.tokens().Max != 5 {
		t.Errorf("granted %b, %+v", granted, q.tokens())
	}
	if q.hand(2, field, vote) || !q.hand(1, field, vote) || q.tally.Yes != 3 || q.tally.No != 0 {
		t.Errorf("a vote after the reply: %+v", q.tally)
	}
	if from, until := q.lasts(0b111, 3, 4); from != 1 || until != 9 {
		t.Errorf("from %v until %v", from, until)
	}
	if from, until := q.lasts(0b100, 3, 4); from != 3 || until != 7 {
		t.Errorf("votes in replies: from %v until %v", from, until)
	}

	q = call()
	q.end()
	if q.hand(0, field, vote) || q.won() {
		t.Error("a vote counts that is given back")
	}
}
