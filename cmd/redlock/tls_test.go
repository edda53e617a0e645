// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// A short maximum TTL, because a change of masters waits for it, and the one after the change of everyCommand.
const tlsTTL, tlsTTLAfter = "2s", "2.1s"

// handshake is the margin of a test that reads why a handshake failed: the time for one is 500 ms, and a command that was held up for
// longer says that it was not answered in time.
const handshake = 400 * time.Millisecond

// opener opens a client of a program.
type opener func(ctx context.Context, opts ...redlock.Option) (*redlock.Client, error)

func openOn(urls ...string) opener {
	return func(ctx context.Context, opts ...redlock.Option) (*redlock.Client, error) {
		return redlock.Open(ctx, urls, opts...)
	}
}

// aProgramEach is why tests of each command by itself run without the race detector, which doubles what it costs to start a program.
const aProgramEach = "starts a program for each command: tests of the commands have the race detector"

// everyCommand runs each command on masters that have no record, by run. from names the masters for reconfigure.
func everyCommand(t *testing.T, open opener, from []string, run func(want int, words ...string) (said string)) {
	t.Helper()
	run(exitOK, "init", never)
	run(exitOK, "status", "--wait")
	wantSaid(t, run(exitOK, "doctor"), "all 3 masters vote")
	run(exitOK, "run", "nightly", "--ttl", tlsTTL, "--", "true")
	run(exitOK, "elect", "scheduler", "--ttl", tlsTTL, "--", "true")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ttl, err := time.ParseDuration(tlsTTL)
	must(t, err)
	c, err := open(ctx, redlock.WithMaxTTL(ttl), redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl/4), redlock.WithOutageTimeout(outage), redlock.WithClientName("stuck"))
	must(t, err)
	defer c.Close()
	lease := take(t, c, "kept")
	wantSaid(t, run(exitOK, "inspect", "kept"), "held by stuck")
	wantSaid(t, run(exitOK, "list"), "kept")
	wantSaid(t, run(exitOK, "force-unlock", "kept", "--yes", "--holder", lease.Holder()), "taken away")
	run(exitOK, "cancel")
	run(exitOK, append([]string{"reconfigure", "--to-max-ttl", tlsTTLAfter}, from...)...)
}

// answerTime is for how long a command waits for the answer of a master.
const answerTime = 2 * time.Second

// asProgram returns a function that runs redlock with these variables, and flags before the words of the command. A command that found masters out of
// reach, or lost its lock, while the machine was held up may run again: any command may.
func asProgram(t testing.TB, env []string, flags ...string) func(want int, words ...string) string {
	return func(want int, words ...string) string {
		t.Helper()
		at := len(words)
		for i, w := range words {
			if w == "--" {
				at = i
				break
			}
		}
		all := append(append(append([]string{}, words[:at]...), flags...), words[at:]...)
		var got int
		var said string
		stall.Try(t, answerTime/4, func(t testing.TB) {
			p := program(t, all...)
			p.Env = append(p.Env, env...)
			p.start()
			said, _ = p.rest()
			got, said = p.code(), said+p.stderr.String()
			if got != want && (got == exitMasters || got == exitLost) {
				t.Fatalf("%v: exit code %d, want %d: %s", all, got, want, said)
			}
		})
		if got != want {
			t.Fatalf("%v: exit code %d, want %d: %s", all, got, want, said)
		}
		return strings.Join(strings.Fields(said), " ")
	}
}

