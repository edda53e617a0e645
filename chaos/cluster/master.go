// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster/clockshim"
)

// Master is one Redis master, or a replica on its way to become one. Any goroutine may call its methods; those that change the server
// wait for each other. Where a method takes a context without a deadline, waiting for a server is bounded by 15 s all the same.
type Master struct {
	name    string
	cluster *Cluster
	server  server
	clock   *clockshim.Clock // nil without Config.Clocks

	mu       sync.Mutex // one change of the server at a time; a master's is taken before its replica's
	program  string     // see Config.Servers; guarded by mu
	replica  *Master    // made by Replica and not yet promoted; guarded by mu
	replicas int        // how many were ever made, for their names; guarded by mu
	source   *Master    // the master this one replicates, nil for a master; guarded by mu
}

// Name returns the master's name in reports: n1, n2, ...; a replica's is its master's with -r1, -r2, ... behind it.
func (m *Master) Name() string { return m.name }

// Addr returns "127.0.0.1:port". It never changes.
func (m *Master) Addr() string { return m.server.addr() }

// Kill ends the server with SIGKILL, paused or not, and returns when it is gone. A server that is down is left so.
func (m *Master) Kill(ctx context.Context) error { return m.do(ctx, "kill", m.server.kill) }

// Start starts a server that is down, on the same address with the data it kept, and returns when it answers PING. A running server is left
// so, even when paused. A replica starts replicating again.
func (m *Master) Start(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	up, err := m.server.running(ctx)
	if err == nil && !up {
		err = m.startKept(ctx)
	}
	return m.wrap("start", err)
}

// startKept starts the server with what its persistence keeps. Without any that is nothing, although redis-server would load the dump that
// a Snapshot, a RollBack or a replica's synchronisation has left there.
func (m *Master) startKept(ctx context.Context) error {
	if m.cluster.cfg.Persistence == None {
		if err := wipe(m.server.dir()); err != nil {
			return err
		}
	}
	return m.start(ctx)
}

// start starts the server with whatever is in its data directory.
func (m *Master) start(ctx context.Context) error {
	if err := m.server.start(ctx); err != nil || m.source == nil {
		return err
	}
	return m.replicate(ctx, m.source.server.peer())
}

// Pause freezes the server: connections to it are still accepted by the kernel, nothing is answered. Its clock runs on, so keys may be
// past their TTL when it wakes. It is an error when the server is down; a paused server is left so.
func (m *Master) Pause(ctx context.Context) error {
	return m.do(ctx, "pause", m.whenUp(m.server.pause))
}

// Unpause wakes a paused server. It is an error when the server is down; one that is not paused is left so.
func (m *Master) Unpause(ctx context.Context) error {
	return m.do(ctx, "unpause", m.whenUp(m.server.unpause))
}

func (m *Master) whenUp(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		up, err := m.server.running(ctx)
		if err != nil {
			return err
		}
		if !up {
			return errors.New("the server is down; Start it first")
		}
		return f(ctx)
	}
}

// Wipe empties the data directory of a server that is down, as a lost disk would: the next Start finds nothing.
func (m *Master) Wipe(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	up, err := m.server.running(ctx)
	if err == nil && up {
		err = errors.New("the server is running; Kill it first")
	}
	if err == nil {
		err = wipe(m.server.dir())
	}
	return m.wrap("wipe", err)
}

// Replica starts an asynchronous replica of this master and returns it, synchronised, with an address of its own. It is an error when
// there is one already. On an error the replica is down and stays unused until Close.
func (m *Master) Replica(ctx context.Context) (*Master, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replica != nil {
		return nil, m.wrap("replica", fmt.Errorf("there is one already: %s", m.replica.name))
	}
	m.replicas++
	r, err := m.cluster.launch(ctx, fmt.Sprintf("%s-r%d", m.name, m.replicas), m.program)
	if err != nil {
		return nil, m.wrap("replica", err)
	}
	r.source = m
	err = r.replicate(ctx, m.server.peer())
	if err == nil {
		err = r.awaitInfo(ctx, "replication", "master_link_status:up")
	}
	if err != nil {
		return nil, errors.Join(m.wrap("replica", err), r.Kill(context.WithoutCancel(ctx)))
	}
	m.replica = r
	return r, nil
}

// Promote fails the master over, as a sentinel would: kills it and makes its replica a master, which keeps its own address and is
// returned. Writes the replica had not received are lost. The old master stays down; started again it is a second, older master, as after
// a split. On an error the old master is down and the replica what it was.
func (m *Master) Promote(ctx context.Context) (*Master, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.replica
	if r == nil {
		return nil, m.wrap("promote", errors.New("no replica; make one with Replica"))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := m.server.kill(ctx); err != nil {
		return nil, m.wrap("promote", err)
	}
	err := r.redis(ctx, func(c *redis.Client) error { return c.Do(ctx, "REPLICAOF", "NO", "ONE").Err() })
	if err != nil {
		return nil, m.wrap("promote", err)
	}
	m.replica, r.source = nil, nil
	return r, nil
}

// replicate points the server at its master. By command and not by option, because an option would come back with every Start, also after
// a promotion.
func (m *Master) replicate(ctx context.Context, peer string) error {
	host, port, _ := strings.Cut(peer, ":")
	return m.redis(ctx, func(c *redis.Client) error { return c.Do(ctx, "REPLICAOF", host, port).Err() })
}

// awaitInfo polls a section of INFO until it has all the wanted lines.
func (m *Master) awaitInfo(ctx context.Context, section string, want ...string) error {
	return poll(ctx, func(ctx context.Context) error {
		return m.redis(ctx, func(c *redis.Client) error {
			info, err := c.Info(ctx, section).Result()
			if err != nil {
				return err
			}
			for _, line := range want {
				if !strings.Contains(info, line+"\r\n") {
					return fmt.Errorf("INFO %s does not say %s", section, line)
				}
			}
			return nil
		})
	})
}

// do changes the server while nobody else does.
func (m *Master) do(ctx context.Context, verb string, change func(context.Context) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrap(verb, change(ctx))
}

func (m *Master) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cluster: %s %s: %w", verb, m.name, err)
}
