// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var (
	failing = flag.Bool("failing", false, "TestFails fails")
	seed    = flag.Uint64("seed", 0, "seed of TestFails")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFails fails when TestCommand_failsAgain wants it to.
func TestFails(t *testing.T) {
	t.Run("with (a name)", func(t *testing.T) {
		s := *seed
		if s == 0 {
			s = 7
		}
		if *failing {
			drawn := Seed(t, "./internal/replay")
			t.Errorf("seeds %d and %d, short %v, soak %q", s, drawn, testing.Short(), os.Getenv("REDLOCK_SOAK"))
			t.Errorf("replay with both: %s=%d %s", SeedVar, drawn, Command(t, "./internal/replay", "-seed", "7"))
		}
	})
}

// The printed command builds and runs the same test with the same seed, whatever the first command had.
func TestCommand_failsAgain(t *testing.T) {
	run := func(command string) (failure, again string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("%s passed: %s", command, out)
		}
		for line := range strings.Lines(string(out)) {
			if _, s, ok := strings.Cut(line, "replay with both: "); ok {
				again = strings.TrimSpace(s)
			}
			if _, s, ok := strings.Cut(line, "seeds "); ok {
				failure = s
			}
		}
		return failure, again
	}
	for _, first := range []string{
		"go test -run TestFails ./internal/replay -failing",
		"REDLOCK_SOAK=1 go test -tags mutants,x -short -run TestFails ./internal/replay -failing",
	} {
		failure, again := run(first)
		failure2, again2 := run(again)
		if failure == "" || failure != failure2 || again != again2 {
			t.Errorf("%s\nfailed with %qand printed\n%s\nwhich failed with %qand printed\n%s", first, failure, again, failure2, again2)
		}
		if strings.Contains(first, "-tags") != strings.Contains(again, "-tags=mutants,x") {
			t.Errorf("%s became %s", first, again)
		}
	}
}
