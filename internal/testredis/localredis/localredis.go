// SPDX-License-Identifier: Apache-2.0

// Package localredis starts and stops real redis-server processes on this machine, for the bench, the tests and the chaos harness.
//
// Guarantee: a server listens on 127.0.0.1 only, on a port that no other program gets from Start to Close, also while the server is down.
// On Linux no server outlives the program that started it, however that program ends, because the kernel kills the children of a dead
// parent (see spawn). On other systems only Close ends a server. A program that is killed leaves the temporary directories of its servers
// behind.
//
// The package knows how to run a server program, and nothing of locks. It imports internal/testredis/loopback only. Tests and harnesses use
// [Start] and [StartN], and on a [Server] Kill, Restart, Pause and Close.
package localredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/testredis/loopback"
)

// ErrNoServer says that no redis-server binary was found, and how to get one.
var ErrNoServer = errors.New("localredis: no redis-server found; install it with: apt-get install -y redis-server")

// Persistence says what a server keeps over a restart.
type Persistence string

const (
	None     Persistence = ""         // nothing: a restarted server is empty
	EverySec Persistence = "everysec" // append-only file, fsync once a second: a killed process keeps its data, a killed machine loses a second
	Always   Persistence = "always"   // append-only file, fsync before every reply
)

// Config describes one server. The zero value is a throw-away master without persistence.
type Config struct {
	Persistence Persistence
	Args        []string // more arguments in redis.conf's words, e.g. "--maxmemory", "10mb"; they override those of the package, so do not set port, bind and dir
	Env         []string // "KEY=value" pairs added to the program's environment, e.g. LD_PRELOAD
	Password    string   // requirepass, and masterauth when ReplicaOf is set; empty means none
	ReplicaOf   string   // "host:port" of a master; Start does not wait for the first synchronisation
	Binary      string   // path of the server program; empty means the result of Find
	Cluster     bool     // a server of a Redis Cluster, without slots and peers at first; needs Redis 7
	Parent      string   // an existing directory in which Start makes the server's directory; empty means os.TempDir()
}

const (
	startLimit    = time.Minute      // how long Start and Restart wait when their context has no deadline
	shutdownLimit = 15 * time.Second // above redis-server's own shutdown-timeout of 10 s
	pauseLimit    = 5 * time.Second
	pollInterval  = 2 * time.Millisecond
	portTries     = 5
	removeTries   = 500
	logName       = "redis.log"
	confName      = "redis.conf"
)

// Server is one redis-server process with its directory and port. All methods may be called from any goroutine; those that change
// the process wait for each other.
type Server struct {
	cfg  Config
	dir  string
	port *loopback.Port
	bus  *loopback.Port // of a cluster's server, else nil

	mu     sync.Mutex // one change of the process at a time
	closed bool       // guarded by mu
	// proc is the last process started. It is atomic so that PID does not wait behind a Restart. It may have exited: see process.exited.
	proc atomic.Pointer[process]
}

// Find returns the path of the redis-server in PATH and its version ("redis 7.0.15", "valkey 8.1.1"), or an error that errors.Is
// ErrNoServer.
func Find() (path, version string, err error) {
	path, err = exec.LookPath("redis-server")
	if err != nil {
		return "", "", ErrNoServer
	}
	version, err = Version(path)
	return path, version, err
}

// Version returns the name and version of the server program at path, as in "redis 7.0.15" or "valkey 8.1.1".
func Version(path string) (string, error) {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("localredis: %s --version: %w", path, err)
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("localredis: %s --version says %q", path, out)
	}
	return strings.ToLower(string(m[1])) + " " + string(m[2]), nil
}

var versionPattern = regexp.MustCompile(`(?m)^(\w+) server v=([0-9.]+)`)

