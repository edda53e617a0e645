// SPDX-License-Identifier: Apache-2.0

// Package interrupt ends the work of a command: at a signal, or when nobody can read what it finds.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Context returns a context that ends at SIGINT, SIGTERM, SIGHUP or SIGQUIT. A second signal ends the program at once. Signals that this process was
// started with as ignored (nohup, a shell's &) stay ignored. stop ends the watch, and the context.
func Context(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	signals := []os.Signal{syscall.SIGTERM} // Go never leaves it ignored, so the list is not empty: that would be all signals
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signals = append(signals, sig)
		}
	}
	ctx, stop = signal.NotifyContext(parent, signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
