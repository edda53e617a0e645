// SPDX-License-Identifier: Apache-2.0

package zoo

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/quorumtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every schedule of the zoo is a regression test of the lock as it is.
func TestControl_everyDefence_keepsThePromises(t *testing.T) {
	for _, b := range bugs() {
		t.Run(b.name, func(t *testing.T) {
			for seed := range uint64(b.within) {
				if err := b.control(seed); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// zooSymbols are what is left of the zoo in a program of this project that is built with tags.
func zooSymbols(t *testing.T, tags string) []string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "redlock-bench")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", bin, "github.com/redlock-go/redlock/cmd/redlock-bench")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	table, err := exec.CommandContext(t.Context(), "go", "tool", "nm", bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(table), "redlock/redlock.(*Client).nextHolder") {
		t.Fatal("nm does not name a function that is there: it would name no switch either")
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		if strings.Contains(strings.ToLower(line), "zoo") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestBuild_withoutTheTag_holdsNothingOfTheZoo(t *testing.T) {
	if quorumtest.Race() {
		t.Skip("builds a program: once is enough, and the run without the race detector does")
	}
	if found := zooSymbols(t, ""); len(found) > 0 {
		t.Fatalf("a normal build holds %d symbols of the zoo:\n%s", len(found), strings.Join(found, "\n"))
	}
}
