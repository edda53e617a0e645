// SPDX-License-Identifier: Apache-2.0

// Package lockerr has the errors that the rooms of the lock return and package redlock gives to users. Package redlock has the same values under
// its own names, and says there what each of them means.
package lockerr

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/go-multierror"
)

// The errors of package redlock that the rooms below it return. Each is redlock's of the same name with Err before it.
var (
	Held              = errors.New("redlock: held by another")
	Unavailable       = errors.New("redlock: unavailable")
	Unreachable error = &unavailable{"redlock: no quorum of masters answered"}
	Refused     error = &unavailable{"redlock: masters refuse to vote"}
	Recovering  error = &unavailable{"redlock: masters are recovering"}
	NeedsInit         = fmt.Errorf("%w: the masters need an operator's word", Refused)
	Lost              = errors.New("redlock: lease lost")
	Released          = errors.New("redlock: lease released")
	Unconfirmed       = errors.New("redlock: release not confirmed")
	NotHolder         = errors.New("redlock: not the holder")
	Closed            = errors.New("redlock: client closed")
	Config            = errors.New("redlock: bad configuration")
)

// unavailable is an error that is Unavailable.
type unavailable struct{ text string }

func (e *unavailable) Error() string        { return e.text }
func (e *unavailable) Is(target error) bool { return target == Unavailable }

// NoAnswer is the error of a master that was asked and has not answered in time.
var NoAnswer = errors.New("no answer in time")

// Of returns the error of ctx, which has ended, and its cause if that is another error.
func Of(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

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
