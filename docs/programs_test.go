// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// imported are the packages that the Go of the pages names without an import.
var imported = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "log": "log", "signal": "os/signal", "strings": "strings", "synctest": "testing/synctest",
	"syscall": "syscall", "testing": "testing", "time": "time",
	"admin": module + "redlock/admin", "election": module + "election", "event": module + "redlock/event", "fence": module + "fence", "fencesql": module + "fence/fencesql", "flight": module + "flight",
	"gocron": "github.com/go-co-op/gocron/v2", "gocronlock": module + "compat/gocron", "metrics": module + "metrics", "multilock": module + "multilock",
	"prometheus": "github.com/prometheus/client_golang/prometheus", "redislock": module + "compat/redislock", "redlock": module + "redlock",
	"redlockotel": module + "redlockotel", "redlocktest": module + "redlocktest", "redsync": module + "compat/redsync", "semaphore": module + "semaphore",
	"synclocker": module + "compat/synclocker",
}

// said are the variables that the pages speak of without declaring them.
const said = "var (\n\tctx context.Context\n\tclient *redlock.Client\n\tlease *redlock.Lease\n\turls []string\n\terr error\n)\n"

var (
	goBlock   = regexp.MustCompile("(?ms)^ *```go\n(.*?)^ *```$")
	qualified = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
	// What a fragment leaves to its reader: names of the reader's own program, and variables that are not used further. A name of
	// a package has a dot.
	fragment = regexp.MustCompile(`^(undefined: \w+|declared and not used: .*|no new variables on left side of :=|.* imported and not used)$`)
)

// Each piece of Go in README and the pages fits the packages that it names: a function that is gone, or has other arguments, is an
// error. Names that only the reader has are not looked at. Pages for users of other libraries are compiled by chaos/peers.
func TestPrograms_ofThePages_fitThePackages(t *testing.T) {
	pages := pagesOfDocs(t)
	fset, imports, blocks := token.NewFileSet(), exports(t), 0
	for _, file := range append(pages, "../README.md") {
		if strings.HasPrefix(file, "migrate-from-") {
			continue
		}
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range goBlock.FindAllStringSubmatch(string(page), -1) {
			blocks++
			name := fmt.Sprintf("%s, block %d", file, i+1)
			f, err := parse(fset, name, m[1])
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			conf := types.Config{Importer: imports, Error: func(err error) {
				if e := (types.Error{}); errors.As(err, &e) && !fragment.MatchString(e.Msg) {
					t.Errorf("%s: %s\n%s", name, e.Msg, m[1])
				}
			}}
			_, _ = conf.Check("page", fset, []*ast.File{f}, nil) // every error was reported
		}
	}
	if blocks < 20 {
		t.Errorf("only %d pieces of Go were found", blocks)
	}
}

// parse makes a file of a program, of declarations, or of statements.
func parse(fset *token.FileSet, name, block string) (*ast.File, error) {
	if strings.HasPrefix(strings.TrimSpace(block), "package ") {
		return parser.ParseFile(fset, name, block, 0)
	}
	head, seen := "package page\n", []string{}
	for _, m := range qualified.FindAllStringSubmatch(block+" context.C redlock.R", -1) {
		if path := imported[m[1]]; path != "" && !slices.Contains(seen, m[1]) {
			seen = append(seen, m[1])
			head += fmt.Sprintf("import %s %q\n", m[1], path)
		}
	}
	f, err := parser.ParseFile(fset, name, head+said+block, 0)
	if err != nil {
		f, err = parser.ParseFile(fset, name, head+said+"func _() error {\n"+block+"\nreturn nil\n}\n", 0)
	}
	return f, err
}

// exports imports packages from what the compiler wrote of them.
func exports(t *testing.T) types.Importer {
	t.Helper()
	args := []string{"list", "-e", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}
	for _, path := range imported {
		args = append(args, path)
	}
	list := exec.Command("go", append(args, "log/slog", "os")...) // which whole programs import
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			files[path] = file
		}
	}
	for name, path := range imported {
		if files[path] == "" && (name == "gocron" || name == "gocronlock" || name == "redlockotel") {
			t.Logf("no %s without go.work", path)
			delete(imported, name)
		} else if files[path] == "" {
			t.Errorf("no package %s", path)
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}
