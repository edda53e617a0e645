// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster/clockshim"
	"github.com/redlock-go/redlock/chaos/cluster/leftover"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// wantRefused opens a cluster that cannot be: the error is target and names the remedy, and no directory is left.
func wantRefused(t *testing.T, cfg Config, target error, remedy string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	c, err := Open(t.Context(), cfg)
	if err == nil {
		must(t, c.Close())
		t.Fatal("it opened")
	}
	if target != nil && !errors.Is(err, target) || !strings.Contains(err.Error(), remedy) {
		t.Errorf("got %v, want %v with %q in it", err, target, remedy)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestOpen_noEngine_namesRemedy(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	wantRefused(t, Config{Driver: Docker}, leftover.ErrNoEngine, "dockerd")
}

// An image that was asked for is not replaced by the redis-server in PATH.
func TestOpen_autoWithImage_noEngine_refused(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	wantRefused(t, Config{Masters: 1, Image: "redis:7"}, leftover.ErrNoEngine, "dockerd")
}

func TestOpen_remoteEngine_namesRemedy(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	wantRefused(t, Config{Driver: Docker}, leftover.ErrNoEngine, "unset DOCKER_HOST")
}

func TestOpen_noServer_namesRemedy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	wantRefused(t, Config{Driver: Process}, localredis.ErrNoServer, "install")
}

func TestOpen_noCompiler_namesRemedy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	wantRefused(t, Config{Driver: Process, Clocks: true}, clockshim.ErrUnavailable, "install")
}

func TestOpen_badConfig_refused(t *testing.T) {
	wantRefused(t, Config{Driver: "podman"}, nil, `no driver "podman"`)
	wantRefused(t, Config{Driver: Process, Masters: -1}, nil, "-1 masters")
}

func TestOpen_badPersistence_showsServersWords(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		wantRefused(t, Config{Driver: driver, Masters: 2, Persistence: "sometimes"}, nil, "appendfsync")
	})
}

func TestOpen_auto_saysWhichAndWhy(t *testing.T) {
	needs.Redis(t)
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	var out bytes.Buffer
	c := open(t, Config{Masters: 1, Out: &out})
	if c.Driver() != Process || !strings.Contains(out.String(), "process driver") || !strings.Contains(out.String(), "/nonexistent") {
		t.Errorf("driver %s, said %q", c.Driver(), &out)
	}
}

func TestOpen_autoWithEngine_docker(t *testing.T) {
	needEngine(t)
	var out bytes.Buffer
	c := open(t, Config{Masters: 1, Out: &out})
	if c.Driver() != Docker || !strings.Contains(out.String(), "docker driver") || !strings.Contains(out.String(), "image ") {
		t.Errorf("driver %s, said %q", c.Driver(), &out)
	}
}

// Masters run the given programs in turn, and keep their own over a restart.
func TestOpen_servers_inTurn(t *testing.T) {
	needs.Redis(t)
	path, version, err := localredis.Find()
	must(t, err)
	var programs []string
	for i := range 2 {
		program := filepath.Join(t.TempDir(), "server")
		must(t, os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexec %s \"$@\" --databases %d\n", path, 5+i), 0o700))
		programs = append(programs, program)
	}
	var out bytes.Buffer
	c := open(t, Config{Masters: 3, Servers: programs, Out: &out})
	if c.Driver() != Process || !strings.Contains(out.String(), programs[1]+", "+version) {
		t.Errorf("driver %s, said %q", c.Driver(), &out)
	}
	wantDatabases := func(m *Master, want string) {
		t.Helper()
		must(t, m.redis(t.Context(), func(r *redis.Client) error {
			if got := r.ConfigGet(t.Context(), "databases").Val()["databases"]; got != want {
				t.Errorf("%s has %s databases, want %s", m.Name(), got, want)
			}
			return nil
		}))
	}
	second := c.Masters()[1]
	must(t, second.Kill(t.Context()))
	must(t, second.Start(t.Context()))
	for i, m := range c.Masters() {
		wantDatabases(m, []string{"5", "6", "5"}[i])
	}
	replica, err := second.Replica(t.Context())
	must(t, err)
	wantDatabases(replica, "6")
	versions, err := c.Versions(t.Context())
	must(t, err)
	if kind, number, _ := strings.Cut(version, " "); len(versions) != 1 || versions[kind] != number {
		t.Errorf("versions %v, want %s", versions, version)
	}
}

func TestOpen_serversThatCannotBe_refused(t *testing.T) {
	wantRefused(t, Config{Driver: Docker, Servers: []string{"redis-server"}}, nil, "process driver")
	wantRefused(t, Config{Servers: []string{"/nonexistent/redis-server"}}, nil, "/nonexistent/redis-server")
}

func TestOpen_imageUnknown_namesRemedy(t *testing.T) {
	needEngine(t)
	wantRefused(t, Config{Driver: Docker, Image: "127.0.0.1:1/nobody:nothing"}, nil, "docker pull")
	t.Setenv("REDLOCK_REDIS_IMAGE", "127.0.0.1:1/nobody:else")
	wantRefused(t, Config{Driver: Docker}, nil, "nobody:else")
}

func TestOpen_noImageAndNoServer_namesBoth(t *testing.T) {
	pool := needEngine(t)
	if _, err := pool.Client.InspectImage(publicImage); err == nil {
		t.Skip(publicImage + " is here")
	}
	t.Setenv("PATH", t.TempDir())
	wantRefused(t, Config{Driver: Docker}, exec.ErrNotFound, publicImage)
}

func TestMaster_portTakenWhileDown_namesRemedy(t *testing.T) {
	needEngine(t) // the process driver holds its ports
	m := open(t, Config{Driver: Docker, Masters: 1}).Masters()[0]
	must(t, m.Kill(t.Context()))
	l, err := net.Listen("tcp4", m.Addr())
	must(t, err)
	if err := m.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "taken by another program") {
		t.Errorf("got %v", err)
	}
	must(t, l.Close())
	must(t, m.Start(t.Context()))
	wantAnswers(t, m, true)
}
