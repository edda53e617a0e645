// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"math/bits"
	"time"
)

// AnnounceLate announces for a lease that is over.
func AnnounceLate(ctx context.Context, l *Lease, since time.Time, value string) {
	l.announce(ctx, since, value, time.Minute)
}

// CountedVotes is how many votes the client knows l to have. A vote may be on a
// master before its answer has come in, and only what has come in is counted.
func CountedVotes(l *Lease) int {
	votes, _, _ := l.hold().Voters()
	return bits.OnesCount64(votes)
}
