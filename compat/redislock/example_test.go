// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redlock-go/redlock/compat/redislock"
	"github.com/redlock-go/redlock/internal/simtest"
)

// A program of bsm/redislock, on a quorum of masters. Only the client differs.
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

	locker := redislock.New(client.Client)
	lock, err := locker.Obtain(ctx, "invoice/4711", 30*time.Second, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = locker.Obtain(ctx, "invoice/4711", 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LimitRetry(redislock.LinearBackoff(10*time.Millisecond), 3),
	})
	fmt.Println("not obtained:", errors.Is(err, redislock.ErrNotObtained))

	if err := lock.Refresh(ctx, 30*time.Second, nil); err != nil {
		log.Fatal(err)
	}
	ttl, err := lock.TTL(ctx)
	fmt.Println("more than 20 s left:", ttl > 20*time.Second, err)
	fmt.Println("has a fencing token:", lock.Lease().Token() > 0)
	fmt.Println("released:", lock.Release(ctx))
	fmt.Println("again:", errors.Is(lock.Release(ctx), redislock.ErrLockNotHeld))

	// Output:
	// not obtained: true
	// more than 20 s left: true <nil>
	// has a fencing token: true
	// released: <nil>
	// again: true
}
