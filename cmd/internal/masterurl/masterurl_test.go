// SPDX-License-Identifier: Apache-2.0

package masterurl

import (
	"slices"
	"strings"
	"testing"
)

// A list is split at its commas, but for those between the hosts of one URL.
func TestSet_commas_splitLists(t *testing.T) {
	for list, want := range map[string][]string{
		"redis://u:p@a,redis://b":                             {"redis://u:p@a", "redis://b"},
		"redis-sentinel://a,b,u:p,q@c/mine,redis://d":         {"redis-sentinel://a,b,u:p,q@c/mine", "redis://d"},
		"redis://a,redis-cluster://u:p@b,c?tag=x,rediss://d,": {"redis://a", "redis-cluster://u:p@b,c?tag=x", "rediss://d", ""},
		"redis://u:p@a, redis://b\n,\tredis://c":              {"redis://u:p@a", "redis://b", "redis://c"},
		" redis-sentinel://a, b/mine\n":                       {"redis-sentinel://a,b/mine"},
		"redis://locker:Tr0ub%2C4@a":                          {"redis://locker:Tr0ub%2C4@a"},
	} {
		var got URLs
		if err := got.Set(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", list, got, err, want)
		}
	}
}

// A raw comma in a password would end its URL there, and what is left of it would be shown.
func TestSet_commaInAPassword_refusedWithoutIt(t *testing.T) {
	for _, list := range []string{
		"redis://locker:Tr0ub4,dor@a:6379", "redis://b,redis://locker:Tr0ub4,x,dor@a:6379,redis://c", "redis://locker:Tr0ub4,@a", "unix://locker:Tr0ub4,dor@/s",
		"redis://b,redis//:Tr0ub4@a", // no comma
	} {
		var u URLs
		err := u.Set(list)
		if err == nil || !strings.Contains(err.Error(), "a comma in a password is %2C") || !strings.Contains(err.Error(), "lacks the colon") {
			t.Errorf("%s: %v", list, err)
			continue
		}
		if strings.Contains(err.Error(), "Tr0ub4") || strings.Contains(err.Error(), "dor") {
			t.Errorf("%s is told on: %v", list, err)
		}
	}
}
