// SPDX-License-Identifier: Apache-2.0

// Package interrupt ends the work of a command: at a signal, or when nobody can read what it finds.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Grace is how long after a signal another one is the same wish: timeout(1) signals its child and then the child's whole group, so each signal comes twice.
const Grace = 500 * time.Millisecond

func afterGrace(f func()) { time.AfterFunc(Grace, f) }

// later calls a function when Grace is over. A test replaces it.
var later = afterGrace

// Context returns a context that ends at SIGINT, SIGTERM, SIGHUP or SIGQUIT. Signals of the half second after that are ignored, and a later one ends the
// program at once. Signals that this process was started with as ignored (nohup, a shell's &) stay ignored. stop ends the context, and the watch if no
// signal has come.
func Context(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	signals := []os.Signal{syscall.SIGTERM} // Go never leaves it ignored, so the list is not empty: that would be all signals
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signals = append(signals, sig)
		}
	}
	watch, unwatch := signal.NotifyContext(parent, signals...)
	keep := context.AfterFunc(watch, func() { later(unwatch) })
	ctx, cancel := context.WithCancel(watch)
	return ctx, func() {
		cancel()
		if watch.Err() == nil && keep() {
			unwatch()
		}
	}
}
