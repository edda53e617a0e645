// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

const exitCodesOfMasters = `exit code: 0 all masters vote, 1 the masters belong to another list, 2 usage,
3 some recover, or a minority is out of reach, 4 a change of masters is
unfinished, 5 an operator's word is needed, 6 fewer masters than a quorum answer
`

// exitError ends the program with its own exit code. Its text was printed already, when it is empty.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// exitOf is the exit code of what the masters are in.
func exitOf(s redlock.Standing) int {
	switch s {
	case redlock.AllVote:
		return exitOK
	case redlock.SomeRecover:
		return exitMasters
	case redlock.Changing:
		return 4
	case redlock.NeedsInit:
		return 5
	case redlock.NoQuorum:
		return 6
	}
	return exitViolation
}

// errorCode is the exit code of an operation's error.
func errorCode(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, redlock.ErrUnfinished):
		return &exitError{4, err.Error()}
	case errors.Is(err, redlock.ErrNeedsInit):
		return &exitError{5, err.Error()}
	case errors.Is(err, redlock.ErrUnreachable):
		return &exitError{6, err.Error()}
	case errors.Is(err, redlock.ErrConfig):
		return &exitError{exitViolation, err.Error()}
	}
	return err
}

// drift is a flag like 0.01+2ms.
type drift clock.Drift

func (d *drift) String() string {
	return strconv.FormatFloat(d.Factor, 'g', -1, 64) + "+" + d.Constant.String()
}

func (d *drift) Set(s string) error {
	factor, constant, ok := strings.Cut(s, "+")
	f, err1 := strconv.ParseFloat(factor, 64)
	c, err2 := time.ParseDuration(constant)
	if !ok || err1 != nil || err2 != nil {
		return errors.New("want a share of the time and a time, as 0.01+2ms")
	}
	d.Factor, d.Constant = f, c
	return nil
}

// masters is a list of masters as its clients have it.
type masters struct {
	flag   string // of the URLs, for errors
	prefix string // of the other flags
	nodes  urls
	maxTTL time.Duration
	drift  drift
	fixed  bool
}

func (m *masters) define(fs *flag.FlagSet, name, prefix, what string) {
	m.flag, m.prefix, m.drift = name, prefix, drift(clock.DefaultDrift())
	fs.Var(&m.nodes, name, "`URL,URL,...` of "+what)
	fs.DurationVar(&m.maxTTL, prefix+"max-ttl", redlock.DefaultMaxTTL, "`TIME` that its clients have as maximum TTL")
	fs.Var(&m.drift, prefix+"drift", "`DRIFT` of its clients")
}

func (m *masters) check() error {
	if len(m.nodes) == 0 {
		return fmt.Errorf("--%s is needed: all the masters, as every program names them", m.flag)
	}
	if m.maxTTL < minTime {
		return fmt.Errorf("--%smax-ttl %v: want %v or more", m.prefix, m.maxTTL, minTime)
	}
	for _, url := range m.nodes {
		n, err := node.Open(url, node.Config{}) // for its errors, which never show a password
		if err != nil {
			return fmt.Errorf("--%s: %w", m.flag, err)
		}
		_ = n.Close()
	}
	return nil
}

func (m *masters) list() redlock.List {
	// The default TTL must fit below a smaller maximum; none is taken.
	opts := []redlock.Option{redlock.WithNodeCount(len(m.nodes)), redlock.WithMaxTTL(m.maxTTL),
		redlock.WithTTL(min(m.maxTTL, redlock.DefaultTTL)), redlock.WithDrift(clock.Drift(m.drift))}
	if m.fixed {
		opts = append(opts, redlock.WithFixedMasters())
	}
	return redlock.List{URLs: m.nodes, Options: opts}
}

// progress tells on w what is waited for: when the words change, and each few seconds.
func progress(w io.Writer) redlock.Progress {
	said, at := "", time.Time{}
	return func(what string, left time.Duration) {
		if strings.EqualFold(what, said) || time.Since(at) < 2*time.Second {
			return
		}
		said, at = what, time.Now()
		if left > 0 {
			what = fmt.Sprintf("%v left: %s", left.Round(100*time.Millisecond), what)
		}
		fmt.Fprintln(w, what)
	}
}

// status is what deploy scripts call.
type status struct {
	masters
	wait    bool
	timeout time.Duration
	json    string
}

const statusHelp = `Says what the masters are in, and with --wait lets them recover. Masters that
lost their record recover while a client of theirs runs; --wait is such a
client. A rollout goes on when the exit code is 0.

Without --wait nothing is written.

` + exitCodesOfMasters

func (c *status) define(fs *flag.FlagSet) {
	c.masters.define(fs, "nodes", "", "all the masters")
	fs.BoolVar(&c.fixed, "fixed", false, "the clients of this list have WithFixedMasters")
	fs.BoolVar(&c.wait, "wait", false, "recover the masters, until all of them vote")
	fs.DurationVar(&c.timeout, "timeout", 2*time.Minute, "`TIME` that --wait takes at most")
	fs.StringVar(&c.json, "json", "", "`FILE` for the status, - is standard output")
}

