// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package testbed

import "time"

// Nap is time.Sleep.
func Nap(d time.Duration) { time.Sleep(d) }
