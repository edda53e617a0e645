// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock/cmd/internal/masterurl"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock"
)

// exitCodesOfLocks ends the help of the commands that look at locks.
const exitCodesOfLocks = `exit code: 0 the masters tell, 1 the masters belong to another list, or so many
cannot be used that no quorum is left, 2 usage, 3 the masters do not tell, 4 a
change of masters is unfinished, 5 an operator's word is needed
`

// lookPatience is how long a command that looks waits for a quorum of masters to answer.
const lookPatience = masterurl.Patience

// open connects as a program does that locks, and does not wait for masters for long.
func (m *masters) open(ctx context.Context) (*redlock.Client, error) {
	opening, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	// A command that looks leaves no label on the masters. It makes one round, for which an operator has more time than a caller of Lock.
	client, err := m.client(opening, redlock.WithClientName(""), redlock.WithNodeTimeout(lookPatience))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, &exitError{exitMasters, err.Error()}
	}
	return client, m.errorCode(err)
}

// named is a command whose argument is the name of a lock.
type named struct{ name string }

func (n *named) words(args []string) error {
	switch {
	case len(args) == 0, args[0] == "":
		return errors.New("want the name of a lock")
	case len(args) > 1:
		return fmt.Errorf("want one name of a lock, have %d words", len(args))
	}
	n.name = args[0]
	return nil
}

// inspect shows one lock.
type inspect struct {
	masters
	named
	json bool
}

const inspectHelp = `Says who holds the lock NAME and who waits for it, by quorum and by master. It
changes nothing, and works while masters recover.

  held      the holder's label (--owner of run and elect, WithClientName of
            programs), how many masters have its vote, and how long these last
            if the holder does not renew them; its id, which force-unlock takes;
            what it has announced, if it leads an election
  rests     as held, when the lease is over, and a minimum hold or period is not
  waits     who waits, in the order in which they are served: the first of each
            process
  counter   at least the fencing token of every lease that the master voted for

The answer is about the moment in which the masters were asked. When it is
printed, another may hold the lock. To do something while nobody else does, take
the lock: redlock run --no-wait.

` + exitCodesOfLocks

func (c *inspect) define(fs *pflag.FlagSet) {
	c.masters.define(fs, "nodes", "", "all the masters")
	c.defineFile(fs)
	c.defineFixed(fs)
	defineJSON(fs, &c.json)
}

func (c *inspect) run(ctx context.Context, o output) error {
	client, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	in, err := client.Inspect(ctx, c.name)
	if in == nil {
		return lockError(err)
	}
	code, why := exitOK, error(nil)
	if verdictOf(in) == lockUnclear {
		code, why = untold(client)
	}
	if c.json {
		if err := writeJSON(o.out, newLockJSON(in, code)); err != nil {
			return err
		}
	} else {
		printLock(o.out, in)
		if why != nil {
			text.Say(o.out, plain(why))
		}
	}
	if code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// untold is the exit code where the masters do not tell who has a lock, and, if they recover or are being changed, what says so.
func untold(client *redlock.Client) (code int, why error) {
	switch err := client.Ready(); {
	case errors.Is(err, redlock.ErrUnfinished):
		return exitChanging, err
	case errors.Is(err, redlock.ErrRecovering):
		return exitMasters, err
	}
	return exitMasters, nil
}

// lockError is the exit code of an error of a call about one lock: what is wrong with the name is the caller's.
func lockError(err error) error {
	var epoch *redlock.EpochError
	switch {
	case errors.Is(err, redlock.ErrConfig):
		return usageError{err}
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, redlock.ErrUnfinished):
		return &exitError{exitChanging, err.Error()}
	case errors.As(err, &epoch): // the list was left after the command had opened its client
		return &exitError{exitRefused, err.Error()}
	}
	return &exitError{exitMasters, err.Error()}
}

// What an inspection comes to.
const (
	lockHeld    = "held"
	lockFree    = "free"
	lockUnclear = "unknown"
)

func verdictOf(in *redlock.Inspection) string {
	switch {
	case len(in.Holders) > 0:
		return lockHeld
	case in.Free:
		return lockFree
	}
	return lockUnclear
}

// lockJSON is a lock for --json.
type lockJSON struct {
	Name     string       `json:"name"`
	Verdict  string       `json:"verdict"` // held, free, unknown
	ExitCode int          `json:"exit_code"`
	AsOf     time.Time    `json:"as_of"`
	Quorum   int          `json:"quorum"`
	Holders  []holderJSON `json:"holders"`
	Waiters  []waiterJSON `json:"waiters"` // in the order in which they are served
	Masters  []lockAtJSON `json:"masters"`
	failure
}

type holderJSON struct {
	ID    string `json:"id"`
	Owner string `json:"owner,omitempty"`
	Read  bool   `json:"read"`
	// Resting: the lease is over, and the lock stays taken for left_ms
	Resting bool       `json:"resting,omitempty"`
	Votes   int        `json:"votes"`
	Count   int        `json:"count"`
	LeftMS  int64      `json:"left_ms"`
	Token   int64      `json:"token,omitempty"` // that of a leader, as are the next ones
	Since   *time.Time `json:"since,omitempty"`
	Value   string     `json:"value,omitempty"`
}

type waiterJSON struct {
	Client string    `json:"client"`
	Owner  string    `json:"owner,omitempty"`
	Read   bool      `json:"read"`
	Since  time.Time `json:"since"`
	Places int       `json:"places"` // on so many masters
}

