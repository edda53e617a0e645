// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package clock

import "time"

// boottime is 0: no clock that counts suspend is known here.
func boottime() time.Duration { return 0 }
