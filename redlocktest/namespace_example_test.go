// SPDX-License-Identifier: Apache-2.0

package redlocktest_test

import (
	"context"
	"fmt"

	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// The clients of one namespace have their locks to themselves.
func ExampleNew_namespace() {
	t := new(exampleT) // a test has its own
	defer t.end()
	ctx := context.Background()
	client, masters := redlocktest.New(t, redlock.WithNamespace("team-a"))
	lease, err := client.Mutex("nightly-report").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lease.Name())
	_, err = masters.Client().Mutex("nightly-report").TryLock(ctx) // another process of team-a
	fmt.Println(err != nil)
	fmt.Println(lease.Unlock(ctx))

	// Output:
	// nightly-report
	// true
	// <nil>
}
