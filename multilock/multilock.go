// SPDX-License-Identifier: Apache-2.0

// Package multilock holds several locks as one, all or nothing.
//
// It guarantees:
//
//   - A caller gets a [Lease] when it holds every member. Each member has the guarantees of its
//     own lease (package redlock), and the whole has no others.
//   - A call that fails releases every member that it took, but for one that redlock.Client.Close ends: what it had until then stays for its TTL, as leases
//     do. redlock.Client.Shutdown gives it back.
//   - Callers that hold nothing else never deadlock, in whatever order each of them names its members.
//     All processes wait for members in one order, which masters and name decide. A caller that waits
//     for a member has taken only members that come before it in that order.
//
// A lock that the caller held before, and so a member that it enters again (redlock.WithReentry), is
// no part of that order: the caller keeps it while it waits. As with locks one within the other,
// two callers can wait for each other then for as long as their contexts live. Take all of
// them with one multilock, or bound the wait.
package multilock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/redlock"
)

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

// Lock is several locks that are held together. Like a redlock.Mutex it holds no state of a
// lease, may be used from many goroutines, and needs no close. Make one with [New].
type Lock struct {
	named   []redlock.Locker // in the order in which New got them
	ordered []int            // indices into named, in the order of waiting
	maxWait time.Duration    // 0: until the context ends
	err     error            // what is wrong with the members; every call returns it
}

// New returns a lock of all members: Mutexes, RWMutexes for writing, or their sides. They may belong to different clients.
// New does no I/O. The first call reports, as redlock.ErrConfig, that there is no
// member, that a member is nil, that two members are the same lock (as both sides of one RWMutex
// are), or that the name or the options of a member cannot work.
func New(members ...redlock.Locker) *Lock {
	l := &Lock{named: slices.Clone(members)}
	l.err = l.order()
	return l
}

// order puts the members into the order of waiting, or returns what is wrong with them.
func (l *Lock) order() error {
	if len(l.named) == 0 {
		return fmt.Errorf("%w: a multilock without members; give New the locks to hold together", redlock.ErrConfig)
	}
	for i, m := range l.named {
		if m == nil {
			return fmt.Errorf("%w: multilock member %d is nil", redlock.ErrConfig, i+1)
		}
		if err := inside.Check(m); err != nil {
			return fmt.Errorf("multilock member %d: %w", i+1, err)
		}
		if wait := inside.MaxWait(m); wait > 0 && (l.maxWait == 0 || wait < l.maxWait) {
			l.maxWait = wait
		}
	}
	for i := range l.named {
		l.ordered = append(l.ordered, i)
	}
	slices.SortFunc(l.ordered, func(a, b int) int {
		return strings.Compare(inside.Key(l.named[a]), inside.Key(l.named[b]))
	})
	for k := range l.ordered[1:] {
		a, b := l.named[l.ordered[k]], l.named[l.ordered[k+1]]
		if inside.Key(a) == inside.Key(b) {
			return fmt.Errorf("%w: lock %q is named twice in a multilock", redlock.ErrConfig, a.Name())
		}
	}
	return nil
}

// check returns the error of every call: New did not make l, or could not, or ctx is nil. Else it returns nil.
func (l *Lock) check(ctx context.Context) error {
	switch {
	case l.isZero():
		return fmt.Errorf("%w: a nil or zero multilock; make it with New", redlock.ErrConfig)
	case l.err != nil:
		return l.err
	case ctx == nil:
		return errNilContext
	}
	return nil
}

func (l *Lock) isZero() bool { return l == nil || l.err == nil && len(l.named) == 0 }

var (
	errNilContext = fmt.Errorf("%w: a nil context; use context.Background()", redlock.ErrConfig)
	errNilFunc    = fmt.Errorf("%w: a nil function", redlock.ErrConfig)
	errZeroLease  = fmt.Errorf("%w: a nil or zero multilock Lease; Lock returns them", redlock.ErrConfig)
)

