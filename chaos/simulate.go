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

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/sim"
)

// Sim is the driver that needs no masters: the library runs over masters in memory, on simulated time (package sim). A seed repeats
// exactly. Image, Persistence, AtOnce, Workloads and TTL do not apply.
const Sim cluster.Driver = "sim"

// simulate does a run in memory. Two at once in one program disturb each other's order.
func simulate(ctx context.Context, cfg Config) (*history.History, check.Expect, error) {
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
	// With one processor, goroutines that wake at one instant run in one order.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var h *history.History
	// synctest wants a testing.T, which only tests have; it uses it for what fails in it, and nothing does.
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
		return nil, check.Expect{}, err
	}
	h.Header.Replay, h.Header.Versions = cfg.Replay, versions(map[string]string{"redis": "none: masters in memory"})
	p := h.Header.Promises
	return h, check.Expect{X: p.Exclusion, T: p.Tokens, Heal: sc.Heal(), Timeout: time.Minute, Min: *cfg.Min}, nil
}
