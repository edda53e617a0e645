// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Linearizable is the checker linearizable: one fenced mutex that never fails could have answered as the history of each lock says. The
// library porcupine decides. If it cannot decide within the timeout the verdict is Unknown. Linearizable shares only the collecting of
// grants with the checkers exclusion and tokens, so it tests these checkers too.
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
func Linearizable(h *history.History, timeout time.Duration) Result {
	return judge(newLinearizable(context.Background(), timeout), h)
}

// linearizable judges the grants of each lock in pieces. A piece is cut from the grants that have ended; the others wait for later chapters.
type linearizable struct {
	found
	ctx       context.Context // its end ends the work, and then no result counts
	timeout   time.Duration   // for each chapter
	began     bool
	suspended Suspension
	locks     map[string]*mutex
	n         int
}

func newLinearizable(ctx context.Context, timeout time.Duration) *linearizable {
	return &linearizable{ctx: ctx, timeout: timeout, locks: map[string]*mutex{}}
}

func (c *linearizable) add(h *history.History) {
	if !c.began {
		c.began, c.suspended = true, SuspendedExclusion(h)
	}
	open := map[string][]*life{} // grants that had not ended at the end of the chapter
	known := int64(history.Never)
	if h.Part != nil && h.Part.To != history.Never {
		known = h.Part.Known
	}
	for _, l := range lives(h) {
		lock, ended := l.grant.Lock, max(l.lapse(), l.grant.Return)
		switch {
		case c.suspended.spans.meets(l.grant.Call, ended):
		case h.Owns(ended):
			c.hand(l)
		case ended >= h.Part.To:
			open[lock] = append(open[lock], l)
		}
		if l.settled() > ended && h.Owns(l.settled()) && !c.suspended.spans.meets(ended, l.settled()) {
			c.lock(lock).reopen(&c.found, l.clone())
		}
	}
	stop := time.Now().Add(c.timeout)
	for _, lock := range sortedKeys(c.locks) {
		if c.ctx.Err() != nil {
			return
		}
		c.locks[lock].judge(&c.found, open[lock], known, stop)
	}
}

// hand adds a grant that has ended to those that wait for a cut.
func (c *linearizable) hand(l *life) {
	m := c.lock(l.grant.Lock)
	m.ended = append(m.ended, l.clone())
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

func (c *linearizable) result() Result {
	r := Result{ID: "linearizable", Question: "Could one perfect lock, giving out ever larger tokens, have answered like this?", Suspended: c.suspended}
	undecided := 0
	for _, m := range c.locks {
		if m.undecided {
			undecided++
		}
	}
	r = c.into(r)
	r.Figures = []Figure{{"grants judged by porcupine", float64(c.n)}, {"locks undecided", float64(undecided)}}
	r = r.concludeJudged(fmt.Sprintf("Yes: porcupine found an order for %d grants on %d locks.", c.n, len(c.locks)), c.n)
	if r.Verdict == Ok && undecided > 0 {
		r.Verdict, r.Summary = Unknown, fmt.Sprintf("%d of %d locks could not be decided within %v.", undecided, len(c.locks), c.timeout)
	}
	return r
}

// clone returns a copy that does not keep the chapter in memory.
func (l *life) clone() *life {
	g := *l.grant
	c := &life{grant: &g}
	for _, e := range l.extends {
		x := *e
		c.extends = append(c.extends, &x)
	}
	if l.unlock != nil {
		u := *l.unlock
		c.unlock = &u
	}
	return c
}
