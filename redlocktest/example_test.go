// SPDX-License-Identifier: Apache-2.0

package redlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// exampleT is the t of an example, which has none. A test passes its own.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *exampleT) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

// Another process has the lock. The code under test waits until that process gives it back.
func Example() {
	t := new(exampleT) // a test has its own
	defer t.end()
	client, masters := redlocktest.New(t)
	held := masters.Hold("invoice/4711")
	settled := make(chan error)
	go func() {
		settled <- client.Mutex("invoice/4711").Do(context.Background(), func(context.Context, *redlock.Lease) error { return nil })
	}()

	masters.AwaitWaiter("invoice/4711")
	fmt.Println("it waits")
	fmt.Println("given back:", held.Unlock(context.Background()))
	fmt.Println("settled:", <-settled)

	// Output:
	// it waits
	// given back: <nil>
	// settled: <nil>
}

// A lease is lost while the code under test works.
func ExampleMasters_Lose() {
	t := new(exampleT)
	defer t.end()
	client, masters := redlocktest.New(t, redlock.WithTTL(3*time.Second)) // renewed each second
	settled := make(chan error)
	go func() {
		settled <- client.Mutex("invoice/4711").Do(context.Background(), func(ctx context.Context, _ *redlock.Lease) error {
			<-ctx.Done() // the work must end now
			return nil
		})
	}()

	masters.Lose("invoice/4711")
	fmt.Println("lost:", errors.Is(<-settled, redlock.ErrLost))

	// Output:
	// lost: true
}

// All masters are out of reach, and then back.
func ExampleMasters_Outage() {
	t := new(exampleT)
	defer t.end()
	client, masters := redlocktest.New(t)
	ctx := context.Background()

	masters.Outage(redlocktest.All)
	_, err := client.Mutex("invoice/4711").TryLock(ctx)
	fmt.Println("unreachable:", errors.Is(err, redlock.ErrUnreachable))
	masters.Heal()
	_, err = client.Mutex("invoice/4711").TryLock(ctx)
	fmt.Println("healed:", err)

	// Output:
	// unreachable: true
	// healed: <nil>
}

// The masters restarted, and do not vote yet.
func ExampleMasters_Restart() {
	t := new(exampleT)
	defer t.end()
	client, masters := redlocktest.New(t, redlock.WithMaxTTL(time.Second))
	ctx := context.Background()

	masters.Restart(redlocktest.All)
	_, err := client.Mutex("invoice/4711").TryLock(ctx)
	var round *redlock.RoundError
	fmt.Println("recovering:", errors.Is(err, redlock.ErrRecovering))
	fmt.Println("says for how long:", errors.As(err, &round) && round.RetryAfter > 0)
	_, err = client.Mutex("invoice/4711").Lock(ctx) // waits
	fmt.Println("recovered:", err)

	// Output:
	// recovering: true
	// says for how long: true
	// recovered: <nil>
}
