// SPDX-License-Identifier: Apache-2.0

//go:build !mutants

package chaoscli

// checkMutant returns an error if a mutant is named: this build holds none.
func checkMutant(name string) error {
	if name != "" {
		return usagef("--mutant %s: this build holds no mutants: use go run -tags mutants ./cmd/redlock-bench chaos", name)
	}
	return nil
}
