// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/internal/members"
)

// List is a list of masters, with the options that all its clients share: WithMaxTTL,
// WithDrift, WithFixedMasters, WithNodeCount, and WithNodeTimeout.
type List struct {
	URLs    []string
	Nodes   []node.Node // instead of URLs; they stay the caller's to close
	Options []Option
}

// Word is what only an operator knows.
type Word uint8

const (
	// NothingWasEverLocked: no lock was ever granted by these masters, so Init need not
	// wait until such locks are over.
	NothingWasEverLocked Word = iota + 1
	// AbandonChange: a change of masters that was begun and not finished is given up for
	// the list that Init begins. No process may go on with it.
	AbandonChange
)

// ErrUnfinished: a change of masters was begun and is not finished. The error says by
// which process, when, and what to do.
var ErrUnfinished = errors.New("redlock: a change of masters is unfinished")

// Progress is told now and then what a long operation waits for: in words, and for how
// long if that is known.
type Progress func(what string, left time.Duration)

// Init lets masters begin to vote. It is the one explicit act by which a list of masters
// begins, and it is how locks come back after a majority of a list has lost its records and
// no client saw it vote since.
//
// Calling it says that this list is the right one: that it was never used, or that it lost
// its records and was never left for another list. Nothing on the masters tells the two
// apart. Init waits until every lock that may have been granted before is over (the
// maximum TTL and twice its drift), unless it is told [NothingWasEverLocked].
//
// Every master must be reachable. Where a quorum votes already Init does nothing. It
// refuses when a master votes with another list, or is being changed to one (see
// [AbandonChange]). It may be called by several processes at once, and again after an error.
//
// With recovery off there is nothing to begin, and Init does nothing.
func Init(ctx context.Context, list List, progress Progress, words ...Word) error {
	if s, err := apply(list.Options); err == nil && s.noRecovery {
		return nil
	}
	op, err := operate(ctx, membership.Init, list, nil)
	if err != nil {
		return fmt.Errorf("redlock: init: %w", err)
	}
	defer op.close()
	op.cfg.NeverLocked = slices.Contains(words, NothingWasEverLocked)
	op.cfg.Abandon = slices.Contains(words, AbandonChange)
	if err := op.run(ctx, progress); err != nil {
		return fmt.Errorf("redlock: init: %w", err)
	}
	return nil
}

// Reconfigure moves the locks from one list of masters to another, or to another maximum
// TTL or drift. No two majorities ever exist: the masters of the old list stop, the wait
// of the old list passes (its maximum TTL and twice its drift), and then the new list
// begins, with tokens larger than any the old one gave.
//
// Locks stop for that wait. Holders lose their leases, and waiters wait; clients of the
// old list then fail with an [EpochError], and are to be started with the new one. A master
// may be in both lists. Every master of the new list that is not in the old one must be
// reachable, and a majority of the old list.
//
// Every step is kept on the masters. When Reconfigure fails, or its process dies, any
// process may call it again with the same lists: it goes on where the change stopped.
func Reconfigure(ctx context.Context, from, to List, progress Progress) error {
	op, err := operate(ctx, membership.Change, from, &to)
	if err != nil {
		return fmt.Errorf("redlock: reconfigure: %w", err)
	}
	defer op.close()
	if err := op.run(ctx, progress); err != nil {
		return fmt.Errorf("redlock: reconfigure: %w", err)
	}
	return nil
}

// CancelReconfigure gives up a change of masters that was begun and for which no
// majority has stopped yet. Else the change can only be finished, and then another one
// can lead back; the error says so.
func CancelReconfigure(ctx context.Context, list List) error {
	op, err := operate(ctx, membership.Cancel, list, nil)
	if err != nil {
		return fmt.Errorf("redlock: cancel: %w", err)
	}
	defer op.close()
	if err := op.run(ctx, nil); err != nil {
		return fmt.Errorf("redlock: cancel: %w", err)
	}
	return nil
}

// operation is one process at work on the masters of one or two lists.
type operation struct {
	cfg   members.Config
	owned []node.Node
}

// operate opens the masters of the lists, which must all be fit to vote as far as they answer.
func operate(ctx context.Context, goal membership.Goal, from List, to *List) (*operation, error) {
	op, err := open(ctx, goal, from, to)
	if err != nil {
		return nil, err
	}
	if err := op.ready(ctx); err != nil {
		op.close()
		return nil, err
	}
	return op, nil
}

