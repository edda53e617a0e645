// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
)

// largest are the counters that were learned with the last look, raised to the clocks' floor if leap says so. The
// clocks are the masters': a script takes no proposal that is more than a minute ahead of its own master's, and this
// client's may be anything.
func (d *Driver) largest(leap bool) map[string]int64 {
	most := make(map[string]int64)
	for _, known := range d.known {
		for f, n := range known {
			most[f] = max(most[f], n)
		}
	}
	if leap {
		floor := membership.Floor(time.Unix(0, int64(slices.Max(d.times))))
		for i := range protocol.Counters {
			f := protocol.CounterField(i)
			most[f] = max(most[f], floor)
		}
	}
	return most
}

// counters are those of a record.
func counters(record map[string]string) map[string]int64 {
	known := make(map[string]int64)
	for f, text := range record {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && strings.HasPrefix(f, "c") {
			known[f] = n
		}
	}
	return known
}

func appendCounters(set []string, counters map[string]int64) []string {
	for f, n := range counters {
		set = append(set, f, strconv.FormatInt(n, 10))
	}
	return set
}
