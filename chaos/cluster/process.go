// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"sync"

	"github.com/redlock-go/redlock/chaos/cluster/clockshim"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// processes is the process driver.
type processes struct {
	mu      sync.Mutex
	servers []*localredis.Server // guarded by mu
}

func (d *processes) launch(ctx context.Context, s spec) (server, error) {
	cfg := localredis.Config{Persistence: s.persistence, Args: redisArgs, Binary: s.program, Parent: s.home}
	if s.clock != "" {
		cfg.Env = clockshim.Env(s.clock)
	}
	local, err := localredis.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.servers = append(d.servers, local)
	d.mu.Unlock()
	return process{local}, nil
}

func (d *processes) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, s := range d.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// process is a server of the process driver. What only signals a process cannot be waited for, hence the unused contexts.
type process struct{ local *localredis.Server }

func (p process) addr() string                          { return p.local.Addr() }
func (p process) peer() string                          { return p.local.Addr() }
func (p process) dir() string                           { return p.local.Dir() }
func (p process) running(context.Context) (bool, error) { return p.local.PID() != 0, nil }
func (p process) start(ctx context.Context) error       { return p.local.Restart(ctx) }
func (p process) kill(context.Context) error            { return p.local.Kill() }
func (p process) use(program string) error              { return p.local.Use(program) }
func (p process) pause(context.Context) error           { return p.local.Pause() }
func (p process) unpause(context.Context) error         { return p.local.Resume() }
