// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"slices"
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

// Locks of different names share no key and no channel of our own, and each of these is in the cluster slot of its lock's key.
func TestLock_keysOfItsOwn_differByName(t *testing.T) {
	names := []string{""}
	for range 5 { // all names of up to five of these
		for _, name := range names {
			for _, c := range "{}:b" {
				names = append(names, name+string(c))
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	seen := map[string]string{}
	for _, name := range names {
		for _, ns := range []Namespace{"", "team-a"} {
			l := ns.Lock(name, Plain)
			for _, key := range []string{l.Queue, l.Rest, l.AnnouncementKey(), l.Observed(), l.BarKey("h")} {
				if other, taken := seen[key]; taken {
					t.Fatalf("%q is of %q and of %q in the namespace %q", key, other, name, ns)
				}
				seen[key] = fmt.Sprintf("%q in the namespace %q", name, ns)
				if tag := hashTag(l.Key); tag != l.Key && hashTag(key) != tag {
					t.Errorf("%q is not in the slot of %q", key, l.Key)
				}
			}
			if back, ok := ns.ObservedName(l.Observed()); back != name || !ok {
				t.Errorf("%q is observed at %q, which is of %q", name, l.Observed(), back)
			}
		}
	}
}

// hashTag is the part of a key that decides its slot.
func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			return tag
		}
	}
	return key
}
