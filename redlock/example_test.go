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

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := redlock.Open(ctx, []string{
		"redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Mutex("invoice/4711").Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("nobody else settles invoice 4711 now")
		return ctx.Err() // ends, with a cause, before the lease does
	})
	if err != nil {
		log.Fatal(err)
	}
}

// What a program does about each outcome.
func ExampleMutex_TryLock() {
	var client *redlock.Client // from redlock.Open
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	lease, err := client.Mutex("nightly-report").TryLock(ctx)
	switch {
	case errors.Is(err, redlock.ErrHeld):
		return // somebody else does it
	case errors.Is(err, redlock.ErrUnreachable), errors.Is(err, redlock.ErrRecovering):
		log.Printf("not now: %v", err) // says which master, and how long
		return
	case err != nil:
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
	fmt.Println("fencing token", lease.Token())
}
