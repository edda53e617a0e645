// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/redlock-go/redlock/redlock"
)

// A web server takes the lock of an account, answers, and leaves the rest of the work to a worker.
func ExampleLease_Transfer() {
	_, open := inMemory() // a program calls redlock.Open
	server, worker := open(), open()
	defer server.Close()
	defer worker.Close()
	ctx := context.Background()

	lease, err := server.Mutex("account/17").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	voucher, err := lease.Transfer(ctx) // stop what works under lease.Context() before the voucher is sent
	if err != nil {
		log.Fatal(err)
	}

	adopted, err := worker.Adopt(ctx, voucher) // the voucher came with the job
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("larger token:", adopted.Token() > lease.Token())
	_, err = worker.Adopt(ctx, voucher)
	fmt.Println("once only:", errors.Is(err, redlock.ErrLost))
	fmt.Println(adopted.Unlock(ctx))

	// Output:
	// larger token: true
	// once only: true
	// <nil>
}
