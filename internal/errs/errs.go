// SPDX-License-Identifier: Apache-2.0

// Package errs has the errors that package redlock gives its users, for the rooms below it. What each of them means stands there, in
// redlock/errors.go: redlock.ErrLost is errs.ErrLost, and so on.
package errs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
)

var (
	ErrHeld               = errors.New("redlock: held by another")
	ErrUnavailable        = errors.New("redlock: unavailable")
	ErrUnreachable  error = &unavailable{"redlock: no quorum of masters answered"}
	ErrRefused      error = &unavailable{"redlock: masters refuse to vote"}
	ErrRecovering   error = &unavailable{"redlock: masters are recovering"}
	ErrNeedsInit          = fmt.Errorf("%w: the masters need an operator's word", ErrRefused)
	ErrNotReentrant       = errors.New("redlock: the caller holds the lock already")
	ErrLost               = errors.New("redlock: lease lost")
	ErrReleased           = errors.New("redlock: lease released")
	ErrUnconfirmed        = errors.New("redlock: release not confirmed")
	ErrNotHolder          = errors.New("redlock: not the holder")
	ErrClosed             = errors.New("redlock: client closed")
	ErrConfig             = errors.New("redlock: bad configuration")
	ErrUpgrade            = errors.New("redlock: a read lease cannot be upgraded to a write lease")
	ErrUnfinished         = errors.New("redlock: a change of masters is unfinished")
)

// outcomes are the errors above: a call says by them what became of it.
var outcomes = []error{
	ErrHeld, ErrUnavailable, ErrUnreachable, ErrRefused, ErrRecovering, ErrNeedsInit, ErrNotReentrant, ErrLost, ErrReleased,
	ErrUnconfirmed, ErrNotHolder, ErrClosed, ErrConfig, ErrUpgrade, ErrUnfinished,
}

// unavailable is an error that is ErrUnavailable.
type unavailable struct{ text string }

func (e *unavailable) Error() string        { return e.text }
func (e *unavailable) Is(target error) bool { return target == ErrUnavailable }

// ErrNoAnswer is the error of a master that was asked and has not answered in time. It has no public name.
var ErrNoAnswer = errors.New("no answer in time")

// IsUntold says whether gone, the error of an Unlock at the end of a Do, is a loss that the caller is to be told of: of an Unlock's errors a Do
// returns no other, and its function may have returned the loss already, as the cause of its context.
func IsUntold(gone, told error) bool { return errors.Is(gone, ErrLost) && !errors.Is(told, gone) }

// Collect returns an empty list of errors whose text is one line. The text of multierror has line
// breaks and tabs, which do not fit into a log line.
func Collect() *multierror.Error {
	return &multierror.Error{ErrorFormat: func(errs []error) string {
		texts := make([]string, len(errs))
		for i, err := range errs {
			texts[i] = err.Error()
		}
		return strings.Join(texts, "; ")
	}}
}

// OfContext returns the error of ctx, which has ended, and its cause if that is another error.
func OfContext(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		err = fmt.Errorf("%w: %w", err, ofAnother{cause})
	}
	return err
}

// ofAnother is the cause of a context. With an errgroup it may be what another call of this library returned. It is no outcome of the
// call that returns it: a TryDo would take the ErrHeld of another lock for its own. The text and everything else in it stay.
//
// It has no Unwrap, so errors.Is and errors.As ask its methods.
type ofAnother struct{ error }

func (e ofAnother) Is(target error) bool {
	return !slices.Contains(outcomes, target) && errors.Is(e.error, target)
}

func (e ofAnother) As(target any) bool { return errors.As(e.error, target) }
