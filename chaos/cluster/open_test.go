// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/chaos/cluster/clockshim"
	"github.com/redlock-go/redlock/node/localredis"
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
	wantRefused(t, Config{Driver: Docker}, ErrNoEngine, "dockerd")
}

func TestOpen_remoteEngine_namesRemedy(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	wantRefused(t, Config{Driver: Docker}, ErrNoEngine, "unset DOCKER_HOST")
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
	if _, _, err := localredis.Find(); err != nil {
		t.Skip(err)
	}
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
