// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?)#* *$`)
	link     = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\))?)\)`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	remote   = regexp.MustCompile(`^[a-z]+:`)
	anyPage  = regexp.MustCompile(`\bdocs/[a-z/-]+\.md`)
)

// Each relative link of a page leads to a file of the repository, and its anchor to a heading of that page.
func TestLinks_filesAndHeadings_exist(t *testing.T) {
	files := inRepository(t, "*.md")
	links := 0
	for _, file := range files {
		text := withoutCode(read(t, file))
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if remote.MatchString(m[1]) {
				continue
			}
			links++
			if wrong := follow(t, file, m[1]); wrong != "" {
				t.Errorf("%s: the link %s leads nowhere: %s", file, m[1], wrong)
			}
		}
	}
	if len(files) < 35 || links < 350 {
		t.Errorf("only %d pages with %d links were found", len(files), links)
	}
}

// follow returns what is wrong with a link of a page, or "".
func follow(t *testing.T, from, to string) string {
	t.Helper()
	target, anchor, anchored := strings.Cut(to, "#")
	file := from
	if target != "" {
		file = path.Join(path.Dir(from), target)
	}
	if strings.HasPrefix(file, "../") {
		return file + " is outside of the repository"
	}
	if _, err := os.Stat("../" + file); err != nil {
		return "there is no " + file
	}
	if anchored && !anchorsOf(read(t, file))[anchor] {
		return fmt.Sprintf("%s has no heading #%s", file, anchor)
	}
	return ""
}

// anchorsOf are the anchors that GitHub gives to the headings of a page: a heading that was there before gets a number.
func anchorsOf(page string) map[string]bool {
	anchors, times := map[string]bool{}, map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(withoutCode(page), -1) {
		anchor := slug(m[1])
		if n := times[anchor]; n > 0 {
			anchors[fmt.Sprintf("%s-%d", anchor, n)] = true
		}
		times[anchor]++
		anchors[anchor] = true
	}
	return anchors
}

func slug(heading string) string {
	text := strings.ToLower(strings.TrimSpace(linkText.ReplaceAllString(heading, "$1")))
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return r
		}
		return -1
	}, text)
}

// Links and anchors are read as GitHub reads them.
func TestLinks_slug_asGitHub(t *testing.T) {
	anchors := anchorsOf("# A\n\n## The `--json` flag, and (more)\n\n```\n# a comment\n```\n\n## See [this](that.md)\n\n### A\n")
	for _, want := range []string{"a", "a-1", "the---json-flag-and-more", "see-this"} {
		if !anchors[want] {
			t.Errorf("no #%s in %v", want, anchors)
		}
	}
	if len(anchors) != 4 {
		t.Errorf("%d anchors: %v", len(anchors), anchors)
	}
}

// Each page of docs that a comment, a string or a script names is there.
func TestPages_namedInSources_exist(t *testing.T) {
	named := 0
	for _, file := range inRepository(t, "*.go", "*.lua", "*.sh", "*.yml", "*.yaml", "Makefile", "*.mk", ".ci", ".github") {
		for _, page := range anyPage.FindAllString(read(t, file), -1) {
			named++
			if _, err := os.Stat("../" + page); err != nil {
				t.Errorf("%s names %s, which is not there", file, page)
			}
		}
	}
	if named < 60 {
		t.Errorf("only %d pages are named", named)
	}
}

// inRepository lists the files of the repository that match, without those that are input of a test.
func inRepository(t *testing.T, patterns ...string) []string {
	t.Helper()
	list := exec.Command("git", append([]string{"ls-files", "-z", "--"}, patterns...)...)
	list.Dir, list.Stderr = "..", os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for file := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		if _, err := os.Stat("../" + file); err == nil && !strings.Contains(file, "testdata/") {
			files = append(files, file)
		}
	}
	return files
}

func withoutCode(page string) string {
	return fenced.ReplaceAllString(page, "")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile("../" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
