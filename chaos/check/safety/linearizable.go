// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// Linearizable is the checker linearizable: one fenced mutex that never fails could have answered as the history of each lock says. The
// library porcupine decides. If it cannot decide within the timeout the verdict is Unknown. When ctx ends it stops, and no result counts. It
// shares only the collecting of grants with the checkers exclusion and tokens, so it tests these checkers too.
//
// State of the mutex: who has it (one owner, or a number of readers) and the last token given out.
//   - a grant is legal if the lock is free for it and its token is larger than the last (of a grant without one, the token is
//     not judged);
//   - its end is legal if it is still there. It happens once, by release or by expiry, at some time after the client stopped
//     claiming, which is its unlock or its deadline, whichever comes first. An end hinders nobody, so if any order is legal, one
//     is in which every end comes at that very instant (or with its grant, if that returned later), and no other is searched.
//     Porcupine's intervals are closed, so an end at the instant of the next grant may come first: no epsilon is needed;
//   - a grant that lapsed and was extended after all ends when it lapses. Nobody else may have been granted the lock before its later end;
//   - refused and unknown lock calls are left out: the client never claims to hold, and in numbers they make the search explode;
//   - a grant is left out if exclusion was suspended at any time from its call to its end. A history that is legal stays legal without it.
func Linearizable(ctx context.Context, timeout time.Duration) check.Checker {
	return &linearizable{ctx: ctx, timeout: timeout, locks: map[string]*mutex{}}
}

// linearizable judges the grants of each lock in pieces. A piece is cut from the grants that have ended; the others wait for later chapters.
type linearizable struct {
	check.Found
	ctx       context.Context // its end ends the work, and then no result counts
	timeout   time.Duration   // for each chapter
	began     bool
	suspended check.Suspension
	locks     map[string]*mutex
	n         int
}

func (c *linearizable) Add(h *history.History) {
	if !c.began {
		c.began, c.suspended = true, check.SuspendedExclusion(h)
	}
	open := map[string][]*check.Life{} // grants that had not ended at the end of the chapter
	known := int64(history.Never)
	if h.Part != nil && h.Part.To != history.Never {
		known = h.Part.Known
	}
	for _, l := range check.Lives(h) {
		lock, ended := l.Grant.Lock, max(l.Lapse(), l.Grant.Return)
		switch {
		case c.suspended.Meets(l.Grant.Call, ended):
		case h.Owns(ended):
			c.hand(l)
		case ended >= h.Part.To:
			open[lock] = append(open[lock], l)
		}
		if l.Settled() > ended && h.Owns(l.Settled()) && !c.suspended.Meets(ended, l.Settled()) {
			c.lock(lock).reopen(&c.Found, l.Clone())
		}
	}
	stop := time.Now().Add(c.timeout)
	for _, lock := range slices.Sorted(maps.Keys(c.locks)) {
		if c.ctx.Err() != nil {
			return
		}
		c.locks[lock].judge(&c.Found, open[lock], known, stop)
	}
}

// hand adds a grant that has ended to those that wait for a cut.
func (c *linearizable) hand(l *check.Life) {
	m := c.lock(l.Grant.Lock)
	m.ended = append(m.ended, l.Clone())
	c.n++
}

func (c *linearizable) lock(name string) *mutex {
	m := c.locks[name]
	if m == nil {
		m = &mutex{}
		c.locks[name] = m
	}
	return m
}

func (c *linearizable) Result() check.Result {
	r := check.Result{ID: "linearizable", Question: "Could one perfect lock, giving out ever larger tokens, have answered like this?", Suspended: c.suspended}
	undecided := 0
	for _, m := range c.locks {
		if m.undecided {
			undecided++
		}
	}
	r = c.Into(r)
	r.Figures = []check.Figure{{Name: "grants judged by porcupine", Value: float64(c.n)}, {Name: "locks undecided", Value: float64(undecided)}}
	r = r.ConcludeJudged(fmt.Sprintf("Yes: porcupine found an order for %d grants on %d locks.", c.n, len(c.locks)), c.n)
	if r.Verdict == check.Ok && undecided > 0 {
		r.Verdict, r.Summary = check.Unknown, fmt.Sprintf("%d of %d locks could not be decided within %v.", undecided, len(c.locks), c.timeout)
	}
	return r
}
