// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

var goVersion = regexp.MustCompile(`(?m)^go (\d+\.\d+)`)

// The pages name the Go that a program needs, which go.mod has, and the one that a checkout needs, which go.work has.
func TestGo_versionsOfThePages_asGoModAndGoWork(t *testing.T) {
	program, checkout := goVersion.FindStringSubmatch(read(t, "go.mod")), goVersion.FindStringSubmatch(read(t, "go.work"))
	if program == nil || checkout == nil {
		t.Fatalf("go.mod has %q, and go.work %q", program, checkout)
	}
	for _, want := range []struct{ file, says string }{
		{"README.md", "You need Go " + program[1] + " or later"},
		{"README.md", "Both need Go " + checkout[1] + " or later and `redis-server`"},
		{"CONTRIBUTING.md", "You need Go " + checkout[1] + " or later, `redis-server`"},
	} {
		if !strings.Contains(read(t, want.file), want.says) {
			t.Errorf("%s does not say %q", want.file, want.says)
		}
	}
}
