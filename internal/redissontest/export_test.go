// SPDX-License-Identifier: Apache-2.0

package redissontest

// What the tests that use this package from outside share with those inside.
var (
	Masters      = masters
	Client       = client
	Eventually   = eventually
	Overlaps     = overlaps
	LockLater    = lockLater
	RefusedTwice = refusedTwice
	Receive      = receive
)
