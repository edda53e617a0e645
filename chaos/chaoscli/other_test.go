// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/chaos"
	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// The experiment counts who held the locks, and its checkers judge more than that: each promise that was not kept is a violation, and is named.
func TestEndFailover_promises_judgedAll(t *testing.T) {
	shown := chaos.FailoverResult{
		Single: chaos.FailoverCount{Grants: 2, Overlaps: 1}, QuorumForgetful: chaos.FailoverCount{Grants: 2, Overlaps: 1},
		SingleRecovering: chaos.FailoverCount{Grants: 2}, Quorum: chaos.FailoverCount{Grants: 2},
	}
	nothing, overlap, never := shown, shown, shown
	nothing.Single.Overlaps, overlap.Quorum.Overlaps, never.SingleRecovering.Grants = 0, 1, 1
	brokeOff := errors.New("the master would not die")
	result := func(id string, v check.Verdict, promised bool) check.Result {
		return check.Result{ID: id, Verdict: v, Promised: promised, Summary: "as " + id + " says"}
	}
	sane, expected := result("assumptions", check.Ok, true), result("exclusion", check.Illegal, false)
	for name, test := range map[string]struct {
		res                        chaos.FailoverResult
		tokens                     check.Verdict
		sane                       check.Result
		broken, showed, writesFile bool
		says                       string // on standard error, or in the error
		err                        error
	}{
		"all is as it should be":           {shown, check.Ok, sane, false, true, false, "", nil},
		"a lock without recovery was kept": {nothing, check.Ok, sane, false, false, false, "a lock without recovery was kept", nil},
		"never granted again":              {never, check.Ok, sane, false, false, false, "a lock was not granted again", nil},
		"two holders, and then an error":   {overlap, check.Ok, sane, true, false, true, brokeOff.Error(), brokeOff},
		"two holders":                      {overlap, check.Ok, sane, true, false, true, "", nil},
		"a token went back":                {shown, check.Illegal, sane, true, false, true, "as tokens says", nil},
		"no token was seen":                {shown, check.Unknown, sane, true, false, true, "as tokens says", nil},
		"it cannot be true":                {shown, check.Ok, result("assumptions", check.Illegal, true), true, false, true, "as assumptions says", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := history.ReadFiles(aHistory(t, true))
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			var out, stderr bytes.Buffer
			var f files
			if err := f.open(); err != nil {
				t.Fatal(err)
			}
			defer f.close()
			err = endFailover(&console{&out, &stderr}, &f, &test.res, h, []check.Result{test.sane, expected, result("tokens", test.tokens, true)}, test.err)
			if errors.Is(err, errViolation) != test.broken || (err == nil) != (!test.broken && test.showed) {
				t.Errorf("it ended with %v", err)
			}
			if !strings.Contains(fmt.Sprint(&stderr, err), test.says) || strings.Contains(stderr.String(), "as exclusion says") {
				t.Errorf("said %q", &stderr)
			}
			if told(&test.res, !test.broken).Shown != test.showed {
				t.Errorf("the report says that it was shown: %v", !test.showed)
			}
			if _, err := os.Stat("redlock-chaos-failover.html"); (err == nil) != test.writesFile {
				t.Errorf("the report: %v", err)
			}
		})
	}
}
