// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

var errDown = errors.New("down")

// held is the reply of a master that holds the lock for another.
func held(ticket int64, ahead int, remaining time.Duration) protocol.Reply {
	return protocol.Reply{Outcome: protocol.Held, Ticket: ticket, Ahead: ahead, Remaining: remaining}
}

func TestTicket_medianOfTheMastersClocks(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		ahead []time.Duration
		want  int64
	}{
		{nil, 1},
		{[]time.Duration{7 * s}, 17_000_000},
		{[]time.Duration{100 * s, 3 * s, 5 * s}, 15_000_000},
		{[]time.Duration{-1000 * s, -1000 * s, 5 * s}, 1},
	} {
		if got := Ticket(10*s, tc.ahead); got != tc.want {
			t.Errorf("%v ahead: %d, want %d", tc.ahead, got, tc.want)
		}
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
		{"recovering", Round{Recovering: true, RetryAfter: 2 * s, Need: 3}, 2 * s},
		{"recovering, and nobody says until when", Round{Recovering: true, Granted: true, Need: 3}, PauseMin / 2},
		{"recovering for long", Round{Recovering: true, RetryAfter: time.Hour, Need: 3, MayVote: 2}, recoveryLook},
		{"recovering, and silent masters could make the quorum", Round{Recovering: true, RetryAfter: time.Hour, Need: 3, MayVote: 3}, silentLook},
		{"split", Round{Held: true, Granted: true, RetryAfter: s, Replies: []protocol.Reply{free, held(1, 0, s), held(1, 0, s)}, Need: 3}, PauseMin / 2},
		{"nobody answered", Round{Need: 3}, PauseMin / 2},
		{"too few answered, and those say when", Round{RetryAfter: s, Behind: true, Replies: []protocol.Reply{held(1, 1, s)}, Need: 3}, PauseMin / 2},
		{"behind on one master, ahead on another", Round{Held: true, Behind: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 0, s), held(1, 2, s)}, Need: 2}, 3 * s / 2},
		{"held, and nobody knows for how long", Round{Held: true, Replies: []protocol.Reply{held(1, 0, 0), held(1, 0, 0)}, Need: 2}, PauseMin / 2},
		{"free in a moment", Round{Held: true, RetryAfter: 1, Replies: []protocol.Reply{held(1, 0, 1), held(1, 0, 0)}, Need: 2}, time.Millisecond + 1},
		{"held by others further ahead", Round{Held: true, Behind: true, Replies: []protocol.Reply{held(1, 1, 0), held(1, 1, 0)}, Need: 2}, 3 * s / 4},
		{"a quorum is taken, and the rest is free", Round{Held: true, Granted: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 0, s), held(1, 0, s), free}, Need: 2}, s + time.Millisecond},
		{"next in line, and two masters have not answered", Round{Held: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 0, s), held(1, 0, s/2), held(1, 0, s), {}, {}}, Need: 3}, s/2 + time.Millisecond},
		{"next in line, and the last answer came when the round had ended", Round{Held: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 0, s), held(1, 0, s/2), held(1, 0, s/3)}, Need: 2}, s/2 + time.Millisecond},
		{"next in line, and two masters are down", Round{Held: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 0, s), held(1, 0, s/2), held(1, 0, s), {Err: errDown}, {Err: errDown}}, Need: 3}, s + time.Millisecond},
		{"next in line", Round{Held: true, RetryAfter: s, Replies: []protocol.Reply{held(1, 0, s), held(1, 0, s), free}, Need: 2}, s + time.Millisecond},
		{"held for long", Round{Held: true, RetryAfter: time.Hour, Replies: []protocol.Reply{held(1, 0, time.Hour), held(1, 0, time.Hour)}, Need: 2}, nextMax + time.Millisecond},
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
