// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/said"
)

// candidate starts "redlock elect a" on the masters of list.
func candidate(t testing.TB, list string, words ...string) *process {
	t.Helper()
	return program(t, append([]string{"elect", "a", "-v", "--nodes", list}, words...)...).start()
}

func (p *process) stands() *process {
	p.t.Helper()
	eventually(p.t, "it stands", func() bool { return strings.Contains(p.stderr.String(), `stands for election "a"`) })
	return p
}

// reports is a command that prints its term, and runs until it is told to end.
const reports = `trap 'exit 5' TERM; echo $REDLOCK_TOKEN; while :; do sleep 0.02; done`

func TestElect_leaderEnds_nextOneLeads(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	first := candidate(t, list, "--ttl", "20s", "--", "sh", "-c", reports)
	term := first.number()
	second := candidate(t, list, "--ttl", "20s", "--", "sh", "-c", "echo $REDLOCK_NAME; "+reports).stands()
	began := time.Now()
	must(t, first.Process.Signal(syscall.SIGTERM))
	first.wantCode(5)
	if name := second.line(); name != "a" {
		t.Errorf("name %q", name)
	}
	if next := second.number(); next <= term {
		t.Errorf("term %d after %d", next, term)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("nobody led for %v", d)
	}
	third := candidate(t, list, "--", "true").stands()
	must(t, third.Process.Signal(syscall.SIGINT))
	third.wantCode(130)
	third.wantStderr(said.StoppedWaiting.Text)
	must(t, second.Process.Signal(syscall.SIGTERM))
	second.wantCode(5)
}

func TestElect_leaderKilled_commandGoneAndNextOneLeads(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	first := candidate(t, list, "--ttl", "2s", "--", "sh", "-c", "echo $REDLOCK_TOKEN; "+twoProcesses)
	term := first.number()
	first.line()
	first.line()
	second := candidate(t, list, "--ttl", "2s", "--", "sh", "-c", "echo $REDLOCK_TOKEN").stands()
	must(t, first.Process.Kill())
	first.rest() // all its processes are gone
	if next := second.number(); next <= term {
		t.Errorf("term %d after %d", next, term)
	}
	second.wantCode(0)
}

// The votes are gone, and with them the term: the command is killed, and the candidate stands again.
func TestElect_termLost_standsAgain(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	p := candidate(t, list, "--ttl", "3s", "--", "sh", "-c", reports)
	last, lose := 0, voteLoser(t, servers, "a")
	for range 2 {
		term := p.number()
		if term <= last {
			t.Errorf("term %d after %d", term, last)
		}
		last = term
		lose()
	}
	if term := p.number(); term <= last {
		t.Errorf("term %d after %d", term, last)
	}
	must(t, p.Process.Signal(syscall.SIGTERM))
	p.wantCode(5)
	p.wantStderr(said.LeaseLost.Text, said.LostTerm.With(last, `"a"`, ""))
	free(t, list, "a")
	eventually(t, "no guard left", func() bool { return len(guards(t, p.Process.Pid)) == 0 })
}

// Told to end while the term is lost: it does not stand again.
func TestElect_termLostAfterSIGTERM_ends(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	p := candidate(t, list, "--ttl", "3s", "--", "sh", "-c", "trap 'echo heard' TERM; echo $REDLOCK_TOKEN; while :; do sleep 0.02; done")
	p.number()
	must(t, p.Process.Signal(syscall.SIGTERM))
	if got := p.line(); got != "heard" {
		t.Errorf("%q", got)
	}
	voteLoser(t, servers, "a")()
	p.wantCode(143)
}

// SIGHUP tells many services to read their settings again. It does not end the candidacy.
func TestElect_termLostAfterSIGHUP_standsAgain(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	p := candidate(t, list, "--ttl", "3s", "--", "sh", "-c", "trap 'echo 0' HUP; "+reports)
	p.number()
	must(t, p.Process.Signal(syscall.SIGHUP))
	if got := p.line(); got != "0" {
		t.Errorf("%q", got)
	}
	voteLoser(t, servers, "a")()
	p.number()
	must(t, p.Process.Signal(syscall.SIGTERM))
	p.wantCode(5)
}

func TestElect_exitCodes(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	for name, tc := range map[string]struct {
		words  []string
		code   int
		stderr string
	}{
		"its own code": {[]string{"elect", "a", "--nodes", list, "--", "sh", "-c", "exit 7"}, 7, ""},
		"not found":    {[]string{"elect", "a", "--nodes", list, "--", "no-such-command-here"}, 127, "command not found"},
		"masters away": {[]string{"elect", "a", "--node-count", "1", "--nodes", dead, "--", "true"}, 3, "127.0.0.1:1"},
		"no command":   {[]string{"elect", "a", "--nodes", list}, 2, "want a command: redlock elect NAME -- command"},
		"value":        {[]string{"elect", "a", "--nodes", list, "--value", strings.Repeat("x", 2000), "--", "true"}, 2, "--value of 2000 bytes"},
		"label":        {[]string{"elect", "a", "--nodes", list, "--owner", "a b", "--", "true"}, 2, `--owner "a b" has ' '`},
		"name":         {[]string{"elect", "redlock:x", "--nodes", list, "--", "true"}, 2, "redlock:x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := program(t, tc.words...).start()
			p.wantCode(tc.code)
			p.wantStderr(tc.stderr)
			if n := strings.Count(p.stderr.String(), "\n"); tc.stderr != "" && n != 1 || tc.stderr == "" && n != 0 {
				t.Errorf("%q", &p.stderr)
			}
		})
	}
}
