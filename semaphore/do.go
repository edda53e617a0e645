// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"

	"github.com/redlock-go/redlock/redlock"
)

// Do runs fn while it holds a permit, which it waits for as [Semaphore.Acquire] does. fn's context is
// ctx, ended early by the loss of the permit, with redlock.ErrLost as its cause. permit has the fencing token of its slot; Do gives it back.
//
// Do returns when fn has returned and the permit is given back: fn's error, joined with
// redlock.ErrLost if the permit was lost before that. It returns no other error of Release: a release
// that was not confirmed is told to the client's Observers. If no permit can be had, fn does not run
// and Do returns Acquire's error. A panic in fn gives the permit back and goes on.
func (s *Semaphore) Do(ctx context.Context, fn func(ctx context.Context, permit *Permit) error) error {
	if fn == nil {
		return errNilFunc
	}
	p, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return p.do(ctx, fn)
}

// TryDo is Do that does not wait, as redlock.Mutex.TryDo is: ran says whether fn ran, and that no permit is free is no error.
func (s *Semaphore) TryDo(ctx context.Context, fn func(ctx context.Context, permit *Permit) error) (ran bool, err error) {
	if fn == nil {
		return false, errNilFunc
	}
	p, err := s.TryAcquire(ctx)
	switch {
	case errors.Is(err, redlock.ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, p.do(ctx, fn)
}
