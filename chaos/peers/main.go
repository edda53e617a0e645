// SPDX-License-Identifier: Apache-2.0

// Command peers runs the chaos harness on locks of other libraries: the same masters, work, faults and checkers (docs/results.md).
//
//	go run -C chaos/peers . --lock redsync --nemesis wipe-minority     # one run
//	go run -C chaos/peers . table                                      # overlaps by library and nemesis
//	go run -C chaos/peers . contention                                 # one lock that many want, by library
//	go run -C chaos/peers . measure --json FILE                        # rates, waits and CPU, by library, as raw data
//	go run -C chaos/peers . results FILE                               # a page and pictures of them
//
// It takes the flags of redlock-bench chaos. The program is also the client process of its runs: see package chaos/client.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/chaoscli"
	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/chaos/peers/library"
	"github.com/redlock-go/redlock/internal/interrupt"
)

func main() {
	logging.Disable()
	if client.Started() {
		client.Main(work)
	}
	chaos.Serve() // the process that cleans up after a run that was killed
	ctx, stop := interrupt.Context(context.Background())
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command line and returns the exit code: that of redlock-bench chaos.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 3
	}
	if len(args) > 0 && args[0] == "table" {
		return table(ctx, self, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "contention" {
		return contention(ctx, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "measure" {
		return measureAll(ctx, self, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "results" {
		return results(args[1:], stdout, stderr)
	}
	if !names(args) {
		fmt.Fprintf(stderr, "usage: peers --lock NAME [flags of redlock-bench chaos], or peers table [--help], or peers contention, measure or results [--help]\nlibraries: %s\n", strings.Join(library.Names(), ", "))
		return 2
	}
	return chaoscli.Run(ctx, append(args, "--client", self), stdout, stderr)
}

// names reports whether the command line names a library.
func names(args []string) bool {
	for i, arg := range args {
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == "lock" && strings.HasPrefix(arg, "-") {
			if !given && i+1 < len(args) {
				value = args[i+1]
			}
			return library.Known(value)
		}
	}
	return false
}
