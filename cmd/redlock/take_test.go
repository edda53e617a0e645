// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/redlock-go/redlock/cmd/redlock/internal/supervise"
	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/said"
)

// ended waits for the end of a program and returns its exit code.
func (p *process) ended() int {
	p.t.Helper()
	_ = p.Wait()
	return p.ProcessState.ExitCode()
}

// Three hosts whose timers fire one after another, and a job that is over before the next one fires: with --every one of them runs it.
// With --no-wait alone all three do, which is what the help says.
func TestRun_timersApartAndAShortJob_everyRunsItOnce(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	_, list := voting(t)
	for flag, want := range map[string]int{"--every=20s": 1, "--min-hold=20s": 1, "--no-wait": 3} {
		ran := 0
		for range 3 { // each begins when the one before has ended
			words := []string{flag}
			if flag == "--min-hold=20s" {
				words = append(words, "--no-wait")
			}
			p := startRun(t, list, "nightly"+flag, append(words, "--", "true")...)
			switch code := p.ended(); {
			case code == exitOK:
				ran++
			case code != exitHeld || flag == "--every=20s" && !strings.Contains(p.stderr.String(), "ran already: it rests for "):
				t.Errorf("%s: exit code %d: %s", flag, code, &p.stderr)
			}
		}
		if ran != want {
			t.Errorf("%s: %d of 3 ran the job, want %d", flag, ran, want)
		}
	}
}

// Who may not run is told for how long the lock rests, and after whom: the period that is given now may be another one than that of the run before.
// A label may be gone by then.
func TestRun_everyOfAnotherPeriod_saysForHowLongItRests(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	servers, list := voting(t)
	startRun(t, list, "lab", "--every", "5m", "--owner", "pod-7", "--", "true").wantCode(exitOK)
	refused := func(want string, words ...string) {
		t.Helper()
		p := startRun(t, list, "lab", append(words, "--", "true")...)
		p.wantCode(exitHeld)
		if said := strings.TrimSpace(p.stderr.String()); !regexp.MustCompile("^redlock: " + want + "$").MatchString(said) {
			t.Errorf("%v: %s, want %s", words, said, want)
		}
	}
	refused(`"lab" ran already: it rests for [45]m[0-9.]+s after pod-7`, "--every", "1s")
	refused(`lock "lab" rests for [45]m[0-9.]+s after pod-7`, "--no-wait")
	for _, s := range servers {
		keys, err := direct(t, s.URL()).Keys(t.Context(), "redlock:owner:*").Result()
		must(t, err)
		must(t, direct(t, s.URL()).Del(t.Context(), keys...).Err())
	}
	refused(`"lab" ran already: it rests for [45]m[0-9.]+s after a client whose label is not known`, "--every", "1s")
	wantSaid(t, expectCode(t, exitOK, "inspect", "lab", "--nodes", list), "rests after a client whose label is not known, on 3 of 3 masters")
	holder := startRun(t, list, "runs", "--owner", "pod-8", "--", "sh", "-c", "echo holds; exec sleep 60")
	holder.line()
	refusedOf := startRun(t, list, "runs", "--every", "1s", "--", "true")
	refusedOf.wantCode(exitHeld)
	refusedOf.wantStderr(`"runs" runs now: pod-8 has it`)
}

// A program that cannot be executed has not run: the period is there for another host, or for the program when it is mended. One that ran and failed
// has used it up, whatever its exit code is.
func TestRun_cannotBeExecuted_periodIsNotUsedUp(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	_, list := voting(t)
	for name, job := range map[string]struct {
		text string
		mode os.FileMode
		code int
		next int // of another host
	}{
		"not-executable": {"#!/bin/sh\n", 0o644, supervise.ExitCannotExecute, exitOK},
		"no-program":     {"\x01\x02 no program", 0o755, supervise.ExitCannotExecute, exitOK},
		"no-interpreter": {"#!/no/such/shell\n", 0o755, supervise.ExitNotFound, exitOK},
		"ran":            {"#!/bin/sh\nexit 126\n", 0o755, supervise.ExitCannotExecute, exitHeld},
	} {
		file := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(file, []byte(job.text), job.mode))
		startRun(t, list, name, "--every", "1h", "--", file).wantCode(job.code)
		startRun(t, list, name, "--every", "1h", "--", "true").wantCode(job.next)
	}
	startRun(t, list, "gone", "--min-hold", "1h", "--", "/no/such/file").wantCode(supervise.ExitNotFound)
	startRun(t, list, "gone", "--no-wait", "--", "true").wantCode(exitOK)
}