// TryLock tries to take every member now. If all are free, it takes them at the same time, in one
// round trip. It never waits for a holder.
//
// If a member cannot be taken, TryLock releases the others. It returns the error of the first such
// member in the order of waiting, as redlock.Mutex.TryLock does.
//
// Callers that try at the same moment can take members from each other, so that none has them
// all. TryLock then tries again, one member after the other in the order of waiting. The caller
// that gets the first member so gets the others too. This takes up to
// [redlock.DefaultNodeTimeout] more.
//
// If a member's time is over before the others are taken, the caller has lost nothing, for it never had the whole. The error is that of a lock
// that was granted too late for its TTL: redlock.ErrUnreachable.
func (l *Lock) TryLock(ctx context.Context) (*Lease, error) {
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	c := call{of: l}
	held := make([]*redlock.Lease, len(l.named))
	_, err := l.try(ctx, held, 0, 0)
	if err != nil {
		c.giveBack(ctx, held, 0)
		if len(l.named) > 1 && errors.Is(err, redlock.ErrHeld) && ctx.Err() == nil {
			if err = l.tryInOrder(ctx, held); err != nil {
				c.giveBack(ctx, held, 0)
			}
		}
	}
	if err != nil {
		return nil, inside.GaveUp(ctx, err)
	}
	lease, _, err := c.lease(ctx, held)
	return lease, inside.GaveUp(ctx, err)
}

// tryInOrder tries one member after the other, in the order of waiting. It fails at a member whose
// holder keeps it, which it knows when it sees the same holder twice: another TryLock that fails
// releases its members within a few round trips. If ctx ends it returns what the last round found.
func (l *Lock) tryInOrder(ctx context.Context, held []*redlock.Lease) error {
	end := time.Now().Add(redlock.DefaultNodeTimeout)
	for _, i := range l.ordered {
		for seen := ""; ; {
			start := time.Now()
			lease, err := l.named[i].TryLock(ctx)
			if err == nil {
				held[i] = lease
				break
			}
			var round *redlock.RoundError
			if !errors.Is(err, redlock.ErrHeld) || !errors.As(err, &round) || round.Holder != "" && round.Holder == seen {
				return err
			}
			seen = round.Holder
			pause := 2*time.Since(start) + rand.N(pauseMax)
			if time.Now().Add(pause).After(end) {
				return err
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return err
			}
		}
	}
	return nil
}

// pauseMax bounds the random part of the pause before tryInOrder tries a member again.
const pauseMax = 4 * time.Millisecond

// Lock waits until it holds every member or ctx ends. If all members are free, it takes one round
// trip. While it waits for a member, it holds only members that come before it in the order of
// waiting. If a member is lost meanwhile, Lock begins again. If members have a maximum wait (redlock.WithMaxWait), the shortest of them is
// that of the whole: after it Lock returns what the last round found about the member that could not be taken, or was lost
// before the others were there (see [Lock.TryLock]).
//
// Two callers that hold locks already, as one that enters a member again does, can wait for each other for as long as their contexts live: see
// the package. Bound the wait then.
//
// The errors are those of redlock.Mutex.Lock. On an error Lock holds nothing; after ErrClosed see the package.
func (l *Lock) Lock(ctx context.Context) (*Lease, error) {
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	c := call{of: l}
	if l.maxWait > 0 {
		if c.end = time.Now().Add(l.maxWait); c.over() {
			return l.TryLock(ctx)
		}
	}
	for {
		held := make([]*redlock.Lease, len(l.named))
		if err := l.waitAll(ctx, held, &c); err != nil {
			c.giveBack(ctx, held, 0)
			return nil, inside.GaveUp(ctx, err)
		}
		lease, late, err := c.lease(ctx, held)
		if !late {
			return lease, inside.GaveUp(ctx, err)
		}
		// A member was lost while Lock waited for another one. If ctx has ended since, or the maximum wait, the next round says so.
		c.found = err
	}
}

// waitAll fills held. Before it waits for a member, it releases the members that come later in the
// order of waiting.
func (l *Lock) waitAll(ctx context.Context, held []*redlock.Lease, c *call) error {
	for from := 0; from < len(l.ordered); {
		if c.found != nil && c.over() {
			return c.found
		}
		failed, err := l.try(ctx, held, from, c.left())
		if err == nil {
			return nil
		}
		c.giveBack(ctx, held, failed+1)
		waits := errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrRecovering) || errors.Is(err, redlock.ErrUnreachable)
		if c.found = err; !waits || c.over() {
			return err
		}
		i := l.ordered[failed]
		if held[i], err = c.lock(ctx, l.named[i]); err != nil {
			return err
		}
		from = failed + 1
	}
	return nil
}

