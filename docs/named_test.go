// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var namedTest = regexp.MustCompile("`(?:([a-zA-Z0-9/]+)\\.)?((?:Test|Fuzz|Benchmark)[A-Z]\\w*)[`/(]")

// Each test that a page names is there, and in the package that it names, by its name or its folder. A name
// may be the beginning of several.
func TestPages_namedTests_exist(t *testing.T) {
	there := map[string]bool{} // "Test", "package.Test" and "folder.Test"
	for _, file := range inRepository(t, "*_test.go") {
		source, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		folder := path.Dir(file)
		for _, m := range testFunc.FindAllStringSubmatch(string(source), -1) {
			there[m[1]], there[path.Base(folder)+"."+m[1]], there[folder+"."+m[1]] = true, true, true
		}
	}
	names := slices.Sorted(maps.Keys(there))
	seen := 0
	for _, page := range inRepository(t, "*.md") {
		text, err := os.ReadFile("../" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedTest.FindAllStringSubmatch(string(text), -1) {
			seen++
			name := strings.TrimPrefix(m[1]+"."+m[2], ".")
			i, _ := slices.BinarySearch(names, name)
			if i == len(names) || !strings.HasPrefix(names[i], name) {
				t.Errorf("%s names %s, which is not there", page, name)
			}
		}
	}
	if seen < 500 {
		t.Errorf("only %d tests are named", seen)
	}
}
