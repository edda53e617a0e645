// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"

	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
	"github.com/redlock-go/redlock/semaphore"
)

// exampleT is the t of an example, which has none. A test passes its own.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func (t *exampleT) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

// At most two programs at a time make a report. The third waits until one of them is done.
func Example() {
	t := new(exampleT)
	defer t.end()
	client, masters := redlocktest.New(t) // a program calls redlock.Open
	ctx := context.Background()

	reports := semaphore.New(client, "reports", 2)
	first, err := reports.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := reports.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("two slots:", first.Slot()+second.Slot() == 1+2)

	_, err = reports.TryAcquire(ctx)
	fmt.Println("no third:", errors.Is(err, redlock.ErrHeld))

	done := make(chan error)
	var token int64
	go func() {
		done <- reports.Do(ctx, func(ctx context.Context, permit *semaphore.Permit) error {
			token = permit.Token()
			return ctx.Err() // ctx ends, with a cause, before the permit does
		})
	}()
	masters.AwaitWaiter(first.Name())
	fmt.Println("the third waits")
	fmt.Println("released:", first.Release(ctx))
	fmt.Println("done:", <-done)
	fmt.Println("its token is above the last one of the slot:", token > first.Token())
	fmt.Println("released:", second.Release(ctx))

	// Output:
	// two slots: true
	// no third: true
	// the third waits
	// released: <nil>
	// done: <nil>
	// its token is above the last one of the slot: true
	// released: <nil>
}
