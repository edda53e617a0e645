// SPDX-License-Identifier: Apache-2.0

package flight_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/redlocktest"
)

// exampleT is the t of an example, which has none.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Each process wants the price list. The first one loads it.
func ExampleDo() {
	t := new(exampleT)
	client, _ := redlocktest.New(t) // a program calls redlock.Open
	cache := map[string]string{}    // a program has a cache that all processes share
	for range 2 {
		list, err := flight.Do(context.Background(), client, "prices",
			func(context.Context) (string, bool, error) {
				list, found := cache["prices"]
				return list, found, nil
			},
			func(context.Context) (string, error) {
				fmt.Println("loading")
				cache["prices"] = "bread 3.20"
				return cache["prices"], nil
			})
		fmt.Println(list, err)
	}
	for _, end := range t.cleanups {
		end()
	}

	// Output:
	// loading
	// bread 3.20 <nil>
	// bread 3.20 <nil>
}
