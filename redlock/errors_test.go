// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redlock-go/redlock/redlock"
)

// One question tells a server whether to answer 503: the masters cannot say now who has the lock. What a caller did, and what another
// holder has, is no outage.
func TestErrUnavailable_isThreeOutcomesAndNoOther(t *testing.T) {
	for _, err := range []error{redlock.ErrUnreachable, redlock.ErrRecovering, redlock.ErrRefused, redlock.ErrNeedsInit, fmt.Errorf("%w: x", redlock.ErrRefused)} {
		if !errors.Is(err, redlock.ErrUnavailable) {
			t.Errorf("%v is not ErrUnavailable", err)
		}
	}
	for _, err := range []error{redlock.ErrHeld, redlock.ErrLost, redlock.ErrReleased, redlock.ErrUnconfirmed, redlock.ErrClosed, redlock.ErrConfig,
		redlock.ErrNotHolder, redlock.ErrNotReentrant, redlock.ErrUpgrade, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, redlock.ErrUnavailable) {
			t.Errorf("%v is ErrUnavailable", err)
		}
	}
	kinds := []error{redlock.ErrUnreachable, redlock.ErrRecovering, redlock.ErrRefused}
	for i, a := range kinds {
		for j, b := range kinds {
			if errors.Is(a, b) != (i == j) {
				t.Errorf("%v is %v", a, b)
			}
		}
	}
}
