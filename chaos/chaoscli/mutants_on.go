// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package chaoscli

import (
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/mutants"
)

// checkMutant returns an error if there is no mutant called name. "" is the lock itself.
func checkMutant(name string) error {
	if name != "" && !slices.Contains(mutants.Names(), name) {
		return usagef("--mutant %q: want one of %s", name, strings.Join(mutants.Names(), ", "))
	}
	return nil
}
