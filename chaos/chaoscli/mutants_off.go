// SPDX-License-Identifier: Apache-2.0

//go:build !mutants

package chaoscli

import (
	"context"
	"flag"
)

// defineMutants makes a command that says how to build the mutants: this build holds none.
func defineMutants(fs *flag.FlagSet) func(context.Context, *console, []string) error {
	fs.String("json", "", "`FILE` for the results, - is standard output")
	return func(context.Context, *console, []string) error {
		return usagef("this build holds no mutants: use go run -tags mutants ./cmd/redlock-bench chaos mutants")
	}
}
