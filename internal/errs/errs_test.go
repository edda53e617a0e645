// SPDX-License-Identifier: Apache-2.0

package errs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
)

// stepError is an error of a program.
type stepError struct{ cause error }

func (e *stepError) Error() string { return "the first step: " + e.cause.Error() }
func (e *stepError) Unwrap() error { return e.cause }

// An error of this library in the cause of a context is of another call. What is the program's own in it stays.
func TestOfContext_causeOfAnotherCall_isNoOutcome(t *testing.T) {
	for _, outcome := range outcomes {
		for _, cause := range []error{outcome, fmt.Errorf("%w: %q", outcome, "x"), &stepError{outcome}} {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			err := OfContext(ctx)
			if !errors.Is(err, context.Canceled) || err.Error() != fmt.Sprintf("context canceled: %v", cause) {
				t.Errorf("%v", err)
			}
			for _, not := range outcomes {
				if errors.Is(err, not) {
					t.Errorf("%v is %v", err, not)
				}
			}
			var own, step *stepError
			if errors.As(cause, &own) && (!errors.Is(err, cause) || !errors.As(err, &step) || step != own) {
				t.Errorf("the program's own error is not in %v", err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := OfContext(ctx); err != context.Canceled {
		t.Errorf("without a cause: %v", err)
	}
}

// The list has each error with a public name: all but ErrNoAnswer.
func TestOutcomes_haveEachPublicError(t *testing.T) {
	src, err := os.ReadFile("../../redlock/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	if public := regexp.MustCompile(`(?m)^\tErr\w+ += `).FindAll(src, -1); len(public) != len(outcomes) || len(public) == 0 {
		t.Errorf("package redlock has %d errors, the list %d", len(public), len(outcomes))
	}
}
