// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/interrupt"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// operation is a command for operators. To add one, write a type and a line in operations.
type operation interface {
	// define declares the flags, with their defaults.
	define(fs *pflag.FlagSet)
	// check judges the values of the flags; its error is a usage error.
	check() error
	// run does the work. Its error says how it ended: see exitCode.
	run(ctx context.Context, o output) error
}

// worded is an operation whose command line has words that are no flags.
type worded interface{ words(args []string) error }

// operations are the commands for operators.
func operations(o output) []*cobra.Command {
	return []*cobra.Command{
		newOperation(o, "inspect NAME", "who holds a lock and who waits for it", inspectHelp,
			"  redlock inspect nightly --nodes-file masters", &inspect{}),
		newOperation(o, "list [PREFIX]", "the locks that are held", listHelp,
			"  redlock list billing/ --nodes-file masters", &list{}),
		newOperation(o, "force-unlock NAME", "take a lock away from a holder that is stuck", forceHelp,
			`  redlock force-unlock nightly
  redlock force-unlock nightly --yes --holder f63a876e-9f71-85eb-94e8-a2f5b07736bc:1`, &forceUnlock{}),
		newOperation(o, "doctor", "what the masters are, and what the lock would refuse", doctorHelp,
			"  redlock doctor --nodes-file masters", &doctor{}),
		newOperation(o, "init", "let the masters of a new list begin to vote", initHelp,
			"  redlock init --nothing-was-ever-locked --nodes redis://a:6379,redis://b:6379,redis://c:6379", &initial{}),
		newOperation(o, "status", "what the masters are in; with --wait, recover them", statusHelp,
			"  redlock status --wait --nodes-file masters && echo next", &status{}),
		newOperation(o, "reconfigure", "move the locks to another list of masters", reconfigureHelp,
			"  redlock reconfigure --nodes-file masters --to-nodes-file new-masters", &reconfigure{}),
		newOperation(o, "cancel", "give up a change of masters", cancelHelp,
			"  redlock cancel --nodes-file masters", &cancel{}),
	}
}

func newOperation(o output, use, summary, help, example string, op operation) *cobra.Command {
	cmd := &cobra.Command{
		Use:               use,
		Short:             summary,
		Long:              strings.TrimSuffix(help, "\n"),
		Example:           example,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if op, ok := op.(worded); ok {
				if err := op.words(args); err != nil {
					return fmt.Errorf("%w: redlock %s", err, use)
				}
				return nil
			}
			if len(args) > 0 {
				return fmt.Errorf("words that are no flags: %d; this command takes flags only", len(args)) // they may be passwords
			}
			return nil
		},
	}
	op.define(cmd.Flags())
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if err := op.check(); err != nil {
			return misuse(cmd, err)
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := interrupt.Context(cmd.Context())
		defer stop()
		return op.run(ctx, o)
	}
	return cmd
}

// The exit codes that the commands of masters have besides those of every command.
const (
	exitChanging     = 4
	exitNeedsInit    = 5
	exitRecovers     = 6
	exitNeedsMasters = 7
	exitTooFewVote   = 8
)

const exitCodesOfMasters = `exit code:
    0  all masters vote
    1  the masters belong to another list, a record cannot be read, or one
       master is named twice; of doctor, init and status --wait also: a master
       that answers cannot be used
    2  usage
    3  fewer masters than a quorum can be used: the others do not answer, or
       refuse the user; of init also: a master does not answer, or the list
       has to begin and one takes no writes
    4  a change of masters is unfinished
    5  an operator's word is needed
    6  locks work, and a minority does not vote
    7  as 5, and masters that are gone must be replaced first
    8  no lock can be taken until masters vote, or take writes, again
`

// exitOf is the exit code of what the masters are in.
func exitOf(s admin.Standing) int {
	switch s {
	case admin.AllVote:
		return exitOK
	case admin.SomeRecover:
		return exitRecovers
	case admin.TooFewVote:
		return exitTooFewVote
	case admin.Changing:
		return exitChanging
	case admin.NeedsInit:
		return exitNeedsInit
	case admin.NeedsMasters:
		return exitNeedsMasters
	case admin.NoQuorum:
		return exitMasters
	}
	return exitRefused
}

// errorCode is the exit code of an operation's error.
func (m *masters) errorCode(err error) error {
	var epoch *redlock.EpochError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, redlock.ErrUnfinished):
		return &exitError{exitChanging, m.fit(err.Error())}
	case errors.Is(err, redlock.ErrNeedsInit):
		return &exitError{exitNeedsInit, m.fit(err.Error())}
	case errors.Is(err, redlock.ErrUnreachable):
		return &exitError{exitMasters, m.fit(err.Error())}
	case errors.Is(err, redlock.ErrConfig), errors.As(err, &epoch):
		return &exitError{exitRefused, m.fit(err.Error())}
	}
	return err
}

// status is what deploy scripts call.
type status struct {
	masters
	wait    bool
	timeout time.Duration
	json    bool
	given   func(flag string) bool // whether the command line has it
}

const statusHelp = `Says what the masters are in, and with --wait lets them recover. Masters that
lost their record recover while a client of theirs runs; --wait is such a
client. A rollout goes on when the exit code is 0.

Without --wait it changes no record and no lock. As every client does, it tries
the user's rights on keys that are only for that, such as redlock:check, and are
gone when that script ends: so it needs the rights of the user that locks.

` + exitCodesOfMasters

