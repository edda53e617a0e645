// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pagePackages are what the programs of the pages may import, by name.
var pagePackages = map[string]string{
	"context": "context", "errors": "errors", "log": "log", "time": "time",
	"goredis":     "github.com/go-redsync/redsync/v4/redis/goredis/v9",
	"redis":       "github.com/redis/go-redis/v9",
	"redislock":   "github.com/bsm/redislock",
	"redlock":     "github.com/redlock-go/redlock/redlock",
	"redsync":     "github.com/go-redsync/redsync/v4",
	"rueidis":     "github.com/redis/rueidis",
	"rueidislock": "github.com/redis/rueidis/rueidislock",
}

var (
	goBlock   = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	qualified = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
)

// The Go of docs/migrate-from-*.md compiles as it stands, against this library and the real peers. All blocks of a page are one
// package; what they do under the lock is work.
func TestPages_goBlocks_compile(t *testing.T) {
	pages, err := filepath.Glob("../../docs/migrate-from-*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("pages %v, %v", pages, err)
	}
	for _, file := range pages {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var body strings.Builder
		for _, m := range goBlock.FindAllStringSubmatch(string(page), -1) {
			body.WriteString(m[1])
		}
		if body.Len() == 0 {
			t.Errorf("%s has no Go", file)
			continue
		}
		var src strings.Builder
		src.WriteString("package page\n\n")
		var paths []string
		for _, m := range qualified.FindAllStringSubmatch(body.String(), -1) {
			if path := pagePackages[m[1]]; path != "" && !slices.Contains(paths, path) {
				paths = append(paths, path)
				fmt.Fprintf(&src, "import %s %q\n", m[1], path)
			}
		}
		if !slices.Contains(paths, "context") {
			t.Errorf("%s: no context", file)
		}
		src.WriteString("\nfunc work(context.Context) error { return nil }\n\n" + body.String())
		program := filepath.Join(t.TempDir(), "page.go")
		if err := os.WriteFile(program, []byte(src.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "vet", program).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s\n%s", file, err, out, &src)
		}
	}
}
