// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"reflect"
	"testing"
)

// Each guard has rules that are wrong without it, and all others stay as they ship. The rules that ship never change.
func TestWithout_eachGuard_changesItsRulesOnly(t *testing.T) {
	rules := func(r *Rules) (entries []uintptr) {
		v := reflect.ValueOf(*r)
		for i := range v.NumField() {
			entries = append(entries, v.Field(i).Pointer())
		}
		return entries
	}
	right, changed := rules(&shipped), make(map[int]bool)
	for g := Guard(1); g <= GuardUnused; g <<= 1 {
		differ := 0
		for i, entry := range rules(Without(g)) {
			if entry != right[i] {
				differ, changed[i] = differ+1, true
			}
		}
		if differ == 0 || differ > 3 {
			t.Errorf("without guard %b, %d rules are others", g, differ)
		}
	}
	for i := range right {
		if !changed[i] {
			t.Errorf("no guard stands for rule %s", reflect.TypeFor[Rules]().Field(i).Name)
		}
	}
	if got := rules(&shipped); !reflect.DeepEqual(got, right) {
		t.Error("the rules that ship have changed")
	}
	if Without(0) != &shipped {
		t.Error("with all guards the rules are not those that ship")
	}
}
