// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/redlock"
)

// Leader is who leads, as a quorum of masters said it.
type Leader struct {
	Name   string    // of the election
	Token  int64     // the fencing token of its term: larger than that of every term before
	Value  string    // what it announces about itself: see [WithValue]
	Since  time.Time // when its term began, on its own clock
	Holder string    // the id of the leader's lease, as redlock.Lease.Holder returns it
	Owner  string    // the label of the leader's client (redlock.WithClientName), or empty
	// AsOf is when the masters were asked, on this host's clock. The leader led at a moment after
	// it. It need not lead any more.
	AsOf time.Time
}

// Leader asks the masters who leads. A quorum of them must name the same leader; what only a minority
// says does not count. It returns one of
//
//	ErrNoLeader             nobody leads, or the lock rests after a term (redlock.WithMinHold), or its holder has not announced itself
//	redlock.ErrUnreachable  the masters do not tell: too few answer, or their votes are split
//	ctx.Err(), ErrRefused, ErrConfig, ErrClosed
//
// If the answer is not clear, as in the moment in which the leader changes, Leader looks again for up to a
// second. The result is advice and no lock: see the package's comment.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	if err := e.check(ctx); err != nil {
		return Leader{}, err
	}
	v := newView(e.jitter)
	for {
		s := e.look(ctx)
		if ctx.Err() != nil {
			return Leader{}, e.ended(ctx, nil)
		}
		show, pause := v.next(s, time.Now())
		if show || final(s.err) {
			return v.shown.result()
		}
		if !sleep(ctx, pause) {
			return Leader{}, e.ended(ctx, nil)
		}
	}
}

