// SPDX-License-Identifier: Apache-2.0

package interrupt

import (
	"context"
	"errors"
	"io"
	"testing"
)

func TestOutput_endsWithTheFirstWriteThatFails(t *testing.T) {
	r, w := io.Pipe()
	ctx, out, stop := Output(t.Context(), w)
	defer stop()
	go func() { _, _ = io.CopyN(io.Discard, r, 3) }()
	if n, err := out.Write([]byte("one")); n != 3 || err != nil || ctx.Err() != nil {
		t.Fatalf("%d, %v, %v", n, err, ctx.Err())
	}
	full := errors.New("no space left")
	_ = r.CloseWithError(full)
	if _, err := out.Write([]byte("two")); !errors.Is(err, full) || !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(Unwritten(ctx), full) {
		t.Errorf("%v, %v, %v", err, ctx.Err(), Unwritten(ctx))
	}
}

// A command that was interrupted has not failed to write.
func TestUnwritten_otherEnds_nil(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	ctx, out, stop := Output(ctx, io.Discard)
	if _, err := out.Write([]byte("one")); err != nil || Unwritten(ctx) != nil {
		t.Errorf("%v, %v", err, Unwritten(ctx))
	}
	interrupt()
	stop()
	if ctx.Err() == nil || Unwritten(ctx) != nil {
		t.Errorf("%v, %v", ctx.Err(), Unwritten(ctx))
	}
}
