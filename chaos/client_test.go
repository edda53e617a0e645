// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
)

// badVar makes the test binary a client that is bad in the way that the variable names.
const badVar = "CHAOS_TEST_BAD_CLIENT"

var badClients = map[string]func(context.Context, *client.Session) error{
	"liar": liar, "sleeper": sleeper, "miser": miser, "no record": scribbler(`{"foo":1}`), "no operation": scribbler(`{"op":{"foo":1,"call":1,"return":2}}`),
}

// sleeper takes no lock.
func sleeper(ctx context.Context, s *client.Session) error {
	err := s.Ready("tokens", "fenced-register", "counters")
	<-ctx.Done()
	return err
}

// miser says again and again that it was granted the locks but the first.
func miser(ctx context.Context, s *client.Session) error {
	err := s.Ready()
	for ctx.Err() == nil && err == nil {
		for _, lock := range s.Locks[1:] {
			s.Granted(lock)
		}
		time.Sleep(s.Think)
	}
	return err
}

// scribbler writes a line of its own into its history.
func scribbler(line string) func(context.Context, *client.Session) error {
	return func(ctx context.Context, s *client.Session) error {
		if err := s.Ready("tokens", "fenced-register", "counters"); err != nil {
			return err
		}
		f, err := os.OpenFile(s.Task.History, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(f, line)
		<-ctx.Done()
		return errors.Join(err, f.Close())
	}
}

// liar claims locks without asking a master: the same one three times of four. Liars that took all locks in turn could march in step and never meet.
func liar(ctx context.Context, s *client.Session) error {
	if err := s.Ready("tokens", "fenced-register", "counters"); err != nil {
		return err
	}
	t := s.Thread("1")
	for n := 0; ctx.Err() == nil && t.Err() == nil; n++ {
		lock, holder := s.Locks[0], fmt.Sprintf("%s-%d", s.Name, n)
		if n%4 == 0 {
			lock = s.Locks[n/4%len(s.Locks)]
		}
		t.Lock(lock, func() (client.Grant, error) {
			return client.Grant{Holder: holder, ValidUntil: time.Now().Add(s.TTL)}, nil
		})
		time.Sleep(s.Think)
		t.Unlock(lock, holder, func() error { return nil })
	}
	return t.Err()
}

// own is a run of another program's clients.
func own(program string) Config {
	return Config{Driver: cluster.Process, Client: program, Masters: 3, Duration: 3 * time.Second, Seed: 1}
}

// The checkers judge clients of the user's: those of the example keep what is promised.
func TestRun_ownClient_holds(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	program := filepath.Join(t.TempDir(), "example")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./client/example").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cfg := own(program)
	cfg.Nemeses = parse(t, "kill-minority,kill-client,partition", cluster.None)
	held(t, cfg)
}

// A program that never says that it is ready ends the run, and the error says what it did not do.
func TestStart_neverReady_error(t *testing.T) {
	defer func(d time.Duration) { startTime = d }(startTime)
	startTime = 300 * time.Millisecond
	task := client.Task{Nodes: []string{"redis://a:1"}, Locks: []string{"hot"}, TTL: time.Second, MaxTTL: time.Second, Think: 1}
	s := &clientSlot{name: "c1", dir: t.TempDir(), spec: workload.Spec{Task: task, Program: "/bin/cat"}}
	if err := s.start(t.Context()); err == nil || !strings.Contains(err.Error(), "c1: it did not print ready within 300ms") {
		t.Errorf("error %v", err)
	}
}

// Bad programs are found out, by the checkers that are there for it.
func TestRun_badClient_isFoundOut(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for bad, want := range map[string][]string{"liar": {"exclusion", "linearizable"}, "sleeper": {"effort", "exclusion", "healed", "linearizable"}} {
		t.Run(bad, func(t *testing.T) {
			t.Setenv(badVar, bad)
			stall.Try(t, 200*time.Millisecond, func(try testing.TB) { isFoundOut(t, try, program, want) })
		})
	}
}

// isFoundOut runs a bad program. A machine that was held up can add violations of timed checkers, and takes none of want away.
func isFoundOut(t *testing.T, try testing.TB, program string, want []string) {
	try.Setenv("TMPDIR", try.TempDir())
	res, err := Run(try.Context(), own(program))
	if err != nil {
		try.Fatal(err)
	}
	found := map[string]bool{}
	for _, v := range res.Violations {
		switch found[v.Checker] = true; {
		case slices.Contains(want, v.Checker):
		case slices.Contains(timed, v.Checker):
			try.Errorf("%s: %s, which it must not find", v.Checker, v.Detail)
		default:
			t.Errorf("%s: %s, which it must not find", v.Checker, v.Detail)
		}
	}
	for _, checker := range want {
		if !found[checker] {
			t.Errorf("violations of %v, and none of %s", slices.Sorted(maps.Keys(found)), checker)
		}
	}
	nothingLeft(try)
}

// What a program wrote and nobody can read is kept, and what is said of it names a file that is there.
func TestRun_clientWritesNoHistory_isKept(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"no record", "no operation"} {
		t.Run(bad, func(t *testing.T) {
			evidence := t.TempDir()
			t.Setenv("TMPDIR", t.TempDir())
			t.Setenv(EvidenceVar, evidence)
			t.Setenv(badVar, bad)
			cfg := own(program)
			cfg.Duration, cfg.MaxTTL, cfg.TTL = time.Second, 100*time.Millisecond, 100*time.Millisecond
			_, err := Run(t.Context(), cfg)
			if err == nil {
				t.Fatal("it was judged")
			}
			file := filepath.Join(evidence, "chaos-failed-1", "c1.jsonl")
			if said := err.Error(); !strings.Contains(said, file+":2: json: unknown field \"foo\"") || !strings.Contains(said, "the program of --client wrote c1.jsonl") || strings.Contains(said, os.TempDir()) {
				t.Errorf("it says: %v", err)
			}
			if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), `"foo"`) {
				t.Errorf("%v: %q", err, b)
			}
			nothingLeft(t)
		})
	}
}
