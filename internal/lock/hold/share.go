// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/grant"
	"github.com/redlock-go/redlock/redlock/event"
)

// Share is the part that one lease has in a hold. The hold ends with its last share. The zero value belongs to no hold.
type Share struct {
	h *Hold

	// Guarded by h.mu.
	ended  error // nil while held
	cancel context.CancelCauseFunc
}

// shares are the shares of a hold, guarded by its mutex.
//
// Invariant: while the hold has not ended, list are the shares that were not given back. There is at least one.
type shares struct {
	list      []*Share
	one       [1]*Share // the array of list while there is one share: most holds have no other, and so allocate once
	reentered bool      // there once was more than one
}

func (s *shares) add(one *Share) {
	if s.list == nil {
		s.list = s.one[:0]
	}
	s.list = append(s.list, one)
	s.reentered = s.reentered || len(s.list) > 1
}

// drop takes a share out, and says whether it was one of them.
func (s *shares) drop(one *Share) bool {
	n := len(s.list)
	s.list = slices.DeleteFunc(s.list, func(o *Share) bool { return o == one })
	return len(s.list) < n
}

// count is the number of shares to send to the masters with an extend. It is 0, which leaves the number on the masters as it is, if there
// never was more than one.
func (s *shares) count() int {
	if s.reentered {
		return len(s.list)
	}
	return 0
}

// Hold is the hold that the share is of, or nil.
func (s *Share) Hold() *Hold { return s.h }

// Err is nil while the share is held, and says why it is not any more.
func (s *Share) Err() error {
	s.h.mu.Lock()
	defer s.h.unlock()
	return s.errLocked()
}

func (s *Share) errLocked() error {
	_ = s.h.errLocked() // ends s too, if it does not stand
	return s.ended
}

// OnEnd has cancel called when the share ends, at once if it has ended. Only the last function that was given is called.
func (s *Share) OnEnd(cancel context.CancelCauseFunc) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.cancel = cancel
	if s.ended != nil {
		cancel(s.ended)
	}
}

func (s *Share) endLocked(cause error) {
	if s.ended != nil {
		return
	}
	s.ended = cause
	if s.cancel != nil {
		s.cancel(cause)
	}
}

// Enter makes inner a share of the same hold, and sends the masters the new count. Its errors are those of [Hold.Extend]. On an error
// nothing has changed.
func (s *Share) Enter(ctx context.Context, inner *Share) error {
	h := s.h
	h.mu.Lock()
	if err := s.errLocked(); err != nil {
		h.unlock()
		return fmt.Errorf("redlock: re-entering %q: %w", h.Lock.Name, err)
	}
	inner.h = h
	h.shares.add(inner)
	h.unlock()
	err := h.Extend(ctx)
	if err == nil {
		return nil
	}
	h.mu.Lock()
	h.shares.drop(inner)
	was := h.errLocked()
	last := len(h.shares.list) == 0 && h.parting != surrendered
	if last && was == nil {
		h.endLocked(event.EndReleased, errs.ErrReleased)
	}
	h.unlock()
	if last { // the others were given back meanwhile and left it to this one, whether it was held or lost by then
		// Observers are told what became of it. ctx is often that of a share which was given back: it has ended, and would end the wait.
		_ = h.Release(context.WithoutCancel(ctx), was, h.r.Masters.Clock.Elapsed())
	}
	return err
}

// Abandon says that nobody used the share. If the hold never had another, its release lifts the rest of a lock with a minimum hold: of a hold
// that was re-entered, another share was used.
func (s *Share) Abandon() {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.parting == unlocked && !h.shares.reentered {
		h.parting = abandoned
	}
}

// Leave gives the share back at now. It returns why the share had ended before, or nil. last says that the hold ended with it, and that its
// votes are to be released.
func (s *Share) Leave(now time.Duration) (was error, last bool) {
	h := s.h
	h.mu.Lock()
	defer h.unlock()
	_ = h.errAtLocked(now)
	was = h.closedLateLocked(s.ended, now)
	s.endLocked(errs.ErrReleased)
	last = h.shares.drop(s) && len(h.shares.list) == 0
	if last {
		h.endLocked(event.EndReleased, errs.ErrReleased)
	}
	return was, last && h.parting != surrendered
}

// closedLateLocked returns was, why a share ended before it was given back at now. Another may have the lock if
// [Hold.Surrender] released it. The same goes for a client that was closed, which renews nothing, once the
// validity is over. The error is ErrLost too then.
func (h *Hold) closedLateLocked(was error, now time.Duration) error {
	switch {
	case !errors.Is(was, errs.ErrClosed):
		return was
	case h.parting == surrendered:
		return fmt.Errorf("%w: %q: Shutdown released it while it was held: %w", errs.ErrLost, h.Lock.Name, was)
	case h.standsLocked(now) != grant.Held:
		return fmt.Errorf("%w: %q: validity was over before it was unlocked: %w", errs.ErrLost, h.Lock.Name, was)
	}
	return was
}
