// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"time"

	"golang.org/x/sys/unix"
)

// Nap is time.Sleep by the kernel's timer. The runtime's ends up to half a millisecond late, the more so the more its program does meanwhile: a
// hold of 1 ms would be another one for each library that is measured.
func Nap(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for unix.Nanosleep(&left, &left) == unix.EINTR {
	}
}
