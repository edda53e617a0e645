// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/redlock"
)

// What all clients of one list must agree on, and what each may choose for itself.
func ExampleOption() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := redlock.Open(ctx, []string{"redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"},
		// All alike. The command redlock has flags of these names, and each is said with every call of it.
		redlock.WithNamespace("team-a"),
		redlock.WithMaxTTL(time.Minute),                                         // no lock may have a longer TTL, and a restarted master waits for so long
		redlock.WithDrift(clock.Drift{Factor: 0.01, Constant: time.Second / 4}), // hosts whose clocks are worse than most
		redlock.WithNodeCount(3),                                                // a list with a forgotten master is refused

		// As each likes.
		redlock.WithClientName("billing/pod-7"),
		redlock.WithNodeTimeout(time.Second), // masters in other regions
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

// A lock for a job of minutes: it is renewed for an hour at most, and its caller waits for ten minutes at most.
func ExampleLockOption() {
	_, open := inMemory() // a program calls redlock.Open
	client := open()
	defer client.Close()
	job := client.Mutex("rebuild-index",
		redlock.WithTTL(30*time.Second),        // a process that dies keeps it for no longer
		redlock.WithRenewal(5*time.Second),     // or else a third of the TTL
		redlock.WithMinValidity(2*time.Second), // a lease with less than that left is not worth the start
		redlock.WithMaxHold(time.Hour),         // and is lost then
		redlock.WithMaxWait(10*time.Minute),
	)
	err := job.Do(context.Background(), func(ctx context.Context, lease *redlock.Lease) error {
		fmt.Println("rebuilt under a lease of half a minute:", time.Until(lease.ValidUntil()) > 20*time.Second)
		return ctx.Err()
	})
	fmt.Println(err)

	// Output:
	// rebuilt under a lease of half a minute: true
	// <nil>
}

// A caller that has to be done within the TTL, and would rather lose its lock than have it renewed under work that hangs.
// Others need not queue for it: who asks in the right moment has it.
func ExampleWithoutRenewal() {
	_, open := inMemory() // a program calls redlock.Open
	client := open()
	defer client.Close()
	poll := client.Mutex("poll-mailbox", redlock.WithTTL(3*time.Second), redlock.WithoutRenewal(), redlock.WithoutFairness())
	err := poll.Do(context.Background(), func(ctx context.Context, lease *redlock.Lease) error {
		fmt.Println("it ends before three seconds are over:", time.Until(lease.ValidUntil()) < 3*time.Second)
		return ctx.Err()
	})
	fmt.Println(err)

	// Output:
	// it ends before three seconds are over: true
	// <nil>
}
