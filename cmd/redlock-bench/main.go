// SPDX-License-Identifier: Apache-2.0

// Command redlock-bench measures the lock on real Redis masters, your own or throw-away ones.
//
//	redlock-bench                 a short tour
//	redlock-bench latency         uncontended acquire and release, beside the least they can cost
//	redlock-bench contention      one hot lock, many waiters, and a checker that would see two holders
//	redlock-bench outage          masters that die, freeze and return under load: what it costs, and what stays
//	redlock-bench compare         two builds: medians, intervals, and what is noise
//	redlock-bench chaos           the lock under injected faults, and the verdict of checkers
//
// The exit code is 0 when all is well, 1 when a violation was seen or what --check asks for does not hold, 2 for a command line that cannot work, 3 when there are no masters to
// work with, 73 when the output cannot be written, 130 when the run was interrupted, and 141 when nobody reads its output any more. Those of chaos are in docs/chaos.md. Operators
// use the command redlock.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/internal/interrupt"
)

func main() {
	chaos.Serve()     // chaos runs start this program again, as clients
	logging.Disable() // go-redis tells stderr of each failed dial; it is process-global, so only a program may do this
	signal.Ignore(syscall.SIGPIPE)
	ctx, _ := interrupt.Context(context.Background())
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
