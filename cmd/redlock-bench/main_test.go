// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// programVar makes the test binary play redlock-bench.
const programVar = "REDLOCK_BENCH_TEST_PROGRAM"

// hurriedVar makes it give up masters that do not answer.
const hurriedVar = "REDLOCK_BENCH_TEST_HURRIED"

func TestMain(m *testing.M) {
	if os.Getenv(hurriedVar) != "" {
		masters.OpenTimeout = hurried
	}
	if os.Getenv(programVar) != "" {
		main()
	}
	// In the background of a script it is ignored, and the programs of the tests would ignore it too. What is caught has its default in a
	// new program.
	if signal.Ignored(syscall.SIGINT) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	}
	logging.Disable()
	goleak.VerifyTestMain(m)
}

const hurried = 300 * time.Millisecond

// hurry makes this program, and the processes that it starts, give up masters that do not answer.
func hurry(t testing.TB) {
	t.Helper()
	t.Setenv(hurriedVar, "1")
	before := masters.OpenTimeout
	masters.OpenTimeout = hurried
	t.Cleanup(func() { masters.OpenTimeout = before })
}

// bench runs the program with a command line and returns what it said.
func bench(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

// start starts a master.
func start(t testing.TB, cfg localredis.Config) *localredis.Server {
	t.Helper()
	needs.Redis(t)
	s, err := localredis.Start(context.Background(), cfg)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func startURLs(t testing.TB, n int) []string {
	t.Helper()
	needs.Redis(t)
	servers, err := localredis.StartN(context.Background(), n, localredis.Config{})
	must(t, err)
	var urls []string
	for _, s := range servers {
		t.Cleanup(func() { _ = s.Close() })
		urls = append(urls, s.URL())
	}
	return urls
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not seen: %s", what)
}

// tidy complains of what would look bad on a terminal of 80 columns.
func tidy(t testing.TB, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
		if strings.TrimRight(line, " \t") != line {
			t.Errorf("space at the end: %q", line)
		}
		if strings.ContainsAny(line, "\r\x1b") {
			t.Errorf("terminal control in a pipe: %q", line)
		}
	}
}
