// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/internal/masters/driver"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

// List is a list of masters, as [Init], [Reconfigure], [ReadStatus] and the other operations
// take it. The masters are given by URLs (see [node.Open]), or by Nodes.
type List struct {
	URLs []string
	// Nodes are used instead of URLs, which are not read then. Each must be new, because a node serves one client or
	// one operation only: else the operation returns ErrConfig. The operation does not close them: the caller does.
	Nodes []node.Node
	// Options must be the options of the clients of this list. Those that matter here are
	// WithMaxTTL, WithDrift, WithFixedMasters, WithNamespace, WithNodeCount and WithNodeTimeout. An
	// operation waits for 2 s or more for each answer, whatever the node timeout is.
	Options []redlock.Option
}

// An InitOption confirms something that the masters cannot tell by themselves. See [Init].
type InitOption uint8

const (
	// NothingWasEverLocked says that these masters never granted a lock. Init then does not
	// wait for the end of such locks. If a record on a master contradicts it, Init waits all
	// the same: the master voted before, or a program that saw this list vote has begun to
	// recover it.
	NothingWasEverLocked InitOption = iota + 1
	// AbandonChange gives up an unfinished change of masters, in favour of the list that
	// Init begins. The operator must have ended every process that works on that change. One that is finished is not given up.
	AbandonChange
)

// Progress is a function that a long operation calls about once a second while it waits. what
// says what it waits for. left is how long the wait will last, or 0 if that is not known. The
// operation calls it on the caller's goroutine. It may be nil.
type Progress func(what string, left time.Duration)

// Init lets the masters of a list begin to vote. An operator calls it before the first use of
// the list. An operator also calls it after a majority of the masters lost their records, if no
// client saw them vote lately ([redlock.ErrNeedsInit]).
//
// The call says that this list is the right one: no other list has taken its place. The masters
// cannot show that, because a master that was never used and a master that lost its record look
// the same. If another list did take its place, two holders are possible.
//
// Init waits until every lock that the masters may have granted before is over: the maximum TTL
// and twice its drift. With [NothingWasEverLocked] it does not wait. With the default options
// the wait is about 31 s. It begins anew with each call.
//
// Every master must be reachable, also where a quorum votes already. There is nothing to begin then, and Init
// returns nil. The errors are
//
//	ErrUnreachable  a master does not answer
//	ErrUnfinished   a change from this list was begun, or one to it has prepared masters; see [AbandonChange]
//	ErrRefused      a master takes no writes
//	ErrConfig       an option or a URL that cannot work; a master belongs to another list, or
//	                another list took the place of this one; another database of the same
//	                servers has records of this list; a master is named twice
//	ctx.Err()       ctx ended
//
// After an error some masters may be in quarantine, where they do not vote. Another call goes on
// from there. Several processes may call Init at once.
//
// With [redlock.WithUnsafeRecoveryOff] Init does nothing.
func Init(ctx context.Context, list List, progress Progress, opts ...InitOption) error {
	if s, err := settings(list.Options); err == nil && s.NoRecovery {
		return nil
	}
	op, err := operate(ctx, membership.Init, list, nil)
	if err != nil {
		return fmt.Errorf("redlock: init: %w", err)
	}
	defer op.close()
	op.cfg.NeverLocked = slices.Contains(opts, NothingWasEverLocked)
	op.cfg.Abandon = slices.Contains(opts, AbandonChange)
	if err := op.otherDatabases(ctx); err != nil {
		return fmt.Errorf("redlock: init: %w", err)
	}
	if err := op.run(ctx, progress); err != nil {
		return fmt.Errorf("redlock: init: %w", err)
	}
	if op.cfg.Abandon { // masters that went on voting have promised the change still
		op.cfg.Goal = membership.Cancel
		if err := op.run(ctx, progress); err != nil {
			return fmt.Errorf("redlock: init: %w", err)
		}
	}
	return nil
}

// Reconfigure moves the locks from one list of masters to another, or to another maximum TTL or
// drift. A master may be in both lists. A majority of the old list and a majority of the new
// list never vote at the same time. First the masters of the old list stop. Then the wait of the
// old list passes (its maximum TTL and twice its drift). Then the new list begins. Its tokens are
// larger than every token of the old list.
//
// Nothing can be locked during that wait. Holders lose their leases, and waiters wait. After it
// the clients of the old list fail with an [redlock.EpochError]: start them again with the new list.
//
// To begin, Reconfigure needs every master of the new list and a majority of the old list. A
// master that is in both lists must vote. Until then nothing stops. A master that refuses writes,
// because its memory or its disk is full, counts as one that is down. The errors are
//
//	ErrUnreachable  too few masters answer, take writes or can vote
//	ErrUnfinished   another change is unfinished; see [Cancel]
//	ErrConfig       an option or a URL that cannot work; both lists are the same, or both are in use; one
//	                of them is fixed (WithFixedMasters); a master belongs to a third list, or has two names; a
//	                name leads to another server in the new list than in the old one
//	ctx.Err()       ctx ended
//
// The masters keep every step. If Reconfigure fails, or its process dies, any process may call
// it again with the same lists, and it goes on where the change stopped.
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

