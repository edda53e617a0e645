// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"maps"
	"slices"
	"testing"
)

// Logs has what every server wrote from its first start on: of a master that was killed and started again, of a replica, and of the master
// that it replaced.
func TestLogs_everyServer(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		c := open(t, Config{Driver: driver, Masters: 3})
		must(t, c.Masters()[0].Kill(t.Context()))
		must(t, c.Masters()[0].Start(t.Context()))
		_, err := c.Masters()[1].Replica(t.Context())
		must(t, err)
		_, err = c.Masters()[1].Promote(t.Context())
		must(t, err)
		logs := c.Logs(t.Context())
		starts := map[string]int{}
		for name, log := range logs {
			starts[name] = bytes.Count(log, []byte("Ready to accept connections"))
		}
		if want := map[string]int{"n1": 2, "n2": 1, "n2-r1": 1, "n3": 1}; !maps.Equal(starts, want) {
			t.Errorf("starts in the logs of %v: %v, want %v", slices.Sorted(maps.Keys(logs)), starts, want)
		}
	})
}
