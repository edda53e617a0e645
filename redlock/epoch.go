// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/zoo"
	"github.com/redlock-go/redlock/node"
)

// epoch is what clients must agree on to exclude each other: which masters vote,
// how many, and the longest TTL. Two clients with different lists could each
// have a majority of its own (docs/safety.md A24), so every script compares it.
type epoch struct {
	id      string // empty with recovery off
	text    string // for people
	masters string // sorted names
}

func newEpoch(nodes []node.Node, s *settings) (epoch, error) {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name()
	}
	slices.Sort(names)
	for i := range names[1:] {
		if names[i] == names[i+1] {
			return epoch{}, fmt.Errorf("%w: master %s is named twice (two that only are called alike are told apart by ?name= in their URLs)", ErrConfig, names[i])
		}
	}
	masters := strings.Join(names, " ")
	if s.noRecovery {
		return epoch{masters: masters}, nil
	}
	text := fmt.Sprintf("%d masters %s, maximum TTL %v", len(names), masters, s.maxTTL)
	if zoo.NoEpoch {
		text = "any"
	}
	sum := sha256.Sum256([]byte(text))
	return epoch{id: hex.EncodeToString(sum[:8]), text: text, masters: masters}, nil
}

// voting is the gate of master i when it may vote.
func (c *Client) voting(i int) node.Gate {
	return node.Gate{Protocol: node.Protocol, Epoch: c.epoch.id,
		Incarnation: c.identity(i).Incarnation(), State: node.Voting}
}

// kept: master i has all its counters, because it votes, or because it recovers only from
// what its clock did. That is noted beside the gate, with the nonce of that recovery, so
// that no later one, nor a restart, can find it.
func (c *Client) kept(i int, g node.Gate, record map[string]string) bool {
	voting := c.voting(i)
	return g == voting || g.State == node.Recovering && g.Incarnation == voting.Incarnation && record["kept"] == g.Nonce
}

// recovering is the gate of master i when a recovery of it begins, and the fields that go
// beside it.
func (c *Client) recovering(i int) (node.Gate, []string) {
	g := c.voting(i)
	g.State, g.Nonce = node.Recovering, c.newID()
	return g, c.record(i)[:2]
}

// record is the fields that go beside a voting gate.
func (c *Client) record(i int) []string {
	durable := "0"
	if c.identity(i).Durable {
		durable = "1"
	}
	return []string{"epoch", c.epoch.text, "durable", durable}
}

// Init makes masters vote that have never voted: the one explicit act by which a
// cluster begins. Without it the same masters vote after the wait of a restart,
// MaxTTL and its drift. Every master must be reachable.
//
// Calling it says that no lock granted by these masters can still be held: do it
// once, when the cluster is set up, not at each start of a program. On masters
// that vote already it does nothing; on some that do and some that do not it does
// nothing either, for those recover by themselves. With recovery off it does
// nothing.
//
// On an error some masters may vote already; calling it again is fine.
func (c *Client) Init(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if c.epoch.id == "" {
		return nil
	}
	gates := make([]node.Gate, len(c.nodes))
	for i := range c.nodes {
		g, _, err := c.gate(ctx, i)
		if err != nil {
			return fmt.Errorf("redlock: init: %w", err)
		}
		if g.State == node.Voting && g.Epoch == c.epoch.id {
			return nil
		}
		gates[i] = g
	}
	if err := c.begin(ctx, gates, nil); err != nil {
		return fmt.Errorf("redlock: init: %w", err)
	}
	return nil
}

// begin lets every master vote in the client's epoch, from the gates that were
// read just now. Once one votes in it the epoch has begun, by an earlier call: then
// masters whose gate is not of the incarnation that they have now may have voted in it
// and forgotten, and recover.
func (c *Client) begin(ctx context.Context, gates []node.Gate, counters []string) error {
	begun := slices.ContainsFunc(gates, func(g node.Gate) bool { return g.Epoch == c.epoch.id && g.State == node.Voting })
	errs := collect()
	for i, g := range gates {
		to, fields := c.voting(i), append(c.record(i), counters...)
		switch {
		case begun && g.Epoch == c.epoch.id:
			to = g // it votes, or recovers by itself
		case begun && g.Incarnation != to.Incarnation:
			to, fields = c.recovering(i)
		}
		if err := c.bring(ctx, i, g, to, fields); err != nil {
			errs = multierror.Append(errs, err)
		}
		c.recovery.kick(i, nil)
	}
	return errs.ErrorOrNil()
}

