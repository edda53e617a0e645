// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/sim"
	"github.com/redlock-go/redlock/internal/stall"
)

var broken = flag.Bool("broken", false, "leave the unlocks out of all histories, so that claims overlap and the tests fail")

// keep writes the history of a run that failed to $REDLOCK_EVIDENCE, or to the folder for temporary files, and returns the file's name.
func keep(t *testing.T, seed uint64, h *history.History) string {
	t.Helper()
	name := filepath.Join(cmp.Or(os.Getenv("REDLOCK_EVIDENCE"), os.TempDir()), fmt.Sprintf("sim-failed-%s-%d.jsonl", strings.ReplaceAll(t.Name(), "/", "-"), seed))
	f, err := os.Create(name)
	if err == nil {
		defer f.Close()
		err = checkable(h).Write(f)
	}
	if err != nil {
		return err.Error()
	}
	return name
}

// checkable is h without what operators did: chaos check knows no such nemesis.
func checkable(h *history.History) *history.History {
	kept := *h
	kept.Faults = slices.DeleteFunc(slices.Clone(h.Faults), func(f history.Fault) bool {
		_, ok := history.NemesisName(f.Nemesis)
		return !ok
	})
	return &kept
}

// repeated returns the last of the runs of a seed that [replay.Same] asks for. ok is false if no two agree; then it is the first.
func repeated(t *testing.T, first outcome, again func() outcome) (o outcome, ok bool) {
	t.Helper()
	ok = replay.Same(t, written(t, first.h), func() []byte {
		o = again()
		return written(t, o.h)
	})
	if !ok {
		o = first
	}
	return o, ok
}

func written(t *testing.T, h *history.History) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := checkable(h).Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Fails, for TestReplay_printedCommand_sameFailure.
func TestRun_broken_printsReplay(t *testing.T) {
	if !*broken {
		t.Skip("fails on purpose, with -broken")
	}
	for name, cfg := range map[string]sim.Config{
		"tended":   {Duration: 5 * time.Second, Nemeses: sim.Tended()},
		"operated": {Duration: 5 * time.Second, Operated: true},
	} {
		t.Run(name, func(t *testing.T) { many(t, operations(20_000), cfg) })
	}
}

// The command that a failure prints finds the same failure, in a process of its own, and the same history to the byte.
func TestReplay_printedCommand_sameFailure(t *testing.T) {
	needs.NoRace(t, oneProcessor)
	needs.CI(t) // builds four times
	// Of the runs of each process two agree, and on a machine that is held up they may agree on an order that the next process does not find.
	stall.Try(t, 10*time.Millisecond, func(t testing.TB) {
		first := failures(t, "go test -count=1 -vet=off -run TestRun_broken ./internal/sim -broken")
		for _, name := range []string{"tended", "operated"} {
			f, ok := first[name]
			if !ok {
				t.Errorf("%s: it did not fail: %v", name, first)
				continue
			}
			again := failures(t, f.replay)[name]
			if again.text != f.text || again.replay != f.replay {
				t.Errorf("%s: %q\nprinted %q\nwhich found %q", name, f.text, f.replay, again.text)
			}
			if len(f.history) < 10_000 || !bytes.Equal(again.history, f.history) {
				t.Errorf("%s: a history of %d bytes, and again one of %d, which is another", name, len(f.history), len(again.history))
			}
		}
	})
}

// failure is what one test printed when it failed.
type failure struct {
	text, replay string
	history      []byte
}

// failures runs a command in the folder of the module. It returns the failure of each subtest of TestRun_broken_printsReplay.
func failures(t testing.TB, command string) map[string]failure {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "REDLOCK_EVIDENCE="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("%s passed: %s", command, out)
	}
	found := map[string]failure{}
	var name string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if _, rest, ok := strings.Cut(line, "--- FAIL: TestRun_broken_printsReplay/"); ok {
			name, _, _ = strings.Cut(rest, " ")
			continue
		}
		f := found[name]
		if _, s, ok := strings.Cut(line, "replay: "); ok && f.replay == "" {
			f.replay = s
		}
		if _, s, ok := strings.Cut(line, "exclusion illegal "); ok {
			f.text = s
		}
		if _, s, ok := strings.Cut(line, "history: "); ok {
			if f.history, err = os.ReadFile(s); err != nil {
				t.Error(err)
			}
		}
		if name != "" {
			found[name] = f
		}
	}
	return found
}
