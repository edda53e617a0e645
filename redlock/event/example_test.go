// SPDX-License-Identifier: Apache-2.0

package event_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// What one client tells of a lock that it had to wait for.
func Example() {
	ctx := context.Background()
	masters := simtest.New(3).Patient() // in memory; a program calls redlock.Open
	if err := masters.Init(ctx); err != nil {
		log.Fatal(err)
	}
	other, err := masters.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	lease, err := other.Mutex("invoice/4711").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	waits := make(chan string, 1)
	client, err := masters.Open(ctx, nil, redlock.WithObserver(&event.Observer{
		Waits: func(_ context.Context, e event.Wait) {
			if e.First { // an Observer must not block, and this channel has room for one
				waits <- e.Lock
			}
		},
		Acquired: func(_ context.Context, e event.Acquire) {
			fmt.Println(e.Lock, "is had after a wait:", e.Waited, "with a larger token:", e.Token > lease.Token())
		},
		Ended: func(e event.End) {
			fmt.Println(e.Lock, e.Ending, "and lost:", e.Ending.Lost())
		},
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	go func() {
		fmt.Println(<-waits, "is waited for")
		if err := lease.Unlock(ctx); err != nil {
			log.Print(err)
		}
	}()
	mine, err := client.Mutex("invoice/4711", redlock.WithMaxWait(time.Minute)).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := mine.Unlock(ctx); err != nil {
		log.Fatal(err)
	}

	// Output:
	// invoice/4711 is waited for
	// invoice/4711 is had after a wait: true with a larger token: true
	// invoice/4711 released and lost: false
}
