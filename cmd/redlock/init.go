// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/redlock/admin"
)

// initial is how a list of masters begins.
type initial struct {
	masters
	neverLocked, abandon, json bool
}

const initHelp = `Lets the masters of a list begin to vote: a list that was never used, or one
whose masters lost their records while no client saw them vote.

By calling it you say what nothing on the masters tells: that this list is the
right one, and was never left for another list. It waits until every lock that
these masters may have granted is over: the maximum TTL and twice its drift.
--nothing-was-ever-locked skips the wait; said of masters that were emptied
while a lock was held, it gives that lock to a second holder. If a record on a
master contradicts it, init waits all the same.

Every master must answer: else it ends with 3, also where a quorum votes.
Where a quorum votes it changes nothing. It may be ended and called again.

` + exitCodesOfMasters

func (c *initial) define(fs *pflag.FlagSet) {
	c.masters.define(fs, "nodes", "", "all the masters")
	c.defineFile(fs)
	fs.BoolVar(&c.neverLocked, "nothing-was-ever-locked", false, "no lock was ever taken on these masters: do not wait")
	fs.BoolVar(&c.abandon, "abandon-change", false, "give up an unfinished change of masters for good")
	defineJSON(fs, &c.json)
}

func (c *initial) run(ctx context.Context, o output) error {
	before, err := admin.ReadStatus(ctx, c.list())
	if err != nil {
		return c.errorCode(err)
	}
	c.fitStatus(before)
	if before.Standing != admin.AllVote { // else the table at the end is the same
		table(o.err, before)
	}
	var opts []admin.InitOption
	if c.neverLocked {
		opts = append(opts, admin.NothingWasEverLocked)
	}
	if c.abandon {
		opts = append(opts, admin.AbandonChange)
	}
	p := newProgress(o.err, c.fit)
	defer p.end()
	if err := admin.Init(ctx, c.list(), p.tell, opts...); err != nil {
		p.end()
		return c.ended(o, c.errorCode(err))
	}
	c.finish(ctx, p)
	p.end()
	return showDone(ctx, o.out, &c.masters, c.json, func(s *admin.Status) (int, string) {
		begun := said.Begun.With(s.Standing, c.maxTTL)
		if s.Standing != admin.AllVote {
			begun += "; " + s.Text
		}
		return exitOf(s.Standing), begun
	})
}

// finish lets the masters vote that still wait when a quorum votes: nobody else may be there to do so. One that lost its record is left
// to the programs.
func (c *initial) finish(ctx context.Context, p *progress) {
	s, err := admin.ReadStatus(ctx, c.list())
	if err != nil || s.Standing != admin.SomeRecover {
		return
	}
	for i := range s.Masters {
		if m := &s.Masters[i]; !m.Votes && m.Cause != "waits" {
			return
		}
	}
	wait := c.maxTTL + 2*clock.Drift(c.drift).Of(c.maxTTL)
	limited, cancel := context.WithTimeout(ctx, wait+finishSlack)
	defer cancel()
	_, _ = admin.AwaitVotes(limited, c.list(), p.tell) // the status after it says how it ended
}

// finishSlack is how long after the end of its wait a master may take to vote.
const finishSlack = 5 * time.Second
