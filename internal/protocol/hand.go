// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"strconv"
	"strings"
	"time"
)

// Hand is the message by which a master tells a client that it has given its vote to a place of
// the client's, because another holder released the lock. It comes on the client's channel
// [Wake], as the wakes do.
//
// Invariant: the vote was written after Stamp, and ends no sooner than TTL after it. A client
// counts it from Stamp, and never from the arrival of the message (H1 in docs/internals/handoff.md).
type Hand struct {
	Key   string        // of the lock
	Field string        // the holder's field in the lock's hash
	Vote  int64         // the token
	Stamp time.Duration // of the sign of life that the master read when it gave the vote, on the client's clock
	TTL   time.Duration // of the vote
	State string        // the record state in which the master voted: see Node.VotingState
}

// Liveness is how long a client's places stay in the masters' queues without a sign of life. A vote that a release hands to a place
// lasts as long.
const Liveness = 3 * time.Second

// Deaf is what a client appends to its stamp while no message of the master reaches it. The master
// then waits for the client all the same, which else it would pass over (H19 in docs/internals/handoff.md).
const Deaf = "w"

// ParseWake reads a wake: the key of a lock that may be free now, and the place whose turn it is. The
// place is empty if an earlier build took it.
func ParseWake(payload string) (key, place string) {
	key, place, _ = strings.Cut(payload, "\x00")
	return key, place
}

// ParsePlace reads a place: the holder's field in the lock's hash, and the mode.
func ParsePlace(place string) (field string, mode Mode) {
	field, rest, _ := strings.Cut(place, "/")
	if rest == "" {
		return field, Plain
	}
	return field, Mode(rest[0])
}

// ParseHand reads a message. ok is false if it is none of a Hand: a wake has fewer words.
func ParseHand(payload string) (h Hand, ok bool) {
	words := strings.Split(payload, "\x00")
	if len(words) != 6 {
		return Hand{}, false
	}
	vote, err1 := strconv.ParseInt(words[2], 10, 64)
	stamp, err2 := strconv.ParseInt(strings.TrimSuffix(words[3], Deaf), 10, 64)
	ttl, err3 := strconv.ParseInt(words[4], 10, 32)
	if err1 != nil || err2 != nil || err3 != nil || vote <= 0 || ttl <= 0 {
		return Hand{}, false
	}
	return Hand{Key: words[0], Field: words[1], Vote: vote, Stamp: time.Duration(stamp), TTL: time.Duration(ttl) * time.Millisecond, State: words[5]}, true
}
