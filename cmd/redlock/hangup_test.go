// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

// As under nohup: a signal that is ignored when a command begins does not end it. The others do.
func TestOperate_startedWithSignalsIgnored_goesOn(t *testing.T) {
	needs.Redis(t)
	needs.Test(t)
	t.Parallel()
	for _, tc := range []struct {
		ignored string
		sent    syscall.Signal
		want    int
		maxTTL  string // what it waits for, unless the signal ends it
	}{
		{"HUP", syscall.SIGHUP, exitOK, "2s"},
		{"HUP", syscall.SIGINT, exitSignal + int(syscall.SIGINT), "1m"},
		{"HUP INT", syscall.SIGINT, exitOK, "2s"}, // a script's &
		{"HUP", syscall.SIGQUIT, exitSignal + int(syscall.SIGINT), "1m"},
	} {
		p := program(t, "init", "--max-ttl", tc.maxTTL, "--nodes", strings.Join(startURLs(t, 3), ","))
		p.Path = "/bin/sh"
		p.Args = append([]string{"sh", "-c", `trap "" ` + tc.ignored + `; exec "$0" "$@"`}, p.Args...)
		p.start()
		eventually(t, "it waits", func() bool { return strings.Contains(p.stderr.String(), "left") })
		must(t, p.Process.Signal(tc.sent))
		if got := p.code(); got != tc.want {
			t.Errorf("%s ignored, %v sent: exit code %d, want %d; stderr: %s", tc.ignored, tc.sent, got, tc.want, &p.stderr)
		}
	}
}