// Masters that want a certificate of the client: every command has it from its flags, from variables, and from the URLs.
func TestTLS_everyCommand(t *testing.T) {
	needs.Redis(t)
	needs.NoRace(t, aProgramEach)
	needs.Test(t)
	t.Parallel()
	s := quorumtest.StartSecure(t, 3, localredis.Config{})
	var bare, own []string
	for i, addr := range s.Addrs {
		bare, own = append(bare, "rediss://"+addr), append(own, s.URL(i))
	}
	list := strings.Join(bare, ",")
	flags := []string{"--tls-cert", s.Cert, "--tls-key", s.Key, "--tls-ca", s.CA, "--tls-server-name", quorumtest.TLSName}
	env := []string{"REDLOCK_TLS_CERT=" + s.Cert, "REDLOCK_TLS_KEY=" + s.Key, "REDLOCK_TLS_CA=" + s.CA, "REDLOCK_TLS_SERVER_NAME=" + quorumtest.TLSName}
	nodes := "REDLOCK_NODES=" + list

	advised := "redlock init --tls-cert " + s.Cert + " --tls-key " + s.Key + " --tls-ca " + s.CA + " --tls-server-name " + quorumtest.TLSName + " --nothing-was-ever-locked --nodes URLS"
	stall.Try(t, handshake, func(t testing.TB) {
		wantSaid(t, asProgram(t, []string{nodes}, flags...)(exitNeedsInit, "status"), advised)
		wantSaid(t, asProgram(t, []string{nodes}, flags...)(exitMasters, "run", "nightly", "--", "true"), advised)
	})
	everyCommand(t, openOn(own...), []string{"--from", list}, asProgram(t, []string{nodes}, append([]string{"--max-ttl", tlsTTL}, flags...)...))
	byVariable := asProgram(t, append(env, nodes), "--max-ttl", tlsTTLAfter)
	byVariable(exitOK, "doctor")
	byVariable(exitOK, "run", "nightly", "--ttl", tlsTTL, "--", "true")
	byVariable(exitOK, "list")
	byURL := asProgram(t, []string{"REDLOCK_NODES=" + strings.Join(own, ","), "REDLOCK_TLS_CA=/nowhere"}, "--max-ttl", tlsTTLAfter)
	byURL(exitOK, "status")
	byURL(exitOK, "doctor")

	// Without them, each command says what is missing.
	for _, words := range [][]string{{"status"}, {"doctor"}, {"init", never}} {
		for _, tc := range []struct{ flags, says []string }{
			{[]string{"--tls-ca", s.CA}, []string{"certificate required"}},
			{[]string{"--tls-cert", s.Cert, "--tls-key", s.Key}, []string{"--tls-ca FILE"}},
		} {
			stall.Try(t, handshake, func(t testing.TB) {
				said := asProgram(t, []string{nodes}, append([]string{"--max-ttl", tlsTTLAfter}, tc.flags...)...)(exitMasters, words...)
				wantSaid(t, said, tc.says...)
			})
		}
	}
	none := filepath.Join(t.TempDir(), "none.pem")
	for _, tc := range []struct {
		nodes string
		flags []string
		says  []string
	}{
		{nodes, []string{"--tls-ca", none}, []string{none, "--tls-ca", "cannot be read", "name a PEM file"}},
		{nodes, []string{"--tls-cert", s.Cert}, []string{"--tls-cert without --tls-key"}},
		{"REDLOCK_NODES=redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3", []string{"--tls-ca", s.CA}, []string{"--tls-ca is for masters with TLS", "rediss://"}},
	} {
		wantSaid(t, asProgram(t, []string{tc.nodes}, tc.flags...)(exitUsage, "status"), tc.says...)
	}
}