// VersionIn returns the name and version of a server from the section "server" of its INFO, in the form of [Version], or "" if they are not
// in it. It ignores a Valkey's redis_version, the version of Redis that it claims to be compatible with.
func VersionIn(info string) string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		fields[name] = value
	}
	name, version := cmp.Or(fields["server_name"], "redis"), fields["redis_version"]
	if own := fields[name+"_version"]; own != "" {
		version = own
	}
	if version == "" {
		return ""
	}
	return name + " " + version
}

// Start starts one server and returns when it answers PING. ctx bounds the wait (a minute if it has no deadline), not the server's life.
// If Start fails, it leaves nothing behind. The error contains the end of the server's log.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Binary == "" {
		path, err := exec.LookPath("redis-server")
		if err != nil {
			return nil, ErrNoServer
		}
		cfg.Binary = path
	}
	for try := 1; ; try++ {
		s, err := startOnce(ctx, cfg)
		if err == nil || try == portTries || !errors.Is(err, errPortTaken) {
			return s, err
		}
	}
}

func startOnce(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	err := s.reserve()
	if err == nil {
		s.dir, err = os.MkdirTemp(cfg.Parent, "localredis-")
	}
	if err != nil {
		s.release()
		return nil, fmt.Errorf("localredis: %w", err)
	}
	if err := s.launch(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// reserve gets the server's ports.
func (s *Server) reserve() (err error) {
	if s.port, err = loopback.Reserve(); err == nil && s.cfg.Cluster {
		s.bus, err = loopback.Reserve()
	}
	if err != nil {
		err = fmt.Errorf("reserve a port: %w", err)
	}
	return err
}

func (s *Server) release() {
	for _, p := range []*loopback.Port{s.port, s.bus} {
		if p != nil {
			p.Release()
		}
	}
}

// StartN starts n servers of the same Config in parallel. If one of them fails, StartN closes the others and returns the error.
func StartN(ctx context.Context, n int, cfg Config) ([]*Server, error) {
	servers := make([]*Server, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { servers[i], errs[i] = Start(ctx, cfg) })
	}
	wg.Wait()
	err := errors.Join(slices.CompactFunc(errs, func(a, b error) bool { return a != nil && b != nil && a.Error() == b.Error() })...)
	if err == nil {
		return servers, nil
	}
	for _, s := range servers {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return nil, err
}

// Addr returns "127.0.0.1:port". It stays the same until Close.
func (s *Server) Addr() string { return s.port.Addr() }

// URL returns the server's address as go-redis's ParseURL takes it, password included.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.cfg.Password != "" {
		u.User = url.UserPassword("", s.cfg.Password)
	}
	return u.String()
}

// PID returns the process id, 0 while the server is down. It never waits.
func (s *Server) PID() int {
	if p := s.proc.Load(); p != nil && !p.gone() {
		return p.cmd.Process.Pid
	}
	return 0
}

// Dir returns the server's working directory: its data files and its log, redis.log. Close removes it.
func (s *Server) Dir() string { return s.dir }

// Kill ends the process with SIGKILL, with the children that it forked, and returns when it is reaped. Data files and port stay for Restart. If the server is down, Kill does nothing.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *Server) kill() error {
	p := s.proc.Load()
	if p == nil || p.gone() {
		return nil
	}
	if err := killAll(p.cmd.Process.Pid); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("localredis: kill: %w", err)
	}
	<-p.exited
	return nil
}

// Shutdown ends the process with SIGTERM, as an operator would, and returns when it is reaped. It resumes a paused server first. If the
// process has not ended after 15 s, Shutdown returns an error and the process runs on. If the server is down, Shutdown does nothing.
func (s *Server) Shutdown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proc.Load()
	if p == nil || p.gone() {
		return nil
	}
	// A stopped process keeps SIGTERM pending until it is continued.
	if err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(shutdownLimit):
		return fmt.Errorf("localredis: %s still runs %v after SIGTERM%s", s.Addr(), shutdownLimit, s.logTail())
	}
}

