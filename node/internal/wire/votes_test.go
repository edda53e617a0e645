// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// A master gets a TTL of 1 ms or more, because 0 would delete the vote that it has just given.
func TestAcquire_ttlBelowAMillisecond_isOne(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{1, time.Millisecond - 1, time.Millisecond} {
		if n := millis(d); n != 1 {
			t.Errorf("%v is %d ms", d, n)
		}
	}
	var v votes
	v.add(&protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), TTL: 100 * time.Microsecond, Wait: &protocol.Wait{Liveness: 1}}, true)
	c := &Conn{Keys: KeysOf("", "")}
	// evalsha, the script, 3, three keys, n, state, TTL, liveness
	if args := v.call(nil, c); args[8] != int64(1) || args[9] != int64(1) {
		t.Errorf("the call is %v", args)
	}
}

// Of a call that ran, only the releases are sent again when the master forgot the script of an earlier one.
func TestReleases_ofACall(t *testing.T) {
	t.Parallel()
	var p Pipeline
	p.Reset(&Conn{Keys: KeysOf("", ""), MayHand: true})
	for i, r := range []protocol.Request{
		{Kind: protocol.Acquire}, {Kind: protocol.Release}, {Kind: protocol.Acquire, Wait: &protocol.Wait{Ticket: 5, Liveness: 1}},
		{Kind: protocol.Release, Hand: 1}, {Kind: protocol.Acquire, Wait: &protocol.Wait{Ticket: 6, Liveness: 1, Only: true}}, {Kind: protocol.Release, Leaves: true},
	} {
		r.Lock, r.Holder, r.TTL = protocol.NewLock(string(rune('a'+i)), protocol.Plain), "h", time.Second
		p.Add(&r)
	}
	p.closeCall()
	var acts []any
	for _, call := range releases(p.cmds[0].Args()) {
		acts = append(acts, call[len(call)-opWords])
	}
	if want := []any{actRelease, actHand, actLeave}; !slices.Equal(acts, want) {
		t.Errorf("%v, want %v", acts, want)
	}
}
