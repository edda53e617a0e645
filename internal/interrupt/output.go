// SPDX-License-Identifier: Apache-2.0

package interrupt

import (
	"context"
	"errors"
	"io"
)

// unwritten is why a context ended whose command could not write.
type unwritten struct{ err error }

func (u *unwritten) Error() string { return u.err.Error() }

// Output returns a writer to w, and a context that ends with the first write that fails: nobody reads what the command finds, as behind
// "| head", or the disk is full, and what it has started must be stopped. Call stop when the work is done.
func Output(parent context.Context, w io.Writer) (ctx context.Context, out io.Writer, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, &output{w, cancel}, func() { cancel(nil) }
}

// Unwritten returns the error of the write that ended a context of Output, or nil if something else did, or nothing.
func Unwritten(ctx context.Context) error {
	var u *unwritten
	if errors.As(context.Cause(ctx), &u) {
		return u.err
	}
	return nil
}

// output is a writer that ends a context.
type output struct {
	io.Writer
	end context.CancelCauseFunc
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err != nil {
		o.end(&unwritten{err})
	}
	return n, err
}
