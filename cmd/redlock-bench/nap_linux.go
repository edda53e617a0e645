// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap is time.Sleep by the kernel's timer. The runtime's end half a millisecond late, as good as half a hold.
func nap(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for unix.Nanosleep(&left, &left) == unix.EINTR {
	}
}
