// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"

	"github.com/redlock-go/redlock/internal/errs"
)

// Do runs fn while it holds the lock, which it waits for as Lock does. fn's context is
// ctx, ended early by the loss of the lease, with [ErrLost] as its cause, before validity
// is over. fn should return then, because another may have the lock. lease is the lease, with its
// fencing token; Do unlocks it. [LeaseFrom] finds it in fn's context too, further in.
//
// Do returns when fn has returned and the lock is given back: fn's error, joined with ErrLost if
// the lease was lost before that. Another may have had the lock then. It returns no other error of
// Unlock, because fn has done its work: a release that no quorum confirmed is told to
// Observer.Unlocked and logged, and the lock is free when its TTL is over. fn may hand its lease
// off ([Lease.Transfer]); there is nothing to give back then.
//
// If the lock cannot be had, fn does not run and Do returns Lock's error. A panic in fn gives the
// lock back and goes on.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	if fn == nil {
		return errNilFunc
	}
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// TryDo is Do that does not wait. ran says whether fn ran. If another has the lock, fn does not run, and TryDo returns false and no error:
// [Mutex.TryLock] says who has it. It returns false and TryLock's error if the lock could not be asked for.
func (m *Mutex) TryDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (ran bool, err error) {
	if fn == nil {
		return false, errNilFunc
	}
	lease, err := m.TryLock(ctx)
	switch {
	case errors.Is(err, ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, lease.do(ctx, fn)
}

// do runs fn under the lease and gives the lease back. Of Unlock's errors it returns ErrLost only.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (err error) {
	defer func() {
		if gone := l.Unlock(ctx); errs.IsUntold(gone, err) {
			err = errors.Join(err, gone)
		}
	}()
	held, stop := l.bound(ctx)
	defer stop(ErrReleased)
	return fn(held, l)
}
