// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/lock/holding"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/mutants"
)

// acquired returns what the masters have answered by now for a lease of the call, the masters of [quorum.Call.Definite], and whether
// a master may have the holder in its queue.
func acquired(q *quorum.Call) (a holding.Answers, definite uint64, queued bool) {
	granted, maybe, silent := q.Sets()
	places := q.Places()
	definite = q.Definite()
	a = holding.Answers{Granted: granted, Maybe: maybe | places, Silent: silent}
	if q.Handable(waiting.Liveness) && !mutants.LateHands {
		a.Places = definite &^ granted
	}
	return a, definite, places != 0
}

// lasts returns from when the earliest of the votes of the masters in the set counts, and until
// when a quorum of them does. A vote in a reply counts from start, for full.
func lasts(q *quorum.Call, need int, set uint64, start, full time.Duration) (from, until time.Duration) {
	if set&q.Handed() == 0 {
		return start, start + full
	}
	from = never
	ends := make([]time.Duration, 0, bits.OnesCount64(set))
	for ; set != 0; set &= set - 1 {
		v, ok := q.HandedVote(bits.TrailingZeros64(set))
		if !ok {
			v = quorum.Vote{From: start, Until: start + full}
		}
		from, ends = min(from, v.From), append(ends, v.Until)
	}
	return from, holding.Until(ends, need)
}
