// SPDX-License-Identifier: Apache-2.0

// Package etcd has etcd as one of the libraries that are measured: three members on this host, and the mutexes of its package concurrency.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/redlock-go/redlock/chaos/cluster/leftover"
)

// Cluster is a cluster of three members on this host, with etcd's own settings: each grant and each release is on the disks of two of them.
type Cluster struct {
	dir       string
	members   []member
	Endpoints []string
}

// member is one process. exited is closed when it is reaped.
type member struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// ErrMissing is why etcd is left out.
var ErrMissing = errors.New("etcd is missing: apt-get install -y etcd-server")

// Version is that of the server that would be started.
func Version() (string, error) {
	out, err := exec.Command("etcd", "--version").Output()
	if err != nil {
		return "", ErrMissing
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimPrefix(first, "etcd Version: "), nil
}

// Start starts a cluster, and waits until it takes writes. If it fails, nothing is left behind.
func Start(ctx context.Context) (*Cluster, error) {
	dir, err := leftover.TempDir()
	if err != nil {
		return nil, err
	}
	e := &Cluster{dir: dir}
	if err = e.start(); err == nil {
		err = e.ready(ctx)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// start starts the members.
func (e *Cluster) start() error {
	urls, err := freeURLs(6)
	if err != nil {
		return err
	}
	e.Endpoints = urls[:3]
	peers := urls[3:]
	all := fmt.Sprintf("m0=%s,m1=%s,m2=%s", peers[0], peers[1], peers[2])
	for i, at := range e.Endpoints {
		name := fmt.Sprint("m", i)
		cmd := exec.Command("etcd", "--name", name, "--data-dir", filepath.Join(e.dir, name), "--logger", "zap", "--log-level", "error",
			"--listen-client-urls", at, "--advertise-client-urls", at, "--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", all, "--initial-cluster-state", "new")
		m, err := spawn(cmd)
		if err != nil {
			return err
		}
		e.members = append(e.members, m)
	}
	return nil
}

// spawn starts a member that ends with this program. The kernel kills a child when the thread that forked it ends, so that thread waits for the
// child and is not given back (see internal/testredis/localredis).
func spawn(cmd *exec.Cmd) (member, error) {
	m := member{cmd: cmd, exited: make(chan struct{})}
	cmd.SysProcAttr = childAttr()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(m.exited)
		}
	}()
	return m, <-started
}

// ready waits until there is a leader.
func (e *Cluster) ready(ctx context.Context) error {
	c, err := open(e.Endpoints)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		trying, cancel := context.WithTimeout(ctx, time.Second)
		_, err := c.Put(trying, "ready", "")
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("etcd does not begin: %w", err)
		}
	}
}

// freeURLs are addresses on this host that nobody listens on.
func freeURLs(n int) (urls []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		urls = append(urls, "http://"+l.Addr().String())
	}
	return urls, nil
}

// PIDs are those of its processes.
func (e *Cluster) PIDs() (all []int) {
	for _, m := range e.members {
		all = append(all, m.cmd.Process.Pid)
	}
	return all
}

func open(endpoints []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// Close ends the members, and removes what they wrote.
func (e *Cluster) Close() {
	for _, m := range e.members {
		_ = m.cmd.Process.Kill()
		<-m.exited
	}
	_ = os.RemoveAll(e.dir)
}

// Locks are the mutexes of etcd's package concurrency, of one client. A session holds a lock once however many ask through it, so each caller that is
// under way has a session; those that are not in use are kept.
type Locks struct {
	c   *clientv3.Client
	ttl time.Duration

	mu   sync.Mutex
	free []*concurrency.Session
	all  []*concurrency.Session
}

// Open connects a client, whose sessions last that long without it.
func Open(endpoints []string, ttl time.Duration) (*Locks, error) {
	c, err := open(endpoints)
	return &Locks{c: c, ttl: ttl}, err
}

// Close ends the sessions, and so what they hold.
func (k *Locks) Close() {
	for _, s := range k.all {
		_ = s.Close()
	}
	_ = k.c.Close()
}

func (k *Locks) session() (*concurrency.Session, error) {
	k.mu.Lock()
	if n := len(k.free); n > 0 {
		defer k.mu.Unlock()
		s := k.free[n-1]
		k.free = k.free[:n-1]
		return s, nil
	}
	k.mu.Unlock()
	s, err := concurrency.NewSession(k.c, concurrency.WithTTL(int(k.ttl/time.Second)))
	if err == nil {
		k.mu.Lock()
		k.all = append(k.all, s)
		k.mu.Unlock()
	}
	return s, err
}

func (k *Locks) give(s *concurrency.Session) {
	k.mu.Lock()
	k.free = append(k.free, s)
	k.mu.Unlock()
}

// Take waits for a lock until ctx ends. It returns the key that holds it and the revision at which it was granted.
func (k *Locks) Take(ctx context.Context, name string) (key string, revision int64, release func(context.Context) error, err error) {
	s, err := k.session()
	if err != nil {
		return "", 0, nil, err
	}
	m := concurrency.NewMutex(s, name)
	if err := m.Lock(ctx); err != nil {
		k.give(s)
		return "", 0, nil, err
	}
	release = func(ctx context.Context) error {
		defer k.give(s)
		return m.Unlock(ctx)
	}
	return m.Key(), m.Header().Revision, release, nil
}
