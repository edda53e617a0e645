// SPDX-License-Identifier: Apache-2.0

//go:build zoo

package chaoscli

import (
	"context"
	"encoding/json"
	"flag"
	"os"

	"github.com/redlock-go/redlock/chaos/zoo"
)

func defineBugs(fs *flag.FlagSet) func(context.Context, *console, []string) error {
	path := fs.String("json", "", "`FILE` for the results, - is standard output")
	return func(ctx context.Context, c *console, _ []string) error {
		results, err := zoo.Run(ctx)
		if err != nil {
			return err
		}
		if *path != "-" {
			zoo.Table(c.out, results)
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
