// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// boottime returns CLOCK_MONOTONIC, or 0 if it cannot be read. On macOS that clock counts sleep
// (man clock_gettime), and Go's own monotonic clock does not.
func boottime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
