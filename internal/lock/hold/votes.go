// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"math/bits"

	"github.com/redlock-go/redlock/internal/lock/grant"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
)

// votes are the votes of one hold, guarded by the hold's mutex. The acquire goes on beside it: masters that have not answered when a
// quorum has are counted as their answers come.
type votes struct {
	grant    grant.Grant  // read it after count only
	acquire  *quorum.Call // until every master's answer was counted
	answered uint64       // the masters that gave the vote or a place, and said so
	toppedUp uint64       // the masters on which the vote was put back
	queued   bool         // a master may have the holder in the lock's queue
	placedAs []string     // of each place, the [protocol.Node.VotingState] with which the master gave it; nil: there was none
}

// count counts what the masters have answered to the acquire by now, and returns the masters that have not answered. Call it before the
// grant is read or told of a later answer: see [grant.Grant.CountAcquire].
func (v *votes) count() (silent uint64) {
	if v.acquire == nil {
		return 0
	}
	answers, definite, queued := acquired(v.acquire)
	v.queued = v.queued || queued
	if fresh := answers.Places &^ v.answered; fresh != 0 {
		v.placedAs = v.acquire.PlacedAs(v.placedAs, fresh)
	}
	v.answered |= definite
	before := v.grant.Votes()
	v.grant.CountAcquire(answers)
	for set := v.acquire.Handed() & v.grant.Votes() &^ before; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		vote, _ := v.acquire.HandedVote(i)
		v.grant.Handed(i, vote.Until)
	}
	if answers.Silent == 0 {
		v.dropAcquire()
	}
	return answers.Silent
}

// replaced says whether master i gave the hold's place with other data than it has.
func (v *votes) replaced(i int, n protocol.Node) bool {
	return v.placedAs != nil && v.placedAs[i] != n.VotingState()
}

// dropAcquire ends the use of the acquire's call.
func (v *votes) dropAcquire() {
	if v.acquire != nil {
		v.acquire.Done()
		v.acquire = nil
	}
}

// acquired returns what the masters have answered by now for a hold of the call, the masters of [quorum.Call.Definite], and whether
// a master may have the holder in its queue.
func acquired(q *quorum.Call) (a grant.Answers, definite uint64, queued bool) {
	granted, maybe, silent := q.Sets()
	places := q.Places()
	definite = q.Definite()
	a = grant.Answers{Granted: granted, Maybe: maybe | places, Silent: silent}
	if q.Handable(protocol.Liveness) && !mutants.LateHands {
		a.Places = definite &^ granted
	}
	return a, definite, places != 0
}
