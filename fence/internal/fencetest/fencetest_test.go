// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLostUpdate_knownHistories_verdict(t *testing.T) {
	tests := []struct {
		name string
		h    History
		lost bool
	}{
		{"nothing happened", nil, false},
		{"one after the other", History{{5, "read", ""}, {5, "write", "5."}, {6, "read", "5."}, {6, "write", "5.6."}, {0, "read", "5.6."}}, false},
		{"refused in between", History{{5, "read", ""}, {6, "read", ""}, {5, "refused", ""}, {6, "write", "6."}, {0, "read", "6."}}, false},
		{"A's update lost", History{{5, "read", ""}, {6, "read", ""}, {5, "write", "5."}, {6, "write", "6."}}, true},
		{"stale write last", History{{5, "read", ""}, {6, "read", ""}, {6, "write", "6."}, {5, "write", "5."}}, true},
		{"stale write of an older base", History{{5, "read", ""}, {6, "write", "6."}, {6, "write", "6.6."}, {5, "write", "5."}}, true},
		{"acknowledged, never stored", History{{5, "write", "5."}, {0, "read", ""}}, true},
		{"refused, stored all the same", History{{5, "refused", ""}, {0, "read", "5."}}, true},
	}
	for _, test := range tests {
		if err := test.h.LostUpdate(); (err != nil) != test.lost {
			t.Errorf("%s: %v\n%s", test.name, err, test.h)
		}
	}
}
