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
		fmt.Println("nobody else settles invoice 4711 now; token", redlock.LeaseFrom(ctx).Token())
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

// A job that only one of many processes runs.
func ExampleMutex_TryDo() {
	var client *redlock.Client // from redlock.Open
	err := client.Mutex("nightly-report").TryDo(context.Background(), func(ctx context.Context) error {
		return ctx.Err() // the report
	})
	if errors.Is(err, redlock.ErrHeld) {
		return // another process runs it
	}
	if err != nil {
		log.Print(err)
	}
}

// Readers share, a writer excludes everybody.
func ExampleRWMutex() {
	var client *redlock.Client // from redlock.Open
	rw := client.RWMutex("catalogue")
	ctx := context.Background()
	err := rw.RDo(ctx, func(ctx context.Context) error { return nil }) // read
	if err == nil {
		err = rw.Do(ctx, func(ctx context.Context) error { return nil }) // write
	}
	if err != nil {
		log.Print(err)
	}
}

// A function that is called with the lock or without it.
func ExampleReentrant() {
	var client *redlock.Client // from redlock.Open
	m := client.Mutex("ledger", redlock.Reentrant())
	post := func(ctx context.Context) error {
		return m.Do(ctx, func(ctx context.Context) error { return nil })
	}
	err := m.Do(context.Background(), func(ctx context.Context) error {
		return post(ctx) // the same hold, the same token
	})
	if err != nil {
		log.Print(err)
	}
}

// Work that ends with the lease and with the request.
func ExampleLease_Bind() {
	var lease *redlock.Lease // from Mutex.Lock
	request, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ctx, stop := lease.Bind(request)
	defer stop()
	<-ctx.Done()
	log.Print(context.Cause(ctx)) // which of the two it was
}
