// SPDX-License-Identifier: Apache-2.0

//go:build !zoo

package chaoscli

import (
	"context"
	"flag"
)

// defineBugs says how to build the zoo: this build holds no unsafe path to show.
func defineBugs(fs *flag.FlagSet) func(context.Context, *console, []string) error {
	fs.String("json", "", "`FILE` for the results, - is standard output")
	return func(context.Context, *console, []string) error {
		return usagef("this build has all its defences; to see it without: go run -tags zoo ./cmd/redlock-bench chaos zoo")
	}
}