// Cancel gives up an unfinished change from list. It can do so while a majority of
// the list still votes. Otherwise it returns [redlock.ErrUnfinished]: the change must be finished, and a
// second change can lead back. The other errors are those of [Reconfigure].
func Cancel(ctx context.Context, list List) error {
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

// run carries out one step after the other until the goal is reached, a step is refused or ctx
// ends.
func (op *operation) run(ctx context.Context, progress Progress) error {
	var giveUp time.Duration // on telling the masters that a finished change leaves
	var unwritten error      // why a master refused to write last
	err := op.drive(ctx, func(out *driver.Outcome) (pause time.Duration, done bool, err error) {
		if giveUp != 0 && out.View.Now >= giveUp {
			return 0, true, nil
		}
		if err := out.BadRecord(); err != nil {
			return 0, true, fmt.Errorf("%w: %w", redlock.ErrConfig, err)
		}
		pause = masters.Again
		if out.OurClock && progress != nil {
			progress(ourClock, 0)
		}
		if err := out.Unwritten; err != nil {
			unwritten = err
			if op.cfg.Goal == membership.Init { // it needs this master
				return 0, true, fmt.Errorf("%w: %w", redlock.ErrRefused, err)
			}
			if progress != nil {
				progress(err.Error(), 0)
			}
		}
		switch a := &out.Action; a.Kind {
		case membership.Done:
			if !out.Untold {
				return 0, true, nil
			}
			if pause = masters.LookAgain; giveUp == 0 {
				giveUp = out.View.Now + answerTimeout
			}
		case membership.Refuse:
			few := a.Why.Code == membership.TooLate || a.Why.Code == membership.NoQuorum
			if op.cfg.Goal == membership.Cancel && few && unwritten != nil { // with that master there may be enough
				return 0, true, fmt.Errorf("%w: %w", redlock.ErrRefused, unwritten)
			}
			return 0, true, refusedError(out)
		case membership.Wait:
			pause = min(a.For, progressEvery)
			if progress != nil {
				progress(membership.Explain(out.View, *a), a.For)
			}
		}
		return pause, false, nil
	})
	if giveUp != 0 {
		return nil // the new list votes
	}
	return err
}

// answerTimeout is the shortest time that an operation waits for the answer of a master. It is
// long, because an operator has more time than a caller of Lock.
const answerTimeout = 2 * time.Second

// progressEvery is how often an operation looks at the masters, and reports to its Progress,
// while it waits.
const progressEvery = time.Second

// ourClock is said when the clock of this host jumped, or runs too fast or too slow.
const ourClock = "the clock of this host jumped, so what was waited for begins anew"

// refusedError returns why an operation cannot go on.
func refusedError(out *driver.Outcome) error {
	text := membership.Explain(out.View, out.Action)
	for i, err := range out.Errs {
		if err != nil && i == out.Action.Why.Master && out.View.Masters[i].Silence.Text == "" {
			text += ": " + err.Error()
		}
	}
	switch out.Action.Why.Code {
	case membership.NeedsWord, membership.NeedsMasters:
		return fmt.Errorf("%w: %s", redlock.ErrNeedsInit, text)
	case membership.Unreachable, membership.NoQuorum, membership.NotReady, membership.TooFewReady, membership.NewBegun, membership.Stuck:
		return &tooFew{text}
	case membership.Unfinished, membership.Prepared, membership.OtherChange, membership.TooLate, membership.BeingChanged:
		return fmt.Errorf("%w: %s", redlock.ErrUnfinished, text)
	}
	return fmt.Errorf("%w: %s", redlock.ErrConfig, text)
}

// tooFew is an ErrUnreachable of an operation. Masters that cannot be used may have answered, and so may a quorum: its text does not say that none did.
type tooFew struct{ text string }

func (e *tooFew) Error() string { return e.text }
func (e *tooFew) Unwrap() error { return redlock.ErrUnreachable }

// shown returns the URLs and nodes of a list, without users and passwords.
func shown(list List) string {
	var parts []string
	for _, u := range list.URLs { // as package node reads them: some are none for net/url
		scheme, rest, _ := strings.Cut(u, "://")
		rest, params, _ := strings.Cut(rest, "?")
		query, _ := url.ParseQuery(params)
		query.Del("sentinel_username")
		query.Del("sentinel_password")
		u = scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
		if len(query) > 0 {
			u += "?" + query.Encode()
		}
		parts = append(parts, u)
	}
	for _, n := range list.Nodes {
		parts = append(parts, n.Name())
	}
	return strings.Join(parts, " ")
}