func (c *status) define(fs *pflag.FlagSet) {
	c.masters.define(fs, "nodes", "", "all the masters")
	c.defineFile(fs)
	c.defineFixed(fs)
	fs.BoolVar(&c.wait, "wait", false, "recover the masters, until all of them vote")
	fs.DurationVar(&c.timeout, "timeout", 2*time.Minute, "`TIME` that --wait takes at most")
	c.given = fs.Changed
	defineJSON(fs, &c.json)
}

func (c *status) check() error {
	switch {
	case c.wait && c.timeout <= 0:
		return fmt.Errorf("--timeout %v: want more than 0", c.timeout)
	case !c.wait && c.given("timeout"):
		return fmt.Errorf("--timeout %v: it is for --wait: add that, or leave it out", c.timeout)
	}
	return c.masters.check()
}

func defineJSON(fs *pflag.FlagSet, json *bool) {
	fs.BoolVar(json, "json", false, "print one JSON object")
}

func (c *status) run(ctx context.Context, o output) error {
	var s *admin.Status
	var err error
	if c.wait {
		p := newProgress(o.err, c.fit)
		defer p.end()
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		s, err = admin.AwaitVotes(limited, c.list(), p.tell)
		p.end()
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			s, err = admin.ReadStatus(ctx, c.list()) // from now on nobody waits
		}
	} else {
		s, err = admin.ReadStatus(ctx, c.list())
	}
	if err != nil {
		return c.errorCode(err)
	}
	c.fitStatus(s)
	if err := c.write(o.out, s); err != nil {
		return err
	}
	if code := exitOf(s.Standing); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// statusJSON is what --json writes: the masters, and what the command did.
type statusJSON struct {
	Standing string       `json:"standing"`
	Reason   string       `json:"reason,omitempty"` // in words that never change, as are causes: docs/messages.md
	ExitCode int          `json:"exit_code"`
	Text     string       `json:"text"`
	LeftMS   int64        `json:"left_ms"` // until every master that recovers votes
	Epoch    string       `json:"epoch,omitempty"`
	Masters  []masterJSON `json:"masters"`
	Change   *changeJSON  `json:"change,omitempty"`
	failure
}

type masterJSON struct {
	Name   string `json:"name"`
	Votes  bool   `json:"votes"`
	State  string `json:"state"` // votes, recovers, refuses or down
	Text   string `json:"text,omitempty"`
	LeftMS int64  `json:"left_ms"`
	Cause  string `json:"cause,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	Error  string `json:"error,omitempty"`
}

type changeJSON struct {
	From  string    `json:"from"`
	To    string    `json:"to"`
	Who   string    `json:"who,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

func (c *status) write(w io.Writer, s *admin.Status) error {
	if c.json {
		return writeJSON(w, newStatusJSON(s, exitOf(s.Standing), s.Text))
	}
	table(w, s)
	fmt.Fprintln(w)
	text.Say(w, s.Standing.String()+": "+s.Text)
	return nil
}

func newStatusJSON(s *admin.Status, code int, what string) statusJSON {
	out := statusJSON{Standing: s.Standing.String(), Reason: s.Reason, ExitCode: code, Text: what, LeftMS: s.Left.Milliseconds(), Epoch: s.Epoch,
		failure: failureOf(code, nil)}
	for _, m := range s.Masters {
		j := masterJSON{Name: m.Name, Votes: m.Votes, State: m.State.String(), Text: m.Text, LeftMS: m.Left.Milliseconds(), Cause: m.Cause, Remedy: m.Remedy}
		if m.Err != nil {
			j.Error = text.OneLine(m.Err)
		}
		out.Masters = append(out.Masters, j)
	}
	if ch := s.Change; ch != nil {
		out.Change = &changeJSON{ch.From, ch.To, ch.Who, ch.Since}
	}
	return out
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// table prints what each master is.
func table(w io.Writer, s *admin.Status) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range s.Masters {
		state := s.Masters[i].State.String()
		if why := whyOf(&s.Masters[i]); why != "" {
			state += ": " + why
		}
		fmt.Fprintf(tab, "%s\t%s\n", s.Masters[i].Name, state)
	}
	_ = tab.Flush()
	for _, m := range s.Masters {
		if m.Err != nil {
			text.Say(w, m.Name+": "+cause.Said(m.Err))
		}
	}
}

// whyOf is why a master does not vote, and for how long. It is empty if the master votes.
func whyOf(m *admin.MasterStatus) string {
	why := m.Cause
	if left := m.Left.Round(100 * time.Millisecond); left > 0 {
		why += ", " + left.String() + " left"
	}
	return why
}

// showDone prints what the masters of list are in after an operation, and what that did.
func showDone(ctx context.Context, out io.Writer, m *masters, json bool, done func(*admin.Status) (code int, what string)) error {
	s, err := admin.ReadStatus(ctx, m.list())
	if err != nil {
		return m.errorCode(err)
	}
	m.fitStatus(s)
	code, what := done(s)
	if json {
		err = writeJSON(out, newStatusJSON(s, code, what))
	} else {
		table(out, s)
		fmt.Fprintln(out)
		text.Say(out, what)
	}
	if err == nil && code != exitOK {
		err = &exitError{code: code}
	}
	return err
}
