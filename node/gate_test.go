// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
)

// A quarantined gate begins like a voting one up to its state: extend.lua and
// topup.lua rest on it.
func TestGates_quarantinedPrefix_matchesNoOtherState(t *testing.T) {
	r := new(Redis)
	r.Bind(Binding{Gated: true})
	e := membership.Epoch{Number: 7, ID: 0xe}
	id := Identity{RunID: "run", ReplID: "repl"}
	voting, mending := r.gates(id.Incarnation(), e.String())
	g := membership.Gate{Epoch: e, Incarnation: id.Incarnation(), State: membership.Voting}
	if g.String() != voting || strings.HasPrefix(voting, mending) {
		t.Errorf("voting gate %q, prefix %q", voting, mending)
	}
	for _, whole := range []bool{false, true} {
		g := membership.Gate{Epoch: e, Incarnation: id.Incarnation(), State: membership.Quarantined, Nonce: 5, Whole: whole}
		if !strings.HasPrefix(g.String(), mending) {
			t.Errorf("%q does not begin with %q", g, mending)
		}
	}
	retired := membership.Gate{Epoch: e, Incarnation: id.Incarnation(), State: membership.Retired, Nonce: 5, Ballot: membership.Ballot{Round: 1, Nonce: 2}}
	other := membership.Gate{Epoch: e, Incarnation: "run.repl2", State: membership.Quarantined, Nonce: 5}
	later := membership.Gate{Epoch: membership.Epoch{Number: 70, ID: e.ID}, Incarnation: id.Incarnation(), State: membership.Quarantined, Nonce: 5}
	for _, g := range []membership.Gate{retired, other, later, {}} {
		if strings.HasPrefix(g.String(), mending) {
			t.Errorf("%q begins with %q", g, mending)
		}
	}
	// Without a gate nothing must look like a quarantined one.
	r.Bind(Binding{})
	if voting, mending := r.gates(id.Incarnation(), ""); voting != "" || mending == "" {
		t.Errorf("with recovery off the gates are %q, %q", voting, mending)
	}
}

func TestGateError_eachState_told(t *testing.T) {
	const e, nonce = "3.000000000000000e", "00000000000a"
	for text, says := range map[string]string{
		"":                                "no record",
		"2|" + e + "|i|V":                 "votes in epoch " + e + " as incarnation i",
		"2|" + e + "|i|R|" + nonce + "|1": "quarantined",
		"2|" + e + "|i|X|" + nonce + "|4." + nonce: "being changed",
		"1|e|i|V": "one version",
		"garbage": "delete it",
	} {
		if got := (&GateError{Got: text}).Error(); !strings.Contains(got, says) {
			t.Errorf("%q is told as %q, want %q", text, got, says)
		}
	}
}

// A master is asked for votes from the moment on when somebody has looked at its record
// and clock, and again after each doubt: a look from before the doubt settles nothing.
func TestEnter_gatedMaster_votesOnlyWhenLookedAt(t *testing.T) {
	r, err := Open("redis://127.0.0.1:1", Config{})
	noErr(t, err)
	defer r.Close()
	r.Bind(Binding{Gated: true})
	r.noVotes = ErrNotEntered
	refusal := func(kind Kind) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.refusalLocked(&Op{Request: &Request{Kind: kind}})
	}
	for _, kind := range []Kind{Acquire, Confirm} {
		if refusal(kind) != ErrNotEntered {
			t.Errorf("%v before anybody looked: %v", kind, refusal(kind))
		}
	}
	for _, kind := range []Kind{Release, Leave, Extend, TopUp, ReadRecord, SwapRecord, Beat} {
		if err := refusal(kind); err != nil {
			t.Errorf("%v before anybody looked: %v", kind, err)
		}
	}
	now := r.clock.Elapsed()
	r.Enter("1.x", nil, now+1)
	if err := refusal(Acquire); err != nil {
		t.Errorf("looked at, and %v", err)
	}
	r.mu.Lock()
	r.doubtLocked(ErrClock)
	r.mu.Unlock()
	r.Enter("1.x", nil, now-1)
	if refusal(Acquire) != ErrClock {
		t.Errorf("looked at before the doubt, and %v", refusal(Acquire))
	}
	r.Enter("1.x", nil, r.clock.Elapsed()+time.Second)
	if err := refusal(Acquire); err != nil {
		t.Errorf("looked at after the doubt, and %v", err)
	}
}

func TestCounterField_allNames_fallIntoTheCounters(t *testing.T) {
	seen := map[string]bool{}
	for i := range 20_000 {
		seen[NewLock(fmt.Sprint("lock-", i), Plain).counter] = true
	}
	if len(seen) < Counters*9/10 {
		t.Errorf("20000 names use %d of %d counters", len(seen), Counters)
	}
	for i := range Counters {
		delete(seen, CounterField(i))
	}
	if len(seen) > 0 {
		t.Errorf("fields that are no counter: %v", seen)
	}
}
