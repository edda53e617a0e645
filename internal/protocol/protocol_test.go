// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"strings"
	"testing"
)

func TestRecordStateError_eachState_told(t *testing.T) {
	const e, nonce = "3.000000000000000e", "00000000000a"
	for text, says := range map[string]string{
		"":                                "no record",
		"2|" + e + "|i|V":                 "votes in epoch " + e + " as incarnation i",
		"2|" + e + "|i|R|" + nonce + "|1": "quarantined",
		"2|" + e + "|i|X|" + nonce + "|4." + nonce: "being changed",
		"1|e|i|V": "one version",
		"garbage": "delete it",
	} {
		if got := (&RecordStateError{Got: text}).Error(); !strings.Contains(got, says) {
			t.Errorf("%q is told as %q, want %q", text, got, says)
		}
	}
}

func TestCounterField_allNames_fallIntoTheCounters(t *testing.T) {
	seen := map[string]bool{}
	for i := range 20_000 {
		seen[NewLock(fmt.Sprint("lock-", i), Plain).Counter] = true
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

func TestOutcome_unknownValue_hasAName(t *testing.T) {
	if Held.String() != "held" || Outcome(255).String() != "?" {
		t.Errorf("%v and %v", Held, Outcome(255))
	}
}
