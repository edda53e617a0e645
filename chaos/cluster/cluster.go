// SPDX-License-Identifier: Apache-2.0

// Package cluster runs independent Redis masters for the chaos harness. The methods of Master inject faults: they kill, freeze, wipe,
// promote and roll back a server, and change its clock and disk.
//
// The address of a Master does not change during a run. Close removes every container, network, image, process and directory that the
// cluster made. If the program dies before it calls Close, the servers of the process driver die with it. Everything else is removed by the
// reaper, a second process that leftover.Watch starts, or by leftover.Sweep in a later program.
//
// There are two drivers. The docker driver runs containers on a network of their own. It needs a Docker engine that runs as root on this
// host, because data directories are bind mounts and ports are loopback ports. The process driver runs redis-server processes and needs only
// an installed redis-server. With Config.Nodes the masters are somebody else's: the cluster only knows how to reach them.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster/clockshim"
	"github.com/redlock-go/redlock/chaos/cluster/leftover"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// Driver says what masters run in.
type Driver string

const (
	Auto    Driver = "" // Docker if an engine answers or Config.Image is set, else Process
	Docker  Driver = "docker"
	Process Driver = "process"
)

// Persistence says what a master keeps when it is killed.
type Persistence = localredis.Persistence

const (
	None     = localredis.None     // nothing
	EverySec = localredis.EverySec // append-only file, fsync once a second
	Always   = localredis.Always   // append-only file, fsync before every reply
)

// Config describes a cluster. The zero value is five masters without persistence under whichever driver works here.
type Config struct {
	Driver      Driver
	Masters     int // how many; 0 means 5
	Persistence Persistence
	// Image is the docker driver's image, e.g. "redis:7.4". Empty means $REDLOCK_REDIS_IMAGE, else redis:7 where it is present or can be
	// pulled within 20 s, else one made for this run from the installed redis-server, which Close removes.
	Image string
	// Servers are server programs (redis-server, valkey-server) for the process driver, which masters take in turn; a replica takes its
	// master's. None: the redis-server in PATH. With them Auto means Process.
	Servers []string
	// Nodes are URLs of masters that somebody else runs (ParseNode). The cluster then starts none, and everything that would stop a master
	// or change its data is ErrNotOurs.
	Nodes []string
	// Clocks gives every master a wall clock and a disk of its own: StepClock, SetRate and StallDisk need it. It needs Linux and cc, and
	// makes reading the time slower, so leave it out where latency is measured.
	Clocks bool
	Out    io.Writer // gets a few lines on what was chosen and why; nil means nowhere
}

// Cluster is a set of running masters. Any goroutine may call its methods.
type Cluster struct {
	cfg     Config
	dir     string // all files of this run; a member's in a directory of its name
	driver  driver // nil while opening
	masters []*Master
	version map[string]string // of each of Config.Servers, as localredis.Version returns it

	life   sync.RWMutex // held for reading while a server is launched, so that Close misses none
	closed bool         // guarded by life
}

// driver makes servers. It knows how to run and to reach a server. Master decides what happens to a server, and when.
type driver interface {
	// launch starts a server that answers PING when launch returns. On an error nothing of it is left.
	launch(ctx context.Context, s spec) (server, error)
	// close removes every server, running or not, and whatever else the driver made. It may be called again, also after an error.
	close() error
}

// spec describes one server to the driver.
type spec struct {
	name        string
	persistence Persistence
	program     string // of Config.Servers; empty means the redis-server in PATH
	home        string // an existing directory for its files
	clock       string // directory of its clockshim; empty without Clocks
}

// server is one redis-server of either driver. Master calls the methods one at a time.
type server interface {
	addr() string // "127.0.0.1:port" as the harness reaches it
	peer() string // "host:port" as another server of the cluster reaches it
	dir() string  // its data directory, as the harness reaches it
	running(ctx context.Context) (bool, error)
	start(ctx context.Context) error   // called when it is down; it answers PING when start returns
	kill(ctx context.Context) error    // it is gone when kill returns; paused or down is fine
	use(program string) error          // called when it is down: start then starts this program
	pause(ctx context.Context) error   // it is running; already paused is fine
	unpause(ctx context.Context) error // it is running; not paused is fine
}

// redisArgs are common to both drivers. A master synchronises a replica at once; by default it would wait 5 s for more replicas. It never
// rewrites the append-only file, because Snapshot may be copying it.
var redisArgs = []string{"--repl-diskless-sync-delay", "0", "--auto-aof-rewrite-percentage", "0"}

