// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/multilock"
)

// A transfer holds the locks of both accounts. Another transfer may name the same accounts in the
// opposite order: the two never deadlock.
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

	both := multilock.New(client.Mutex("account/ann"), client.Mutex("account/bob"))
	err = both.Do(ctx, func(ctx context.Context, both *multilock.Lease) error {
		for _, lease := range both.Members() {
			fmt.Println(lease.Name(), "has a fencing token:", lease.Token() > 0)
		}
		return ctx.Err() // ends when any of the leases ends
	})
	if err != nil {
		log.Fatal(err)
	}

	// Output:
	// account/ann has a fencing token: true
	// account/bob has a fencing token: true
}
