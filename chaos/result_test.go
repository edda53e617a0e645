// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"testing"

	"github.com/redlock-go/redlock/chaos/check"
)

// A run is called too short if it did too little, and no checker has found anything wrong.
func TestResult_TooLittle(t *testing.T) {
	verdict := func(id string, v check.Verdict) check.Result {
		r := check.Result{ID: id, Verdict: v, Promised: true}
		if v == check.Illegal {
			r.Violations = []check.Violation{{Text: "found"}}
		}
		return r
	}
	few, unknown, broken := verdict("effort", check.Illegal), verdict("tokens", check.Unknown), verdict("exclusion", check.Illegal)
	for name, c := range map[string]struct {
		checks []check.Result
		want   bool
	}{
		"nothing was granted": {[]check.Result{few, unknown}, true}, "too little": {[]check.Result{few}, true},
		"also a broken promise": {[]check.Result{few, unknown, broken}, false}, "no tokens": {[]check.Result{unknown}, false}, "all held": {nil, false},
	} {
		if got := (&Result{Violations: violations(c.checks)}).TooLittle(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
