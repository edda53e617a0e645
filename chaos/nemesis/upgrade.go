// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/internal/protocol"
)

// upgradeServer replaces the server of one master by one of another version, as an operator upgrades a master or goes back. A server that was
// shut down in order must have kept every counter.
func upgradeServer(s *strike) error {
	nodes, err := s.take(1, true)
	if err != nil {
		return err
	}
	n := nodes[0]
	programs, empty := n.Master().Programs()
	if len(programs) == 0 || len(empty) > 0 && s.rand.IntN(4) == 0 {
		programs = empty
	}
	if len(programs) == 0 {
		return errors.New("the masters have one program only")
	}
	program, orderly := programs[s.rand.IntN(len(programs))], s.rand.IntN(3) > 0
	s.heal(func(ctx context.Context) error { return n.Master().Start(ctx) })
	ctx := context.WithoutCancel(s.ctx) // half an upgrade is not what is tested
	return n.erase(func(m *cluster.Master) error {
		before, err := n.counters(ctx)
		if err != nil {
			return err
		}
		u, err := m.Upgrade(ctx, program, orderly)
		s.say("%s", u)
		if err != nil || !u.Kept || !orderly {
			return err
		}
		after, err := n.counters(ctx)
		if err != nil {
			return err
		}
		for i, value := range before {
			if after[i] < value {
				return fmt.Errorf("the upgrade lost a counter: %s was %d and is %d", protocol.CounterField(i), value, after[i])
			}
		}
		return nil
	})
}

// counters reads the counters of a master. The caller holds n.server.
func (n *Node) counters(ctx context.Context) (counters map[int]int64, err error) {
	err = n.admin(ctx, func(ctx context.Context, c *redis.Client) error {
		record, err := c.HGetAll(ctx, protocol.RecordKey).Result()
		if err == nil {
			counters, err = protocol.ReadCounters(record)
		}
		return err
	})
	return counters, err
}
