// SPDX-License-Identifier: Apache-2.0

package localredis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		childMain() // never returns
	}
	goleak.VerifyTestMain(m)
}

// start starts a server for the test, or skips the test where there is no redis-server.
func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	needs.Redis(t)
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// client returns a client of s that does not retry.
func client(t *testing.T, s *Server) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	opt.MaxRetries, opt.DialerRetries = -1, 1
	opt.DialTimeout, opt.ReadTimeout = 30*time.Second, 30*time.Second
	opt.ContextTimeoutEnabled = true
	c := redis.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFind_noServerInPath_saysHowToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := Find()
	if !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), "apt-get install -y redis-server") {
		t.Fatalf("Find: %v", err)
	}
	if _, err := Start(t.Context(), Config{}); !errors.Is(err, ErrNoServer) {
		t.Fatalf("Start: %v", err)
	}
}

func TestFind_serverInPath_pathAndVersion(t *testing.T) {
	needs.Redis(t)
	needs.EveryServer(t)
	path, version, err := Find()
	must(t, err)
	if kind, number, _ := strings.Cut(version, " "); !filepath.IsAbs(path) || kind != "redis" && kind != "valkey" || !strings.Contains(number, ".") {
		t.Fatalf("Find = %q, %q", path, version)
	}
	// The server says the same of itself.
	if got := VersionIn(client(t, start(t, Config{})).Info(t.Context(), "server").Val()); got != version {
		t.Errorf("INFO says %q, --version %q", got, version)
	}
}

func TestVersion_ofEachKind(t *testing.T) {
	for says, want := range map[string]string{
		"Redis server v=6.2.16 sha=00000000:0 malloc=libc bits=64 build=4c07604ed9427fad":           "redis 6.2.16",
		"Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ad0f3ed608b40934": "valkey 8.1.1",
		"PostgreSQL 15.3": "",
	} {
		program := filepath.Join(t.TempDir(), "server")
		must(t, os.WriteFile(program, []byte("#!/bin/sh\necho '"+says+"'\n"), 0o700))
		got, err := Version(program)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", says, got, err, want)
		}
	}
	if _, err := Version(filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("a program that is not there has a version")
	}
}

func TestVersionIn_ofEachKind(t *testing.T) {
	for info, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:0\r\n":                                      "redis 7.0.15",
		"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nos:Linux\r\n": "valkey 8.1.1",
		"# Server\r\n": "",
		"":             "",
	} {
		if got := VersionIn(info); got != want {
			t.Errorf("%q: %q, want %q", info, got, want)
		}
	}
}

func TestStart_zeroConfig_emptyMasterOnLoopbackOnly(t *testing.T) {
	needs.EveryServer(t)
	s := start(t, Config{})
	ctx, c := t.Context(), client(t, s)
	for option, want := range map[string]string{"save": "", "appendonly": "no", "bind": "127.0.0.1", "dir": s.Dir()} {
		if got := c.ConfigGet(ctx, option).Val()[option]; got != want {
			t.Errorf("%s = %q, want %q", option, got, want)
		}
	}
	if role := c.Do(ctx, "role").Val().([]any)[0]; role != "master" {
		t.Errorf("role = %v", role)
	}
}

func TestStart_everyOption_reachesTheServer(t *testing.T) {
	needs.EveryServer(t)
	master := start(t, Config{Password: "p:/ @'\"word"})
	s := start(t, Config{
		Persistence: Always, Password: "p:/ @'\"word", ReplicaOf: master.Addr(),
		Args: []string{"--maxmemory", "10mb"},
	})
	ctx, c := t.Context(), client(t, s)
	for option, want := range map[string]string{"appendonly": "yes", "appendfsync": "always", "maxmemory": "10485760"} {
		if got := c.ConfigGet(ctx, option).Val()[option]; got != want {
			t.Errorf("%s = %q, want %q", option, got, want)
		}
	}
	must(t, client(t, master).Set(ctx, "k", "v", 0).Err())
	eventually(t, "the replica has the master's key", func() bool { return c.Get(ctx, "k").Val() == "v" })
	noAuth := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	defer noAuth.Close()
	if err := noAuth.Ping(ctx).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("PING without password: %v", err)
	}
}

func TestStart_binaryAndEnv_used(t *testing.T) {
	needs.Redis(t)
	path, _, err := Find()
	must(t, err)
	// redis-server overwrites the environment in /proc for its process title, so a script tells.
	script := filepath.Join(t.TempDir(), "wrapper")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\necho wrapped: $WORD\nexec "+path+" \"$@\"\n"), 0o700))
	s := start(t, Config{Binary: script, Env: []string{"WORD=abracadabra"}})
	if log, _ := os.ReadFile(filepath.Join(s.Dir(), logName)); !strings.HasPrefix(string(log), "wrapped: abracadabra\n") {
		t.Errorf("log:\n%s", log)
	}
}

