// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/sim"
)

// Sim is the driver that starts no masters. The library runs on masters in memory and on simulated time (package sim), so a seed repeats,
// unless the machine is so busy that Go's scheduler changes the order of goroutines (docs/chaos.md). Config.Image, Servers, Persistence, Other, AtOnce, Workloads and TTL do not apply.
const Sim cluster.Driver = "sim"

// SimNemeses returns the names of the nemeses that the driver Sim has.
func SimNemeses() []string { return sim.Wild() }

// simIdle are the checkers to which the simulation gives nothing to judge: nothing scans its masters, and its clients are no processes.
var simIdle = []string{"counters", "refusals", "left-behind", "signals", "resources"}

// simulate does a run in memory. One program can do one at a time: two would change the order of each other's events.
func simulate(ctx context.Context, cfg Config) (*history.History, error) {
	sc := sim.Config{
		Masters: cfg.Masters, Clients: cfg.Clients, Duration: cfg.Duration, Nemeses: []string{}, MaxTTL: cfg.MaxTTL,
		Stop: func() bool { return ctx.Err() != nil },
	}
	for _, n := range cfg.Nemeses {
		sc.Nemeses = append(sc.Nemeses, n.Name)
	}
	if cfg.Progress != nil {
		sc.Progress = func(elapsed time.Duration, faults int) { cfg.Progress(Progress{Elapsed: elapsed, Struck: faults}) }
	}
	// With one processor, goroutines that wake at the same instant run in the same order each time.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var h *history.History
	// synctest.Test needs a testing.T, and only tests have one. An empty one is enough: synctest.Test uses it for failures only.
	err := guard(func() (err error) {
		synctest.Test(new(testing.T), func(*testing.T) { h, _, err = sim.Run(cfg.Seed, sc) })
		return err
	})
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("chaos: interrupted: %w", ctx.Err())
	case err == nil && h == nil:
		err = errors.New("chaos: the simulation did not end")
	}
	if err != nil {
		return nil, err
	}
	h.Header.Idle = simIdle
	h.Header.Expect = expect(cfg, sc.HealOf(h))
	h.Header.Replay, h.Header.Versions = cfg.Replay, versions(map[string]string{"redis": "none: masters in memory"})
	return h, nil
}
