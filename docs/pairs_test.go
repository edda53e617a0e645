// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

var (
	pairRow  = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	pairTest = regexp.MustCompile("`([a-z/]+)\\.(Test\\w+)`")
)

// Each row of the tables of pairs names a test, and each test that the page names is there.
func TestPairs_tests_exist(t *testing.T) {
	page, err := os.ReadFile("internals/pairs.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, m := range pairRow.FindAllStringSubmatch(string(page), -1) {
		if m[3] == "---" || m[3] == "shown by" {
			continue
		}
		if rows++; !pairTest.MatchString(m[3]) {
			t.Errorf("the row of %q names no test", m[1])
		}
	}
	if rows < 60 {
		t.Errorf("only %d rows were found", rows)
	}
	there := map[string][]string{} // the tests of a folder
	for _, m := range pairTest.FindAllStringSubmatch(string(page), -1) {
		if there[m[1]] == nil {
			there[m[1]] = testsIn(t, "../"+m[1], false)
		}
		if !slices.Contains(there[m[1]], m[2]) {
			t.Errorf("%s has no %s", m[1], m[2])
		}
	}
}