// A child that the server forked, to rewrite its append-only file for instance, ends with it: else it writes on into the directory while that is removed,
// or after it was wiped.
func TestKill_serversChildren_endToo(t *testing.T) {
	needs.Redis(t)
	needs.Linux(t, "elsewhere the server has no process group of its own")
	path, _, err := Find()
	must(t, err)
	script := filepath.Join(t.TempDir(), "forks")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\n(n=0; while :; do n=$((n+1)); : >$n; done) &\necho $! >child\nexec "+path+" \"$@\"\n"), 0o700))
	for _, end := range []func(*Server) error{(*Server).Kill, (*Server).Close} {
		s, err := Start(t.Context(), Config{Binary: script})
		must(t, err)
		text, err := os.ReadFile(filepath.Join(s.Dir(), "child"))
		must(t, err)
		child, err := strconv.Atoi(strings.TrimSpace(string(text)))
		must(t, err)
		must(t, end(s))
		eventually(t, "the child has ended", func() bool { return !runs(child) })
		must(t, s.Close())
		if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory is left: %v", err)
		}
	}
}

// runs says whether a process is there and no zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z"))
}

func TestStart_badOption_errorCarriesLogAndLeavesNothing(t *testing.T) {
	needs.EveryServer(t)
	start(t, Config{}) // skips where there is no server
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	_, err := Start(t.Context(), Config{Args: []string{"--no-such-option", "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Fatalf("Start: %v", err)
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStart_contextDone_errorAndNoProcess(t *testing.T) {
	needs.Redis(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, Config{})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Start: %v", err)
	}
}

func TestStartN_twoSideBySide_tenServersThatDoNotMeet(t *testing.T) {
	start(t, Config{}) // skips where there is no server
	var (
		groups [2][]*Server
		errs   [2]error
		wg     sync.WaitGroup
	)
	for i := range groups {
		wg.Go(func() { groups[i], errs[i] = StartN(t.Context(), 5, Config{}) })
	}
	wg.Wait()
	must(t, errors.Join(errs[:]...))
	ports, ids := map[string]bool{}, map[string]bool{}
	for _, s := range append(groups[0], groups[1]...) {
		defer s.Close()
		info := client(t, s).InfoMap(t.Context(), "server").Val()["Server"]
		ports[s.Addr()], ids[info["run_id"]] = true, true
	}
	if len(ports) != 10 || len(ids) != 10 {
		t.Errorf("%d ports, %d run ids, want 10 of each", len(ports), len(ids))
	}
}

func TestStartN_oneCannotStart_none(t *testing.T) {
	start(t, Config{}) // skips where there is no server
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	// The fifth process finds its turn taken: the script lets four through.
	needs.Redis(t)
	path, _, err := Find()
	must(t, err)
	script := filepath.Join(t.TempDir(), "four")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\nfor i in 1 2 3 4; do mkdir \"$TURNS/$i\" 2>/dev/null && exec "+path+" \"$@\"; done\nexit 3\n"), 0o700))
	servers, err := StartN(t.Context(), 5, Config{Binary: script, Env: []string{"TURNS=" + t.TempDir()}})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || servers != nil {
		t.Fatalf("StartN = %v, %v", servers, err)
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What keeps all of them from starting is said once.
func TestStartN_noneCanStart_saidOnce(t *testing.T) {
	start(t, Config{}) // skips where there is no server
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, err := StartN(t.Context(), 5, Config{}); err == nil || strings.Count(err.Error(), "no such file") != 1 {
		t.Errorf("%v", err)
	}
}

// A goroutine that ends while locked to its thread takes the thread with it. A server forked by such a thread would die with it.
func TestStart_threadsEndAllTheTime_serversLive(t *testing.T) {
	needs.Test(t)
	start(t, Config{}) // skips where there is no server
	stop := make(chan struct{})
	var enders, starters sync.WaitGroup
	var ends atomic.Int64
	for range 4 {
		enders.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ended := make(chan struct{})
				go func() {
					runtime.LockOSThread()
					close(ended)
				}()
				<-ended
				ends.Add(1)
				time.Sleep(100 * time.Microsecond) // the servers need some of the machine
			}
		})
	}
	servers := make([]*Server, 8)
	errs := make([]error, len(servers))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // threads that end all the time leave a server little of the machine
	defer cancel()
	for i := range servers {
		starters.Go(func() {
			runtime.LockOSThread() // the caller's thread ends too
			servers[i], errs[i] = Start(ctx, Config{})
		})
	}
	starters.Wait()
	for all := ends.Load() + 2000; ends.Load() < all; time.Sleep(time.Millisecond) { // any thread of the pool may be among these
	}
	close(stop)
	enders.Wait()
	for i, s := range servers {
		if s == nil {
			t.Errorf("not started, or killed at once: %v", errs[i])
			continue
		}
		defer s.Close()
		if err := client(t, s).Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestKill_thenRestart_samePortAndNewProcess(t *testing.T) {
	needs.EveryServer(t)
	s := start(t, Config{})
	ctx, addr, pid := t.Context(), s.Addr(), s.PID()
	if err := s.Restart(ctx); err == nil {
		t.Fatal("restart of a running server: no error")
	}
	must(t, s.Kill())
	must(t, s.Kill()) // down already
	if s.PID() != 0 {
		t.Errorf("PID = %d while down", s.PID())
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("a killed server accepts")
	}
	must(t, s.Restart(ctx))
	if s.Addr() != addr || s.PID() == 0 || s.PID() == pid {
		t.Errorf("after restart: %s pid %d, before: %s pid %d", s.Addr(), s.PID(), addr, pid)
	}
	must(t, client(t, s).Ping(ctx).Err())
}

func TestKill_withAOF_keepsDataUnlessWiped(t *testing.T) {
	needs.EveryServer(t)
	s := start(t, Config{Persistence: Always})
	ctx, c := t.Context(), client(t, s)
	must(t, c.Set(ctx, "k", "v", 0).Err())
	if err := s.Wipe(); err == nil {
		t.Fatal("wipe of a running server: no error")
	}
	must(t, s.Kill())
	must(t, s.Restart(ctx))
	if got := c.Get(ctx, "k").Val(); got != "v" {
		t.Fatalf("after kill and restart k = %q", got)
	}
	must(t, s.Kill())
	must(t, s.Wipe())
	must(t, s.Restart(ctx))
	if err := c.Get(ctx, "k").Err(); err != redis.Nil {
		t.Fatalf("after wipe: %v", err)
	}
}

func TestRestart_withoutPersistence_empty(t *testing.T) {
	needs.EveryServer(t)
	s := start(t, Config{})
	ctx, c := t.Context(), client(t, s)
	must(t, c.Set(ctx, "k", "v", 0).Err())
	must(t, s.Shutdown())
	must(t, s.Restart(ctx))
	if err := c.Get(ctx, "k").Err(); err != redis.Nil {
		t.Fatalf("after restart: %v", err)
	}
}

func TestShutdown_cleanAndAlsoWhenPaused(t *testing.T) {
	needs.EveryServer(t)
	s := start(t, Config{Persistence: EverySec})
	ctx, c := t.Context(), client(t, s)
	must(t, c.Set(ctx, "k", "v", 0).Err())
	must(t, s.Pause())
	must(t, s.Shutdown())
	if log, _ := os.ReadFile(filepath.Join(s.Dir(), logName)); !strings.Contains(string(log), "bye bye") {
		t.Errorf("no clean end in the log:\n%s", log)
	}
	must(t, s.Shutdown()) // down already
	must(t, s.Restart(ctx))
	if got := c.Get(ctx, "k").Val(); got != "v" {
		t.Errorf("after a clean end k = %q", got)
	}
}

func TestPause_answersNothingUntilResume(t *testing.T) {
	needs.EveryServer(t)
	s := start(t, Config{})
	ctx, c := t.Context(), client(t, s)
	for range 5 {
		must(t, s.Pause())
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		err := c.Ping(short).Err()
		cancel()
		if err == nil {
			t.Fatal("a paused server answered")
		}
		must(t, s.Resume())
		must(t, c.Ping(ctx).Err())
	}
	must(t, s.Kill())
	if s.Pause() == nil || s.Resume() == nil {
		t.Error("pause and resume of a server that is down: no error")
	}
}

func TestClose_runningPausedOrDown_leavesNoProcessAndNoDirectory(t *testing.T) {
	for name, before := range map[string]func(*Server) error{
		"running": func(*Server) error { return nil },
		"paused":  (*Server).Pause,
		"down":    (*Server).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Config{})
			pid := s.PID()
			must(t, before(s))
			must(t, s.Close())
			must(t, s.Close())
			if proc, err := os.FindProcess(pid); err == nil && proc.Signal(exists) == nil {
				t.Errorf("process %d still there", pid)
			}
			if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("directory: %v", err)
			}
			if err := s.Restart(t.Context()); err == nil {
				t.Error("restart after close: no error")
			}
		})
	}
}

// eventually polls until ok, at most 30 s.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func TestStart_portTaken_triedAgainThenSaid(t *testing.T) {
	needs.EveryServer(t)
	first := start(t, Config{})
	_, port, _ := net.SplitHostPort(first.Addr())
	_, err := Start(t.Context(), Config{Args: []string{"--port", port}}) // insists, so every try must fail
	if !errors.Is(err, errPortTaken) {
		t.Fatalf("Start: %v", err)
	}
}

func TestStart_parent_holdsEverything(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	s := start(t, Config{Parent: parent})
	if got := filepath.Dir(s.Dir()); got != parent {
		t.Errorf("the server's directory is in %s, want %s", got, parent)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
