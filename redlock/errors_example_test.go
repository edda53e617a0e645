// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// What a program does about an error of any call, in the order in which to ask.
func Example_errors() {
	remedy := func(err error) string {
		var epoch *redlock.EpochError
		switch {
		case err == nil:
			return "none"
		case errors.Is(err, redlock.ErrHeld):
			return "somebody else has it: do without, or wait with Lock"
		case errors.As(err, &epoch):
			return "the masters have another list: start again with it"
		case errors.Is(err, redlock.ErrNeedsInit):
			return "an operator calls redlock init"
		case errors.Is(err, redlock.ErrRecovering):
			return "masters were restarted: later"
		case errors.Is(err, redlock.ErrRefused):
			return "masters answer with errors, which an operator mends"
		case errors.Is(err, redlock.ErrUnreachable):
			return "too few masters answer: later"
		case errors.Is(err, redlock.ErrLost):
			return "the lease is over: give up what was done under it"
		case errors.Is(err, redlock.ErrUnconfirmed):
			return "unlocked; some masters may say so only later"
		case errors.Is(err, redlock.ErrReleased), errors.Is(err, redlock.ErrClosed):
			return "it was unlocked, or the client closed: mend the program's order"
		case errors.Is(err, redlock.ErrNotReentrant), errors.Is(err, redlock.ErrUpgrade):
			return "the caller has the lock already: mend the program, it would wait for itself"
		case errors.Is(err, redlock.ErrConfig):
			return "mend the program"
		}
		return "the caller's context: it gave up"
	}

	masters, open := inMemory()
	client, other := open(), open() // one client for each process
	defer other.Close()
	ctx := context.Background()
	try := func(what string, err error) { fmt.Printf("%s: %s\n", what, remedy(err)) }
	m, rw := client.Mutex("invoice/4711"), client.RWMutex("catalogue")

	lease, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = other.Mutex("invoice/4711").TryLock(ctx)
	try("of another", err)
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err = other.Mutex("invoice/4711").Lock(short)
	try("a short wait", err)
	_, err = m.Lock(lease.Context())
	try("twice", err)
	try("read, then write", rw.RDo(ctx, func(ctx context.Context, _ *redlock.Lease) error {
		return rw.Do(ctx, func(context.Context, *redlock.Lease) error { return nil })
	}))
	try("unlock", lease.Unlock(ctx))
	try("extend after it", lease.Extend(ctx))
	_, err = client.Mutex("").Lock(ctx)
	try("no name", err)
	client.Close()
	_, err = m.Lock(ctx)
	try("after Close", err)
	for _, master := range masters {
		master.Crash()
	}
	_, err = other.Mutex("invoice/4711").TryLock(ctx)
	try("an outage", err)

	// Output:
	// of another: somebody else has it: do without, or wait with Lock
	// a short wait: the caller's context: it gave up
	// twice: the caller has the lock already: mend the program, it would wait for itself
	// read, then write: the caller has the lock already: mend the program, it would wait for itself
	// unlock: none
	// extend after it: it was unlocked, or the client closed: mend the program's order
	// no name: mend the program
	// after Close: it was unlocked, or the client closed: mend the program's order
	// an outage: too few masters answer: later
}
