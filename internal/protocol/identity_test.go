// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"slices"
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
		evicted               string
	}{
		"a new data set":                         {"c1", none, "", "aaaaaaaaaaaaaaaa.", "0"},
		"its first replica connected":            {"c2", none, state("aaaaaaaaaaaaaaaa."), "aaaaaaaaaaaaaaaa.", "0"},
		"from elsewhere":                         {"c3", "d1", "", "aaaaaaaaaaaaaaaa.c3", "0"},
		"from elsewhere, with an old record":     {"c3", "d1", state("aaaaaaaaaaaaaaaa."), "aaaaaaaaaaaaaaaa.c3", "0"},
		"it forgot that it was from elsewhere":   {"c4", none, state("aaaaaaaaaaaaaaaa.c3"), "aaaaaaaaaaaaaaaa.c3", "0"},
		"the record of another process":          {"c5", none, state("eeeeeeeeeeeeeeee.c3"), "aaaaaaaaaaaaaaaa.", "0"},
		"no second id, as an old or odd program": {"c6", "", "", "aaaaaaaaaaaaaaaa.", "0"},
		"a record that is none":                  {"c7", none, "what?", "aaaaaaaaaaaaaaaa.", "0"},
		"it evicted keys":                        {"c8", none, state("aaaaaaaaaaaaaaaa."), "aaaaaaaaaaaaaaaa.+12", "12"},
		"from elsewhere, and it evicted keys":    {"c3", "d1", state("aaaaaaaaaaaaaaaa.c3"), "aaaaaaaaaaaaaaaa.c3+12", "12"},
		"forgot, and evicted keys":               {"c9", none, state("aaaaaaaaaaaaaaaa.c3+12"), "aaaaaaaaaaaaaaaa.c3+13", "13"},
		"it evicted keys before the record":      {"c9", none, state("aaaaaaaaaaaaaaaa.+12"), "aaaaaaaaaaaaaaaa.+12", "12"},
		"the count was reset":                    {"c9", none, state("aaaaaaaaaaaaaaaa.+12"), "aaaaaaaaaaaaaaaa.", "0"},
	} {
		info := strings.Join([]string{"run_id:" + run, "role:master", "master_replid:" + tc.replid, "master_replid2:" + tc.second, "evicted_keys:" + tc.evicted, ""}, "\r\n")
		if got := ReadIdentity(info, tc.state).Incarnation(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A master that hides what the lock must know is refused, with the name of the field.
func TestIdentity_check(t *testing.T) {
	fields := []string{"run_id:aaaaaaaaaaaaaaaabbbb", "role:master", "maxmemory_policy:noeviction", "evicted_keys:0"}
	if err := ReadIdentity(strings.Join(fields, "\r\n"), "").Check(); err != nil {
		t.Error(err)
	}
	for i, line := range fields {
		name, _, _ := strings.Cut(line, ":")
		for _, hidden := range []string{"", name + ":"} { // left out, or left empty
			told := slices.Clone(fields)
			told[i] = hidden
			err := ReadIdentity(strings.Join(told, "\r\n"), "").Check()
			if !errors.Is(err, ErrHidden) || !strings.Contains(err.Error(), name) {
				t.Errorf("without %s: %v", name, err)
			}
		}
	}
	for line, want := range map[string]error{"role:slave": ErrReplica, "maxmemory_policy:volatile-ttl": ErrEviction} {
		if err := ReadIdentity(line+"\r\n"+strings.Join(fields, "\r\n"), "").Check(); !errors.Is(err, want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