// call is one call for all members.
type call struct {
	of    *Lock
	end   time.Time // of the maximum wait; zero: there is none
	found error     // what the last round found; nil: there was none
}

// left is the time that is left, or 0 if there is no maximum wait.
func (c *call) left() time.Duration {
	if c.end.IsZero() {
		return 0
	}
	return time.Until(c.end)
}

// over says that the maximum wait leaves no time for a round.
func (c *call) over() bool {
	return !c.end.IsZero() && slices.ContainsFunc(c.of.named, func(m redlock.Locker) bool { return inside.NoTime(m, c.left()) })
}

// lock waits for one member.
func (c *call) lock(ctx context.Context, m redlock.Locker) (*redlock.Lease, error) {
	if c.end.IsZero() {
		return m.Lock(ctx)
	}
	return inside.LockFor(ctx, m, c.left())
}

// try takes the members at place from and later in the order of waiting, all at the same time. It
// returns the place of the first one that could not be taken, and its error. held then has the
// members that were taken, before that place and after it. It takes no longer than wait, if that is time enough for a round.
func (l *Lock) try(ctx context.Context, held []*redlock.Lease, from int, wait time.Duration) (failed int, err error) {
	order := l.ordered[from:]
	members := make([]redlock.Locker, len(order))
	for k, i := range order {
		members[k] = l.named[i]
	}
	leases, errs := inside.TryAll(ctx, members, wait)
	for k, i := range order {
		held[i] = leases[k]
	}
	for k, err := range errs {
		if err != nil {
			return from + k, err
		}
	}
	return len(l.ordered), nil
}

// parting is for how long a caller whose time is over waits for masters to confirm what it gives back.
const parting = 25 * time.Millisecond

// giveBack unlocks the members in held at place from and later in the order of waiting. It waits for the masters while the caller has time, and
// for a moment after that: masters that do not answer are not to keep the caller for a node timeout. The releases are on their way by then.
func (c *call) giveBack(ctx context.Context, held []*redlock.Lease, from int) {
	if mutants.KeepMembers {
		return
	}
	cancel := context.CancelFunc(func() {})
	switch {
	case ctx.Err() != nil: // Unlock would wait for the whole node timeout
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), parting)
	case !c.end.IsZero():
		ctx, cancel = context.WithTimeout(ctx, max(c.left(), 0)+parting)
	}
	defer cancel()
	var g errgroup.Group
	order := c.of.ordered
	for _, i := range order[min(from, len(order)):] {
		if h := held[i]; h != nil {
			held[i] = nil
			g.Go(func() error { return inside.Abandon(h, ctx) })
		}
	}
	_ = g.Wait()
}

// lease makes one lease of the members in held. If one of them is over, it unlocks the others and
// returns the error. late says that the member was lost before the others were there: the caller never had the whole,
// and has lost nothing. A lock that it had before, and entered again, it has lost.
func (c *call) lease(ctx context.Context, held []*redlock.Lease) (whole *Lease, late bool, err error) {
	for _, h := range held {
		if err = h.Err(); err == nil {
			continue
		}
		if late = errors.Is(err, redlock.ErrLost) && !inside.Carries(ctx, h); late {
			err = inside.TooLate(h)
		}
		c.giveBack(ctx, held, 0)
		return nil, late, err
	}
	return newLease(ctx, held), false, nil
}

// Do runs fn while it holds all members, as redlock.Mutex.Do does with one lock. The Members of lease have the fencing tokens; Do
// unlocks it. [LeaseFrom] finds it in fn's context too.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	if fn == nil {
		return errNilFunc
	}
	lease, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// TryDo is Do that does not wait, as redlock.Mutex.TryDo is: ran says whether fn ran, and that another has a member is no error.
func (l *Lock) TryDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (ran bool, err error) {
	if fn == nil {
		return false, errNilFunc
	}
	lease, err := l.TryLock(ctx)
	switch {
	case errors.Is(err, redlock.ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, lease.do(ctx, fn)
}
