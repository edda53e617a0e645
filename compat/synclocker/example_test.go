// SPDX-License-Identifier: Apache-2.0

package synclocker_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/redlock-go/redlock/compat/synclocker"
	"github.com/redlock-go/redlock/internal/simtest"
)

// A library asks for a sync.Locker.
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

	library := func(l sync.Locker) {
		l.Lock()
		defer l.Unlock()
		fmt.Println("only one program is here")
	}
	library(synclocker.New(client.Mutex("invoice/4711"), func(err error) { log.Fatal(err) }))

	// Output:
	// only one program is here
}
