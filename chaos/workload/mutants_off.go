// SPDX-License-Identifier: Apache-2.0

//go:build !mutants

package workload

import "fmt"

// setMutant fails unless name is empty: this build holds no mutants.
func setMutant(name string) error {
	if name != "" {
		return fmt.Errorf("workload: no mutant %q: this build holds none", name)
	}
	return nil
}
