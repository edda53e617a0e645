// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"errors"
	"strings"
	"testing"

	ms "github.com/redlock-go/redlock/internal/membership"

	"github.com/redlock-go/redlock/internal/needs"
)

// variants are wrong machines, drivers and scripts, each with the world that refutes it. The first eight are the faults
// of issue 14, as far as they are the machine's. docs/internals/membership.md tells each counter-example in words.
var variants = []struct {
	name   string
	broken func(*World)
	world  World
	breaks string // the invariant that it breaks, as a part of the reason
}{
	{"fault 1: an old list claims what it left, and nobody saw it whole", off(ms.GuardSight),
		World{Lists: lists(listA, disjoint), Procs: procs(clientA, toB.cut(2)), Attempts: attempts(lockA, lockB), Losses: 2}, twoHolders},
	{"fault 1: likewise, the same list with a longer TTL", off(ms.GuardSight),
		World{Lists: lists(listA, longer), Procs: procs(clientA, toB), Attempts: attempts(lockA, lockB), Losses: 2}, twoHolders},
	{"fault 2: nobody goes on with a change", func(w *World) { w.Procs = procs(clientA, toB.mortal()) },
		World{Lists: lists(listA, disjoint), Procs: procs(clientA, toB), Kills: 1, Recovered: true}, deadEnd},
	{"fault 3: a clock steps and nobody keeps a note", func(w *World) { w.Unwatch = true },
		World{Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Jumps: 1}, twoHolders},
	{"fault 4: a refused action follows to the head that stands there", func(w *World) { w.Follow = true },
		World{Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 2, Late: 1, Posts: 1}, twoHolders},
	{"fault 4: init lets an empty master vote", off(ms.GuardFromNonce),
		World{Lists: lists(listA), Procs: procs(initI.neverLocked()), Attempts: attempts(lockA, lockA2), Losses: 1, Late: 1, Posts: 1, Start: Empty}, twoHolders},
	{"fault 5: data on the disk count as votes", off(ms.GuardNotDurable),
		World{Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Restarts: 1}, twoHolders},
	{"fault 6: the wait has the drift of the client that times it", off(ms.GuardEpochDrift),
		World{Lists: lists(List{Name: "A", Masters: listA.Masters, TTL: 2, Drift: 2}), Procs: procs(clientA.fast()), Attempts: attempts(lockA, lockA2), Losses: 1}, twoHolders},
	{"fault 7: proposals ratchet a counter past the clock", func(w *World) { w.Ratchet = true },
		World{Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(floor4, floor8, lockA), Losses: 2, Tokens: true}, tokens},
	{"fault 8: clients of the new list are early", off(ms.GuardSight),
		World{Lists: lists(listA, disjoint), Procs: procs(clientA, clientB, toB), Attempts: attempts(lockA, lockB)}, twoHolders},
	{"fault 9: init on flushed masters, as new", func(w *World) { w.Procs = procs(initI.neverLocked()) },
		World{Lists: lists(listA), Procs: procs(initI), Attempts: attempts(lockA, lockA2), Losses: 3}, twoHolders},

	{"nobody writes down since when a master waits", func(w *World) { w.Stamps = false },
		World{Lists: lists(listA), Procs: procs(clientA.brief()), Losses: 1, Stamps: true, Recovered: true, All: true}, deadEnd},
	{"a stamp comes with the claim", off(ms.GuardStampStands),
		World{Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 2, Late: 1, Posts: 1, Stamps: true}, twoHolders},
	{"a process stamps what it does not vouch for", off(ms.GuardStampVouched),
		World{Lists: lists(listA, single), Procs: procs(clientA, toB.cut(2)), Attempts: attempts(lockA, lockB), Losses: 2, Late: 1, Posts: 1, Stamps: true}, twoHolders},
	{"one clock says how long a master has waited", off(ms.GuardStampQuorum),
		World{Lists: lists(listA), Procs: procs(clientA.brief()), Attempts: attempts(lockA, lockA2), Losses: 1, Jumps: 1, Stamps: true}, twoHolders},
	{"init believes against the records that nothing was ever locked", off(ms.GuardUnused),
		World{Lists: lists(listA), Procs: procs(clientA, initI.neverLocked().informed()), Attempts: attempts(lockA, lockA2), Losses: 3}, twoHolders},

	{"rule 1: sight", off(ms.GuardSight),
		World{Lists: lists(listA, disjoint), Procs: procs(clientA, toB), Attempts: attempts(lockA, lockB), Losses: 3}, twoHolders},
	{"rule 2: sight at the finish", off(ms.GuardSightAtFinish),
		World{Lists: lists(listA, disjoint), Procs: procs(clientA, toB.cut(2)), Attempts: attempts(lockA, lockB), Losses: 2, Late: 1, Posts: 1}, twoHolders},
	{"rule 3: look again after the wait", off(ms.GuardLookAgain),
		World{Lists: lists(listA, disjoint), Procs: procs(clientA, toB.cut(2)), Attempts: attempts(lockA, lockB), Losses: 1}, twoHolders},
	{"rule 4: X has a fresh nonce", off(ms.GuardRetiredNonce),
		World{Lists: lists(listA, disjoint), Procs: procs(clientA, toB.cut(2)), Attempts: attempts(lockA, lockB), Losses: 1, Late: 1, Posts: 1}, twoHolders},
	{"rule 5: W before a new epoch", off(ms.GuardWaitRetired),
		World{Lists: lists(listA, disjoint), Procs: procs(toB), Attempts: attempts(lockA, lockB)}, twoHolders},
	{"rule 5: W in quarantine", off(ms.GuardWaitQuarantined),
		World{Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 1}, twoHolders},
	{"rule 5: counters are learned after W", off(ms.GuardLearnAfterWait),
		World{Lists: lists(listA2), Procs: procs(clientA), Attempts: attempts(lockA, lockA2, lockA), Losses: 1, Tokens: true}, tokens},
	{"rule 6: never from a lost record to V", off(ms.GuardFromNonce),
		World{Lists: lists(listA, disjoint), Procs: procs(toB), Attempts: attempts(lockB, lockB2), Losses: 1}, twoHolders},
	{"rule 7: only listed masters begin at once", off(ms.GuardListed),
		World{Lists: lists(listA, disjoint), Procs: procs(toB), Attempts: attempts(lockB, lockB2), Losses: 1, Late: 1, Posts: 1}, twoHolders},
	{"rule 8: promise", off(ms.GuardPromise),
		World{Lists: lists(listA, single, singleC), Procs: procs(toB.cut(2), toC.cut(0)), Attempts: attempts(lockB, lockC), Late: 1, Posts: 1}, twoHolders},
	{"rule 8: adopt what is found", off(ms.GuardAdopt),
		World{Lists: lists(listA, single, singleC), Procs: procs(toB.cut(2), toC.cut(0)), Attempts: attempts(lockB, lockC)}, twoHolders},
	{"rule 9: all new masters are ready", off(ms.GuardAllReady),
		World{Lists: lists(listA, disjoint), Procs: procs(clientA, clientB, toB), Losses: 1, Recovered: true}, deadEnd},
	{"rule 10: any process goes on", func(w *World) { w.Procs = procs(clientA, clientB, toB.mortal()) },
		World{Lists: lists(listA, longer), Procs: procs(clientA, clientB, toB), Kills: 1, Recovered: true}, deadEnd},
	{"rule 11: who kept its data is brought over", off(ms.GuardBringOver),
		World{Lists: lists(listA, shares2), Procs: procs(clientA, clientB, toB), Losses: 1, Downs: 1, Recovered: true}, deadEnd},

	{"intents are learned at the finish", off(ms.GuardLearnIntent),
		World{Lists: lists(listA, single, singleC), Procs: procs(clientA, toB.cut(0), toC.cut(2)), Attempts: attempts(lockB, lockC), Losses: 1}, twoHolders},
	{"counters are learned from a quorum", off(ms.GuardLearnQuorum),
		World{Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(floor4, lockA), Losses: 1, Downs: 1, Tokens: true, BadClock: true}, tokens},
	{"counters leap only when no quorum has kept them", off(ms.GuardKnownLost),
		World{Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(floor4, lockA), Losses: 1, Downs: 1, Tokens: true, BadClock: true}, tokens},
	{"a change is cancelled by a quorum that is not retired", off(ms.GuardCancelQuorum),
		World{Lists: lists(listA, disjoint), Procs: procs(toB, cancelA), Attempts: attempts(lockA, lockB)}, twoHolders},
	{"a fixed list is never changed", off(ms.GuardFixed),
		World{Lists: lists(fixedA, disjoint), Procs: procs(clientA, toB), Attempts: attempts(lockA, lockB), Losses: 2}, twoHolders},
	{"init takes retired masters back where a minority votes", off(ms.GuardAbandon),
		World{Lists: lists(listA, single), Procs: procs(toB.mortal(), initI.abandons()), Kills: 1, Numbers: 3, Recovered: true}, deadEnd},
	{"init takes a new number when it gives up a change", off(ms.GuardAbandonNumber),
		World{Lists: lists(listA, single), Procs: procs(toB.mortal(), initI.abandons()), Kills: 1, Numbers: 3, Recovered: true}, deadEnd},
	{"a client forgets when its own clock jumps", func(w *World) { w.Remember = true },
		World{Lists: lists(listA), Procs: procs(clientA), Attempts: attempts(lockA, lockA2), Losses: 1, OwnJumps: 1}, twoHolders},
	{"a vote on a quarantined master does not count", func(w *World) { w.CountMended = true },
		World{Lists: lists(listA2), Procs: procs(clientA), Attempts: attempts(longA, lockA2), Losses: 1, Steps: true}, twoHolders},
}

