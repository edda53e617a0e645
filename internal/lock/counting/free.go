// SPDX-License-Identifier: Apache-2.0

package counting

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// FreeAfter is the shortest time after which need masters may grant. It is the need-th
// smallest of the times that the masters have left:
//
//   - a master that granted is free at once;
//   - a master that holds the lock for another is free when that vote's TTL is over;
//   - a master that recovers is free after its wait, which waits has;
//   - a master that did not answer, or that holds a key without TTL, is never free.
//
// FreeAfter is 0 when fewer than need masters will be free.
func FreeAfter(replies []protocol.Reply, waits []time.Duration, need int) time.Duration {
	left := slices.Clone(waits)
	for _, r := range replies {
		switch {
		case r.Outcome == protocol.Granted:
			left = append(left, 0)
		case r.Outcome == protocol.Held && r.Remaining >= 0:
			left = append(left, r.Remaining)
		}
	}
	if len(left) < need {
		return 0
	}
	slices.Sort(left)
	return left[need-1]
}

// Until is how long a quorum of votes lasts that end at ends: the need-th latest of them. It is 0
// if there are fewer. Votes end at different times when a master handed some of them.
func Until(ends []time.Duration, need int) time.Duration {
	if len(ends) < need {
		return 0
	}
	slices.Sort(ends)
	return ends[len(ends)-need]
}
