// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/cluster/leftover"
	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) {
	if driver, ok := os.LookupEnv(orphanVar); ok {
		orphan(Driver(driver))
	}
	goleak.VerifyTestMain(m)
}

// eachDriver runs one test under both drivers. Every test here is one of conformance: what it says holds for both.
func eachDriver(t *testing.T, f func(t *testing.T, driver Driver)) {
	t.Run("docker", func(t *testing.T) {
		needEngine(t)
		f(t, Docker)
	})
	t.Run("process", func(t *testing.T) {
		needs.Redis(t)
		f(t, Process)
	})
}

// needEngine returns the engine, or skips the test where none answers.
func needEngine(t *testing.T) *dockertest.Pool {
	t.Helper()
	needs.Docker(t)
	pool, _, err := leftover.Engine()
	must(t, err)
	return pool
}

// open opens a cluster; at the end of the test it closes it and looks for leftovers.
func open(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeClean(t, c) })
	return c
}

func closeClean(t *testing.T, c *Cluster) {
	t.Helper()
	pids := serverPIDs(c)
	for range 2 { // the second Close does nothing
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory %s is still there (%v)", c.dir, err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d is still there (%v)", pid, err)
		}
	}
	if d, ok := c.driver.(*containers); ok {
		for _, left := range dockerLeftovers(t, d) {
			t.Errorf("docker still has %s", left)
		}
	}
}

