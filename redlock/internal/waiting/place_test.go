// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// held is the reply of a master that holds the lock for another.
func held(ticket int64, ahead int, remaining time.Duration) protocol.Reply {
	return protocol.Reply{Outcome: protocol.Held, Ticket: ticket, Ahead: ahead, Remaining: remaining}
}

func TestPlace_ticket_medianOfAQuorumAndThenFixed(t *testing.T) {
	var p Place
	silent := protocol.Reply{}
	if p.Refused([]protocol.Reply{held(5, 0, 0), held(9, 0, 0), silent, silent, silent}, 3) || p.Ticket != 0 {
		t.Errorf("two of five gave ticket %d", p.Ticket)
	}
	if !p.Refused([]protocol.Reply{held(5, 0, 0), held(9, 0, 0), held(1, 0, 0), silent, silent}, 3) || p.Ticket != 5 {
		t.Errorf("ticket %d, want the median 5", p.Ticket)
	}
	if !p.Refused([]protocol.Reply{held(100, 0, 0), held(100, 0, 0), held(100, 0, 0), silent, silent}, 3) || p.Ticket != 5 {
		t.Errorf("ticket %d, want 5 still", p.Ticket)
	}
}

// Until the ticket is fixed, each master is presented the one that it gave, for it would give
// a later one. The first that each gave count.
func TestPlace_ticket_inSeveralRounds(t *testing.T) {
	var p Place
	silent := protocol.Reply{}
	p.Refused([]protocol.Reply{held(5, 0, 0), silent, held(9, 0, 0), silent, silent}, 3)
	if p.TicketAt(0) != 5 || p.TicketAt(1) != 0 || p.TicketAt(2) != 9 {
		t.Errorf("presents %v, %v, %v", p.TicketAt(0), p.TicketAt(1), p.TicketAt(2))
	}
	if !p.Refused([]protocol.Reply{held(20, 0, 0), held(30, 0, 0), silent, silent, silent}, 3) || p.Ticket != 9 {
		t.Errorf("ticket %d, want the median 9 of 5, 9 and 30", p.Ticket)
	}
	if p.TicketAt(0) != 9 || p.TicketAt(4) != 9 {
		t.Errorf("presents %v and %v when the ticket is fixed", p.TicketAt(0), p.TicketAt(4))
	}
}

// A master may have the contender in its queue unless it granted, was not asked, or says
// that it put the contender back after a grant in vain.
func TestPlace_queued_everyAnswer(t *testing.T) {
	granted, notSent := protocol.Reply{Outcome: protocol.Granted}, protocol.Reply{Outcome: protocol.NotSent}
	p := Place{Queued: 0b11000}
	p.Refused([]protocol.Reply{held(1, 0, 0), {}, {Outcome: protocol.Refused}, notSent, granted}, 3)
	if p.Queued != 0b01111 {
		t.Errorf("without a ticket: queued on %05b", p.Queued)
	}
	p = Place{Queued: 0b01000, Ticket: 7}
	p.Refused([]protocol.Reply{held(1, 0, 0), {}, {Outcome: protocol.Refused}, notSent, granted}, 3)
	if p.Queued != 0b11111 {
		t.Errorf("with a ticket: queued on %05b", p.Queued)
	}
	p.Granted(0b00001, 0b10110)
	if p.Queued != 0b01001 {
		t.Errorf("after a lease: queued on %05b", p.Queued)
	}
}

