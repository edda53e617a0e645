// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// aHistory writes a history in which two claims overlap, while a fault lasts that may break exclusion: every promise holds. Without the fault none does.
func aHistory(t *testing.T, fault bool) (path string) {
	t.Helper()
	text := twoClaims
	if fault {
		text += fmt.Sprintf(deleteLock, 3100, 3200)
	}
	path = filepath.Join(t.TempDir(), "h.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is no regular file, such as a pipe or /dev/null, is written to as well.
func TestCheck_outputIsADevice_writesIt(t *testing.T) {
	for _, flag := range []string{"--json", "--html", "--history"} {
		if code, out, stderr := cli(t, t.Context(), "check", flag, os.DevNull, aHistory(t, true)); code != exitHeld {
			t.Errorf("%s: exit code %d, want %d: %s%s", flag, code, exitHeld, out, stderr)
		}
	}
}

// full is a file that can be opened and not written, as on a disk that is full.
func full(t *testing.T) string {
	t.Helper()
	const name = "/dev/full"
	if _, err := os.Stat(name); err != nil {
		t.Skip(err)
	}
	return name
}

// A file that cannot be written hides no verdict: a broken promise is printed and is the exit code. If every promise held, the error is.
func TestCheck_outputCannotBeWritten_verdictAllTheSame(t *testing.T) {
	for fault, want := range map[bool]struct {
		code int
		says string
	}{
		true:  {exitNothing, "exclusion         ok "},
		false: {exitViolation, "exclusion         illegal"},
	} {
		code, out, stderr := cli(t, t.Context(), "check", "--json", full(t), aHistory(t, fault))
		if code != want.code || !strings.Contains(out, want.says) || !strings.Contains(stderr, "no space left") {
			t.Errorf("exit code %d, want %d with %q, and the error: %s%s", code, want.code, want.says, out, stderr)
		}
	}
}

// The evidence of a run that failed cannot be kept, and the files that the command line names can.
func TestRun_evidenceCannotBeKept_verdictAllTheSame(t *testing.T) {
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	file, html, history := at("file"), at("r.html"), at("h.jsonl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REDLOCK_EVIDENCE", filepath.Join(file, "x"))
	// In a second of the simulation not every nemesis strikes. The run is called what it is: too short.
	code, out, stderr := cli(t, t.Context(), "--driver", "sim", "--seed", "1", "--duration", "1s", "--clients", "2", "--html", html, "--history", history)
	if code != exitViolation || !strings.Contains(out, "VIOLATION     effort: ") || !strings.Contains(out, "give a longer --duration") {
		t.Errorf("exit code %d, want %d and the violation: %s", code, exitViolation, out)
	}
	if !strings.Contains(stderr, "not a directory") || strings.Contains(stderr, "evidence: "+filepath.Join(file, "x")) {
		t.Errorf("want the error, and no folder of evidence: %s", stderr)
	}
	if !strings.Contains(string(read(t, html)), "</html>") || !strings.Contains(string(read(t, history)), `"seed":1`) {
		t.Error("the files of the command line are not written")
	}
}

// An output that is an input, or another output, would be lost: the command line is refused, and the files stay as they are.
func TestCheck_outputIsInputOrOtherOutput_refused(t *testing.T) {
	in := aHistory(t, true)
	before := string(read(t, in))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(in, link); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	for _, line := range []string{
		"--history " + in, "--html " + in, "--json " + in, "--json " + link,
		"--html " + fresh + " --json " + fresh, "--history " + fresh + " --json " + filepath.Dir(fresh) + "/./fresh",
	} {
		code, _, stderr := cli(t, t.Context(), append(append([]string{"check"}, strings.Fields(line)...), in)...)
		if code != exitUsage || !strings.Contains(stderr, "want a file of its own") {
			t.Errorf("%s: exit code %d, want %d and the reason: %s", line, code, exitUsage, stderr)
		}
		if string(read(t, in)) != before {
			t.Fatalf("%s: the history is gone", line)
		}
	}
	// Nothing is lost in a device.
	if code, _, stderr := cli(t, t.Context(), "check", "--html", os.DevNull, "--json", os.DevNull, in); code != exitHeld {
		t.Errorf("exit code %d, want %d: %s", code, exitHeld, stderr)
	}
}

// What is found cannot be written to standard output: that is said, and it is no interruption.
func TestCheck_stdoutCannotBeWritten_saysSo(t *testing.T) {
	file, err := os.OpenFile(full(t), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, args := range [][]string{{"check", aHistory(t, true)}, {"check", "--json", "-", aHistory(t, true)}, {"list"}} {
		var stderr strings.Builder
		code := Run(t.Context(), args, file, &stderr)
		if said := stderr.String(); code != exitNothing || !strings.Contains(said, "the output cannot be written: ") || strings.Contains(said, "interrupted") {
			t.Errorf("%v: exit code %d, %q", args, code, said)
		}
	}
}

// As behind "| head -1": nobody reads on, and nobody has to be told.
func TestCheck_nobodyReads_endsQuietly(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{"check " + aHistory(t, true): exitUnread, "list": exitUnread, "check " + aHistory(t, false): exitViolation} {
		var stderr strings.Builder
		if code := Run(t.Context(), strings.Fields(args), w, &stderr); code != want || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, want %d, and it said %q", args, code, want, &stderr)
		}
	}
}

func TestCheck_interrupted_saysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, out, stderr := cli(t, ctx, "check", aHistory(t, true)); code != exitNothing || out != "" || !strings.Contains(stderr, "interrupted") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
}

// A program in this folder is run as that, and not looked up in PATH.
func TestConfig_programsWithoutAFolder_ofThisFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"mine", "other"} {
		if err := os.WriteFile(name, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f, _ := flagsOf(t, "--client mine --other other --nemesis rolling-upgrade")
	cfg, err := f.config()
	if err != nil || !filepath.IsAbs(cfg.Client) || !filepath.IsAbs(cfg.Other) {
		t.Errorf("the programs are %q and %q, error %v", cfg.Client, cfg.Other, err)
	}
}

// A good history that was cut off is not judged: its locks may lack their unlocks. Of one without an end line, as a program of its own or an older
// version writes it, the verdict says that this cannot be told.
func TestCheck_cutOff_notJudged(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.jsonl")
	const note = "has no end line, so nobody can tell whether it is whole"
	oneLine := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if code, out, stderr := cli(t, t.Context(), "check", "--history", whole, aHistory(t, true)); code != exitHeld || !strings.Contains(oneLine(out), note) {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	if code, out, stderr := cli(t, t.Context(), "check", whole); code != exitHeld || strings.Contains(oneLine(out), note) {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	text := read(t, whole)
	for _, n := range []int{len(text) - 1, len(text) - 5, strings.LastIndex(string(text[:len(text)-1]), "\n") + 1} {
		if err := os.WriteFile(whole, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, stderr := cli(t, t.Context(), "check", whole)
		if code != exitNothing || out != "" || !strings.Contains(stderr, "it is cut off, and lines are missing") || !strings.Contains(stderr, "nothing was judged") {
			t.Errorf("%d of %d bytes: exit code %d: %s%s", n, len(text), code, out, stderr)
		}
	}
}