// The period of --every ends, and then the job runs again: the processes that had run it are long gone.
func TestRun_everyPeriodIsOver_runsAgain(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	_, list := voting(t)
	ran := 0
	eventually(t, "the second run", func() bool {
		if startRun(t, list, "nightly", "--every", "500ms", "--", "true").ended() == exitOK {
			ran++
		}
		return ran == 2
	})
}

// Who waits learns after two seconds for whom.
func TestRun_waitsLong_saysWhoHasIt(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	_, list := voting(t)
	holder := startRun(t, list, "deploy", "--owner", "backup-7", "--", "sh", "-c", "echo holds; exec sleep 60")
	if s := holder.line(); s != "holds" {
		t.Fatal(s)
	}
	waiter := program(t, "run", "deploy", "--nodes", list, "--", "true")
	waiter.Stderr = nil // the terminal
	screen := onTerminal(t, waiter.Cmd)
	screen.expect(said.WaitsForLock.With(`"deploy"`, "backup-7 has it"))
}

func TestRun_badEveryAndMinHold_refused(t *testing.T) {
	for want, words := range map[string][]string{
		"--every excludes":               {"--every", "1h", "--wait", "1s"},
		"excludes --wait and --min-hold": {"--every", "1h", "--min-hold", "1s"},
		"--every 0s: want 10ms":          {"--every", "0"},
		"--min-hold -1s: want 10ms":      {"--min-hold", "-1s"},
	} {
		code, _, stderr := cli(t, append(append([]string{"run", "x", "--nodes", dead}, words...), "--", "true")...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, want %q", words, code, stderr, want)
		}
	}
}

// A mistake in a flag is named by its flag, before anything is asked, and without the words of Go.
func TestFlags_mistakes_nameTheFlag(t *testing.T) {
	for _, test := range []struct{ words, want string }{
		{"run x --max-ttl 0", "--max-ttl 0s: a command under a lock needs masters with 1s or more"},
		{"elect x --max-ttl -1s", "--max-ttl -1s: a command"},
		{"run x --min-hold 99999h", "--min-hold 99999h0m0s: want 10ms to 8760h0m0s"},
		{"run x --every 99999h", "--every 99999h0m0s: want 10ms to 8760h0m0s"},
		{"run x --wait 99999h", "--wait 99999h0m0s: want 8760h0m0s or less"},
		{"run x --ttl 1s --drift 0.01+2s", "--ttl 1s: drift 2.01s leaves nothing of TTL 1s: raise --ttl, or lower --drift"},
		{"run x --owner pod-é", `--owner "pod-é" has 'é': want printable ASCII`},
		{"elect x --owner " + strings.Repeat("a", 200), "--owner of 200 bytes: want 128 or fewer"},
		{"status --max-ttl 99999h", "--max-ttl 99999h0m0s: want 10ms to 8760h0m0s"},
		{"status --drift 2+2ms", "--drift 2+2ms: drift factor 2: want at least 0"},
		{"status --drift 0.01+90s", "--drift 0.01+1m30s: drift 1m30.3s leaves nothing of TTL 30s: raise --max-ttl, or lower --drift"},
		{"reconfigure --to-drift 0.01+90s", "--to-drift 0.01+1m30s: drift 1m30.3s leaves nothing of TTL 30s: raise --to-max-ttl, or lower --to-drift"},
		{"status --namespace é", `--namespace "é" contains 'é'`},
		{"status --node-count 0", `"--node-count" flag: want a number, 1 or more`},
		{"status --node-count x", `invalid argument "x" for "--node-count" flag: want a number, 1 or more`},
		{"status --cluster redis-cluster://h", "--cluster and --nodes both name the masters"},
		{"status --nodes-file f", "--nodes and --nodes-file both name the masters"},
		{"elect x --value " + strings.Repeat("a", election.MaxValue+1), "--value of 1025 bytes: want 1024 or fewer; announce where to find the rest"},
		{"inspect x --json=maybe", `invalid argument "maybe" for "--json" flag: invalid syntax`},
		{"status --wait --timeout x", `invalid argument "x" for "--timeout" flag: invalid duration "x"`},
	} {
		words := strings.Fields(test.words)
		flag := "--nodes"
		if words[0] == "reconfigure" {
			flag = "--from"
		}
		words = append(words, flag, "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3")
		if words[0] == "run" || words[0] == "elect" {
			words = append(words, "--", "true")
		}
		code, _, stderr := cli(t, words...)
		said := strings.Join(strings.Fields(stderr), " ")
		if code != exitUsage || !strings.Contains(said, test.want) || strings.Contains(said, "bad configuration") || strings.Contains(said, "With") || strings.Contains(said, "strconv") {
			t.Errorf("%s: exit code %d: %s\nwant %s", test.words, code, said, test.want)
		}
	}
}