func TestPatience_eachKindOfRound(t *testing.T) {
	const s = time.Second
	free := protocol.Reply{Outcome: protocol.Granted}
	none := func(time.Duration) time.Duration { return 0 }
	for _, tc := range []struct {
		name string
		r    Round
		want time.Duration
	}{
		{"recovering", Round{Recovering: true, RetryAfter: 2 * s}, 2 * s},
		{"recovering, and nobody says until when", Round{Recovering: true, Granted: true, Need: 3}, PauseMin / 2},
		{"recovering for long", Round{Recovering: true, RetryAfter: time.Hour}, recoveryLook},
		{"split", Round{Held: true, Granted: true, RetryAfter: s, Replies: []protocol.Reply{free, held(1, 0, s), held(1, 0, s)}, Need: 3}, PauseMin / 2},
		{"nobody answered", Round{Need: 3}, PauseMin / 2},
		{"too few answered, and those say when", Round{RetryAfter: s, Behind: true, Replies: []protocol.Reply{held(1, 1, s)}, Need: 3}, PauseMin / 2},
		{"behind on one master, ahead on another", Round{Held: true, Behind: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 0, s), held(1, 2, s)}, Need: 2}, 3 * s / 2},
		{"held, and nobody knows for how long", Round{Held: true, Replies: []protocol.Reply{held(1, 0, 0), held(1, 0, 0)}, Need: 2}, PauseMin / 2},
		{"free in a moment", Round{Held: true, RetryAfter: 1, Replies: []protocol.Reply{held(1, 0, 1), held(1, 0, 0)}, Need: 2}, time.Millisecond + 1},
		{"held by others further ahead", Round{Held: true, Behind: true, Replies: []protocol.Reply{held(1, 1, 0), held(1, 1, 0)}, Need: 2}, 3 * s / 4},
		{"a quorum is taken, and the rest is free", Round{Held: true, Granted: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 0, s), held(1, 0, s), free}, Need: 2}, s + time.Millisecond},
		{"next in line", Round{Held: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 0, s), held(1, 0, s), free}, Need: 2}, s + time.Millisecond},
		{"held for long", Round{Held: true, RetryAfter: time.Hour, Replies: []protocol.Reply{held(1, 0, s), held(1, 0, s)}, Need: 2}, checkMax + time.Millisecond},
		{"right behind", Round{Held: true, Behind: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 1, s), held(1, 2, s)}, Need: 2}, 3 * s / 4},
		{"far behind", Round{Held: true, Behind: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 50, s), held(1, 9, s)}, Need: 2}, 3 * s},
	} {
		var p Place
		if got := p.Patience(&tc.r, none); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		p = Place{}
		// Contenders must not meet again, and none wakes before it is of use.
		whole := func(d time.Duration) time.Duration { return d }
		if got := p.Patience(&tc.r, whole); got < tc.want+time.Millisecond || got > 2*tc.want+10*time.Millisecond {
			t.Errorf("%s: %v with all of the jitter, %v without", tc.name, got, tc.want)
		}
	}
	// A pause after split votes is longer each time.
	var p Place
	endless := Round{Held: true, Replies: []protocol.Reply{held(1, 0, 0), held(1, 0, 0)}, Need: 2}
	p.Patience(&endless, none)
	if got := p.Patience(&endless, none); got != PauseMin {
		t.Errorf("after two rounds that nobody can tell the end of: %v, want %v", got, PauseMin)
	}
	p = Place{}
	split := Round{Need: 3}
	for range 20 {
		p.Patience(&split, none)
	}
	if got := p.Patience(&split, none); got != PauseMax/2 {
		t.Errorf("after many split rounds: %v, want %v", got, PauseMax/2)
	}
	p.Patience(&Round{Held: true, RetryAfter: s}, none)
	if got := p.Patience(&split, none); got != PauseMin/2 {
		t.Errorf("after another kind of round: %v, want %v", got, PauseMin/2)
	}
}

// A waiter keeps its place when two heartbeats are lost.
func TestLiveness_outlastsTwoLostHeartbeats(t *testing.T) {
	if HeartbeatEvery <= 0 || Liveness < 3*HeartbeatEvery {
		t.Errorf("a heartbeat every %v keeps a place for %v", HeartbeatEvery, Liveness)
	}
}

func TestBehind_headOfTooFewQueues(t *testing.T) {
	free, silent := protocol.Reply{Outcome: protocol.Granted}, protocol.Reply{}
	for _, tc := range []struct {
		replies []protocol.Reply
		want    bool
	}{
		{[]protocol.Reply{free, held(1, 0, 0), silent}, false},
		{[]protocol.Reply{free, held(1, 1, 0), silent}, true},
		{[]protocol.Reply{silent, silent, silent}, true},
	} {
		if got := Behind(tc.replies, 2); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.replies, got, tc.want)
		}
	}
}
