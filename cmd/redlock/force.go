// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock/internal/interrupt"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/termline"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock"
)

// forceUnlock takes a lock away from its holder.
type forceUnlock struct {
	masters
	named
	holder    string
	yes, json bool
}

const forceHelp = `Takes the lock NAME away from its holder, when you know that the holder is
stuck. It shows the holder and asks first.

It breaks the promise of the lock. The holder is not told: it learns it when it
next renews the lock, after a third of its TTL. Until then the next holder may
run beside it, and only a resource that checks fencing tokens keeps them apart.
A holder that is dead needs no command: its lock ends with its TTL. If the lock
rests, nobody works under it, and its minimum hold or period ends.

The lock is taken from one holder, by its id. No other lease ever has that id,
so the command cannot hit the next holder, however late it comes. A script gives
the id that "redlock inspect" has shown, with --yes.

exit code: 0 taken away, 1 nothing was done, 2 usage, 3 the masters do not tell,
or do not confirm it: call it again; 4 a change of masters is unfinished, 5 an
operator's word is needed
`

func (c *forceUnlock) define(fs *pflag.FlagSet) {
	c.masters.define(fs, "nodes", "", "all the masters")
	c.defineFile(fs)
	c.defineFixed(fs)
	fs.StringVar(&c.holder, "holder", "", "`ID` of the holder, as inspect shows it (default: who holds the lock now)")
	fs.BoolVar(&c.yes, "yes", false, "do not ask; needs --holder")
	defineJSON(fs, &c.json)
}

func (c *forceUnlock) check() error {
	switch {
	case c.yes && c.holder == "":
		return errors.New("--yes without --holder: give the id that redlock inspect shows, so that a later holder is not hit")
	case !c.yes && !termline.IsTerminal(os.Stdin):
		return errors.New("standard input is no terminal to ask at: give --yes and --holder ID")
	}
	return c.masters.check()
}

// forcedJSON is what --json writes.
type forcedJSON struct {
	Name     string `json:"name"`
	Holder   string `json:"holder,omitempty"`
	Owner    string `json:"owner,omitempty"`
	Forced   bool   `json:"forced"`
	ExitCode int    `json:"exit_code"`
	Text     string `json:"text,omitempty"`
	failure
}

func (c *forceUnlock) run(ctx context.Context, o output) error {
	client, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	in, err := client.Inspect(ctx, c.name)
	if in == nil {
		return lockError(err)
	}
	out := forcedJSON{Name: c.name, Holder: c.holder}
	if err = c.force(ctx, client, in, o, &out); exitCode(err) == exitMasters {
		if code, why := untold(client); why != nil {
			err = &exitError{code, fmt.Sprintf("%v: %v", err, why)}
		}
	}
	out.ExitCode = exitCode(err)
	out.failure = failureOf(out.ExitCode, err)
	if !c.json {
		if err == nil {
			text.Say(o.out, out.Text)
		}
		return err
	}
	if written := writeJSON(o.out, out); written != nil {
		return written
	}
	return err
}

// force asks, and does it.
func (c *forceUnlock) force(ctx context.Context, client *redlock.Client, in *redlock.Inspection, o output, out *forcedJSON) error {
	h, err := c.victim(in)
	if err != nil {
		return err
	}
	out.Holder, out.Owner = h.ID, h.Owner
	if !c.yes {
		if h.Votes == 0 { // it was named, and holds nothing by now
			text.Paragraph(o.err, "not held", fmt.Sprintf("by %s: no quorum of the masters has its vote. %s.", h.ID, in))
		} else {
			text.Paragraph(o.err, heldOrRests(h), describe(h, len(in.Masters)))
			text.Paragraph(o.err, "breaks", breaks(h))
		}
		if !interrupt.Confirmed(ctx, os.Stdin, o.err, fmt.Sprintf("Take %q away from it? [y/N] ", c.name)) {
			return cmp.Or(ctx.Err(), error(&exitError{exitRefused, said.NothingDone.Text}))
		}
	}
	err = client.ForceUnlock(ctx, c.name, h.ID)
	switch {
	case errors.Is(err, redlock.ErrNotHolder):
		return &exitError{exitRefused, err.Error()}
	case err != nil:
		return lockError(err)
	}
	out.Forced, out.Text = true, said.TakenAway.With(strconv.Quote(c.name), labelOf(h.Owner, h.ID))
	return nil
}

// breaks is what it breaks to take the lock away from h. Nobody works under a lock that rests.
func breaks(h *redlock.Holder) string {
	if h.Resting {
		return "the period, or the minimum hold, ends: the job may run again at once."
	}
	told := "the holder is not told. It may work on until it next renews the lock, and the next holder may run beside it. "
	if h.Left <= 0 {
		return told + "The masters tell no TTL of it: if it is not gone by now, it stays for ever."
	}
	return told +
		"If the holder is dead, the lock ends by itself in " + short(h.Left) + "."
}

// victim is the holder from whom the lock is taken.
func (c *forceUnlock) victim(in *redlock.Inspection) (*redlock.Holder, error) {
	for i := range in.Holders {
		if h := &in.Holders[i]; h.ID == c.holder || c.holder == "" && len(in.Holders) == 1 {
			return h, nil
		}
	}
	switch {
	case c.holder != "": // it may have votes that are no quorum: ForceUnlock tells
		return &redlock.Holder{ID: c.holder}, nil
	case in.Free:
		return nil, &exitError{exitRefused, said.LockFree.With(strconv.Quote(c.name))}
	case len(in.Holders) == 0:
		return nil, &exitError{exitMasters, in.String()}
	}
	ids := make([]string, len(in.Holders))
	for i, h := range in.Holders {
		ids[i] = h.ID
	}
	return nil, usageError{fmt.Errorf("lock %q has %d holders: give one of them as --holder: %s", c.name, len(ids), strings.Join(ids, " "))}
}
