// SPDX-License-Identifier: Apache-2.0

// Package lazyctx has a context that asks whether it is over when it is asked for its
// error. A lease ends at an instant of a clock that counts suspend, and timers do not:
// code that wakes from a suspend and asks for Err must be told at once.
package lazyctx

import "context"

// Context is a context that is over when Over says so, if it was not ended before.
type Context struct {
	context.Context
	// Over is nil while the context lives on. It is called by Err, from any goroutine.
	Over func() error
	// End ends the context, with the error of Over as its cause.
	End context.CancelCauseFunc
}

// Err implements context.Context.
func (c *Context) Err() error {
	if cause := c.Over(); cause != nil {
		c.End(cause)
	}
	return c.Context.Err()
}
