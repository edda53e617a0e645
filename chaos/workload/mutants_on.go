// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package workload

import "github.com/redlock-go/redlock/internal/mutants"

// setMutant takes a defence away from the locks of this process; "" takes none.
func setMutant(name string) error { return mutants.Set(name) }
