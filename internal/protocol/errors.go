// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlock-go/redlock/internal/membership"
)

// These are the errors of a node. Package node exports them to users and documents them
// there.
var (
	ErrClosed     = errors.New("node: closed")
	ErrBound      = errors.New("node: it has a client or an operation already, or had one, or was asked before it had one")
	ErrDown       = errors.New("node: master unreachable")
	ErrStalled    = errors.New("node: master does not answer")
	ErrBusy       = errors.New("node: queue is full")
	ErrClock      = errors.New("node: the master's clock jumped")
	ErrNotEntered = errors.New("node: the master's record and clock were not looked at yet")
	ErrLate       = errors.New("node: too late to send")
	ErrReplica    = errors.New("node: not a master")
	ErrDenied     = errors.New("node: access denied")
	// ErrTurnedAway: the server wants no client now. It has too many, or is in protected mode.
	ErrTurnedAway = errors.New("node: the master turns clients away")
	// ErrSame: two names of a list lead to one server. It is a mistake in the list when a client is opened. Later it is an outage of one master:
	// while a cluster moves slots two names may lead to one server for a moment.
	ErrSame      = errors.New("are the same master")
	ErrEviction  = errors.New("node: maxmemory-policy evicts keys")
	ErrHidden    = errors.New("node: INFO lacks a field that the lock needs")
	ErrNoWrites  = errors.New("node: the master refuses writes")
	ErrTLS       = errors.New("node: the TLS handshake failed")
	ErrSpeaksTLS = errors.New("node: the server speaks TLS, and the URL says redis:// and not rediss://")
	ErrRecord    = membership.ErrRecord
	ErrProtocol  = membership.ErrProtocol
)

// RecordError is ErrRecord with both lists.
type RecordError = membership.RecordError

// Error is an error of one master, with the master's name. What it wraps is no context's: see
// NotOfContext.
type Error struct {
	Node string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Node, e.Err) }
func (e *Error) Unwrap() error { return NotOfContext(e.Err) }

// NotOfContext returns err, which a master caused, as an error that is no context's: package net
// says of a dial that took too long that it is context.DeadlineExceeded, and a caller would take it
// for the end of its own context. The text and everything else in err stay.
func NotOfContext(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return notOfContext{err}
	}
	return err
}

// notOfContext has no Unwrap, so errors.Is and errors.As ask its methods.
type notOfContext struct{ error }

func (e notOfContext) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.error, target)
}

func (e notOfContext) As(target any) bool { return errors.As(e.error, target) }

// RecordStateError is a master's refusal: the state in its node record is not the state
// that the script expected. Got is the state in the record, as text.
type RecordStateError struct{ Got string }

func (e *RecordStateError) Error() string {
	rs, err := membership.ParseRecordState(e.Got)
	if err != nil {
		return err.Error()
	}
	switch rs.Phase {
	case membership.None:
		return "has no record: it is new, or was flushed"
	case membership.Quarantined:
		return fmt.Sprintf("is quarantined in epoch %v", rs.Epoch)
	case membership.Retired:
		return fmt.Sprintf("was retired from epoch %v: the masters are being changed", rs.Epoch)
	}
	return fmt.Sprintf("votes in epoch %v as incarnation %s", rs.Epoch, rs.Incarnation)
}
