// SPDX-License-Identifier: Apache-2.0

// Package docs_test checks pages of docs against the code, and against each other.
package docs_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/redlock-go/redlock/"

var (
	row  = regexp.MustCompile("(?m)^\\| `([a-z0-9/-]+)` \\| [^|]+ \\| ([^|]+) \\|$")
	name = regexp.MustCompile("`([a-z0-9/-]+)`")
)

// The tables name every package of the module, and what it imports of the module.
func TestArchitecture_tables_asTheCodeImports(t *testing.T) {
	page, err := os.ReadFile("internals/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string][]string)
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		if _, twice := told[m[1]]; twice {
			t.Errorf("two rows for %s", m[1])
		}
		told[m[1]] = []string{}
		for _, im := range name.FindAllStringSubmatch(m[2], -1) {
			told[m[1]] = append(told[m[1]], im[1])
		}
	}
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "../...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		pkg, found := strings.CutPrefix(words[0], module)
		if !found || pkg == "docs" {
			continue
		}
		imports := []string{}
		for _, w := range words[1:] {
			if im, ours := strings.CutPrefix(w, module); ours {
				imports = append(imports, im)
			}
		}
		want, ok := told[pkg]
		delete(told, pkg)
		if !ok {
			t.Errorf("no row for %s; it imports %v", pkg, imports)
		} else if slices.Sort(want); !slices.Equal(imports, want) {
			t.Errorf("%s imports %v, and its row says %v", pkg, imports, want)
		}
	}
	for pkg := range told {
		t.Errorf("a row for %s, which is not there", pkg)
	}
}
