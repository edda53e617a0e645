// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// bug is one defence that can be taken away, with the schedule that then goes wrong.
type bug struct {
	name    string // of its switch
	nemesis string
	checker string // that must find it
	within  int    // so many runs
	// tokensOnly: the nemesis is one under which only tokens are promised.
	tokensOnly bool
	schedule   func(w *world) error
}

// bugs is the zoo, in the order of docs/chaos.md.
func bugs() []bug {
	return []bug{
		{name: "same-holder", nemesis: "N10", checker: "C1", within: 3, schedule: zombieRelease},
		{name: "no-elapsed-check", nemesis: "N8", checker: "C1", within: 3, schedule: pauseBeforeTheCheck},
		{name: "no-owner-check", nemesis: "N17", checker: "C2", within: 3, tokensOnly: true, schedule: vanishedVotes},
		{name: "no-quarantine", nemesis: "N4", checker: "C1", within: 3, schedule: amnesia},
		{name: "relearn-first", nemesis: "N4", checker: "C2", within: 3, schedule: amnesiaBehindAVote},
		{name: "extend-creates", nemesis: "N10", checker: "C7", within: 3, schedule: zombieExtend},
		{name: "library-retries", nemesis: "N10", checker: "C7", within: 3, schedule: slowAcquire},
		{name: "no-drift", nemesis: "N15", checker: "C1", within: 3, schedule: fastMasters},
		{name: "release-on-caller", nemesis: "N12", checker: "C7", within: 3, schedule: impatientCaller},
		{name: "no-debt", nemesis: "N11", checker: "C7", within: 3, schedule: lostReplies},
		{name: "no-write-back", nemesis: "N9", checker: "C2", within: 3, schedule: partedQuorums},
		{name: "extend-minority", nemesis: "N9", checker: "C1", within: 3, schedule: lonelyExtend},
		{name: "no-fence", nemesis: "N10", checker: "C7", within: 3, schedule: zombieAcquire},
		{name: "no-clock-watch", nemesis: "N13", checker: "C1", within: 3, schedule: steppedClock},
		{name: "no-clock-note", nemesis: "N13", checker: "C1", within: 3, schedule: steppedClockUnseen},
		{name: "no-epoch", nemesis: "N22", checker: "C1", within: 3, schedule: twoLists},
	}
}

// run plays the schedule once, with the switches as they are, and has every checker look at it.
//
// synctest wants a testing.T, which only tests have; it uses it for its name and for what fails in it, and nothing does.
func (b bug) run(seed uint64) ([]check.Result, error) {
	var h *history.History
	var err error
	synctest.Test(new(testing.T), func(*testing.T) {
		w := newWorld(seed)
		err = errors.Join(b.schedule(w), w.probe())
		h = w.close()
	})
	if err != nil {
		return nil, err
	}
	return check.All(h, check.Expect{X: !b.tokensOnly, T: true, Heal: heal, Timeout: 10 * time.Second}), nil
}

// control plays the schedule with the switches as they are, all off, and returns what was promised and not kept.
func (b bug) control(seed uint64) error {
	checks, err := b.run(seed)
	if err != nil {
		return fmt.Errorf("%s, control: %w", b.name, err)
	}
	for _, c := range checks {
		if c.Promised && c.Verdict != check.Ok {
			return fmt.Errorf("%s, control: every defence is in place, and %s says %s: %s", b.name, c.ID, c.Verdict, c.Summary)
		}
	}
	return nil
}