// Observe iterates over the leaders: first the one that leads now, and then each change, until the
// loop ends, ctx ends or the client is closed. It never blocks the election, and never misses the
// last value: leaders that came and went while the loop's body ran are left out, and the one that
// leads then follows.
//
// The error is nil, or one of those of [Election.Leader]: [ErrNoLeader] between two leaders, and
// redlock.ErrUnreachable when the masters have not told for a second, and for so long that the leader's votes may have ended.
// After ErrConfig, ErrRefused and ErrClosed the iteration ends. It ends without an error when ctx ends.
//
// A new leader, and one that resigns or returns when its client is shut down, are told by a message. A leader that died is noticed when its
// lock ends: Observe asks the masters when the votes that it saw would have ended, once in a TTL at most
// while the leader renews them. While nobody leads it asks every 4 to 5 s, in case messages got lost.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		if err := e.check(ctx); err != nil {
			yield(Leader{}, err)
			return
		}
		changed, stop := inside.Observe(e.client, e.Name())
		defer stop()
		v := newView(e.jitter)
		for ctx.Err() == nil {
			s := e.look(ctx)
			if ctx.Err() != nil {
				return
			}
			show, pause := v.next(s, time.Now())
			if show && !yield(v.shown.result()) || final(s.err) {
				return
			}
			timer := time.NewTimer(pause)
			select {
			case <-changed: // also when the client is closed, which look finds out
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}

// final says whether err, that of a look, does not go away by itself. An error that is ErrUnreachable
// does, whatever one of the masters said.
func final(err error) bool {
	return !errors.Is(err, redlock.ErrUnreachable) &&
		(errors.Is(err, redlock.ErrConfig) || errors.Is(err, redlock.ErrClosed) || errors.Is(err, redlock.ErrRefused))
}

// sight is what one look at the masters found: a leader, or why there is none.
type sight struct {
	leader Leader
	err    error
	left   time.Duration // how long the votes that were seen last, if they are not renewed
	early  bool          // a holder has not announced itself yet
}

func (s *sight) result() (Leader, error) { return s.leader, s.err }

// look asks the masters once.
func (e *Election) look(ctx context.Context) sight {
	in, err := e.client.Inspect(ctx, e.Name())
	switch {
	case err != nil:
		return sight{err: err}
	case in.Free:
		return sight{err: fmt.Errorf("%w: %q, as of %s", ErrNoLeader, e.Name(), clockTime(in.AsOf))}
	case len(in.Holders) == 0:
		return sight{err: fmt.Errorf("%w: who leads %q: the votes are split, or masters recover", redlock.ErrUnreachable, e.Name())}
	}
	h := in.Holders[0]
	switch {
	case h.Resting: // h had the lock
		return sight{err: fmt.Errorf("%w: %q rests for %v more after its last holder (redlock.WithMinHold), as of %s",
			ErrNoLeader, e.Name(), h.Left.Round(time.Millisecond), clockTime(in.AsOf))}
	case h.Token == 0:
		return sight{early: true, left: h.Left, err: fmt.Errorf("%w: %q is held by %s, which has announced nothing: it locks without Run, or its user may not write redlock:leader:*",
			ErrNoLeader, e.Name(), h.ID)}
	}
	return sight{left: h.Left, leader: Leader{
		Name: e.Name(), Token: h.Token, Value: h.Value, Since: h.Since,
		Holder: h.ID, Owner: h.Owner, AsOf: in.AsOf,
	}}
}

func clockTime(t time.Time) string { return t.Format("15:04:05.000") }

const (
	// settle is how long an unclear answer is looked at again before it is shown.
	settle = time.Second
	// idle is how long an observer goes without a look while nobody leads.
	idle = 5 * time.Second
	// pauseMin and pauseMax bound the pauses while the answer is not clear.
	pauseMin, pauseMax = 10 * time.Millisecond, time.Second
)

// view decides what an observer is shown, and when it looks again. It has no clock: next is told the
// time.
type view struct {
	shown *sight // nil before the first
	// until is how long a leader that is shown stands although the masters do not tell: as long as the votes
	// that were seen may last. It is zero if nobody leads.
	until time.Time
	// unclear is since when the masters do not tell; zero: they do. One look that fails may be one slow master's, and is looked at
	// again for settle: while a leader leads, the next look is when the votes would have ended, so until is over then.
	unclear time.Time
	early   time.Time     // since when a holder has announced nothing; zero: it has
	pause   time.Duration // the last pause while the answer was not clear
	// jitter is a random time of at most d.
	jitter func(d time.Duration) time.Duration
}

func newView(jitter func(time.Duration) time.Duration) *view {
	return &view{jitter: jitter}
}

// next takes what a look found. It says whether that is shown now, and how long to wait until the
// next look if nobody tells of a change.
func (v *view) next(s sight, now time.Time) (show bool, pause time.Duration) {
	var end time.Time // of the time for which an answer that is not clear is looked at again
	switch {
	case s.err == nil:
		v.until, v.unclear, v.early, v.pause = now.Add(s.left), time.Time{}, time.Time{}, 0
		return v.show(s), max(s.left, pauseMin) + v.jitter(s.left/50+pauseMin)
	case errors.Is(s.err, ErrNoLeader) && !s.early:
		v.until, v.unclear, v.early, v.pause = time.Time{}, time.Time{}, time.Time{}, 0
		return v.show(s), idle - v.jitter(idle/5)
	case s.early:
		if v.unclear = (time.Time{}); v.early.IsZero() {
			v.early, v.pause = now, 0
		}
		if end = v.early.Add(settle); !now.Before(end) {
			v.until = time.Time{}
			return v.show(s), max(min(s.left, idle), pauseMin) + v.jitter(pauseMin)
		}
	case final(s.err):
		show = v.show(s)
	default:
		if v.unclear.IsZero() {
			v.unclear = now
		}
		if end = v.unclear.Add(settle); v.until.After(end) {
			end = v.until
		}
		if now.After(end) {
			show = v.show(s)
		}
	}
	v.pause = min(max(2*v.pause, pauseMin), pauseMax)
	pause = v.pause - v.jitter(v.pause/2)
	if left := end.Sub(now); left >= 0 {
		pause = min(pause, left+1) // right behind the end, so that it is shown then
	}
	return show, pause
}

// show says whether s differs from what is shown, and keeps it.
func (v *view) show(s sight) bool {
	if was := v.shown; was != nil && (was.leader.Token == s.leader.Token || mutants.SameLeader) && kind(was.err) == kind(s.err) {
		return false
	}
	v.shown = &s
	return true
}

// kind is what an observer tells errors apart by.
func kind(err error) error {
	for _, k := range []error{ErrNoLeader, redlock.ErrUnreachable} {
		if errors.Is(err, k) {
			return k
		}
	}
	return err
}
