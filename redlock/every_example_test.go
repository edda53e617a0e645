// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// Each host calls Do when its timer fires. One of them does the work.
func ExampleClient_Every() {
	_, open := inMemory() // a program calls redlock.Open
	for _, host := range []string{"host 1", "host 2"} {
		client := open()
		defer client.Close()
		report := client.Every("nightly-report", 12*time.Hour)
		ran, err := report.Do(context.Background(), func(ctx context.Context, _ *redlock.Lease) error {
			fmt.Println(host, "writes the report")
			return nil
		})
		if err == nil && !ran {
			fmt.Println(host, "has nothing to do")
		}
	}

	// Output:
	// host 1 writes the report
	// host 2 has nothing to do
}

// The work takes a moment, and the timers of the hosts fire within some seconds of each other.
func ExampleWithMinHold() {
	_, open := inMemory()
	client, other := open(), open()
	defer client.Close()
	defer other.Close()
	ctx := context.Background()
	lease, err := client.Mutex("sweep", redlock.WithMinHold(time.Minute)).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("unlocked:", lease.Unlock(ctx))
	_, err = other.Mutex("sweep").TryLock(ctx)
	fmt.Println("held:", errors.Is(err, redlock.ErrHeld))

	// Output:
	// unlocked: <nil>
	// held: true
}