// A master behind sentinels, which are named as a list with commas, in a variable and a flag; once with TLS. The first sentinel is down.
func TestSentinel_severalHosts_everyCommand(t *testing.T) {
	needs.Redis(t)
	needs.NoRace(t, aProgramEach)
	needs.Test(t)
	t.Parallel()
	s := quorumtest.StartSecure(t, 1, localredis.Config{})
	port, addr := quorumtest.FreePort(t)
	conf := []string{"tls-replication yes"}
	for args := s.Args(port); len(args) > 1; args = args[2:] {
		conf = append(conf, strings.TrimPrefix(args[0], "--")+" "+args[1])
	}
	quorumtest.StartSentinel(t, s.Addrs[0], conf...)
	plain := quorumtest.StartSentinel(t, s.Servers[0].Addr())
	others := startURLs(t, 2)
	for _, first := range []string{
		fmt.Sprintf("redis-sentinel://127.0.0.1:1,%s/mine?name=m1", plain),
		fmt.Sprintf("rediss-sentinel://127.0.0.1:1,%s/mine?name=m1&%s", addr, quorumtest.Params(s.Cert, s.Key, s.CA)),
	} {
		list := first + "," + strings.Join(others, ",")
		for _, u := range append(others, s.Servers[0].URL()) {
			must(t, direct(t, u).FlushAll(t.Context()).Err())
		}
		everyCommand(t, openOn(append([]string{first}, others...)...), []string{"--from", list}, asProgram(t, []string{"REDLOCK_NODES=" + list}, "--max-ttl", tlsTTL))
		if said := expectCode(t, exitOK, "doctor", "--max-ttl", tlsTTLAfter, "--nodes", list); !strings.Contains(said, "m1 redis") {
			t.Errorf("%s", said)
		}
	}
	for query, word := range map[string]string{"ca=" + s.CA: "certificate required", quorumtest.Params(s.Cert, s.Key, ""): "--tls-ca FILE"} {
		stall.Try(t, handshake, func(t testing.TB) {
			_, said, _ := cli(t, "status", "--max-ttl", tlsTTLAfter, "--nodes", fmt.Sprintf("rediss-sentinel://%s/mine?name=m1&%s,%s", addr, query, strings.Join(others, ",")))
			wantSaid(t, strings.Join(strings.Fields(said), " "), word)
		})
	}
	// One whose sentinels do not answer is silent, and no reason to refuse the list.
	said := expectCode(t, exitRecovers, "doctor", "--max-ttl", tlsTTLAfter, "--nodes", "redis-sentinel://127.0.0.1:1,127.0.0.1:2/mine?name=m1,"+strings.Join(others, ","))
	wantSaid(t, said, "m1 cannot be found: no sentinel names the master", "start its sentinels")
}

// The example of the docs is run as it stands there, on other ports.
func TestTLS_exampleOfTheDocs(t *testing.T) {
	needs.Redis(t)
	needs.Program(t, "openssl")
	t.Parallel()
	wantSaid(t, runExample(t, "operations.md", "TLS", freePort), "all vote: the list has begun", "it works")
}

var portOfTheDocs = regexp.MustCompile(`\b70\d\d\b`)

// runExample runs the first sh block under a heading of a page as it stands there, with a port of its own for each 70xx, and returns what it said.
func runExample(t *testing.T, file, heading string, freePort func(testing.TB) string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/" + file)
	must(t, err)
	_, section, _ := strings.Cut(string(page), "\n### "+heading+"\n")
	_, script, _ := strings.Cut(section, "```sh\n")
	script, _, found := strings.Cut(script, "```")
	if !found {
		t.Fatal("no example")
	}
	ports := map[string]string{}
	script = portOfTheDocs.ReplaceAllStringFunc(script, func(port string) string {
		if ports[port] == "" {
			ports[port] = freePort(t)
		}
		return ports[port]
	})
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	must(t, os.Symlink(self, filepath.Join(dir, "redlock")))
	sh := exec.Command("sh", "-e", "-c", script)
	sh.Dir, sh.Env = dir, append(os.Environ(), programVar+"=1", noWaitAtExit, "PATH="+dir+":"+os.Getenv("PATH"))
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the servers are of its group
	var said bytes.Buffer
	sh.Stdout, sh.Stderr, sh.WaitDelay = &said, &said, time.Second/10
	must(t, sh.Start())
	defer func() { _ = syscall.Kill(-sh.Process.Pid, syscall.SIGKILL) }()
	limit := time.AfterFunc(time.Minute, func() { _ = syscall.Kill(-sh.Process.Pid, syscall.SIGKILL) })
	defer limit.Stop()
	if err := sh.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) { // the servers have its output
		t.Fatalf("%v: %s", err, &said)
	}
	return said.String()
}
