// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/stall"
)

// ttl is that of the tests that lose a lease.
const ttl = 2 * time.Second

// endMargin is how long before the end of the validity the group gets SIGKILL: what they leave to a machine that stands still.
const endMargin = ttl / 20

// endsInTime checks that all processes of p have ended before a lease could end that was renewed for the last time at the latest when
// lost was.
func endsInTime(t testing.TB, p *process, lost time.Time) (said string) {
	t.Helper()
	said, gone := p.rest()
	if d := gone.Sub(lost); d >= ttl-ttl/100-2*time.Millisecond {
		t.Errorf("the command lived for %v, and the lease for no longer than %v", d, ttl)
	}
	return said
}

func TestRun_mastersKilled_commandEndedBeforeValidityEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		said   string
	}{
		"heeds SIGTERM":   {"trap 'echo term; exit 0' TERM; echo started; while :; do sleep 0.05; done", "term\n"},
		"ignores SIGTERM": {restless, "term\n"},
		"and a child":     {"trap '' TERM; sleep 600 & echo started; wait; sleep 600", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stall.Try(t, endMargin, func(t testing.TB) {
				servers, list := voting(t)
				p := startRun(t, list, "a", "--ttl", ttl.String(), "--", "sh", "-c", tc.script)
				p.line()
				var lost time.Time
				for _, s := range servers[:2] {
					must(t, s.Kill())
					lost = time.Now()
				}
				if said := endsInTime(t, p, lost); said != tc.said {
					t.Errorf("%q, want %q", said, tc.said)
				}
				p.wantCode(74)
				p.wantStderr(said.CannotRenew.Text, said.LostLock.With(`"a"`, ""))
				if tc.script == restless {
					p.wantStderr(said.LeaseEnds.Text)
				}
			})
		})
	}
}

// The votes are gone: another may hold the lock already.
func TestRun_votesGone_commandKilledAtOnce(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	p := startRun(t, list, "a", "--ttl", "4s", "--", "sh", "-c", restless)
	p.line()
	lose := voteLoser(t, servers, "a")
	eventually(t, "the lease is lost", func() bool {
		lose()
		return strings.Contains(p.stderr.String(), said.LeaseLost.Text)
	})
	if said, _ := p.rest(); said != "" {
		t.Errorf("%q", said)
	}
	p.wantCode(74)
	p.wantStderr(said.LeaseLost.Text, said.LostLock.With(`"a"`, ""))
}

// A command that is stopped is continued, so that it hears SIGTERM.
func TestRun_commandStoppedAndMastersKilled_endedBeforeValidityEnds(t *testing.T) {
	t.Parallel()
	stall.Try(t, endMargin, func(t testing.TB) {
		servers, list := voting(t)
		p := startRun(t, list, "a", "--ttl", ttl.String(), "--", "sh", "-c", "echo $$; "+restless)
		command := p.number()
		p.line()
		must(t, syscall.Kill(-command, syscall.SIGSTOP))
		var lost time.Time
		for _, s := range servers[:2] {
			must(t, s.Kill())
			lost = time.Now()
		}
		if said := endsInTime(t, p, lost); said != "term\n" {
			t.Errorf("%q", said)
		}
		p.wantCode(74)
	})
}

// A command that is stopped keeps its lock, and goes on when it is continued.
func TestRun_commandStopped_lockIsKept(t *testing.T) {
	t.Parallel()
	stall.Try(t, 300*time.Millisecond, func(t testing.TB) { // of a TTL of 1 s
		_, list := voting(t)
		p := startRun(t, list, "a", "--ttl", "1s", "--", "sh", "-c", "echo $$; while ! test -e $0; do sleep 0.02; done; echo done", filepath.Join(t.TempDir(), "go"))
		command := p.number()
		must(t, syscall.Kill(-command, syscall.SIGTSTP))
		q := startRun(t, list, "a", "--wait", "1500ms", "--", "true") // longer than the TTL
		q.wantCode(75)
		must(t, os.WriteFile(p.Args[len(p.Args)-1], nil, 0o644))
		must(t, p.Process.Signal(syscall.SIGCONT))
		if got := p.line(); got != "done" {
			t.Errorf("%q", got)
		}
		p.wantCode(0)
	})
}

func TestRun_commandStoppedAndRedlockKilled_commandGone(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p := startRun(t, list, "a", "--", "sh", "-c", twoProcesses)
	command := p.number()
	p.line()
	must(t, syscall.Kill(-command, syscall.SIGSTOP))
	must(t, p.Process.Kill())
	p.rest()
}

// redlock is stopped, and so cannot renew the lease: the guard kills the command in time.
func TestRun_redlockStopped_commandEndedBeforeValidityEnds(t *testing.T) {
	t.Parallel()
	stall.Try(t, endMargin, func(t testing.TB) {
		_, list := voting(t)
		// A pipe that only the command has: redlock has stdout too, and is not to end.
		fifo := filepath.Join(t.TempDir(), "fifo")
		must(t, syscall.Mkfifo(fifo, 0o600))
		p := startRun(t, list, "a", "--ttl", ttl.String(), "--", "sh", "-c", `exec >"$0"; `+restless, fifo)
		out, err := os.Open(fifo)
		must(t, err)
		defer out.Close()
		q := &process{t: t, out: bufio.NewReader(out)}
		q.line()
		must(t, p.Process.Signal(syscall.SIGSTOP))
		if said := endsInTime(t, q, time.Now()); said != "" {
			t.Errorf("%q", said)
		}
		must(t, p.Process.Signal(syscall.SIGCONT))
		p.wantCode(74)
		if lost := regexp.MustCompile(`lost lock "a": this process stood still for \d+(\.\d+)?m?s, so nothing renewed the lease\n$`); !lost.MatchString(p.stderr.String()) {
			t.Errorf("%q", p.stderr.String())
		}
		free(t, list, "a")
	})
}
