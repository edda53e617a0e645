// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/membership"
)

func TestIdentity_incarnation(t *testing.T) {
	const run, none = "aaaaaaaaaaaaaaaabbbb", "0000000000000000000000000000000000000000"
	state := func(incarnation string) string {
		return membership.RecordState{Epoch: membership.Epoch{Number: 1, ID: 2}, Incarnation: incarnation, Phase: membership.Voting}.String()
	}
	for name, tc := range map[string]struct {
		replid, second, state string
		want                  string
	}{
		"a new data set":                         {"c1", none, "", "aaaaaaaaaaaaaaaa."},
		"its first replica connected":            {"c2", none, state("aaaaaaaaaaaaaaaa."), "aaaaaaaaaaaaaaaa."},
		"from elsewhere":                         {"c3", "d1", "", "aaaaaaaaaaaaaaaa.c3"},
		"from elsewhere, with an old record":     {"c3", "d1", state("aaaaaaaaaaaaaaaa."), "aaaaaaaaaaaaaaaa.c3"},
		"it forgot that it was from elsewhere":   {"c4", none, state("aaaaaaaaaaaaaaaa.c3"), "aaaaaaaaaaaaaaaa.c3"},
		"the record of another process":          {"c5", none, state("eeeeeeeeeeeeeeee.c3"), "aaaaaaaaaaaaaaaa."},
		"no second id, as an old or odd program": {"c6", "", "", "aaaaaaaaaaaaaaaa."},
		"a record that is none":                  {"c7", none, "what?", "aaaaaaaaaaaaaaaa."},
	} {
		info := strings.Join([]string{"run_id:" + run, "role:master", "master_replid:" + tc.replid, "master_replid2:" + tc.second, ""}, "\r\n")
		if got := ReadIdentity(info, tc.state).Incarnation(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
