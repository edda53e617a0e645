// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/sim"
)

// oneProcessor is why a simulation is run without the race detector.
const oneProcessor = "simulates on one processor, and the race detector leaves a tenth of the speed: TestRun_someOfEach_keepsEveryPromise has it"

// A little of each kind of simulation, for the race detector.
func TestRun_someOfEach_keepsEveryPromise(t *testing.T) {
	for name, cfg := range map[string]sim.Config{
		"clocks":              {},
		"many workers":        {Clients: 3, Workers: 4},
		"killed clients":      {Nemeses: []string{"kill-client", "kill-minority", "partition", "reorder", "cut-replies", "flush-data"}},
		"readers and writers": {Locks: 1, Clients: 6, Workers: 2},
		"operators":           {Operated: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Duration = 2 * time.Second
			_, stats := judge(t, 1, cfg, map[string]int{})
			t.Logf("%d locks granted", stats.Grants)
			if stats.Grants < 10 {
				t.Error("it proves nothing")
			}
		})
	}
}
