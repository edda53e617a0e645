// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestGate_everyState_parsesBack(t *testing.T) {
	for _, g := range []Gate{
		{},
		{Protocol: Protocol, Epoch: "e", Incarnation: "run.repl", State: Voting},
		{Protocol: Protocol, Epoch: "e", Incarnation: "run.repl", State: Recovering, Nonce: "n", Step: 7},
		{Protocol: Protocol, Epoch: "e", Incarnation: "run.repl", State: Retired, Next: "f"},
	} {
		if got, err := ParseGate(g.String()); err != nil || got != g {
			t.Errorf("%q parses as %+v, %v", g, got, err)
		}
	}
}

// A recovering gate begins like a voting one up to its state: extend.lua and
// topup.lua rest on it.
func TestGates_recoveringPrefix_matchesEveryStepAndNoOtherState(t *testing.T) {
	r := new(Redis)
	r.Bind(Binding{Epoch: "e"})
	id := Identity{RunID: "run", ReplID: "repl"}
	voting, mending := r.gates(id)
	g := Gate{Protocol: Protocol, Epoch: "e", Incarnation: id.Incarnation(), State: Voting}
	if g.String() != voting || strings.HasPrefix(voting, mending) {
		t.Errorf("voting gate %q, prefix %q", voting, mending)
	}
	g.State, g.Nonce = Recovering, "n"
	for g.Step = range 3 {
		if !strings.HasPrefix(g.String(), mending) {
			t.Errorf("%q does not begin with %q", g, mending)
		}
	}
	g = Gate{Protocol: Protocol, Epoch: "e", Incarnation: id.Incarnation(), State: Retired, Next: "R"}
	other := Gate{Protocol: Protocol, Epoch: "e", Incarnation: "run.repl2", State: Recovering}
	for _, g := range []Gate{g, other, {}} {
		if strings.HasPrefix(g.String(), mending) {
			t.Errorf("%q begins with %q", g, mending)
		}
	}
	// Without an epoch there is no gate, and nothing must look like a recovering one.
	r.Bind(Binding{})
	if voting, mending := r.gates(id); voting != "" || mending == "" {
		t.Errorf("with recovery off the gates are %q, %q", voting, mending)
	}
}

func TestParseGate_notOurs_saysWhatToDo(t *testing.T) {
	for _, tc := range []struct {
		text string
		want error
		says string
	}{
		{"hello", ErrRecord, "delete it"},
		{"1|e|i", ErrRecord, "delete it"},
		{"1|e|i|Z", ErrRecord, "delete it"},
		{"1|e|i|VV", ErrRecord, "delete it"},
		{"1|e|i|V|more", ErrRecord, "delete it"},
		{"1|e|i|R|n", ErrRecord, "delete it"},
		{"1|e|i|R|n|-1", ErrRecord, "delete it"},
		{"1|e|i|R|n|01", ErrRecord, "delete it"},
		{"1|e|i|R|n|x", ErrRecord, "delete it"},
		{"+1|e|i|V", ErrRecord, "delete it"},
		{"0|e|i|V", ErrRecord, "delete it"},
		{"-2|e|i|V", ErrRecord, "delete it"},
		{strings.Repeat("x", 10_000), ErrRecord, "delete it"},
		{"2|e|i|V", ErrProtocol, "one version"},
		{"17|a|b|c|d|e|f|g", ErrProtocol, "one version"},
	} {
		_, err := ParseGate(tc.text)
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) || len(err.Error()) > 400 {
			t.Errorf("%.40q: %v", tc.text, err)
		}
		if g := (&GateError{Got: tc.text}).Error(); g != err.Error() {
			t.Errorf("%.40q: a refusal by it says %q, want %q", tc.text, g, err)
		}
	}
}

func TestGateError_eachState_told(t *testing.T) {
	for text, says := range map[string]string{
		"":             "no record",
		"1|e|i|V":      "votes in epoch e as incarnation i",
		"1|e|i|R|n|3":  "recovering",
		"1|old|i|X|nu": "has left epoch old for nu",
	} {
		if got := (&GateError{Got: text}).Error(); !strings.Contains(got, says) {
			t.Errorf("%q is told as %q, want %q", text, got, says)
		}
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

func FuzzParseGate(f *testing.F) {
	for _, s := range []string{"", "1|e|i|V", "1|e|i|R|n|3", "1|e|i|X|f", "2|e|i|V", "1|||V", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGate(s)
		if err == nil && g.String() != s {
			t.Errorf("%q parses as %+v, which prints %q", s, g, g)
		}
		if err != nil && (g != Gate{} || !errors.Is(err, ErrRecord) && !errors.Is(err, ErrProtocol)) {
			t.Errorf("%q gives %+v, %v", s, g, err)
		}
		_ = (&GateError{Got: s}).Error()
	})
}
