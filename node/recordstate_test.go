// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
)

// A quarantined state differs from a voting one in its letter, and in nothing before that.
// extend.lua and topup.lua rely on it.
func TestRecordStates_quarantinedPrefix_matchesNoOtherState(t *testing.T) {
	r := new(redisNode)
	r.Bind(protocol.Binding{CheckRecordState: true})
	e := membership.Epoch{Number: 7, ID: 0xe}
	id := protocol.Identity{RunID: "run", ReplID: "repl"}
	voting, quarantined := r.recordStates(id.Incarnation(), e.String())
	rs := membership.RecordState{Epoch: e, Incarnation: id.Incarnation(), Phase: membership.Voting}
	if rs.String() != voting || strings.HasPrefix(voting, quarantined) {
		t.Errorf("voting state %q, prefix %q", voting, quarantined)
	}
	for _, whole := range []bool{false, true} {
		rs := membership.RecordState{Epoch: e, Incarnation: id.Incarnation(), Phase: membership.Quarantined, Nonce: 5, Whole: whole}
		if !strings.HasPrefix(rs.String(), quarantined) {
			t.Errorf("%q does not begin with %q", rs, quarantined)
		}
	}
	retired := membership.RecordState{Epoch: e, Incarnation: id.Incarnation(), Phase: membership.Retired, Nonce: 5, Ballot: membership.Ballot{Round: 1, Nonce: 2}}
	other := membership.RecordState{Epoch: e, Incarnation: "run.repl2", Phase: membership.Quarantined, Nonce: 5}
	later := membership.RecordState{Epoch: membership.Epoch{Number: 70, ID: e.ID}, Incarnation: id.Incarnation(), Phase: membership.Quarantined, Nonce: 5}
	for _, rs := range []membership.RecordState{retired, other, later, {}} {
		if strings.HasPrefix(rs.String(), quarantined) {
			t.Errorf("%q begins with %q", rs, quarantined)
		}
	}
	// If the state is not checked, no state must look like a quarantined one.
	r = new(redisNode)
	noErr(t, r.Bind(protocol.Binding{}))
	if voting, quarantined := r.recordStates(id.Incarnation(), ""); voting != "" || quarantined == "" {
		t.Errorf("with recovery off the states are %q, %q", voting, quarantined)
	}
}

// A node asks its master for votes once the coordinator has looked at record and clock. After
// each doubt the coordinator must look again: a look from before the doubt does not count.
func TestEnter_checkedMaster_votesOnlyWhenLookedAt(t *testing.T) {
	r, err := openURL("redis://127.0.0.1:1", Config{})
	noErr(t, err)
	defer r.Close()
	r.Bind(protocol.Binding{CheckRecordState: true})
	r.voteRefusal = ErrNotEntered
	refusal := func(kind protocol.Kind) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.refusalLocked(&protocol.Op{Request: &protocol.Request{Kind: kind}})
	}
	for _, kind := range []protocol.Kind{protocol.Acquire, protocol.Confirm} {
		if refusal(kind) != ErrNotEntered {
			t.Errorf("%v before anybody looked: %v", kind, refusal(kind))
		}
	}
	for _, kind := range []protocol.Kind{protocol.Release, protocol.Extend, protocol.TopUp, protocol.ReadRecord, protocol.CompareAndSetRecord, protocol.Heartbeat} {
		if err := refusal(kind); err != nil {
			t.Errorf("%v before anybody looked: %v", kind, err)
		}
	}
	now := r.clock.Elapsed()
	r.Enter("1.x", nil, now+1)
	if err := refusal(protocol.Acquire); err != nil {
		t.Errorf("looked at, and %v", err)
	}
	r.mu.Lock()
	r.doubtLocked(ErrClock)
	r.mu.Unlock()
	r.Enter("1.x", nil, now-1)
	if refusal(protocol.Acquire) != ErrClock {
		t.Errorf("looked at before the doubt, and %v", refusal(protocol.Acquire))
	}
	r.Enter("1.x", nil, r.clock.Elapsed()+time.Second)
	if err := refusal(protocol.Acquire); err != nil {
		t.Errorf("looked at after the doubt, and %v", err)
	}
}

// A node has one coordinator. A second one would take over what the first is told, and a closed node dials nobody.
func TestBind_twiceOrClosed_refused(t *testing.T) {
	open := func() *redisNode {
		r, err := openURL("redis://127.0.0.1:1", Config{})
		noErr(t, err)
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	r := open()
	noErr(t, r.Bind(protocol.Binding{Namespace: "first"}))
	if err := r.Bind(protocol.Binding{Namespace: "second"}); !errors.Is(err, protocol.ErrBound) || !strings.Contains(err.Error(), r.Name()) || r.binding.Namespace != "first" {
		t.Errorf("bound to %q: %v", r.binding.Namespace, err)
	}
	r = open()
	noErr(t, r.Close())
	if err := r.Bind(protocol.Binding{}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	r = open()
	_ = r.Ready(t.Context())
	if err := r.Bind(protocol.Binding{}); !errors.Is(err, protocol.ErrBound) {
		t.Errorf("asked before: %v", err)
	}
}
