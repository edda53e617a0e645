// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/protocol"
)

func TestSets_everyAnswer_releasedAndDequeuedWhereNeeded(t *testing.T) {
	replies := []protocol.Reply{{Outcome: protocol.Granted}, {Outcome: protocol.Held, Ticket: 7}, {}, {Outcome: protocol.NotSent}, {Outcome: protocol.Refused}, {Outcome: protocol.Absent}}
	for answered := range uint64(1 << len(replies)) {
		b := &Call{ops: make([]protocol.Op, len(replies)), answered: answered, req: protocol.Request{Wait: &protocol.Wait{}}}
		for i, r := range replies {
			b.ops[i].Reply = r
		}
		granted, maybe, silent := b.Sets()
		queued := b.Places()
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

// What a master has left counts from its answer: a round may be open for long after that.
func TestReplies_later_haveLessLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Masters{Nodes: make([]protocol.Node, 4), Need: 2, All: 0b1111, Clock: clock.Monotonic()}
		q := m.Call(2, &protocol.Request{})
		answer := func(i int, left time.Duration) {
			q.ops[i].Reply = protocol.Reply{Outcome: protocol.Held, Remaining: left}
			q.Receive(&q.ops[i])
		}
		answer(0, 100*time.Millisecond)
		answer(1, 10*time.Millisecond)
		answer(2, 0)
		time.Sleep(40 * time.Millisecond)
		answer(3, -time.Millisecond)
		rs := q.Replies()
		got := []time.Duration{rs[0].Remaining, rs[1].Remaining, rs[2].Remaining, rs[3].Remaining}
		// A vote whose time is over is not the answer "the lock is free", which 0 is, and one without a TTL never ends.
		if want := []time.Duration{60 * time.Millisecond, 1, 0, -time.Millisecond}; !slices.Equal(got, want) {
			t.Errorf("left are %v, want %v", got, want)
		}
	})
}

// voter is a node that has a voting state.
type voter struct{ protocol.Node }

func (voter) VotingState() string { return "7" }

// A vote that a message tells of counts once, for its own holder, before or after the reply, and not
// when what the call has is given back (H5 and H6 in docs/internals/handoff.md).
func TestCall_hand_countsOnceForItsHolder(t *testing.T) {
	m := &Masters{Nodes: []protocol.Node{voter{}, voter{}, voter{}}, Need: 2, All: 0b111}
	lock := protocol.NewLock("x", protocol.Write)
	call := func() *Call {
		q := &Call{m: m, decided: make(chan struct{}, 1), ops: make([]protocol.Op, 3), users: 4,
			req: protocol.Request{Lock: lock, Holder: "h", Wait: &protocol.Wait{}}, tally: counting.Tally{Voters: 3, Need: 2}}
		for i := range q.ops {
			q.ops[i] = protocol.Op{Request: &q.req, To: q, Index: i}
		}
		return q
	}
	reply := func(q *Call, i int, r protocol.Reply) {
		q.ops[i].Reply = r
		q.Receive(&q.ops[i])
	}
	held := protocol.Reply{Outcome: protocol.Held, Ticket: 7}
	vote := Vote{Token: 5, From: 1, Until: 9}
	const field = "h:write"

	q := call()
	if q.Hand(0, "other:write", "7", vote) || q.Hand(0, "h", "7", vote) || q.Hand(0, field, "8", vote) {
		t.Error("a vote for another holder counts")
	}
	if !q.Hand(0, field, "7", vote) || q.Hand(0, field, "7", Vote{Token: 6}) || q.Won() {
		t.Error("a vote before the reply")
	}
	reply(q, 0, held) // it was queued, and then handed the vote: the reply is the older of the two
	reply(q, 1, held)
	reply(q, 2, protocol.Reply{Outcome: protocol.Granted, Token: 4})
	if granted, _, _ := q.Sets(); granted != 0b101 || !q.Won() || q.Tokens().Max != 5 {
		t.Errorf("granted %b, %+v", granted, q.Tokens())
	}
	if q.Hand(1, field, "8", vote) {
		t.Error("a vote that another master gave, whose replica this one became")
	}
	if q.Hand(2, field, "7", vote) || !q.Hand(1, field, "7", vote) || q.tally.Yes != 3 || q.tally.No != 0 {
		t.Errorf("a vote after the reply: %+v", q.tally)
	}
	if v, ok := q.HandedVote(0); !ok || v != vote || q.Handed() != 0b011 {
		t.Errorf("handed %b, %+v", q.Handed(), v)
	}
	if v, ok := q.HandedVote(2); ok {
		t.Errorf("a vote in a reply: %+v", v)
	}

	if as := q.PlacedAs(nil, 0b011); !slices.Equal(as, []string{"7", "7", ""}) {
		t.Errorf("the places were given with the data %q", as)
	}

	for _, outcome := range []protocol.Outcome{protocol.Refused, protocol.Unknown, protocol.Held} {
		q = call()
		reply(q, 0, protocol.Reply{Outcome: outcome})
		if q.Hand(0, field, "8", vote) || !q.Hand(0, field, "7", vote) {
			t.Errorf("after the answer %v a vote counts if it is of the master's own state", outcome)
		}
	}
	q = call()
	reply(q, 0, protocol.Reply{Outcome: protocol.NotSent})
	if q.Hand(0, field, "7", vote) {
		t.Error("a vote of a master that was not asked")
	}

	q = call()
	q.End()
	if q.Hand(0, field, "7", vote) || q.Won() {
		t.Error("a vote counts that is given back")
	}
}
