// SPDX-License-Identifier: Apache-2.0

package redsync_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redlock-go/redlock/compat/redsync"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/redlock"
)

// A program of redsync, with another client. Only New differs.
func Example() {
	masters := simtest.New(3).Patient() // in memory; a program calls redlock.Open
	ctx := context.Background()
	if err := masters.Init(ctx); err != nil {
		log.Fatal(err)
	}
	client, err := masters.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	rs := redsync.New(client.Client)
	mutex := rs.NewMutex("invoice/4711", redsync.WithExpiry(30*time.Second), redsync.WithTries(3))
	if err := mutex.LockContext(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("locked for more than 20 s:", time.Until(mutex.Until()) > 20*time.Second)

	err = rs.NewMutex("invoice/4711").TryLock()
	var taken *redsync.ErrTaken
	fmt.Println("taken:", errors.As(err, &taken), "and held:", errors.Is(err, redlock.ErrHeld))

	ok, err := mutex.ExtendContext(ctx)
	fmt.Println("extended:", ok, err)
	ok, err = mutex.UnlockContext(ctx)
	fmt.Println("unlocked:", ok, err)
	ok, err = mutex.UnlockContext(ctx)
	fmt.Println("again:", ok, errors.Is(err, redsync.ErrLockAlreadyExpired))

	// Output:
	// locked for more than 20 s: true
	// taken: true and held: true
	// extended: true <nil>
	// unlocked: true <nil>
	// again: false true
}