type lockAtJSON struct {
	Name    string   `json:"name"`
	Votes   bool     `json:"votes"`
	Holders []string `json:"holders,omitempty"`
	LeftMS  int64    `json:"left_ms,omitempty"`
	Counter int64    `json:"counter,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func newLockJSON(in *redlock.Inspection, code int) lockJSON {
	out := lockJSON{Name: in.Name, Verdict: verdictOf(in), ExitCode: code, AsOf: in.AsOf, Quorum: in.Quorum,
		Holders: []holderJSON{}, Waiters: []waiterJSON{}, failure: failureOf(code, nil)}
	for _, h := range in.Holders {
		j := holderJSON{ID: h.ID, Owner: h.Owner, Read: h.Read, Resting: h.Resting, Votes: h.Votes, Count: h.Count, LeftMS: h.Left.Milliseconds(), Token: h.Token, Value: h.Value}
		if !h.Since.IsZero() {
			j.Since = &h.Since
		}
		out.Holders = append(out.Holders, j)
	}
	for _, w := range in.Waiters {
		out.Waiters = append(out.Waiters, waiterJSON{w.Client, w.Owner, w.Read, w.Since, w.Places})
	}
	for _, m := range in.Masters {
		j := lockAtJSON{Name: m.Name, Votes: m.Votes, Holders: m.Holders, LeftMS: m.Left.Milliseconds(), Counter: m.Counter}
		if m.Err != nil {
			j.Error = text.OneLine(m.Err)
		}
		out.Masters = append(out.Masters, j)
	}
	return out
}

// printLock shows a lock to people.
func printLock(w io.Writer, in *redlock.Inspection) {
	switch verdictOf(in) {
	case lockFree:
		text.Paragraph(w, "free", "no holder can have a quorum of votes")
	case lockUnclear:
		says := "the masters do not tell: too few answered or vote, or the votes are split at this moment"
		if slices.ContainsFunc(in.Masters, func(m redlock.MasterInspection) bool { return refuses(m.Err) }) {
			says = "masters refuse to tell, for the reason below"
		}
		text.Paragraph(w, "unknown", says)
	}
	for i := range in.Holders {
		text.Paragraph(w, heldOrRests(&in.Holders[i]), describe(&in.Holders[i], len(in.Masters)))
	}
	for i, waiter := range in.Waiters {
		text.Paragraph(w, "waits", fmt.Sprintf("%d. %s for %v%s", i+1, labelOf(waiter.Owner, "client "+waiter.Client), short(max(in.AsOf.Sub(waiter.Since), 0)), reads(waiter.Read)))
	}
	text.Paragraph(w, "as of", in.AsOf.Format("2006-01-02 15:04:05.000 MST"))
	fmt.Fprintln(w)
	// A star is one column more, which would be the 81st.
	waits := slices.ContainsFunc(in.Masters, func(m redlock.MasterInspection) bool { return m.Err == nil && len(m.Holders) > 0 && !m.Votes })
	gap := 2
	if waits {
		gap = 1
	}
	tab := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	fmt.Fprintln(tab, "master\tcounter\tleft\tvote")
	for i := range in.Masters {
		m := &in.Masters[i]
		counter, left, vote := "-", "-", "none"
		switch {
		case refuses(m.Err):
			vote = "refuses to tell"
		case m.Err != nil:
			vote = "does not answer"
		case len(m.Holders) > 0:
			if left, vote = short(m.Left), strings.Join(m.Holders, ", "); !m.Votes {
				left += "*"
			}
		case m.Rest > 0:
			left, vote = short(m.Rest), "rests"
		case !m.Votes:
			vote = "does not vote"
		}
		if m.Err == nil {
			counter = strconv.FormatInt(m.Counter, 10)
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", m.Name, counter, left, vote)
	}
	_ = tab.Flush()
	if waits {
		text.Say(w, "* not counted: this master waits until it may vote")
	}
	for _, m := range in.Masters {
		if m.Err != nil {
			text.Say(w, text.OneLine(m.Err))
		}
	}
}

// refuses says whether err is what a master answered: it is there, and does not do what it was asked for.
func refuses(err error) bool {
	var redisErr redis.Error
	return errors.As(err, &redisErr)
}

// lasts is for how long a holder has its votes. The masters tell no time of a key without a TTL, and the votes of a lock that is about to end
// are not told either.
func lasts(h *redlock.Holder) string {
	if h.Left <= 0 {
		return "without a TTL: for ever, if it is not gone by now"
	}
	return "for another " + short(h.Left) + " unless it renews them"
}

// heldOrRests is the label of a holder.
func heldOrRests(h *redlock.Holder) string {
	if h.Resting {
		return "rests"
	}
	return lockHeld
}

// describe is all that is known of a holder. masters is how many there are.
func describe(h *redlock.Holder, masters int) string {
	if h.Resting {
		return fmt.Sprintf("after %s, on %d of %d masters, for another %v; id %s", nameOfHolder(h), h.Votes, masters, short(h.Left), h.ID)
	}
	s := fmt.Sprintf("by %s, with %d of %d votes, %s%s", nameOfHolder(h), h.Votes, masters, lasts(h), reads(h.Read))
	if h.Count > 1 {
		s += fmt.Sprintf(", hold count %d", h.Count)
	}
	s += "; id " + h.ID
	if h.Token != 0 {
		s += fmt.Sprintf("; leads since %s, token %d, announces %q", h.Since.Format("2006-01-02 15:04:05 MST"), h.Token, h.Value)
	}
	return s
}

// nameOfHolder is the label of a holder, or what is said of one without. The masters keep a label for a minute or two after its client has ended, and a
// rest may be longer.
func nameOfHolder(h *redlock.Holder) string {
	if h.Resting {
		return labelOf(h.Owner, "a client whose label is not known")
	}
	return labelOf(h.Owner, "a client without a label")
}

func labelOf(owner, without string) string {
	if owner == "" {
		return without
	}
	return owner
}

func reads(read bool) string {
	if read {
		return ", to read"
	}
	return ""
}

// short is a time that people compare.
func short(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
