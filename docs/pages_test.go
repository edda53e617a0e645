// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	reader = regexp.MustCompile(`(?i)\bfor (a|the|people|your)\b`)
	lasts  = regexp.MustCompile(`\b(minutes?|hours?)\b`)
)

// Each page says in its first paragraph for whom it is and how long it takes, and README leads to it or to one that does.
func TestPages_firstLines_readerAndTime(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range pages {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		title, rest, _ := strings.Cut(string(page), "\n\n")
		first, _, _ := strings.Cut(rest, "\n\n")
		if !strings.HasPrefix(title, "# ") || !reader.MatchString(first) || !lasts.MatchString(first) {
			t.Errorf("%s does not begin with its reader and the minutes that it takes: %q", file, first)
		}
		if !strings.Contains(string(readme), "(docs/"+file) {
			t.Errorf("README leads nowhere to %s", file)
		}
	}
}
