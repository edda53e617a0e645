// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// startsOnly writes a program that is a redis-server n times, and afterwards ends at once: a server that an upgrade or a full disk keeps from
// starting again.
func startsOnly(t *testing.T, n int) (program string) {
	t.Helper()
	needs.Redis(t)
	path, _, err := localredis.Find()
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(t.TempDir(), "redis-server")
	text := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && exec %[1]s --version\necho start >>%[2]s.starts\n"+
		"[ $(wc -l <%[2]s.starts) -le %[3]d ] && exec %[1]s \"$@\"\necho 'it does not start any more' >&2\nexit 1\n", path, program, n)
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// A fault that cannot be healed ends with 1. What was recorded is judged, and one folder has history, result and logs.
func TestRun_masterStaysDown_keepsEvidence(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	evidence := t.TempDir()
	t.Setenv("REDLOCK_EVIDENCE", evidence)
	// Three masters and the registers' server start. Nothing that is killed does.
	code, out, stderr := cli(t, t.Context(), "--driver", "process", "--servers", startsOnly(t, 4), "--masters", "3", "--clients", "2",
		"--duration", "2s", "--seed", "7", "--nemesis", "kill-minority")
	if code != exitViolation {
		t.Fatalf("exit code %d, want %d: %s%s", code, exitViolation, out, stderr)
	}
	dir := filepath.Join(evidence, "chaos-failed-7")
	for text, wants := range map[string][]string{
		out:    {"VIOLATION     harness: ", "nemesis: heal: cluster: start n"},
		stderr: {"evidence: " + dir + " "},
		string(read(t, filepath.Join(dir, "result.json"))):   {`"checker":"harness"`, `"acquisitions":`},
		string(read(t, filepath.Join(dir, "report.html"))):   {"</html>"},
		string(read(t, filepath.Join(dir, "history.jsonl"))): {`"kind":"lock"`, `"nemesis":"kill-minority"`, "not healed"},
		string(read(t, filepath.Join(dir, "n1.log"))):        {"Ready to accept connections"},
		string(read(t, filepath.Join(dir, "n2.log"))):        {"Ready to accept connections"},
		string(read(t, filepath.Join(dir, "n3.log"))):        {"Ready to accept connections"},
	} {
		for _, want := range wants {
			if !bytes.Contains([]byte(text), []byte(want)) {
				t.Errorf("no %q in %.2000s", want, text)
			}
		}
	}
	if code, out, _ := cli(t, t.Context(), "check", filepath.Join(dir, "history.jsonl")); code != exitViolation || !bytes.Contains([]byte(out), []byte("healed            unknown")) {
		t.Errorf("judged again: exit code %d: %s", code, out)
	}
}
