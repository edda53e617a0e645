// SPDX-License-Identifier: Apache-2.0

// Package fence is the resource's half of a fencing token: it refuses the holder of a lock whose time is over.
//
// A holder may be paused past the end of its lease (docs/safety.md A1), and its write may be delayed on the network (A22). No lock
// service can stop such a write; only the resource can, by remembering the largest token it was shown:
//
//	present: seen = max(seen, token), then check
//	check:   go on only if token == seen
//
// Guarantee: a holder that presents its token BEFORE ITS FIRST READ and checks it together with each write loses no update, its own or
// another's: once a larger token was presented, nothing is written under a smaller one. Conditions:
//
//   - Everyone who writes does so, with tokens of the one lock that guards the resource. Tokens of two locks may be equal and must not meet.
//   - check and write are one atomic step of the resource, and reads see what that resource holds now: no replica, no cache.
//   - The resource keeps seen as safely as its data. One that may forget it accepts an old token again.
//
// A token shown only with the write is not enough (docs/safety.md 3.6): A(5) reads and pauses, B(6) reads, A writes (5 is the
// largest so far), B writes: A's update is lost though every write passed.
//
// Equal tokens are one holder, since tokens are unique: a re-entrant lock and an extension keep the token, a new lease has a new one. A read
// lease that is taken within a write lease is a new one: after its token was presented, the write lease's is stale.
//
// Packages fencesql and fenceredis do this for database/sql and for Redis. They are packages of their own because a resource need not
// use the lock's client: a database service takes on no Redis client, and this package imports neither. Check serves other resources.
package fence

import (
	"errors"
	"fmt"
)

// MaxToken is the largest valid token. Up to here a token is exact as a Lua number and as a JSON number (docs/safety.md A30).
const MaxToken int64 = 1<<53 - 1

// ErrStale says that the resource has seen a larger token: another holder has taken over. It comes as a *StaleError. The holder must
// give up its work; what it read is out of date.
var ErrStale = errors.New("fence: stale token")

// ErrNotPresented says that a token was checked that the resource has not seen: either it was not presented before the first
// read, or the resource lost what it knew.
var ErrNotPresented = errors.New("fence: token was not presented")

// StaleError is the refusal of a token. errors.Is(err, ErrStale) holds for it.
type StaleError struct {
	Resource string
	Token    int64 // the token refused
	Seen     int64 // the largest token the resource has seen; greater than Token
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %q has seen token %d, refuses %d: take the lock again and start over from the read", ErrStale, e.Resource, e.Seen, e.Token)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// Check decides a token against the largest one the resource has seen, 0 for none: nil if they are equal, a *StaleError if a larger one
// was seen, an error that is ErrNotPresented if only smaller ones were. To present a token, check it against max(seen, token) and store that.
// Check has no state and may be called from any goroutine.
func Check(resource string, token, seen int64) error {
	if err := Validate(resource, token); err != nil {
		return err
	}
	switch {
	case token < seen:
		return &StaleError{Resource: resource, Token: token, Seen: seen}
	case token > seen:
		return fmt.Errorf("%w: %q has seen %d, not %d: present the token before the first read", ErrNotPresented, resource, seen, token)
	}
	return nil
}

// Validate refuses an empty resource name and a token outside 1..MaxToken. 0 is no token: it is what a lease without one would show.
func Validate(resource string, token int64) error {
	if resource == "" {
		return errors.New("fence: empty resource name: name what the lock guards")
	}
	if token <= 0 || token > MaxToken {
		return fmt.Errorf("fence: token %d for %q is not in 1..%d: pass the token of the lease that is held now", token, resource, MaxToken)
	}
	return nil
}
