// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/pages"
)

// Each target of make, each package, and each test that a command on README and the pages names is there. The flags of the programs are looked at in their
// own tests, and README's and the guide's commands are typed by internal/stranger.
func TestCommands_ofThePages_nameWhatIsThere(t *testing.T) {
	all, err := pages.Commands("..")
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, c := range all {
		what, wrong := c.Words[0], ""
		switch what {
		case "make":
			wrong = wrongMake(t, c.Words[1:])
		case "go":
			args, folder := c.Words[1:], ".."
			if args[0] == "-C" {
				folder, args = filepath.Join("..", args[1]), args[2:]
			}
			what = args[0]
			wrong = wrongGo(t, folder, what, args[1:])
		}
		counts[what]++
		if wrong != "" {
			t.Errorf("%v: %s", c, wrong)
		}
	}
	if counts["make"] < 30 || counts["test"] < 60 || counts["run"] < 25 {
		t.Errorf("only these commands were found: %v", counts)
	}
}

// wrongMake returns what is wrong with the arguments of make, or "".
func wrongMake(t *testing.T, args []string) string {
	makefile := read(t, "Makefile")
	for _, arg := range args {
		if name, _, ok := strings.Cut(arg, "="); ok {
			if !strings.Contains(makefile, "$("+name+")") {
				return "the Makefile has no variable " + name
			}
		} else if !strings.Contains(makefile, "\n"+arg+":") {
			return "the Makefile has no target " + arg
		}
	}
	return ""
}

var (
	withValue   = []string{"-run", "-bench", "-benchtime", "-count", "-timeout", "-tags", "-fuzz", "-fuzztime", "-skip", "-hunt", "-budget", "-seed", "-o", "-C"}
	placeholder = regexp.MustCompile(`^(\./)?([A-Z]+|the/package)$`)
	testFunc    = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`)
)

// wrongGo returns what is wrong with the arguments of go test, run or build in a folder, or "".
func wrongGo(t *testing.T, folder, verb string, args []string) string {
	var patterns, packages []string
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(args[i], "=")
		switch {
		case !strings.HasPrefix(name, "-"):
			if packages = append(packages, args[i]); verb != "test" {
				i = len(args) // the rest is the program's
			}
			continue
		case !ok && slices.Contains(withValue, name) && i+1 < len(args):
			i++
			value = args[i]
		}
		switch name {
		case "-C":
			folder = filepath.Join("..", value)
		case "-run", "-bench", "-fuzz":
			patterns = append(patterns, value)
		}
	}
	var tests []string
	for _, p := range packages {
		if placeholder.MatchString(p) || p == "." || strings.HasPrefix(p, "github.com/") {
			return "" // a program of the reader's
		}
		p = strings.TrimPrefix(p, "../") // typed in a folder of the repository
		dir, below := strings.CutSuffix(p, "/...")
		found := testsIn(t, filepath.Join(folder, dir), below)
		if found == nil {
			return "there is no package " + p
		}
		tests = append(tests, found...)
	}
	for _, p := range patterns {
		first, _, _ := strings.Cut(p, "/")
		re, err := regexp.Compile(first)
		if err != nil {
			return err.Error()
		}
		if p != "^$" && !placeholder.MatchString(p) && !slices.ContainsFunc(tests, re.MatchString) {
			return "no test is called " + p
		}
	}
	return ""
}

// testsIn are the tests of the package in a folder, and in all below it if below is set: nil if there is no Go file.
func testsIn(t *testing.T, folder string, below bool) (tests []string) {
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != folder && !below:
			return fs.SkipDir
		case !strings.HasSuffix(file, ".go"):
			return nil
		}
		if tests == nil {
			tests = []string{}
		}
		if strings.HasSuffix(file, "_test.go") {
			source, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for _, m := range testFunc.FindAllStringSubmatch(string(source), -1) {
				tests = append(tests, m[1])
			}
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return tests
}
