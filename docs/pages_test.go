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

// Each page says in its first paragraph for whom it is and how long it takes. README leads to each page for users and to internals/README.md, which
// leads to each page for maintainers.
func TestPages_firstLines_readerAndTime(t *testing.T) {
	pages := pagesOfDocs(t)
	readme, internals := read(t, "README.md"), read(t, "docs/internals/README.md")
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
		inside, internal := strings.CutPrefix(file, "internals/")
		if internal && inside != "README.md" {
			if !strings.Contains(internals, "("+inside+")") {
				t.Errorf("internals/README.md does not lead to %s", file)
			}
		} else if !strings.Contains(readme, "(docs/"+file) {
			t.Errorf("README does not lead to %s", file)
		}
	}
}

// pagesOfDocs are the pages for users, and those for maintainers in internals.
func pagesOfDocs(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("*.md")
	inside, err2 := filepath.Glob("internals/*.md")
	if pages = append(pages, inside...); err != nil || err2 != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v, %v", len(pages), err, err2)
	}
	return pages
}
