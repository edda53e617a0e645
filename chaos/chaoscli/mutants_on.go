// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package chaoscli

import (
	"context"
	"encoding/json"
	"flag"
	"io"
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
	var out files
	fs.StringVar(&out.json, "json", "", "`FILE` for the results, - is standard output")
	return func(ctx context.Context, c *console, _ []string) error {
		if err := out.open(); err != nil {
			return err
		}
		defer out.close()
		results, err := mutants.Run(ctx)
		if err != nil {
			return err
		}
		if out.json != "-" {
			mutants.Table(c.out, results)
		}
		err = out.one(c, "result", out.json, func(w io.Writer) error { return json.NewEncoder(w).Encode(results) })
		found := !slices.ContainsFunc(results, func(r mutants.Result) bool { return !r.Found })
		return c.end(found, err)
	}
}
