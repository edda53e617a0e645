// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
		for field, value := range before {
			if after[field] < value {
				return fmt.Errorf("the upgrade lost a counter: %s was %d and is %d", field, value, after[field])
			}
		}
		return nil
	})
}

// counters reads the counters of a master. The caller holds n.server.
func (n *Node) counters(ctx context.Context) (map[string]int64, error) {
	counters := map[string]int64{}
	err := n.admin(ctx, func(ctx context.Context, c *redis.Client) error {
		record, err := c.HGetAll(ctx, protocol.RecordKey).Result()
		for field, text := range record {
			slot, notSlot := strconv.Atoi(strings.TrimPrefix(field, "c"))
			if notSlot != nil || protocol.CounterField(slot) != field {
				continue
			}
			value, notValue := strconv.ParseInt(text, 10, 64)
			err = errors.Join(err, notValue)
			counters[field] = value
		}
		return err
	})
	return counters, err
}