func serverPIDs(c *Cluster) (pids []int) {
	if d, ok := c.driver.(*processes); ok {
		for _, s := range d.servers {
			if pid := s.PID(); pid != 0 {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// dockerLeftovers names what carries the run's label, or an image's name.
func dockerLeftovers(t *testing.T, d *containers) (left []string) {
	t.Helper()
	client := d.pool.Client
	containers, err := client.ListContainers(dc.ListContainersOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers {
		if c.Labels[leftover.RunLabel] == d.run {
			left = append(left, "container "+c.Names[0])
		}
	}
	networks, err := client.ListNetworks()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range networks {
		if n.Labels[leftover.RunLabel] == d.run {
			left = append(left, "network "+n.Name)
		}
	}
	images, err := client.ListImages(dc.ListImagesOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		if i.Labels[leftover.RunLabel] == d.run || slices.Contains(i.RepoTags, localRepository+":"+d.run) {
			left = append(left, fmt.Sprintf("image %v", i.RepoTags))
		}
	}
	return left
}

// must fails the test on an error of a step.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A master that is well answers within aWhile, on any machine. One that is not is listened to for aMoment.
const aWhile, aMoment = 20 * time.Second, 300 * time.Millisecond

// answers tells whether the master answers PING within the limit.
func answers(t *testing.T, m *Master, limit time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return poll(ctx, func(ctx context.Context) error { return ping(ctx, m.Addr()) }) == nil
}

func wantAnswers(t *testing.T, m *Master, want bool) {
	t.Helper()
	limit := aMoment
	if want {
		limit = aWhile
	}
	if got := answers(t, m, limit); got != want {
		t.Fatalf("%s answers: %v, want %v", m.Name(), got, want)
	}
}

func set(t *testing.T, m *Master, value string) {
	t.Helper()
	must(t, withRedis(t.Context(), m.Addr(), func(c *redis.Client) error { return c.Set(t.Context(), "key", value, 0).Err() }))
}

// wantValue checks what set has set; "" means nothing.
func wantValue(t *testing.T, m *Master, want string) {
	t.Helper()
	must(t, withRedis(t.Context(), m.Addr(), func(c *redis.Client) error {
		got, err := c.Get(t.Context(), "key").Result()
		if errors.Is(err, redis.Nil) {
			got, err = "", nil
		}
		if err == nil && got != want {
			err = fmt.Errorf("%s has %q, want %q", m.Name(), got, want)
		}
		return err
	}))
}

func TestCluster_fiveMasters_hurtAndHealed(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		ctx := t.Context()
		c := open(t, Config{Driver: driver})
		if got := c.Driver(); got != driver {
			t.Fatalf("driver %q", got)
		}
		masters := c.Masters()
		if len(masters) != 5 {
			t.Fatalf("%d masters", len(masters))
		}
		addrs := map[string]bool{}
		for i, m := range masters {
			if want := fmt.Sprintf("n%d", i+1); m.Name() != want {
				t.Errorf("master %d is called %s", i, m.Name())
			}
			wantAnswers(t, m, true)
			addrs[m.Addr()] = true
		}
		if len(addrs) != 5 {
			t.Fatalf("addresses %v", addrs)
		}

		checkKill(t, masters[0], masters[1])
		checkPause(t, masters[1])
		if err := masters[2].StepClock(time.Second); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("StepClock without Clocks: %v", err)
		}
		must(t, masters[4].Pause(ctx)) // Close meets a paused, a dead and three healthy masters
		must(t, masters[3].Kill(ctx))
	})
}

// checkKill kills n1 and starts it again. n2 must not notice.
func checkKill(t *testing.T, n1, n2 *Master) {
	t.Helper()
	ctx := t.Context()
	addr := n1.Addr()
	set(t, n1, "lost")
	for range 2 { // each of these may be asked for twice
		must(t, n1.Kill(ctx))
		wantAnswers(t, n1, false)
	}
	wantAnswers(t, n2, true)
	if n1.Pause(ctx) == nil || n1.Unpause(ctx) == nil {
		t.Error("a master that is down was paused or unpaused")
	}
	for range 2 {
		must(t, n1.Start(ctx))
		wantAnswers(t, n1, true)
	}
	if n1.Addr() != addr {
		t.Errorf("address %s became %s", addr, n1.Addr())
	}
	wantValue(t, n1, "")
}

// checkPause freezes n2, wakes it, and kills it while it is frozen.
func checkPause(t *testing.T, n2 *Master) {
	t.Helper()
	ctx := t.Context()
	set(t, n2, "kept")
	for range 2 {
		must(t, n2.Pause(ctx))
		wantAnswers(t, n2, false)
	}
	for range 2 {
		must(t, n2.Unpause(ctx))
		wantAnswers(t, n2, true)
	}
	wantValue(t, n2, "kept")
	must(t, n2.Pause(ctx))
	must(t, n2.Kill(ctx)) // also when paused
	must(t, n2.Start(ctx))
	wantAnswers(t, n2, true)
}

func TestCluster_replica_promoted(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		ctx := t.Context()
		c := open(t, Config{Driver: driver, Masters: 1})
		m := c.Masters()[0]
		if _, err := m.Promote(ctx); err == nil {
			t.Error("promoted a replica that is not there")
		}
		set(t, m, "shared")
		r, err := m.Replica(ctx)
		must(t, err)
		wantValue(t, r, "shared")
		if _, err := m.Replica(ctx); err == nil {
			t.Error("a second replica")
		}
		must(t, withRedis(t.Context(), r.Addr(), func(c *redis.Client) error {
			if err := c.Set(ctx, "key", "x", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
				return fmt.Errorf("write to a replica: %v", err)
			}
			return nil
		}))
		must(t, r.Kill(ctx))
		must(t, r.Start(ctx)) // comes back as a replica
		must(t, r.awaitInfo(ctx, "replication", "master_link_status:up"))

		promoted, err := m.Promote(ctx)
		must(t, err)
		if promoted != r || r.Addr() == m.Addr() {
			t.Errorf("promoted %s at %s, the replica is %s at %s", promoted.Name(), promoted.Addr(), r.Name(), r.Addr())
		}
		wantAnswers(t, m, false)
		wantValue(t, r, "shared")
		set(t, r, "of the new master")
		must(t, m.Start(ctx))
		wantValue(t, m, "") // two masters now
		must(t, r.Kill(ctx))
		must(t, r.Start(ctx)) // comes back as a master, and without what it was once sent
		wantValue(t, r, "")
		set(t, r, "again")
		_, err = m.Replica(ctx) // and the old master may have another replica
		must(t, err)
	})
}

func TestCluster_sideBySide_independent(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		a := open(t, Config{Driver: driver, Masters: 1})
		b, err := Open(t.Context(), Config{Driver: driver, Masters: 1})
		must(t, err)
		set(t, a.Masters()[0], "a")
		set(t, b.Masters()[0], "b")
		wantValue(t, a.Masters()[0], "a")
		closeClean(t, b)
		wantValue(t, a.Masters()[0], "a")
		must(t, a.Masters()[0].Kill(t.Context()))
		must(t, a.Masters()[0].Start(t.Context()))
		// Closing b has not taken away what a needs to grow.
		r, err := a.Masters()[0].Replica(t.Context())
		must(t, err)
		wantAnswers(t, r, true)
	})
}

func TestCluster_closed_refuses(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		c := open(t, Config{Driver: driver, Masters: 1})
		m := c.Masters()[0]
		must(t, c.Close())
		if m.Start(t.Context()) == nil {
			t.Error("a master of a closed cluster was started")
		}
		if _, err := m.Replica(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("a replica in a closed cluster: %v", err)
		}
	})
}
