// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/history"
)

// legend explains the line, once.
const legend = "masters: + gives its vote, r recovers, . is silent"

// line says what was done, who had the hot lock last, which masters are up and what is going wrong. It must fit a terminal.
func line(p chaos.Progress, of time.Duration) string {
	if len(p.Votes) == 0 { // simulated
		return fmt.Sprintf("%.0f/%.0f s of simulated time  %d faults", p.Elapsed.Seconds(), of.Seconds(), p.Struck)
	}
	var masters strings.Builder
	for _, v := range p.Votes {
		switch v {
		case history.OK:
			masters.WriteByte('+')
		case history.Failed:
			masters.WriteByte('r')
		default:
			masters.WriteByte('.')
		}
	}
	return fmt.Sprintf("%.0f/%.0f s  %d locks  hot: %s  %s  %d faults  %s",
		p.Elapsed.Seconds(), of.Seconds(), p.Granted, cmp.Or(p.Holder, "-"), masters.String(), p.Struck, strings.Join(p.Faults, " "))
}
