// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"

	"github.com/redlock-go/redlock/chaos/cluster/clockshim"
	"github.com/redlock-go/redlock/chaos/cluster/leftover"
)

const (
	launchTries = 5
	logTail     = "20"
)

// containers is the docker driver.
type containers struct {
	pool    *dockertest.Pool
	engine  string // for people: where it is and its version
	network *dockertest.Network
	run     string // in the name and on the label of all we make
	image   string
	// starting is held while the engine starts a container: five at once wait for each other in iptables, for 25 s on a busy machine.
	starting sync.Mutex
}

func openDocker(ctx context.Context, cfg Config) (*containers, error) {
	pool, engine, err := leftover.Engine()
	if err != nil {
		return nil, err
	}
	d := &containers{pool: pool, engine: engine, run: strings.ToLower(rand.Text()[:8])}
	if d.image, err = d.findImage(ctx, cmp.Or(cfg.Image, os.Getenv("REDLOCK_REDIS_IMAGE"))); err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.network, err = pool.CreateNetwork("redlock-"+d.run, func(o *dc.CreateNetworkOptions) {
		o.Driver, o.Labels, o.Context = "bridge", d.labels(), ctx
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: create a docker network: %w (too many networks? see docker network prune)", err), d.close())
	}
	return d, nil
}

func (d *containers) describe() string { return d.engine + ", image " + d.image }

func (d *containers) labels() map[string]string {
	return leftover.Labels(d.run)
}

// launch tries again with another port when it lost a race for one.
func (d *containers) launch(ctx context.Context, s spec) (server, error) {
	c := &container{d: d, name: "redlock-" + d.run + "-" + s.name, data: filepath.Join(s.home, "data")}
	if err := os.Mkdir(c.data, 0o700); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		var err error
		if c.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = c.create(s); err == nil {
			err = c.awaitReady(ctx)
		}
		if err == nil {
			return c, nil
		}
		err = errors.Join(err, d.remove(c.name))
		if !portTaken(err) || try == launchTries || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (d *containers) close() error {
	_, err := leftover.Purge(context.Background(), d.pool.Client, func(labels map[string]string) bool { return labels[leftover.RunLabel] == d.run })
	return err
}

func (d *containers) remove(name string) error {
	return leftover.IgnoreMissing(d.pool.Client.RemoveContainer(dc.RemoveContainerOptions{ID: name, Force: true, RemoveVolumes: true}))
}

// container is a server of the docker driver.
type container struct {
	d    *containers
	name string
	port int    // on the host's loopback interface
	data string // the host's directory mounted as /data
}

// create makes and starts the container. The command is the bare server and the user ourselves, whatever the image's entrypoint does:
// an official image would give the data directory to a user of its own, and we could not empty it.
func (c *container) create(s spec) error {
	repository, tag := dc.ParseRepositoryTag(c.d.image)
	command := append([]string{"--dir", "/data", "--save", "", "--protected-mode", "no"}, redisArgs...)
	if s.persistence != None {
		command = append(command, "--appendonly", "yes", "--appendfsync", string(s.persistence))
	}
	binds, env := []string{c.data + ":/data"}, []string(nil)
	if s.clock != "" {
		binds, env = append(binds, s.clock+":/clock:ro"), clockshim.Env("/clock")
	}
	_, err := c.d.pool.RunWithOptions(&dockertest.RunOptions{
		Name: c.name, Repository: repository, Tag: tag, User: fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()),
		Entrypoint: []string{"redis-server"}, Cmd: command, Env: env, Labels: c.d.labels(),
		NetworkID: c.d.network.Network.ID, ExposedPorts: []string{"6379/tcp"},
		// A port of our choice, because an ephemeral one changes with every start (moby #8723).
		PortBindings: map[dc.Port][]dc.PortBinding{"6379/tcp": {{HostIP: "127.0.0.1", HostPort: strconv.Itoa(c.port)}}},
	}, func(h *dc.HostConfig) {
		h.Binds, h.NetworkMode = binds, c.d.network.Network.Name
	})
	return err
}

func (c *container) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)) }
func (c *container) peer() string { return c.name + ":6379" } // by name, since its address in the network may change with a start
func (c *container) dir() string  { return c.data }

func (c *container) inspect(ctx context.Context) (*dc.Container, error) {
	return c.d.pool.Client.InspectContainerWithContext(c.name, ctx)
}

func (c *container) running(ctx context.Context) (bool, error) {
	now, err := c.inspect(ctx)
	if err != nil {
		return false, err
	}
	return now.State.Running, nil
}

func (c *container) start(ctx context.Context) error {
	c.d.starting.Lock()
	err := c.d.pool.Client.StartContainerWithContext(c.name, nil, ctx)
	c.d.starting.Unlock()
	if portTaken(err) {
		return fmt.Errorf("port %d was taken by another program while the server was down; end that program: %w", c.port, err)
	}
	if err != nil {
		return err
	}
	return c.awaitReady(ctx)
}

// awaitReady returns when the server answers PING, its data loaded. An error carries the end of the container's log.
func (c *container) awaitReady(ctx context.Context) error {
	err := poll(ctx, func(ctx context.Context) error {
		err := ping(ctx, c.addr())
		if err == nil {
			return nil
		}
		if up, inspectErr := c.running(ctx); inspectErr == nil && !up {
			return fmt.Errorf("%w: the container ended", errHopeless)
		}
		return err
	})
	if err == nil {
		return nil
	}
	var log strings.Builder
	_ = c.d.pool.Client.Logs(dc.LogsOptions{Container: c.name, Stdout: true, Stderr: true, OutputStream: &log, ErrorStream: &log, Tail: logTail})
	return fmt.Errorf("%w\n--- log of %s\n%s", err, c.name, strings.TrimSpace(log.String()))
}

func (c *container) kill(ctx context.Context) error {
	err := c.d.pool.Client.KillContainer(dc.KillContainerOptions{ID: c.name, Signal: dc.SIGKILL, Context: ctx})
	if _, down := err.(*dc.ContainerNotRunning); down {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = c.d.pool.Client.WaitContainerWithContext(c.name, ctx)
	return err
}

func (c *container) use(string) error { return errors.New("the docker driver runs one image") }

func (c *container) pause(ctx context.Context) error {
	now, err := c.inspect(ctx)
	if err != nil || now.State.Paused {
		return err
	}
	return c.d.pool.Client.PauseContainer(c.name)
}

func (c *container) unpause(ctx context.Context) error {
	now, err := c.inspect(ctx)
	if err != nil || !now.State.Paused {
		return err
	}
	return c.d.pool.Client.UnpauseContainer(c.name)
}

// freePort returns a port that nobody listens on, from below Linux's default range of ephemeral ports. One from within that range could
// become the source port of any connection while our server is down: Start would fail then, and a client that dials the dead server
// could be given the very port it dials and be connected to itself.
func freePort() (int, error) {
	const first, count, tries = 20000, 12000, 100
	for range tries {
		port := first + mathrand.IntN(count)
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("none of %d ports tried between %d and %d is free", tries, first, first+count)
}

func portTaken(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "port is already allocated") || strings.Contains(err.Error(), "address already in use"))
}
