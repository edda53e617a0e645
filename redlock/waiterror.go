// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"time"

	"github.com/redlock-go/redlock/node"
)

func textOf(err error) string {
	var on *node.Error
	if errors.As(err, &on) {
		return on.Err.Error()
	}
	return err.Error()
}

// waitError is why a master may not be asked for votes.
type waitError struct {
	c     *Client
	err   error         // may be nil
	text  string        // what the master is
	until time.Duration // when the master may vote, on the client's clock; 0 if that is not known
	final bool          // the master will not vote again by itself
}

func (w *waitError) Error() string { return w.text }

// after is how much of the wait is left, if that is known.
func (w *waitError) after() (d time.Duration, known bool) {
	if w.until == 0 || w.final {
		return 0, false
	}
	return max(w.until-w.c.clock.Elapsed(), 0), true
}

func (w *waitError) Unwrap() []error {
	var errs []error
	if !w.final {
		errs = append(errs, ErrRecovering)
	}
	if w.err != nil {
		errs = append(errs, w.err)
	}
	return errs
}
