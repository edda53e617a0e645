// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/clock"
)

// A TTL of 10 s that was asked for 40 ms ago.
func ExampleDrift() {
	drift := clock.DefaultDrift()
	fmt.Println("clocks may run apart by", drift.Of(10*time.Second))
	fmt.Println("so the lease is good for", drift.Validity(10*time.Second, 40*time.Millisecond))

	// Output:
	// clocks may run apart by 102ms
	// so the lease is good for 9.858s
}

// A master's clock is stepped by a minute.
func ExampleWatch() {
	drift := clock.DefaultDrift()
	var watch clock.Watch
	at := 1_800_000_000 * time.Second // of the master's TIME; the client's Clock begins at 0
	fmt.Println(watch.Observe(0, time.Millisecond, at, drift))
	fmt.Println(watch.Observe(time.Second, time.Second+time.Millisecond, at+time.Second, drift))
	off := watch.Observe(2*time.Second, 2*time.Second+time.Millisecond, at+62*time.Second, drift)
	fmt.Println("stepped:", off > 59*time.Second)

	// Output:
	// 0s
	// 0s
	// stepped: true
}
