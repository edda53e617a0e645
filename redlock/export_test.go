// SPDX-License-Identifier: Apache-2.0

package redlock

import "math/bits"

// CountedVotes is how many votes the client knows l to have. A vote may be on a
// master before its answer has come in, and only what has come in is counted.
func CountedVotes(l *Lease) int {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	votes := l.h.votes
	if l.h.ballot != nil {
		votes, _ = l.h.ballot.votes()
	}
	return bits.OnesCount64(votes)
}