func (c *status) run(ctx context.Context, o output) error {
	var s *redlock.Status
	var err error
	if c.wait {
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		s, err = redlock.AwaitVotes(limited, c.list(), progress(o.err))
		if s != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = nil // the exit code says it
		}
	} else {
		s, err = redlock.ReadStatus(ctx, c.list())
	}
	if err != nil {
		return errorCode(err)
	}
	if err := c.write(o.out, s); err != nil {
		return err
	}
	if code := exitOf(s.Standing); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// statusJSON is what --json writes.
type statusJSON struct {
	Standing string       `json:"standing"`
	ExitCode int          `json:"exit_code"`
	Text     string       `json:"text"`
	LeftMS   int64        `json:"left_ms"` // until every master that recovers votes
	Epoch    string       `json:"epoch,omitempty"`
	Masters  []masterJSON `json:"masters"`
	Change   *changeJSON  `json:"change,omitempty"`
}

type masterJSON struct {
	Name   string `json:"name"`
	Votes  bool   `json:"votes"`
	State  string `json:"state"`
	LeftMS int64  `json:"left_ms"`
	Error  string `json:"error,omitempty"`
}

type changeJSON struct {
	From  string    `json:"from"`
	To    string    `json:"to"`
	Who   string    `json:"who"`
	Since time.Time `json:"since"`
}

func (c *status) write(w io.Writer, s *redlock.Status) error {
	if c.json != "-" {
		table(w, s)
		fmt.Fprintln(w)
		say(w, s.Standing.String()+": "+s.Text)
	}
	if c.json == "" {
		return nil
	}
	out := statusJSON{Standing: s.Standing.String(), ExitCode: exitOf(s.Standing), Text: s.Text, LeftMS: s.Left.Milliseconds(), Epoch: s.Epoch}
	for _, m := range s.Masters {
		j := masterJSON{Name: m.Name, Votes: m.Votes, State: m.Text, LeftMS: m.Left.Milliseconds()}
		if m.Err != nil {
			j.Error = oneLine(m.Err)
		}
		out.Masters = append(out.Masters, j)
	}
	if ch := s.Change; ch != nil {
		out.Change = &changeJSON{ch.From, ch.To, ch.Who, ch.Since}
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if c.json == "-" {
		_, err = w.Write(text)
		return err
	}
	return os.WriteFile(c.json, text, 0o666)
}

// table prints what each master is.
func table(w io.Writer, s *redlock.Status) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range s.Masters {
		state := m.State
		if m.Left > 0 {
			state += ", " + m.Left.Round(100*time.Millisecond).String() + " left"
		}
		fmt.Fprintf(tab, "%s\t%s\n", m.Name, state)
	}
	_ = tab.Flush()
	for _, m := range s.Masters {
		if m.Err != nil {
			say(w, oneLine(m.Err))
		}
	}
}

// initial is how a list of masters begins.
type initial struct {
	masters
	neverLocked, abandon bool
}

const initHelp = `Lets the masters of a list begin to vote: a list that was never used, or one
whose masters lost their records while no client saw them vote.

By calling it you say what nothing on the masters tells: that this list is the
right one, and was never left for another list. It waits until every lock that
these masters may have granted is over: the maximum TTL and twice its drift.
--nothing-was-ever-locked skips the wait; said of masters that were emptied
while a lock was held, it gives that lock to a second holder.

Where a quorum votes it changes nothing. It may be ended and called again.

` + exitCodesOfMasters

func (c *initial) define(fs *flag.FlagSet) {
	c.masters.define(fs, "nodes", "", "all the masters")
	fs.BoolVar(&c.neverLocked, "nothing-was-ever-locked", false, "no lock was ever taken on these masters: do not wait")
	fs.BoolVar(&c.abandon, "abandon-change", false, "give up an unfinished change of masters for good")
}

// showStatus prints what the masters of list say after an operation, and an empty line.
func showStatus(ctx context.Context, out io.Writer, list redlock.List) (*redlock.Status, error) {
	s, err := redlock.ReadStatus(ctx, list)
	if err != nil {
		return nil, errorCode(err)
	}
	table(out, s)
	fmt.Fprintln(out)
	return s, nil
}

func (c *initial) run(ctx context.Context, o output) error {
	before, err := redlock.ReadStatus(ctx, c.list())
	if err != nil {
		return errorCode(err)
	}
	table(o.err, before)
	var words []redlock.Word
	if c.neverLocked {
		words = append(words, redlock.NothingWasEverLocked)
	}
	if c.abandon {
		words = append(words, redlock.AbandonChange)
	}
	if err := redlock.Init(ctx, c.list(), progress(o.err), words...); err != nil {
		return errorCode(err)
	}
	s, err := showStatus(ctx, o.out, c.list())
	if err != nil {
		return err
	}
	text := fmt.Sprintf("the list has begun, with a maximum TTL of %v; give every program the same list and the same maximum TTL", c.maxTTL)
	if s.Standing != redlock.AllVote {
		text += "; " + s.Text
	}
	say(o.out, s.Standing.String()+": "+text)
	if code := exitOf(s.Standing); code != exitOK {
		return &exitError{code: code}
	}
	return nil
}
