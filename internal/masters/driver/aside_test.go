// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
)

// Who comes back after another server voted in its place waits, whatever its record says, until it is claimed anew. Each step is a look: the server
// with the phase of its record and a nonce, or - for none, and a + if it is to stand aside. A second passes with each, and a wait with a w.
func TestAside_serversComeAndGo_whoMissedVotesWaits(t *testing.T) {
	const wait = 30 * time.Second
	phases := map[byte]membership.Phase{'V': membership.Voting, 'R': membership.Quarantined, 'X': membership.Retired}
	for name, steps := range map[string]string{
		"one server":                            "aV0 aV0 - aV0 aR1 aV0",
		"restarts":                              "aV0 bR1 w bV0 cR2 w cV0 cV0",
		"back":                                  "aV0 bR1 bV0 aV0+ aV0+ aR2 aV0 bV0+",
		"the other one did not vote":            "aV0 bR1 aV0 bR1+ bR2 bV0 aV0+",
		"was quarantined, unseen":               "aV0 bR2 bV0 aR1+ aR3 aV0",
		"was not known, and votes at once":      "bV0 aV0+ aV0+ aR1 aV0 bV0+",
		"was not known, and may have waited":    "bV0 w aV0 bV0+",
		"was quarantined":                       "aV0 aR1 bR2 bV0 aR1+ aR3 aV0",
		"again, as it waits":                    "aV0 bR1 bV0 aV0+ aR2 bV0+ aR2+ aR3 aV0",
		"voted in by who did not see it":        "aV0 aR1 bR2 bV0 aV0+",
		"retired, and then cancelled":           "aX1 bR1 bV0 aX1 aV0+",
		"nobody claims it":                      "aV0 bR1 bV0 aV0+ w aV0",
		"nobody claims it, and it was away":     "aV0 bR1 bV0 aV0+ w - aV0+ w aV0",
		"nobody claims it, and the other votes": "aV0 bR1 bV0 aV0+ w bV0+ aV0+",
	} {
		var a aside
		now := time.Duration(0)
		for i, step := range strings.Fields(steps) {
			now += time.Second
			switch {
			case step == "w":
				now += wait
			case step == "-":
				a.left()
			default:
				state := membership.RecordState{Phase: phases[step[1]], Nonce: membership.Nonce(step[2] - '0'), Incarnation: step[:1]}
				if got := a.stoodAside(step[:1], &state, now, wait); got != strings.HasSuffix(step, "+") {
					t.Errorf("%s: step %d, %s: stands aside %v", name, i, step, got)
				}
			}
		}
	}
	var a aside
	for i := range 10 * serversMax {
		a.stoodAside(fmt.Sprint(i), &membership.RecordState{Phase: membership.Voting}, time.Hour, wait)
	}
	if len(a.servers) > serversMax {
		t.Errorf("knows %d servers", len(a.servers))
	}
}