// Restart starts the server again, on the same port and directory, after Kill, Shutdown or a crash, and returns when it answers PING
// (data loaded). ctx as for Start. After an error the server is down.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("localredis: restart: %s is closed", s.Addr())
	}
	if s.PID() != 0 {
		return fmt.Errorf("localredis: restart: %s is running", s.Addr())
	}
	return s.launch(ctx)
}

// Pause stops the process with SIGSTOP and returns when it has stopped. From then on it answers nothing, but the kernel still accepts
// connections for it. If the server is paused, Pause does nothing.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.running("pause")
	if err != nil {
		return err
	}
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// kill(2) returns before the target has stopped: on another core it may still answer a few commands.
	for limit := time.Now().Add(pauseLimit); time.Now().Before(limit); time.Sleep(pollInterval) {
		if stopped(p.cmd.Process.Pid) {
			return nil
		}
		if p.gone() {
			return fmt.Errorf("localredis: pause: %s ended", s.Addr())
		}
	}
	return fmt.Errorf("localredis: pause: %s not stopped after %v", s.Addr(), pauseLimit)
}

// Resume continues a paused server with SIGCONT. On a server that is not paused it does nothing.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.running("resume")
	if err != nil {
		return err
	}
	return p.signal(syscall.SIGCONT)
}

// running returns the live process. The caller holds s.mu.
func (s *Server) running(verb string) (*process, error) {
	p := s.proc.Load()
	if p == nil || p.gone() {
		return nil, fmt.Errorf("localredis: %s: %s is down", verb, s.Addr())
	}
	return p, nil
}

// Wipe removes all data files (everything in Dir but the log). The server must be down; the next Restart finds an empty directory.
func (s *Server) Wipe() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.PID() != 0 {
		return fmt.Errorf("localredis: wipe: %s is running", s.Addr())
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("localredis: wipe: %w", err)
	}
	for _, e := range entries {
		if e.Name() != logName {
			err = errors.Join(err, remove(filepath.Join(s.dir, e.Name())))
		}
	}
	return err
}

// Close kills and reaps the process (paused or not), removes the directory and gives the port back. Later calls do nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if err := s.kill(); err != nil {
		return err
	}
	s.closed = true
	s.release()
	return remove(s.dir)
}

// configure writes the password into a file, because a Valkey refuses a quotation mark in a password on its command line.
func (s *Server) configure() error {
	if s.cfg.Password == "" {
		return nil
	}
	password := quote(s.cfg.Password)
	text := "requirepass " + password + "\nmasterauth " + password + "\n"
	return os.WriteFile(filepath.Join(s.dir, confName), []byte(text), 0o600)
}

// quote returns word in the form in which redis.conf accepts any bytes.
func quote(word string) string {
	var b strings.Builder
	for i := range len(word) {
		fmt.Fprintf(&b, `\x%02x`, word[i])
	}
	return `"` + b.String() + `"`
}

// args builds the command line. Config.Args come last because the last word on an option wins in redis-server.
func (s *Server) args() []string {
	var args []string
	if s.cfg.Password != "" {
		args = []string{filepath.Join(s.dir, confName)} // must be the first argument
	}
	args = append(args,
		"--port", strconv.Itoa(s.port.Number()), "--bind", "127.0.0.1", "--dir", s.dir,
		"--daemonize", "no", "--save", "", // and no --logfile: see launch
		"--repl-diskless-sync-delay", "0", // a master otherwise lets its first replica wait 5 s for a second one
	)
	if s.cfg.Persistence != None {
		args = append(args, "--appendonly", "yes", "--appendfsync", string(s.cfg.Persistence))
	}
	if host, port, ok := strings.Cut(s.cfg.ReplicaOf, ":"); ok {
		args = append(args, "--replicaof", host, port)
	}
	if s.cfg.Cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(s.bus.Number()))
	}
	return append(args, s.cfg.Args...)
}
