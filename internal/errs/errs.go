// SPDX-License-Identifier: Apache-2.0

// Package errs has the errors of package redlock that packages below it return too. Package redlock gives each of them its public name,
// as the same value, so that errors.Is finds it whoever returned it. What each one means is said there.
package errs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/go-multierror"
)

//lint:file-ignore ST1012 the package's name says that they are errors

var (
	Held               = errors.New("redlock: held by another")
	Unavailable        = errors.New("redlock: unavailable")
	Unreachable  error = &unavailable{"redlock: no quorum of masters answered"}
	Refused      error = &unavailable{"redlock: masters refuse to vote"}
	Recovering   error = &unavailable{"redlock: masters are recovering"}
	NeedsInit          = fmt.Errorf("%w: the masters need an operator's word", Refused)
	Unfinished         = errors.New("redlock: a change of masters is unfinished")
	NotReentrant       = errors.New("redlock: the caller holds the lock already")
	Lost               = errors.New("redlock: lease lost")
	Released           = errors.New("redlock: lease released")
	Unconfirmed        = errors.New("redlock: release not confirmed")
	NotHolder          = errors.New("redlock: not the holder")
	Closed             = errors.New("redlock: client closed")
	Config             = errors.New("redlock: bad configuration")
)

// NoAnswer is the error of a master that was asked and has not answered in time. It has no public name.
var NoAnswer = errors.New("no answer in time")

// unavailable is an error that is Unavailable.
type unavailable struct{ text string }

func (e *unavailable) Error() string        { return e.text }
func (e *unavailable) Is(target error) bool { return target == Unavailable }

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
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
