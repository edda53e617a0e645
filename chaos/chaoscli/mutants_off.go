// SPDX-License-Identifier: Apache-2.0

//go:build !mutants

package chaoscli

import (
	"context"
	"flag"
)

// checkMutant returns an error if a mutant is named: this build holds none.
func checkMutant(name string) error {
	if name != "" {
		return usagef("--mutant %s: this build holds no mutants: use go run -tags mutants ./cmd/redlock-bench chaos", name)
	}
	return nil
}

// defineMutants makes a command that says how to build the mutants: this build holds none.
func defineMutants(fs *flag.FlagSet) func(context.Context, *console, []string) error {
	fs.String("json", "", "`FILE` for the results, - is standard output")
	return func(context.Context, *console, []string) error {
		return usagef("this build holds no mutants: use go run -tags mutants ./cmd/redlock-bench chaos mutants")
	}
}
