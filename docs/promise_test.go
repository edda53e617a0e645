// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	promise = regexp.MustCompile(`While the validity of a lease lasts.* conditions: \(a\) .* \(g\) [^.;]*\.`)
	marks   = regexp.MustCompile("(?m)^//|[`*]|^ *- ")
)

// The promise of one holder and its conditions are one text, in safety.md, and everywhere else it is quoted.
func TestPromise_oneText(t *testing.T) {
	text := func(file string) string {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		words := marks.ReplaceAllString(marks.ReplaceAllString(string(page), ""), "") // a // and the - behind it
		return promise.FindString(strings.Join(strings.Fields(words), " "))
	}
	want := text("safety.md")
	if want == "" {
		t.Fatal("safety.md has no promise")
	}
	for _, file := range []string{"../README.md", "../redlock/doc.go"} {
		if got := text(file); got != want {
			t.Errorf("%s says\n%s\nand safety.md\n%s", file, got, want)
		}
	}
}
