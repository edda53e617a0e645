// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
)

// mutant is the lock without one of its defences, with the schedule that then breaks a promise.
type mutant struct {
	name       string // the name of the switch in internal/mutants
	nemesis    string // the nemesis that the schedule plays
	checker    string // the checker that must find the mutant
	within     int    // the number of runs within which the checker must find it
	tokensOnly bool   // under this nemesis only tokens are promised
	schedule   func(w *world, a, b *client) error
	clients    []string // that are open before the schedule, of which it is given the first two; nil: a and b
}

// all returns the mutants, in the order of docs/chaos.md.
func all() []mutant {
	return []mutant{
		{name: "same-holder", nemesis: "reorder", checker: "exclusion", within: 3, schedule: zombieRelease},
		{name: "no-elapsed-check", nemesis: "freeze-client", checker: "exclusion", within: 3, schedule: pauseBeforeTheCheck},
		{name: "no-owner-check", nemesis: "delete-lock", checker: "tokens", within: 3, tokensOnly: true, schedule: vanishedVotes, clients: []string{"a", "b", "fast"}},
		{name: "no-quarantine", nemesis: "wipe-minority", checker: "exclusion", within: 3, schedule: amnesia},
		{name: "relearn-first", nemesis: "wipe-minority", checker: "tokens", within: 3, schedule: amnesiaBehindAVote, clients: []string{"a", "b", "fast"}},
		{name: "extend-creates", nemesis: "reorder", checker: "healed", within: 3, schedule: zombieExtend},
		{name: "library-retries", nemesis: "reorder", checker: "healed", within: 3, schedule: slowAcquire},
		{name: "no-drift", nemesis: "skew-clocks", checker: "exclusion", within: 3, schedule: fastMasters},
		{name: "release-on-caller", nemesis: "slow-replies", checker: "healed", within: 3, schedule: impatientCaller},
		{name: "no-debt", nemesis: "cut-replies", checker: "healed", within: 3, schedule: lostReplies},
		{name: "no-write-back", nemesis: "partition", checker: "tokens", within: 3, schedule: partedQuorums, clients: []string{"a", "b", "fast"}},
		{name: "extend-minority", nemesis: "partition", checker: "exclusion", within: 3, schedule: lonelyExtend},
		{name: "no-fence", nemesis: "reorder", checker: "healed", within: 3, schedule: zombieAcquire},
		{name: "no-clock-watch", nemesis: "step-clock", checker: "exclusion", within: 3, schedule: steppedClock},
		{name: "no-clock-note", nemesis: "step-clock", checker: "exclusion", within: 3, schedule: steppedClockUnseen, clients: []string{"a"}},
		{name: "no-epoch", nemesis: "misconfigure", checker: "exclusion", within: 3, schedule: twoLists, clients: []string{}},
		{name: "no-unlock", nemesis: "none", checker: "healed", within: 3, schedule: plainUnlock},
		{name: "no-unread", nemesis: "freeze-masters", checker: "healed", within: 3, schedule: frozenAcquire},
		{name: "keep-debts", nemesis: "cut-replies", checker: "debts", within: 3, schedule: lostReplies},
		{name: "reader-repeats", nemesis: "reorder", checker: "tokens", within: 3, schedule: readersAtOnce, clients: []string{"a", "b", "fast"}},
		{name: "no-sight", nemesis: "wipe-minority", checker: "exclusion", within: 3, schedule: emptiedOldList, clients: []string{}},
		{name: "no-change-wait", nemesis: "partition", checker: "exclusion", within: 3, schedule: lockedThroughAChange, clients: []string{}},
		{name: "no-notice", nemesis: "none", checker: "signals", within: 3, schedule: untold, clients: []string{"a.worker"}},
		{name: "hand-on-arrival", nemesis: "reorder", checker: "exclusion", within: 3, schedule: lateMessages, clients: []string{"a", "b", "c"}},
		{name: "undated-answer", nemesis: "reorder", checker: "exclusion", within: 3, schedule: askedTwice, clients: []string{"a", "b", "c"}},
		{name: "keep-places", nemesis: "none", checker: "healed", within: 3, schedule: leftPlace},
		{name: "again-queues", nemesis: "delete-lock", checker: "tokens", within: 3, tokensOnly: true, schedule: vanishedHand, clients: []string{"a", "b", "c", "d"}},
		{name: "hand-any-state", nemesis: "partition", checker: "exclusion", within: 3, schedule: lateHandOff, clients: []string{}},
		{name: "old-places", nemesis: "kill-majority", checker: "healed", within: 3, schedule: restartedQueue},
		{name: "long-hand", nemesis: "kill-client", checker: "healed", within: 3, schedule: deadHead},
		{name: "hand-held", nemesis: "none", checker: "exclusion", within: 3, schedule: downgradedWriter},
		{name: "hand-doubted", nemesis: "step-clock", checker: "exclusion", within: 3, schedule: unseenVote, clients: []string{"x", "a", "b"}},
		{name: "eviction-not-seen", nemesis: "fill-memory", checker: "exclusion", within: 3, schedule: evictedQuorum},
		{name: "late-hands-not-counted", nemesis: "wipe-minority", checker: "kept", within: 3, schedule: lateHands},
		{name: "rest-not-looked-at", nemesis: "none", checker: "exclusion", within: 3, schedule: restingLock},
		{name: "adopter-keeps-token", nemesis: "none", checker: "tokens", within: 3, schedule: adoptedLease},
	}
}

// run plays the schedule once, with the switches as they are, and returns the results of all checkers.
func (m mutant) run(t *testing.T, seed uint64) ([]check.Result, error) {
	var h *history.History
	var debts, kept check.Result
	var err error
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed)
		err = errors.Join(m.play(w), w.probe())
		debts, kept = w.debts(), w.kept()
		h = w.close()
	})
	if err != nil {
		return nil, err
	}
	debts.Promised, kept.Promised = m.checker == debts.ID, m.checker == kept.ID
	return append(judge.All(h, judge.Expect{X: !m.tokensOnly, T: true, Heal: heal, Timeout: 10 * time.Second}), debts, kept), nil
}

// play opens the clients and plays the schedule.
func (m mutant) play(w *world) error {
	names := m.clients
	if names == nil {
		names = []string{"a", "b"}
	}
	if len(names) == 0 {
		return m.schedule(w, nil, nil) // it opens its clients itself
	}
	if err := w.start(names...); err != nil {
		return err
	}
	return m.schedule(w, w.clients[0], w.clients[min(1, len(names)-1)])
}

// control plays the schedule once. All switches must be off. It returns an error if a promise was broken, or if the checker that must find the
// mutant saw nothing. A schedule is short, so other checkers may have seen nothing.
func (m mutant) control(t *testing.T, seed uint64) error {
	checks, err := m.run(t, seed)
	if err != nil {
		return fmt.Errorf("%s, control: %w", m.name, err)
	}
	for _, c := range checks {
		idle := c.Verdict == check.Unknown && c.Observed == 0 && c.ID != m.checker
		if c.Promised && c.Verdict != check.Ok && !idle {
			return fmt.Errorf("%s, control: every defence is in place, and %s says %s: %s", m.name, c.ID, c.Verdict, c.Summary)
		}
	}
	return nil
}
