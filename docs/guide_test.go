// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

var createFence = regexp.MustCompile(`CREATE TABLE redlock_fence \(.*\)`)

// The guide has the table that package fencesql wants.
func TestGuide_tableOfTheFence_asThePackageSays(t *testing.T) {
	want := createFence.FindString(read(t, "fence/fencesql/fencesql.go"))
	if got := createFence.FindString(read(t, "docs/guide.md")); got != want || want == "" {
		t.Errorf("the guide says %q, and the package %q", got, want)
	}
}

var ofRedlock = regexp.MustCompile(`(?m)^\t(Err[A-Z]\w+) += |^type ([A-Z]\w*Error) struct`)

// The table of errors has each error of package redlock. A RoundError comes as one of them.
func TestConcepts_errors_all(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "docs/guide.md"), "\n## What you get back\n")
	found := 0
	for _, m := range ofRedlock.FindAllStringSubmatch(read(t, "redlock/errors.go")+read(t, "redlock/epoch.go"), -1) {
		name := m[1] + m[2]
		if found++; name != "RoundError" && !strings.Contains(table, "\n| `"+name+"`") {
			t.Errorf("no row for %s", name)
		}
	}
	if found < 15 {
		t.Errorf("only %d errors were found", found)
	}
}
