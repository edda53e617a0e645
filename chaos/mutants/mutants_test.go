// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every schedule is a regression test of the lock with all its defences.
func TestControl_everyDefence_keepsThePromises(t *testing.T) {
	needs.NoRace(t, "simulates on one processor")
	needs.Test(t)
	for _, m := range all() {
		t.Run(m.name, func(t *testing.T) {
			for seed := range replay.Many(t, m.within) {
				if err := m.control(t, seed); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// mutantSymbols returns the symbols of package internal/mutants in a redlock-bench that is built with tags.
func mutantSymbols(t *testing.T, tags string) []string {
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
	if !strings.Contains(string(table), "redlock/internal/lock/attempt.(*Tries).nextHolder") {
		t.Fatal("nm does not name a function that is there: it would name no switch either")
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, "/mutants.") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestBuild_withoutTheTag_holdsNoMutants(t *testing.T) {
	needs.NoRace(t, "builds a program")
	needs.Program(t, "go")
	needs.CI(t)
	if found := mutantSymbols(t, ""); len(found) > 0 {
		t.Fatalf("a normal build holds %d symbols of mutants:\n%s", len(found), strings.Join(found, "\n"))
	}
}
