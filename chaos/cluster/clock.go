// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster/clockshim"
)

// StepClock makes the server's wall clock show the host's time plus offset, which may be negative, at once. The offset is absolute:
// StepClock(0) puts it right. Like all that is done to clock and disk it outlives Kill and Start. Without Config.Clocks the error is
// errors.ErrUnsupported.
func (m *Master) StepClock(offset time.Duration) error {
	return m.withClock("step clock", func(c *clockshim.Clock) error { return c.Step(offset) })
}

// SetRate makes the server's wall clock run factor times as fast as the host's from now on: 1 is right, 0 is stopped. What it gains or
// loses stays until the next StepClock. Without Config.Clocks the error is errors.ErrUnsupported.
func (m *Master) SetRate(factor float64) error {
	return m.withClock("set rate", func(c *clockshim.Clock) error { return c.SetRate(factor) })
}

// StallDisk makes each fsync of the server take d longer from now on; StallDisk(0) ends that, also for an fsync under way. Under Always
// the server answers nothing meanwhile. Without Config.Clocks the error is errors.ErrUnsupported.
func (m *Master) StallDisk(d time.Duration) error {
	return m.withClock("stall disk", func(c *clockshim.Clock) error { return c.Stall(d) })
}

func (m *Master) withClock(verb string, f func(*clockshim.Clock) error) error {
	if m.clock == nil {
		return m.wrap(verb, fmt.Errorf("%w: open the cluster with Config.Clocks", errors.ErrUnsupported))
	}
	return m.wrap(verb, f(m.clock))
}

// giveClock makes the directory of the server's clock, which runs a second late until proveClock has seen it.
func (m *Master) giveClock(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(m.cluster.dir, clockshim.Library), filepath.Join(dir, clockshim.Library)); err != nil {
		return err
	}
	var err error
	if m.clock, err = clockshim.New(dir); err != nil {
		return err
	}
	return m.clock.Step(-proofOffset)
}

// proofOffset is small and put right by a step forward: redis-server 7.0 does no background fsync until its clock has caught up with the
// last one.
const proofOffset = time.Second

// proveClock fails unless the server's clock is the one we gave it, and puts that right. The dynamic loader skips a library it cannot load
// with a line on stderr, and a clock nemesis that does nothing would let every test of it pass.
func (m *Master) proveClock(ctx context.Context) error {
	return m.redis(ctx, func(c *redis.Client) error {
		for {
			before := time.Now()
			shown, err := c.Time(ctx).Result()
			switch {
			case err != nil:
				return err
			case shown.Before(before):
				return m.clock.Step(0)
			case time.Since(before) < proofOffset:
				return errors.New("the server does not follow its clock: the preload library was not loaded; " +
					"is redis-server set-uid, static or of another architecture?")
			}
			// The answer took so long that it may be of a clock that is a second late. On a busy machine the next one is quicker.
		}
	})
}