// A file of TLS that is wrong is named by its flag or variable, and not by the URL that was made of it.
func TestFlags_tlsFiles_nameTheFlag(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk.pem")
	must(t, os.WriteFile(junk, []byte("no certificate"), 0o600))
	said := func(words ...string) string {
		t.Helper()
		code, _, stderr := cli(t, words...)
		if code != exitUsage || strings.Contains(stderr, "bad URL") || strings.Contains(stderr, "bad configuration") {
			t.Errorf("%v: exit code %d: %s", words, code, stderr)
		}
		return strings.Join(strings.Fields(stderr), " ")
	}
	secure := "rediss://127.0.0.1:1,rediss://127.0.0.1:2,rediss://127.0.0.1:3"
	for flags, want := range map[string]string{
		"--tls-ca nofile.pem":                       `redlock: --tls-ca "nofile.pem" cannot be read: no such file or directory`,
		"--tls-ca " + junk:                          `redlock: --tls-ca "` + junk + `" has no certificate`,
		"--tls-cert " + junk:                        "redlock: --tls-cert without --tls-key: give the file of",
		"--tls-key " + junk:                         "redlock: --tls-key without --tls-cert: give the file of",
		"--tls-cert nofile --tls-key " + junk:       `redlock: --tls-cert "nofile" cannot be read`,
		"--tls-cert " + junk + " --tls-key " + junk: `redlock: --tls-cert "` + junk + `" has no certificate`,
	} {
		words := strings.Fields(flags)
		wantSaid(t, said(append(words, "status", "--nodes", secure)...), want)
		wantSaid(t, said(append(words, "status", "--cluster", "rediss-cluster://127.0.0.1:1")...), want)
		wantSaid(t, said(append(words, "reconfigure", "--from", secure, "--to", secure)...), want)
	}
	t.Setenv("REDLOCK_TLS_CA", "nofile.pem")
	wantSaid(t, said("status", "--nodes", secure), `redlock: REDLOCK_TLS_CA "nofile.pem" cannot be read`)
	wantSaid(t, said("status", "--nodes", secure, "--tls-ca", junk), "redlock: --tls-ca ")
	t.Setenv(nodesFileVar, "")
	wantSaid(t, said("status", "--cluster", "redis-cluster://h", "--nodes-file", "f"), "--cluster and --nodes-file both name the masters")
}

// The commands that lock, and those that look at locks, take the lists that programs take. A list that is another one's is a mistake of
// the command line, and is said before anything is asked.
func TestNodeCount_asOpen(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"inspect", "x"}, {"list"}, {"force-unlock", "x", "--yes", "--holder", "a"}, {"run", "x", "--", "true"}, {"elect", "x", "--", "true"}} {
		for _, n := range []int{1, 2, 4} {
			nodes := "--nodes=" + strings.TrimSuffix(strings.Repeat(dead+",", n), ",")
			words := append([]string{command[0], nodes}, command[1:]...)
			if code, _, stderr := cli(t, words...); code != exitUsage || !strings.Contains(stderr, "programs refuse such a list") || strings.Contains(stderr, "topsecret") {
				t.Errorf("%s with %d masters: exit code %d: %s", command[0], n, code, stderr)
			}
			words = append([]string{command[0], nodes, "--node-count=3"}, command[1:]...)
			if code, _, stderr := cli(t, words...); code != exitUsage || !strings.Contains(stderr, "name all of them") {
				t.Errorf("%s with %d of 3 masters: exit code %d: %s", command[0], n, code, stderr)
			}
		}
	}
}

