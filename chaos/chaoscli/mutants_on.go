// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package chaoscli

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/chaos/mutants"
)

// checkMutant returns an error if there is no mutant called name. "" is the lock itself.
func checkMutant(name string) error {
	if name != "" && !slices.Contains(mutants.Names(), name) {
		return usagef("--mutant %q: want one of %s", name, strings.Join(mutants.Names(), ", "))
	}
	return nil
}

// defineMutants makes the command that runs all mutants.
func defineMutants(fs *flag.FlagSet) func(context.Context, *console, []string) error {
	path := fs.String("json", "", "`FILE` for the results, - is standard output")
	return func(ctx context.Context, c *console, _ []string) error {
		results, err := mutants.Run(ctx)
		if err != nil {
			return err
		}
		if *path != "-" {
			mutants.Table(c.out, results)
		}
		if *path != "" {
			out := c.out
			if *path != "-" {
				f, err := os.Create(*path)
				if err != nil {
					return usageError{err}
				}
				defer f.Close()
				out = f
			}
			if err := json.NewEncoder(out).Encode(results); err != nil {
				return err
			}
		}
		for _, r := range results {
			if !r.Found {
				return errViolation
			}
		}
		return nil
	}
}
