// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/cmd/internal/masterurl"
	"github.com/redlock-go/redlock/cmd/redlock/internal/supervise"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// programVar makes the test binary play redlock.
const programVar = "REDLOCK_TEST_PROGRAM"

// straysVar is how long it waits for processes that a command left behind.
const straysVar = "REDLOCK_TEST_STRAYS"

// noWaitAtExit keeps the race detector from waiting for a second at the end of each process.
const noWaitAtExit = "GORACE=atexit_sleep_ms=0"

const dead = "redis://:topsecret@127.0.0.1:1"

// deadList is a list that every command takes.
const deadList = dead + "," + dead + "1," + dead + "2"

func TestMain(m *testing.M) {
	supervise.Hidden()
	if limit, err := time.ParseDuration(os.Getenv(straysVar)); err == nil {
		supervise.StraysLimit = limit
		_ = os.Unsetenv(straysVar)
	}
	if os.Getenv(programVar) != "" {
		_ = os.Unsetenv(programVar) // not for the command of run
		main()
	}
	// Under nohup, or in the background of a shell, these are ignored, and the programs of the tests would
	// ignore them too. What is caught has its default in a new program.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	for _, v := range []string{nodesVar, nodesFileVar, clusterVar} {
		_ = os.Unsetenv(v)
	}
	for _, p := range tlsParams {
		_ = os.Unsetenv(p.variable)
	}
	logging.Disable()
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // they wait for leases to end most of the time
	goleak.VerifyTestMain(m)
}

// cli runs the program in this process and returns what it said. The command run needs a process of its own: see startRun.
func cli(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	wellFormed(t, args, code, out.String(), err.String())
	return code, out.String(), err.String()
}

// wellFormed looks at what every command must hold, in whatever scene a test calls it: with --json there is one object, which has the exit
// code, and a word for it; without, no line is longer than an operator reads.
func wellFormed(t testing.TB, args []string, code int, stdout, stderr string) {
	t.Helper()
	if wantsJSON(args) {
		var object struct {
			ExitCode *int `json:"exit_code"`
			failure
		}
		err := json.Unmarshal([]byte(stdout), &object)
		if err != nil || object.ExitCode == nil || *object.ExitCode != code || object.Kind != kinds[code] {
			t.Errorf("%v: exit code %d, and its JSON has %v and %q: %v\n%s", args, code, object.ExitCode, object.Kind, err, stdout)
		}
		stdout = ""
	}
	for line := range strings.Lines(stdout + stderr) {
		if len(line) > longLine && !strings.HasPrefix(line, "ACL SETUSER ") { // which is to be copied
			t.Errorf("%v: %d characters without a line break: %s", args, len(line), line)
		}
	}
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

// startMasters starts masters that have no record.
func startMasters(t testing.TB, n int) []*localredis.Server {
	t.Helper()
	needs.Redis(t)
	servers, err := localredis.StartN(context.Background(), n, localredis.Config{})
	must(t, err)
	for _, s := range servers {
		t.Cleanup(func() { _ = s.Close() })
	}
	return servers
}

func startURLs(t testing.TB, n int) (urls []string) {
	t.Helper()
	for _, s := range startMasters(t, n) {
		urls = append(urls, s.URL())
	}
	return urls
}

// voting starts three masters that vote.
func voting(t testing.TB) (servers []*localredis.Server, list string) {
	t.Helper()
	servers = startMasters(t, 3)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	quorumtest.Begin(t, urls)
	return servers, strings.Join(urls, ",")
}

// direct is a connection to a master.
func direct(t testing.TB, url string) *redis.Client {
	t.Helper()
	o, err := masterurl.Connection(url)
	must(t, err)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
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

func TestVersion_oneLine(t *testing.T) {
	var out, err strings.Builder
	if code := run([]string{"version"}, &out, &err); code != exitOK || err.String() != "" {
		t.Errorf("exit %d, %s", code, &err)
	}
	if words := strings.Fields(out.String()); len(words) != 4 || words[0] != "redlock" || words[2] != runtime.Version() || words[3] != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("said %q", out.String())
	}
}