// open opens the masters of the lists.
func open(ctx context.Context, goal membership.Goal, from List, to *List) (*operation, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	s, err := apply(from.Options)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	op := &operation{cfg: members.Config{Goal: goal, Clock: s.clock, Timeout: max(s.nodeTimeout, answerTimeout),
		Rand: s.rand64, Who: fmt.Sprintf("%s/%d", host, os.Getpid())}}
	if op.cfg.Terms, err = op.add(from, true); err == nil && to != nil {
		op.cfg.Target, err = op.add(*to, false)
	}
	if err != nil {
		op.close()
		return nil, err
	}
	op.cfg.URLs = "from " + shown(from) + " to "
	if to != nil {
		op.cfg.URLs += shown(*to)
	}
	return op, nil
}

// add takes in the masters of a list. One that is in both is asked over one connection.
func (op *operation) add(list List, old bool) (*membership.Terms, error) {
	s, err := apply(list.Options)
	if err != nil {
		return nil, err
	}
	if err := s.checkCount(max(len(list.URLs), len(list.Nodes))); err != nil {
		return nil, err
	}
	if s.noRecovery {
		return nil, fmt.Errorf("%w: masters with recovery off have no records", ErrConfig)
	}
	nodes := list.Nodes
	for i, u := range list.URLs {
		cfg := s.node
		cfg.Clock, cfg.StallAfter = s.clock, max(s.nodeTimeout, answerTimeout)
		n, err := node.Open(u, cfg)
		if err != nil {
			return nil, fmt.Errorf("%w: master %d of %d: %w", ErrConfig, i+1, len(list.URLs), err)
		}
		op.owned = append(op.owned, n)
		nodes = append(nodes, n)
	}
	e, err := newEpoch(nodes, &s)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		k := slices.IndexFunc(op.cfg.Nodes, func(o node.Node) bool { return o.Name() == n.Name() })
		if k < 0 {
			k = len(op.cfg.Nodes)
			op.cfg.Nodes = append(op.cfg.Nodes, n)
			op.cfg.Old, op.cfg.New = append(op.cfg.Old, false), append(op.cfg.New, false)
			n.Bind(protocol.Binding{CheckRecordState: true, Drift: s.drift})
		}
		op.cfg.Old[k], op.cfg.New[k] = op.cfg.Old[k] || old, op.cfg.New[k] || !old
	}
	return e.terms, nil
}

// ready waits for the masters' first answers. It fails when one of them cannot be used,
// and when none answers.
func (op *operation) ready(ctx context.Context) error {
	errs := make([]error, len(op.cfg.Nodes))
	var g errgroup.Group
	for i, n := range op.cfg.Nodes {
		g.Go(func() error {
			errs[i] = n.Ready(ctx)
			return nil
		})
	}
	_ = g.Wait()
	for _, err := range errs {
		if errors.Is(err, node.ErrReplica) || errors.Is(err, node.ErrEviction) {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	return nil
}

func (op *operation) close() { closeAll(op.owned) }

// run does one thing after the other until the goal is reached.
func (op *operation) run(ctx context.Context, progress Progress) error {
	d := members.New(op.cfg)
	for {
		out := d.Step(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := out.BadRecord(); err != nil {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
		pause := again
		switch a := &out.Action; a.Kind {
		case membership.Done:
			return nil
		case membership.Refuse:
			return refusedError(&out)
		case membership.Wait:
			pause = min(a.For, progressEvery)
			if progress != nil {
				progress(membership.Explain(out.View, *a), a.For)
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answerTimeout is how long an operation waits for a master's answer at least. It has more
// time than a caller of Lock.
const answerTimeout = 2 * time.Second

// progressEvery is how often the masters are looked at while an operation waits.
const progressEvery = time.Second

// refusedError is why an operation cannot go on.
func refusedError(out *members.Outcome) error {
	text := membership.Explain(out.View, out.Action)
	for i, err := range out.Errs {
		if err != nil && i == out.Action.Why.Master {
			text += ": " + err.Error()
		}
	}
	switch out.Action.Why.Code {
	case membership.NeedsWord:
		return fmt.Errorf("%w: %s", ErrNeedsInit, text)
	case membership.Unreachable, membership.NoQuorum, membership.NotReady, membership.TooFewReady:
		return fmt.Errorf("%w: %s", ErrUnreachable, text)
	case membership.Unfinished, membership.OtherChange, membership.TooLate, membership.BeingChanged:
		return fmt.Errorf("%w: %s", ErrUnfinished, text)
	}
	return fmt.Errorf("%w: %s", ErrConfig, text)
}

// shown is a list's URLs without passwords.
func shown(list List) string {
	var parts []string
	for _, u := range list.URLs {
		if parsed, err := url.Parse(u); err == nil {
			parsed.User = nil
			parts = append(parts, parsed.String())
		}
	}
	for _, n := range list.Nodes {
		parts = append(parts, n.Name())
	}
	return strings.Join(parts, " ")
}