// bring takes master i from a gate to another. Some client's recovery may take a
// step between reading and swapping, at most one a piece of the wait: then it is
// from the gate that stands there now.
func (c *Client) bring(ctx context.Context, i int, from, to node.Gate, fields []string) error {
	for from != to {
		r := c.ask(ctx, i, node.Request{Kind: node.SwapRecord, Swap: &node.Swap{From: from, To: to, Fields: fields}})
		var moved *node.GateError
		if r.Class == node.Granted {
			return nil
		} else if !errors.As(r.Err, &moved) {
			return r.Err
		}
		now, err := node.ParseGate(moved.Got)
		gone := now.Epoch == c.epoch.id && now.State == node.Retired
		if err != nil || gone || now.Epoch != from.Epoch && now.Epoch != c.epoch.id {
			return r.Err
		}
		from = now
	}
	return nil
}

// gate reads what the record of master i says of its vote.
func (c *Client) gate(ctx context.Context, i int) (node.Gate, map[string]string, error) {
	return c.readRecord(ctx, i, "gate", "epoch", "next", "durable", "kept")
}

// readRecord reads these fields of the record of master i, or with none all. Another
// epoch is an error that shows both.
func (c *Client) readRecord(ctx context.Context, i int, fields ...string) (node.Gate, map[string]string, error) {
	r := c.ask(ctx, i, node.Request{Kind: node.ReadRecord, Fields: fields})
	if r.Class != node.Granted {
		return node.Gate{}, nil, r.Err
	}
	g, err := node.ParseGate(r.Record["gate"])
	switch {
	case err != nil:
	case g.Epoch == c.epoch.id && g.State == node.Retired:
		err = &EpochError{Theirs: r.Record["next"], Ours: c.epoch.text, Retired: true}
	case g.Epoch != "" && g.Epoch != c.epoch.id:
		err = &EpochError{Theirs: r.Record["epoch"], Ours: c.epoch.text, Retired: g.State == node.Retired}
	}
	if err != nil {
		err = &node.Error{Node: c.nodes[i].Name(), Err: err}
	}
	return g, r.Record, err
}

// EpochError: a master votes together with others than this client's, or under
// another maximum TTL.
type EpochError struct {
	Theirs, Ours string
	// Retired: a Reconfigure has taken the master out of its epoch and is not
	// finished. Theirs is where it goes, for a client of the epoch that it left.
	Retired bool
}

func (e *EpochError) Error() string {
	what := "belongs to another epoch"
	if e.Retired {
		what = "has left its epoch, and the change is not finished"
	}
	return fmt.Sprintf("%s: it was given %s; this client has %s; give all clients the same list and maximum TTL, or change them with redlock.Reconfigure", what, e.Theirs, e.Ours)
}

// Is makes an EpochError an ErrConfig.
func (e *EpochError) Is(target error) bool { return target == ErrConfig }

// ask puts req to master i and waits for the answer, for at most the node timeout.
func (c *Client) ask(ctx context.Context, i int, req node.Request) node.Reply {
	req.Start = c.clock.Elapsed()
	req.Until = req.Start + max(c.nodeTimeout, DefaultNodeTimeout)
	got := make(answer, 1)
	op := &node.Op{Request: &req, To: got, Index: i}
	timer := time.NewTimer(req.Until - req.Start)
	defer timer.Stop()
	if !c.nodes[i].Submit(op) && !c.closed.Load() {
		return op.Reply
	}
	err := node.ErrStalled
	select {
	case r := <-got:
		return r
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.quit:
		err = ErrClosed
	}
	return node.Reply{Err: &node.Error{Node: c.nodes[i].Name(), Err: err}}
}

// answer receives one reply.
type answer chan node.Reply

func (a answer) Receive(op *node.Op) { a <- op.Reply }

// Reconfigure moves from's locks to another set of masters, or another maximum
// TTL, and returns the client of the new epoch. No two majorities ever exist: it
// retires a majority of the old masters first, which grant nothing and extend
// nothing from then on, waits until every lease they granted is over, and only
// then lets the new ones vote, with counters no smaller than any the old had, so
// that tokens go on growing; when fewer than a quorum of those that retired have
// theirs, the new ones begin at this client's clock and a minute. Nothing can be
// locked for MaxTTL of the old epoch.
//
// Clients of the old epoch get errors from then on that show both epochs; from is
// left open. A master may be in both sets. Every new master and a majority of the
// old must be reachable. When it fails half-way, call it again: it goes on where
// it stopped, and waits anew.
func Reconfigure(ctx context.Context, from *Client, urls []string, opts ...Option) (*Client, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	to, err := Open(urls, append(slices.Clone(opts), clientOption(func(s *settings) { s.joining = true }))...)
	if err != nil {
		return nil, err
	}
	if err := to.take(ctx, from); err != nil {
		_ = to.Close()
		return nil, fmt.Errorf("redlock: reconfigure: %w", err)
	}
	to.recovery.begin()
	return to, nil
}

