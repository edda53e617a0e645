// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// afterPromises and afterTwoRetired are after how many writes of records a change from formerly to thereafter has come so far: it prepares two
// masters, has three promise, and retires these.
const afterPromises, afterTwoRetired = 5, 7

// changeDies has a change from formerly to thereafter die after so many writes of records.
func (c *cluster) changeDies(writes int) {
	c.t.Helper()
	c.recovery = true
	list, done := c.list(formerly...)
	noErr(c.t, admin.Init(c.t.Context(), list, nil, admin.NothingWasEverLocked))
	done()
	from, doneFrom := c.list(formerly...)
	defer doneFrom()
	to, doneTo := c.list(thereafter...)
	defer doneTo()
	f := newFuse("record")
	for _, n := range slices.Concat(from.Nodes, to.Nodes) {
		f.on(n.(*nodetest.Node))
	}
	f.arm(writes)
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	go func() {
		select {
		case <-f.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	wantErr(c.t, admin.Reconfigure(ctx, from, to, nil), context.Canceled)
}

// looked is what status says of formerly, and waited what status --wait says.
func (c *cluster) looked() *admin.Status {
	c.t.Helper()
	list, done := c.list(formerly...)
	defer done()
	s, err := admin.ReadStatus(c.t.Context(), list)
	noErr(c.t, err)
	return s
}

func (c *cluster) waited() *admin.Status {
	c.t.Helper()
	list, done := c.list(formerly...)
	defer done()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	s, err := admin.AwaitVotes(ctx, list, nil)
	noErr(c.t, err)
	return s
}

func (c *cluster) wantNothingUnfinished() {
	c.t.Helper()
	for _, s := range []*admin.Status{c.waited(), c.looked()} {
		if s.Standing != admin.AllVote || s.Change != nil {
			c.t.Errorf("%v: %s, %+v", s.Standing, s.Text, s.Change)
		}
	}
}

// A change dies when it has the promises and has stopped nothing. status names it, and both ways out, and status --wait does not wait for it.
func TestStatus_changeOnlyPromised_saysFinishOrCancel(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.changeDies(afterPromises)
		for name, s := range map[string]*admin.Status{"status": c.looked(), "status --wait": c.waited()} {
			if s.Standing != admin.Changing || s.Reason != "change promised" || s.Change == nil {
				t.Errorf("%s: %v (%s), %+v", name, s.Standing, s.Reason, s.Change)
			}
			if !strings.Contains(s.Text, "redlock reconfigure") || !strings.Contains(s.Text, "redlock cancel") || strings.Contains(s.Text, "redlock status") {
				t.Errorf("%s: %s", name, s.Text)
			}
		}
		list, done := c.list(formerly...)
		noErr(t, admin.Cancel(t.Context(), list))
		done()
		c.wantNothingUnfinished()
	})
}

// A change is cancelled while one master is out of reach, which keeps its promise.
func TestStatus_cancelDidNotReachAMaster_nothingIsUnfinished(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.changeDies(afterPromises)
		list, done := c.list(formerly...)
		list.Nodes[0].(*nodetest.Node).SetFault(func(nodetest.Command) nodetest.Fault {
			return nodetest.Fault{Lose: nodetest.LoseCommand}
		})
		noErr(t, admin.Cancel(t.Context(), list))
		done()
		c.wantNothingUnfinished()
	})
}

// Init gives up a change that has retired two of three masters. The third one goes on voting, and has promised the change.
func TestInit_changeGivenUpWhereAMinorityVotes_nothingIsUnfinished(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.changeDies(afterTwoRetired)
		list, done := c.list(formerly...)
		noErr(t, admin.Init(t.Context(), list, nil, admin.AbandonChange))
		done()
		c.wantNothingUnfinished()
	})
}

// A change dies when it has the promises, and two masters forget theirs. Only an operator can help: status says so and does not wait, and tells of
// the change all the same.
func TestStatus_changeOnlyPromisedAndForgotten_needsInit(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.changeDies(afterPromises)
		c.masters[1].Flush()
		c.masters[2].Restart()
		began := time.Now()
		for name, s := range map[string]*admin.Status{"status": c.looked(), "status --wait": c.waited()} {
			if s.Standing != admin.NeedsInit || s.Reason != "masters forgot" || s.Change == nil {
				t.Errorf("%s: %v (%s), %+v", name, s.Standing, s.Reason, s.Change)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		list, done := c.list(formerly...)
		noErr(t, admin.Init(t.Context(), list, nil))
		done()
		if s := c.waited(); s.Standing != admin.Changing || s.Reason != "change promised" {
			t.Errorf("after an init %v: %s", s.Standing, s.Text)
		}
	})
}

// Init of a list that was left refuses, also where its masters restarted with their records: the new list may vote, whatever became of its masters.
func TestInit_leftListWhoseMastersRestarted_refuses(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.recovery = true
		list, done := c.list(formerly...)
		noErr(t, admin.Init(t.Context(), list, nil, admin.NothingWasEverLocked))
		done()
		from, doneFrom := c.list(formerly...)
		defer doneFrom()
		to, doneTo := c.list(thereafter...)
		defer doneTo()
		noErr(t, admin.Reconfigure(t.Context(), from, to, nil))
		for i := range c.masters {
			c.masters[i].Restart()
		}
		for _, words := range [][]admin.InitOption{nil, {admin.AbandonChange}} {
			list, done := c.list(formerly...)
			err := admin.Init(t.Context(), list, nil, words...)
			done()
			if wantErr(t, err, redlock.ErrConfig); !strings.Contains(err.Error(), "left for another list: 3 masters") {
				t.Errorf("%v: %v", words, err)
			}
		}
	})
}

// A change dies when it has stopped one master, which votes in the old list again when the change is cancelled. Nobody takes that list for one that was left,
// now or when the other masters forget.
func TestCancel_oneMasterWasStopped_theListIsNotLeft(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.changeDies(afterTwoRetired - 1)
		list, done := c.list(formerly...)
		noErr(t, admin.Cancel(t.Context(), list))
		done()
		c.wantNothingUnfinished()
		for _, i := range formerly[1:] {
			c.masters[i].Flush()
		}
		if s := c.looked(); s.Standing != admin.NeedsInit {
			t.Errorf("%v: %s", s.Standing, s.Text)
		}
		list, done = c.list(formerly...)
		noErr(t, admin.Init(t.Context(), list, nil))
		done()
		c.wantNothingUnfinished()
	})
}