// Open starts a cluster and returns when all masters answer. On an error nothing is left behind, and the error names the remedy:
// leftover.ErrNoEngine, localredis.ErrNoServer and clockshim.ErrUnavailable are the surroundings it may lack. ctx bounds the opening only.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg.Masters = cmp.Or(cfg.Masters, 5)
	if cfg.Masters < 0 {
		return nil, fmt.Errorf("cluster: %d masters", cfg.Masters)
	}
	if cfg.Out == nil {
		cfg.Out = io.Discard
	}
	dir, err := leftover.TempDir()
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, dir: dir}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) open(ctx context.Context) error {
	if len(c.cfg.Nodes) > 0 {
		return c.connect()
	}
	if c.cfg.Clocks {
		if err := clockshim.Build(ctx, c.dir); err != nil {
			return err
		}
	}
	driver, err := c.choose(ctx)
	if err != nil {
		return err
	}
	c.driver = driver
	c.masters = make([]*Master, c.cfg.Masters)
	errs := make([]error, c.cfg.Masters)
	var wg sync.WaitGroup
	for i := range c.masters {
		wg.Go(func() {
			name := fmt.Sprintf("n%d", i+1)
			if c.masters[i], errs[i] = c.launch(ctx, name, c.program(i)); errs[i] != nil {
				errs[i] = fmt.Errorf("cluster: start %s: %w", name, errs[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// choose opens the driver and says which one it is and why.
func (c *Cluster) choose(ctx context.Context) (driver, error) {
	switch {
	case len(c.cfg.Servers) > 0 && c.cfg.Driver == Docker:
		return nil, errors.New("cluster: Config.Servers are programs of this machine, and the docker driver runs an image: use the process driver")
	case len(c.cfg.Servers) > 0:
		return c.mixed()
	}
	switch c.cfg.Driver {
	case Process:
		return c.processes("as asked")
	case Docker, Auto:
		d, err := openDocker(ctx, c.cfg)
		if c.cfg.Driver == Auto && c.cfg.Image == "" && errors.Is(err, leftover.ErrNoEngine) {
			return c.processes(err.Error())
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(c.cfg.Out, "cluster: docker driver: %s\n", d.describe())
		return d, nil
	default:
		return nil, fmt.Errorf("cluster: no driver %q: want %q, %q or %q (whichever works)", c.cfg.Driver, Docker, Process, Auto)
	}
}

func (c *Cluster) processes(why string) (driver, error) {
	path, version, err := localredis.Find()
	if err != nil {
		return nil, fmt.Errorf("cluster: process driver (%s): %w", why, err)
	}
	fmt.Fprintf(c.cfg.Out, "cluster: process driver (%s): %s, %s\n", why, path, version)
	return &processes{}, nil
}

// mixed is the process driver with Config.Servers.
func (c *Cluster) mixed() (driver, error) {
	c.version = map[string]string{}
	for _, path := range c.cfg.Servers {
		version, err := localredis.Version(path)
		if err != nil {
			return nil, fmt.Errorf("cluster: process driver: %w", err)
		}
		c.version[path] = version
		fmt.Fprintf(c.cfg.Out, "cluster: process driver (as asked): %s, %s\n", path, version)
	}
	return &processes{}, nil
}

// program is what the i-th master runs: see Config.Servers.
func (c *Cluster) program(i int) string {
	if len(c.cfg.Servers) == 0 {
		return ""
	}
	return c.cfg.Servers[i%len(c.cfg.Servers)]
}

// launch starts a server of program with all that belongs to it.
func (c *Cluster) launch(ctx context.Context, name, program string) (*Master, error) {
	c.life.RLock()
	defer c.life.RUnlock()
	if c.closed {
		return nil, errors.New("the cluster is closed")
	}
	m := &Master{name: name, program: program, cluster: c}
	s := spec{name: name, persistence: c.cfg.Persistence, program: program, home: filepath.Join(c.dir, name)}
	if err := os.Mkdir(s.home, 0o755); err != nil {
		return nil, err
	}
	if c.cfg.Clocks {
		s.clock = filepath.Join(s.home, "clock")
		if err := m.giveClock(s.clock); err != nil {
			return nil, err
		}
	}
	var err error
	if m.server, err = c.driver.launch(ctx, s); err != nil {
		return nil, err
	}
	if c.cfg.Clocks {
		if err := m.proveClock(ctx); err != nil {
			return nil, errors.Join(err, m.server.kill(context.WithoutCancel(ctx)))
		}
	}
	return m, nil
}

// Masters returns the masters, n1 first. Replicas are not among them, nor are promoted ones.
func (c *Cluster) Masters() []*Master { return slices.Clone(c.masters) }

// Driver returns the driver in use: Docker, Process or Nodes.
func (c *Cluster) Driver() Driver {
	switch c.driver.(type) {
	case *containers:
		return Docker
	case remotes:
		return Nodes
	}
	return Process
}

// Versions returns what the masters run: the versions of each kind of server, "redis" or "valkey", and, under the docker driver, "docker" with
// the image.
func (c *Cluster) Versions(ctx context.Context) (map[string]string, error) {
	versions := make(map[string]string)
	seen := make(map[string]bool)
	for _, m := range c.masters {
		var info string
		err := m.redis(ctx, func(admin *redis.Client) (err error) {
			info, err = admin.Info(ctx, "server").Result()
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("cluster: version of %s: %w", m.name, err)
		}
		version := localredis.VersionIn(info)
		if seen[version] {
			continue
		}
		seen[version] = true
		kind, number, _ := strings.Cut(version, " ")
		if versions[kind] != "" {
			number = versions[kind] + " and " + number
		}
		versions[kind] = number
	}
	if d, ok := c.driver.(*containers); ok {
		versions["docker"] = d.describe()
	}
	return versions, nil
}

// Close ends all servers and removes all the cluster made. It may be called while other methods run (they then fail) and again: after an
// error it tries what is left, after success it does nothing.
func (c *Cluster) Close() error {
	c.life.Lock()
	defer c.life.Unlock()
	c.closed = true
	var err error
	if c.driver != nil {
		err = c.driver.close()
	}
	if err := errors.Join(err, os.RemoveAll(c.dir)); err != nil {
		return fmt.Errorf("cluster: close: %w", err)
	}
	return nil
}
