// SPDX-License-Identifier: Apache-2.0

// Package flight has one process load something that many want, while the others wait for it: a
// cache that has to be filled, a report that has to be built. It is golang.org/x/sync/singleflight
// over all hosts. The result is in the caller's own store, a cache or a table, from which the
// others read it. docs/jobs.md compares the two.
//
// The package knows the order in which to read, lock and load. It keeps no state, and stands on
// package redlock alone. [Do] is all there is.
package flight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/redlock"
)

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

// Do returns what read finds. If it finds nothing, one process calls load, and the others wait and
// read again. name is the name of a [redlock.RWMutex] of the client.
//
// read looks into the store, and returns false if the value is not there. load makes the value,
// writes it to the store and returns it. load's context ends when the lock is lost, because another
// process may load then.
//
// Do calls read up to three times, and load once at most. A bad name or option is an error before that. An error of read ends Do, whatever read says of found. If the lock for reading is lost
// while read finds nothing or fails, Do goes on as if the loader had failed. An error of load
// is returned to its caller only, and the next caller that waits calls load. The other errors are
// those of [redlock.Mutex.Lock]. If load has succeeded, or read has found the value, Do returns no
// error, even if the lock could not be given back.
//
// Do waits for the lock up to twice: for the loader, and to load itself if that one has failed. redlock.WithMaxWait bounds both together,
// with the read between them, from when Do first asks for the lock. It does not bound load.
//
// Within load, Do of the same name fails with redlock.ErrNotReentrant; with [redlock.WithReentry] it loads within the load.
//
// A process that dies in load is followed by the next when the TTL of its lock is over.
func Do[T any](ctx context.Context, client *redlock.Client, name string, read func(ctx context.Context) (value T, found bool, err error),
	load func(ctx context.Context) (T, error), opts ...redlock.LockOption) (value T, err error) {
	if ctx == nil || client == nil || read == nil || load == nil {
		return value, fmt.Errorf("%w: flight: a nil context, client, read or load", redlock.ErrConfig)
	}
	rw := client.RWMutex(name, opts...)
	if err := inside.Check(rw); err != nil { // also where the value is there: else it is told only when it is not
		return value, err
	}
	value, found, err := read(ctx)
	if found || err != nil {
		return value, err
	}
	fill := func(ctx context.Context, _ *redlock.Lease) (err error) {
		value, found, err = read(ctx)
		found = found && err == nil
		if found && !mutants.NoSecondRead || err != nil { // another may have loaded it since
			return err
		}
		value, err = load(ctx)
		found = err == nil
		return err
	}
	began := time.Now()
	ran, err := rw.TryDo(ctx, fill)
	if ran || err != nil && !waits(err) {
		return finish(value, found, err)
	}
	left := func() *redlock.RWMutex { // the lock, with what is left of the maximum wait
		wait := inside.MaxWait(rw)
		if wait == 0 {
			return rw
		}
		wait = max(wait-time.Since(began), 1) // 0 would be no maximum
		return client.RWMutex(name, append(slices.Clone(opts), redlock.WithMaxWait(wait))...)
	}
	failed := false
	// Readers get the lock together when the loader gives it back.
	err = left().RDo(ctx, func(ctx context.Context, lease *redlock.Lease) (err error) {
		ran = true
		value, found, err = read(ctx)
		found = found && err == nil
		failed = err != nil && lease.Err() == nil // else that the lease is over may be why
		return err
	})
	if found || failed || !ran {
		return finish(value, found, err)
	}
	err = left().Do(ctx, fill) // the loader has failed
	return finish(value, found, err)
}

// waits says whether a Lock would wait where a TryLock fails with err, at least for its patience.
func waits(err error) bool {
	return errors.Is(err, redlock.ErrRecovering) || errors.Is(err, redlock.ErrUnreachable)
}

// finish drops the error of giving the lock back if the value is there.
func finish[T any](value T, found bool, err error) (T, error) {
	if found {
		return value, nil
	}
	return value, err
}