// With --json every error is one JSON object on standard output, with a word that scripts compare.
func TestJSON_everyError(t *testing.T) {
	t.Parallel()
	three := "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3"
	for _, command := range []string{"status", "inspect x", "list", "init", "doctor", "force-unlock x --yes --holder a"} {
		words := append(strings.Fields(command), "--json")
		for kind, more := range map[string][]string{"usage": {"--no-such-flag"}, "masters": {"--nodes", three}} {
			if kind == "masters" && command != "inspect x" && command != "init" { // it takes two seconds; status and doctor have a verdict
				continue
			}
			code, stdout, stderr := cli(t, append(words, more...)...)
			var e errorJSON
			if err := json.Unmarshal([]byte(stdout), &e); err != nil || e.ExitCode != code || e.Error == "" {
				t.Errorf("%s, %s: exit code %d, %v: %q, %q", command, kind, code, err, stdout, stderr)
			} else if e.Kind != kind {
				t.Errorf("%s: %q, want %q: %s", command, e.Kind, kind, stdout)
			}
		}
	}
	for _, command := range []string{"status", "doctor"} { // which have a verdict, and the same words
		var e errorJSON
		code, stdout, _ := cli(t, command, "--json", "--nodes", three)
		if must(t, json.Unmarshal([]byte(stdout), &e)); code != exitMasters || e.Kind != "masters" {
			t.Errorf("%s: exit code %d: %s", command, code, stdout)
		}
	}
	if code, stdout, _ := cli(t, "run", "x", "--json", "--", "true"); code != exitUsage || stdout != "" {
		t.Errorf("run, whose output is the command's: exit code %d, %q", code, stdout)
	}
}

// A command that fails after it has begun has its words too: a list that cannot be read to its end, a lock that cannot be taken away, an init that is
// interrupted.
func TestJSON_failsMidway(t *testing.T) {
	t.Parallel()
	servers, nodes := voting(t)
	lease := take(t, openClient(t, nodes), "a")
	fails := func(want int, kind, says string, words ...string) {
		t.Helper()
		var e errorJSON
		code, stdout, stderr := cli(t, append(words, "--json")...)
		must(t, json.Unmarshal([]byte(stdout), &e))
		if code != want || e.Kind != kind || !strings.Contains(e.Error, says) {
			t.Errorf("%v: exit code %d, want %d %q %q: %s%s", words, code, want, kind, says, stdout, stderr)
		}
	}
	fails(exitRefused, "refused", "not the holder", "force-unlock", "a", "--yes", "--holder", "another:1", "--nodes", nodes)
	fails(exitUsage, "usage", "name", "inspect", strings.Repeat("x", 5000), "--nodes", nodes)
	for _, s := range servers[:2] {
		must(t, direct(t, s.URL()).Do(t.Context(), "acl", "setuser", "default", "-scan").Err())
	}
	fails(exitMasters, "masters", "scan", "list", "--nodes", nodes)
	for _, s := range servers[:2] {
		must(t, direct(t, s.URL()).ConfigSet(t.Context(), "maxmemory", "1").Err())
	}
	fails(exitMasters, "masters", "OOM", "force-unlock", "a", "--yes", "--holder", lease.Holder(), "--nodes", nodes)

	p := program(t, "init", "--json", "--max-ttl", "1m", "--nodes", strings.Join(startURLs(t, 3), ",")).start()
	eventually(t, "it waits", func() bool { return strings.Contains(p.stderr.String(), "left") })
	must(t, p.Process.Signal(syscall.SIGINT))
	stdout, _ := p.rest()
	var e errorJSON
	if err := json.Unmarshal([]byte(stdout), &e); err != nil || e.Kind != "interrupted" || e.ExitCode != p.code() {
		t.Errorf("%v: %s", err, stdout)
	}
}