// The invariants, by words of ViolationError.Reason.
const (
	twoHolders = "hold the lock at the same time"
	tokens     = "is granted"
	deadEnd    = "no lock can ever be had again"
)

func off(g ms.Guard) func(*World) { return func(w *World) { w.Off = g } }

// TestCheck_variants_refuted takes out one rule at a time. The explorer must find what the rule prevents.
func TestCheck_variants_refuted(t *testing.T) {
	needs.NoRace(t, computes)
	needs.Test(t)
	for _, test := range variants {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.world.Name = test.name
			broken := with(test.world, test.broken)
			result, err := broken.Check()
			var violation *ViolationError
			if !errors.As(err, &violation) {
				t.Fatalf("not refuted: %v, %v", result, err)
			}
			story := violation.Error()
			t.Logf("refuted after %v\n%s", result, story)
			if lines := strings.Count(story, "\n"); lines != len(violation.Path.Steps)+1 {
				t.Errorf("the story has %d lines for %d steps", lines, len(violation.Path.Steps))
			}
			if !strings.Contains(violation.Reason, test.breaks) {
				t.Errorf("it breaks %q, want %q", violation.Reason, test.breaks)
			}
		})
	}
}

// TestCheck_variants_holdWithAllRules explores the same worlds with every rule, to the end: the explorer finds nothing. They are larger than what
// there is to visit until something is found.
func TestCheck_variants_holdWithAllRules(t *testing.T) {
	needs.NoRace(t, computes)
	needs.CI(t)
	for _, test := range variants {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if result, err := test.world.Check(); err != nil || result.Cut > 0 {
				t.Errorf("with all rules: %v, %v", result, err)
			} else {
				t.Logf("with all rules: exhausted, %v", result)
			}
		})
	}
}

// TestVariants_everyGuard: each guard of the machine has a variant without it.
func TestVariants_everyGuard(t *testing.T) {
	var out ms.Guard
	for _, test := range variants {
		out |= with(test.world, test.broken).Off
	}
	if all := ms.GuardUnused<<1 - 1; out != all {
		t.Errorf("no variant is without guards %b", all&^out)
	}
}