// take moves from's epoch over to c's.
func (c *Client) take(ctx context.Context, from *Client) error {
	switch {
	case c.epoch.id == from.epoch.id:
		return fmt.Errorf("%w: both epochs are %q", ErrConfig, c.epoch.text)
	case c.epoch.id == "" || from.epoch.id == "":
		return fmt.Errorf("%w: a client with recovery off has no epoch", ErrConfig)
	}
	if _, err := c.gatesFrom(ctx, from); err != nil {
		return err // before anything was changed
	}
	counters := make(map[string]int64)
	retired, intact := 0, 0
	errs := collect()
	for i := range from.nodes {
		whole, err := from.retire(ctx, i, c.epoch, counters)
		if err != nil {
			errs = multierror.Append(errs, err)
			continue
		}
		retired++
		if whole {
			intact++
		}
	}
	if retired < from.need {
		return fmt.Errorf("%w: %d of %d old masters retired, quorum is %d: %w", ErrUnreachable, retired, len(from.nodes), from.need, errs)
	}
	if intact < from.need {
		leap(counters, c.clock.Wall())
	}
	select {
	case <-time.After(from.quarantine()):
	case <-ctx.Done():
		return ctx.Err()
	}
	gates, err := c.gatesFrom(ctx, from)
	if err != nil {
		return err
	}
	return c.begin(ctx, gates, appendCounters(nil, counters))
}

// gatesFrom reads the gates of all masters, which may be from's still, or c's.
func (c *Client) gatesFrom(ctx context.Context, from *Client) ([]node.Gate, error) {
	gates := make([]node.Gate, len(c.nodes))
	for i := range c.nodes {
		g, _, err := c.gate(ctx, i)
		var other *EpochError
		if err != nil && !(errors.As(err, &other) && (g.Epoch == from.epoch.id || g.Next == c.epoch.id)) {
			return nil, err
		}
		gates[i] = g
	}
	return gates, nil
}

// retire makes master i leave the epoch for next and adds its counters to those
// known. It is done already when a former call has done it. intact says whether
// the master had lost none of its counters.
func (c *Client) retire(ctx context.Context, i int, next epoch, counters map[string]int64) (intact bool, err error) {
	g, record, err := c.readRecord(ctx, i)
	if g.Epoch != next.id && !(g.State == node.Retired && g.Next == next.id) {
		if err != nil {
			return false, err
		}
		whole := "0"
		if c.kept(i, g, record) {
			whole = "1"
		}
		// Of the incarnation that had a record: what it forgot may have been a vote in next.
		gone := c.voting(i)
		gone.Incarnation, gone.State, gone.Next = g.Incarnation, node.Retired, next.id
		if r := c.ask(ctx, i, node.Request{Kind: node.SwapRecord, Swap: &node.Swap{From: g, To: gone,
			Fields: []string{"next", next.text, "intact", whole}}}); r.Class != node.Granted {
			return false, r.Err
		}
		// Read again: votes may have raised counters before the swap.
		r := c.ask(ctx, i, node.Request{Kind: node.ReadRecord})
		if r.Class != node.Granted {
			return false, r.Err
		}
		record = r.Record
	}
	learn(counters, record)
	return record["intact"] == "1", nil
}

// learn raises counters to those of a record, and says whether it has any.
func learn(counters map[string]int64, record map[string]string) (some bool) {
	for i := range node.Counters {
		f := node.CounterField(i)
		if v, err := strconv.ParseInt(record[f], 10, 64); err == nil && v <= maxToken {
			counters[f], some = max(counters[f], v), true
		}
	}
	return some
}

// leap raises counters above every token there can be, when too many masters lost
// theirs at once for any reading to tell the largest: no script lets a counter run
// further ahead of its master's clock than tokenSkew (docs/safety.md, "Amnesia").
func leap(counters map[string]int64, wall time.Time) {
	floor := wall.Add(tokenSkew).UnixMicro()
	for i := range node.Counters {
		f := node.CounterField(i)
		counters[f] = max(counters[f], floor)
	}
}

// appendCounters adds counters to the fields of a swap.
func appendCounters(fields []string, counters map[string]int64) []string {
	for f, v := range counters {
		fields = append(fields, f, strconv.FormatInt(v, 10))
	}
	return fields
}
