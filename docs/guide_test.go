// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/protocol"
)

var createFence = regexp.MustCompile(`CREATE TABLE redlock_fence \(.*\)`)

// Each name that a lock may have fits into the table of the fences, in all places that show it.
func TestFenceTable_everyNameOfALock_fits(t *testing.T) {
	longest := regexp.MustCompile(`const maxName = (\d+)`).FindStringSubmatch(read(t, "redlock/mutex.go"))[1]
	for _, file := range []string{"fence/fencesql/fencesql.go", "docs/guide.md", "fence/internal/sqltest/sql_test.go", "fence/internal/sqltest/example_test.go"} {
		if text := read(t, file); !strings.Contains(createFence.FindString(text), "VARCHAR("+longest+")") {
			t.Errorf("%s: %s is not for names of %s bytes", file, createFence.FindString(text), longest)
		}
	}
}

// The guide has the table that package fencesql wants.
func TestGuide_tableOfTheFence_asThePackageSays(t *testing.T) {
	want := createFence.FindString(read(t, "fence/fencesql/fencesql.go"))
	if got := createFence.FindString(read(t, "docs/guide.md")); got != want || want == "" {
		t.Errorf("the guide says %q, and the package %q", got, want)
	}
}

// What is handed in one trip is said with the TTL from which on the masters hand a lock.
func TestHandoff_shortestTTL_asTheMastersHaveIt(t *testing.T) {
	want := fmt.Sprintf("TTL is below %.0f s", protocol.Liveness.Seconds())
	for _, file := range []string{"README.md", "docs/guide.md", "redlock/mutex.go"} {
		text := strings.ReplaceAll(read(t, file), "// ", "")
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("%s does not say %q", file, want)
		}
	}
}

var asked = regexp.MustCompile(`(?m)^go run \S+ status (--wait )?--nodes (\S+)$`)

// The guide asks what the killed master is in, and then sees it through: the programs of the guide may have ended before it votes.
func TestGuide_killedMaster_isSeenThrough(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/guide.md"), "\n## 4. Kill a master\n")
	section, _, _ = strings.Cut(section, "\n## ")
	all := asked.FindAllStringSubmatch(section, -1)
	if len(all) != 2 || all[0][1] != "" || all[1][1] == "" || all[0][2] != all[1][2] {
		t.Errorf("want status, and then status --wait, of the same masters: %q", all)
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
