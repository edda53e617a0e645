// SPDX-License-Identifier: Apache-2.0

package lockorder_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/lockorder"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
)

// run are the tests that are run with recording mutexes: those on masters in memory, which wait for nothing.
var run = []string{"-run", "^Test(TryLock|Lease|Unlock|Inspect|Observe|Extend|ForceUnlock|Reenter|Sim_(extend|handed|lateAnswers))", "./redlock", "./election"}

// The gate compiles what the test on simulations runs before any test: to compile is five times the work of the run.
var compile = flag.Bool("compile", false, "do not run the simulations, only compile them")

// order is the written order: what may be taken while a mutex is held, by the row of each.
type order map[string][]string

var row = regexp.MustCompile("(?m)^\\| `([a-z]+\\.[A-Za-z]+)` \\| [^|]+ \\| ([^|]+) \\|$")

// parse reads the section "Lock order" of a page.
func parse(page string) (order, error) {
	_, section, ok := strings.Cut(page, "\n## Lock order\n")
	if !ok {
		return nil, errors.New("no section Lock order")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	o := make(order)
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		if _, twice := o[m[1]]; twice {
			return nil, fmt.Errorf("two rows for %s", m[1])
		}
		o[m[1]] = []string{}
		for _, to := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[2], -1) {
			o[m[1]] = append(o[m[1]], to[1])
		}
	}
	return o, o.check()
}

// check says whether the order is one: every name has a row, and no way leads back.
func (o order) check() error {
	for name, taken := range o {
		for _, to := range taken {
			if _, ok := o[to]; !ok {
				return fmt.Errorf("the row of %s names %s, which has no row", name, to)
			}
		}
		if o.allows(name, name) {
			return fmt.Errorf("a circle: a way leads from %s back to it", name)
		}
	}
	return nil
}

// allows tells whether to may be taken while from is held, maybe with others between.
func (o order) allows(from, to string) bool {
	seen := map[string]bool{}
	var reach func(at string) bool
	reach = func(at string) bool {
		if seen[at] {
			return false
		}
		seen[at] = true
		return slices.ContainsFunc(o[at], func(next string) bool { return next == to || reach(next) })
	}
	return reach(from)
}

func written(t *testing.T, root string) order {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "internals", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse(string(page))
	if err != nil {
		t.Fatalf("docs/internals/architecture.md: %v", err)
	}
	return o
}

// Every mutex of the lock has a row in the written order, and every row its mutex.
func TestOrder_rows_areTheMutexesOfTheCode(t *testing.T) {
	root := repository(t)
	_, structs := overlay(t, root)
	o := written(t, root)
	for _, name := range structs {
		if _, ok := o[name]; !ok {
			t.Errorf("no row for the mutex of %s", name)
		}
		delete(o, name)
	}
	for name := range o {
		t.Errorf("the row of %s: there is no such mutex", name)
	}
}

// Whatever the tests take, they take in the written order, through callbacks and interfaces too.
func TestOrder_simulations_takeInTheWrittenOrder(t *testing.T) {
	needs.CI(t)
	needs.NoRace(t, "it builds the lock anew, and looks at an order that the race detector does not change")
	root := repository(t)
	file, _ := overlay(t, root)
	if *compile {
		if out, err := recording(t, root, "", "list", "-test", "-deps", "-export", "-f", `{{""}}`, "-overlay="+file, "./redlock", "./election").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	o, seen := written(t, root), record(t, root, file, run...)
	for edge, stack := range seen {
		if !o.allows(edge[0], edge[1]) {
			t.Errorf("%s is taken while %s is held, which the written order does not have:\n%s", edge[1], edge[0], stack)
		}
	}
	for from, taken := range o {
		for _, to := range taken {
			if seen[[2]string{from, to}] == "" {
				t.Errorf("no test takes %s while %s is held: the row says more than is seen", to, from)
			}
		}
	}
}

// record runs tests with recording mutexes, and returns what was taken while what was held, with a stack for each.
func record(t *testing.T, root, overlay string, args ...string) map[[2]string]string {
	t.Helper()
	edges := filepath.Join(t.TempDir(), "edges")
	cmd := recording(t, root, edges, append([]string{"test", "-count=1", "-vet=off", "-timeout=3m", "-overlay=" + overlay}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil { // what it took may say why
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
	f, err := os.Open(edges)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := make(map[[2]string]string)
	lines := bufio.NewScanner(f)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var e lockorder.Edge
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		seen[[2]string{e.From, e.To}] = e.Stack
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return seen
}

// recording is a call of go whose tests write to the file edges.
func recording(t *testing.T, root, edges string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "go", args...)
	// Without redis-server in PATH the tests on real servers skip, which are about time.
	cmd.Dir, cmd.Env = root, append(os.Environ(), lockorder.FileVar+"="+edges, "PATH="+filepath.Dir(cmd.Path), "CGO_ENABLED=0", needs.RequireVar+"=", needs.TierVar+"=", stall.TriesVar+"=")
	return cmd
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// The checks see what they are for.
func TestOrder_circleOrUnknownName_isFound(t *testing.T) {
	for rows, want := range map[string]string{
		"| `a.A` | x | `b.B` |\n| `b.B` | x | `c.C` |\n| `c.C` | x | none |\n": "",
		"| `a.A` | x | `b.B` |\n| `b.B` | x | `a.A` |\n":                       "a circle",
		"| `a.A` | x | `a.A` |\n":                                              "a circle",
		"| `a.A` | x | `b.B` |\n":                                              "no row",
		"| `a.A` | x | none |\n| `a.A` | x | none |\n":                         "two rows",
	} {
		o, err := parse("\n## Lock order\n" + rows + "\n## Next\n| `z.Z` | x | `y.Y` |\n")
		if got := fmt.Sprint(err); err != nil && want == "" || want != "" && !strings.Contains(got, want) {
			t.Errorf("%q: %v, want %q", rows, err, want)
		}
		if want == "" && (!o.allows("a.A", "c.C") || o.allows("c.C", "a.A") || o.allows("a.A", "a.A")) {
			t.Errorf("%v", o)
		}
	}
}
