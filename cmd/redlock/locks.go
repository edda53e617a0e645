// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock"
)

// list shows all locks.
type list struct {
	masters
	prefix string
	json   bool
}

const listHelp = `Lists the locks that are held, or may be, whose names begin with PREFIX; all of
them without one. A lock that rests is listed with the holder after whom it
rests: its lease is over, and its minimum hold or period is not. It changes
nothing. It looks at every key of the masters, in small steps that let others be
served: it is for people, and not for a loop.

A lock that is taken or given up meanwhile may be listed or not.

` + exitCodesOfLocks

// mostWaiters is how many waiters of a lock a master tells of.
const mostWaiters = 64

func (c *list) words(args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("want one prefix of names, have %d words", len(args))
	}
	c.prefix = strings.Join(args, "")
	return nil
}

func (c *list) define(fs *pflag.FlagSet) {
	c.masters.define(fs, "nodes", "", "all the masters")
	c.defineFile(fs)
	c.defineFixed(fs)
	defineJSON(fs, &c.json)
}

// listJSON is what --json writes.
type listJSON struct {
	ExitCode int        `json:"exit_code"`
	Locks    []lockJSON `json:"locks"` // by name; with a failure, those that were found before it
	failure
}

func (c *list) run(ctx context.Context, o output) error {
	client, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	var locks []*redlock.Inspection
	for in, failed := range client.Locks(ctx, c.prefix) {
		if failed != nil {
			err = lockError(failed)
			break
		}
		locks = append(locks, in)
	}
	slices.SortFunc(locks, func(a, b *redlock.Inspection) int { return cmp.Compare(a.Name, b.Name) })
	if c.json {
		return errors.Join(err, c.writeJSON(o, locks, err))
	}
	tab := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	if len(locks) > 0 {
		fmt.Fprintln(tab, "lock\tleft\twait\tholder")
	}
	for _, in := range locks {
		left, holder := "-", "the masters do not tell"
		if len(in.Holders) > 0 {
			h := &in.Holders[0]
			left, holder = short(h.Left), labelOf(h.Owner, h.ID)
			if h.Left <= 0 { // no TTL
				left = "-"
			}
			if h.Resting {
				holder = "rests after " + holder
			}
			if n := len(in.Holders) - 1; n > 0 {
				holder += fmt.Sprintf(", and %d more", n)
			}
		}
		waiters := strconv.Itoa(len(in.Waiters))
		if len(in.Waiters) >= mostWaiters {
			waiters += "+"
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", nameOf(in.Name), left, waiters, holder)
	}
	_ = tab.Flush()
	if len(locks) == 0 && err == nil {
		text.Say(o.err, c.none())
	}
	return err
}

// none is what is said if no lock was found.
func (c *list) none() string {
	if c.prefix == "" {
		return "no lock is held"
	}
	return fmt.Sprintf("no lock is held whose name begins with %q", c.prefix)
}

func (c *list) writeJSON(o output, locks []*redlock.Inspection, err error) error {
	code := exitCode(err)
	out := listJSON{ExitCode: code, Locks: []lockJSON{}, failure: failureOf(code, err)}
	for _, in := range locks {
		out.Locks = append(out.Locks, newLockJSON(in, exitOK))
	}
	return writeJSON(o.out, out)
}

// nameOf is a name for a table: quoted if it has what would break one.
func nameOf(name string) string {
	if q := strconv.Quote(name); q[1:len(q)-1] != name || strings.Contains(name, " ") {
		return q
	}
	return name
}
