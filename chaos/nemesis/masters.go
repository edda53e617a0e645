// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster"
)

// kill kills the nodes, does more to their servers while they are down, and starts them after a while.
func (s *strike) kill(nodes []*Node, down time.Duration, more func(m *cluster.Master) error) error {
	s.heal(func(ctx context.Context) error {
		return each(nodes, func(n *Node) error { return n.Master().Start(ctx) })
	})
	err := each(nodes, func(n *Node) error {
		return n.erase(func(m *cluster.Master) error {
			if err := m.Kill(s.ctx); err != nil {
				return err
			}
			if more != nil {
				return more(m)
			}
			return nil
		})
	})
	s.last(down)
	return err
}

func (s *strike) wipe(m *cluster.Master) error { return m.Wipe(s.ctx) }

// majority draws a number of nodes that is too many.
func (s *strike) majority() int {
	q := s.target.tolerated() + 1
	return q + s.rand.IntN(len(s.target.Nodes)-q+1)
}

// forgetsOnKill tells whether a killed master counts as one that has forgotten. With everysec the kernel keeps what a killed process wrote,
// but a client cannot know that it was a mere kill.
func (s *strike) forgetsOnKill() bool { return s.target.Has.Persistence != cluster.Always }

func killMinority(s *strike) error {
	nodes, err := s.take(s.some(s.target.tolerated()), s.forgetsOnKill())
	if err != nil {
		return err
	}
	return s.kill(nodes, 0, nil)
}

func killMajority(s *strike) error {
	nodes, err := s.takeMajority(s.forgetsOnKill())
	if err != nil {
		return err
	}
	down := s.between(0, s.target.TTL)
	s.say("%d masters down for %v", len(nodes), down)
	return s.kill(nodes, down, nil)
}

// takeMajority claims too many nodes, all of them in their right mind before. forget says that they forget.
func (s *strike) takeMajority(forget bool) ([]*Node, error) {
	nodes, err := s.take(s.majority(), false)
	if err == nil && forget {
		err = s.target.forgetAll(nodes)
	}
	return nodes, err
}

// takeClocks claims count nodes whose clocks are to go wrong.
func (s *strike) takeClocks(count int) ([]*Node, error) {
	if err := s.target.beginWrong(); err != nil {
		return nil, err
	}
	s.heals = append(s.heals, func() error { s.target.endWrong(); return nil })
	return s.take(count, false)
}

func wipeMinority(s *strike) error {
	nodes, err := s.take(s.some(s.target.tolerated()), true)
	if err != nil {
		return err
	}
	return s.kill(nodes, 0, s.wipe)
}

func wipeMajority(s *strike) error {
	nodes, err := s.takeMajority(true)
	if err != nil {
		return err
	}
	s.say("%d masters emptied", len(nodes))
	return s.kill(nodes, 0, s.wipe)
}

// restore copies a master's data, lets it run on for age, and puts the copy in the place of its data.
func (s *strike) restore(age time.Duration) error {
	nodes, err := s.take(1, true)
	if err != nil {
		return err
	}
	n := nodes[0]
	if err := n.Master().Snapshot(s.ctx); err != nil {
		return err
	}
	s.last(age)
	s.say("the copy was %v old", age)
	s.heal(func(ctx context.Context) error { return n.Master().Start(ctx) })
	return n.erase(func(m *cluster.Master) error { return m.RollBack(s.ctx) })
}

// powerLoss: under everysec up to a second of acknowledged writes is lost with the power, which is the copy of a moment ago.
func powerLoss(s *strike) error { return s.restore(s.between(0, time.Second)) }

func rollBack(s *strike) error { return s.restore(s.between(s.target.TTL, 3*s.target.TTL)) }

func stallAndKill(s *strike) error {
	nodes, err := s.take(1, s.forgetsOnKill())
	if err != nil {
		return err
	}
	m := nodes[0].Master()
	s.heal(func(context.Context) error { return m.StallDisk(0) })
	if err := m.StallDisk(3 * time.Second); err != nil {
		return err
	}
	s.last(s.between(s.target.TTL/2, 2*s.target.TTL))
	return s.kill(nodes, 0, func(m *cluster.Master) error { return m.StallDisk(0) })
}

func freezeMasters(s *strike) error {
	nodes, err := s.take(s.some(len(s.target.Nodes)), false)
	if err != nil {
		return err
	}
	s.heal(func(ctx context.Context) error {
		return each(nodes, func(n *Node) error { return n.Master().Unpause(ctx) })
	})
	d := s.between(10*time.Millisecond, 3*s.target.TTL)
	s.say("for %v", d)
	err = each(nodes, func(n *Node) error { return n.Master().Pause(s.ctx) })
	s.last(d)
	return err
}

// step steps the clocks of count nodes and puts them right after a while, which is a step too.
func (s *strike) step(count int) error {
	nodes, err := s.takeClocks(count)
	if err != nil {
		return err
	}
	s.heal(func(context.Context) error {
		return each(nodes, func(n *Node) error { return n.Master().StepClock(0) })
	})
	// Exponential, as Jepsen draws them: 11 ms to 288 s.
	offset := 11 * time.Millisecond << s.rand.IntN(15)
	offset = min(offset, 288*time.Second)
	if s.rand.IntN(2) == 0 {
		offset = -offset
	}
	s.say("by %v", offset)
	err = each(nodes, func(n *Node) error { return n.Master().StepClock(offset) })
	if err == nil {
		err = each(nodes, func(n *Node) error { return s.clockOff(n, offset.Abs()/2) })
	}
	s.fault.Ahead = max(offset, 0)
	s.last(s.between(s.target.TTL, 3*s.target.TTL))
	return err
}

func stepOne(s *strike) error    { return s.step(1) }
func stepQuorum(s *strike) error { return s.step(s.target.tolerated() + 1) }

func skew(s *strike) error {
	nodes, err := s.takeClocks(s.some(len(s.target.Nodes)))
	if err != nil {
		return err
	}
	s.heal(func(context.Context) error {
		return each(nodes, func(n *Node) error {
			return errors.Join(n.Master().SetRate(1), n.Master().StepClock(0))
		})
	})
	rates := []float64{0.5, 0.917, 1.083, 1.5, 2}
	rate := rates[s.rand.IntN(len(rates))]
	s.say("at %v times the rate", rate)
	err = each(nodes, func(n *Node) error { return n.Master().SetRate(rate) })
	began := time.Now()
	s.last(s.between(s.target.TTL, 4*s.target.TTL))
	s.fault.Ahead = max(time.Duration((rate-1)*float64(time.Since(began))), 0)
	if err == nil && s.ctx.Err() == nil { // otherwise there was too little time for a clock to go wrong
		err = each(nodes, func(n *Node) error { return s.clockOff(n, 10*time.Millisecond) })
	}
	return err
}

// clockOff returns an error unless the clock that a master shows is wrong by least or more.
func (s *strike) clockOff(n *Node, least time.Duration) error {
	return n.Admin(context.WithoutCancel(s.ctx), func(ctx context.Context, c *redis.Client, _ int) error {
		before := time.Now()
		shown, err := c.Time(ctx).Result()
		if err != nil {
			return err
		}
		if off := max(before.Sub(shown), time.Until(shown)); off < least {
			return fmt.Errorf("the clock of %s shows the right time", n.name)
		}
		return nil
	})
}

// onOne runs f as an administrator on a master.
func (s *strike) onOne(forgetful bool, f func(ctx context.Context, c *redis.Client) error) error {
	nodes, err := s.take(1, forgetful)
	if err != nil {
		return err
	}
	return nodes[0].Admin(s.ctx, func(ctx context.Context, c *redis.Client, _ int) error { return f(ctx, c) })
}

func flush(s *strike) error {
	nodes, err := s.take(s.some(s.target.tolerated()), true)
	if err != nil {
		return err
	}
	swap := s.rand.IntN(2) == 0
	s.say("%s", map[bool]string{true: "SWAPDB", false: "FLUSHALL"}[swap])
	return each(nodes, func(n *Node) error {
		return n.erase(func(*cluster.Master) error {
			return n.admin(s.ctx, func(ctx context.Context, c *redis.Client) error {
				if !swap {
					return c.FlushAll(ctx).Err()
				}
				// The data set that went away is removed in the same step: should it ever come back, nothing could tell (docs/safety.md, A12).
				_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Do(ctx, "swapdb", 0, 1)
					p.Do(ctx, "select", 1)
					p.Do(ctx, "flushdb")
					return nil
				})
				return err
			})
		})
	})
}

func deleteLock(s *strike) error {
	rename := s.rand.IntN(2) == 0
	return s.onOne(false, func(ctx context.Context, c *redis.Client) error {
		// A lock is held at the moment or not: look on until there is something to delete.
		for end := time.Now().Add(s.target.TTL); time.Now().Before(end) && ctx.Err() == nil; {
			lock := s.target.Locks[s.rand.IntN(len(s.target.Locks))]
			s.say("%q", lock)
			var n int64
			var err error
			if rename {
				err = c.Rename(ctx, lock, lock+":gone").Err()
				n = 1
			} else {
				n, err = c.Del(ctx, lock).Result()
			}
			switch {
			case err != nil && !strings.Contains(err.Error(), "no such key"):
				return err
			case err == nil && n > 0:
				return nil
			}
		}
		return errors.New("no lock was held when it was looked at")
	})
}

// set gives a setting of the nodes' servers a bad value, and the good one again when the fault is healed: nothing else puts it back.
func (s *strike) set(nodes []*Node, name, bad, good string) error {
	to := func(ctx context.Context, n *Node, value string) error {
		return n.Admin(ctx, func(ctx context.Context, c *redis.Client, _ int) error { return c.ConfigSet(ctx, name, value).Err() })
	}
	s.heal(func(ctx context.Context) error {
		return each(nodes, func(n *Node) error { return until(ctx, func() error { return to(ctx, n, good) }) })
	})
	return each(nodes, func(n *Node) error { return to(context.WithoutCancel(s.ctx), n, bad) })
}

func fill(s *strike) error {
	nodes, err := s.take(s.some(s.target.tolerated()), false)
	if err != nil {
		return err
	}
	if err = s.set(nodes, "maxmemory", "1", "0"); err == nil {
		err = each(nodes, func(n *Node) error { return n.Admin(s.ctx, refusesWrites) })
	}
	s.last(s.between(s.target.TTL/2, 2*s.target.TTL))
	return err
}

// changePolicy makes masters ones that no client may use, and puts them right again. Nothing is evicted, because there is no limit to the memory.
func changePolicy(s *strike) error {
	nodes, err := s.take(s.some(s.target.tolerated()), false)
	if err != nil {
		return err
	}
	policy := []string{"allkeys-lru", "volatile-lru", "volatile-ttl"}[s.rand.IntN(3)]
	s.say("%s", policy)
	if err = s.set(nodes, "maxmemory-policy", policy, "noeviction"); err == nil {
		err = s.target.Opened(s.ctx)
	}
	s.last(s.between(s.target.TTL/2, 2*s.target.TTL))
	return err
}

// refusesWrites returns an error unless the master refuses a write because its memory is full.
func refusesWrites(ctx context.Context, c *redis.Client, _ int) error {
	err := c.Set(ctx, "redlock:chaos:full", "", time.Millisecond).Err()
	if err == nil || !strings.HasPrefix(err.Error(), "OOM") {
		return fmt.Errorf("the memory is not full: a write returned %v", err)
	}
	return nil
}

func failOver(s *strike) error {
	if s.rand.IntN(2) == 0 {
		s.say("REPLICAOF an address where nobody is, then NO ONE")
		return s.onOne(true, func(ctx context.Context, c *redis.Client) error {
			err := c.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err()
			s.last(s.between(0, s.target.TTL))
			return errors.Join(err, c.Do(context.WithoutCancel(ctx), "REPLICAOF", "NO", "ONE").Err())
		})
	}
	nodes, err := s.take(1, true)
	if err != nil {
		return err
	}
	n := nodes[0]
	s.say("promotion of a replica")
	if _, err := n.Master().Replica(s.ctx); err != nil {
		return err
	}
	s.last(s.between(0, s.target.TTL))
	return n.erase(func(m *cluster.Master) error {
		promoted, err := m.Promote(context.WithoutCancel(s.ctx))
		if err != nil {
			return errors.Join(err, m.Start(context.WithoutCancel(s.ctx)))
		}
		s.target.replace(n, promoted)
		return nil
	})
}

func administer(s *strike) error {
	type act struct {
		name string
		do   func(ctx context.Context, c *redis.Client) error
	}
	acts := []act{
		{"SCRIPT FLUSH", func(ctx context.Context, c *redis.Client) error { return c.ScriptFlush(ctx).Err() }},
		{"CLIENT PAUSE", s.pauseClients},
		{"CLIENT KILL", func(ctx context.Context, c *redis.Client) error {
			return c.Do(ctx, "client", "kill", "type", "normal", "skipme", "yes").Err()
		}},
		{"a busy script", s.keepBusy},
	}
	a := acts[s.rand.IntN(len(acts))]
	s.say("%s", a.name)
	return s.onOne(false, a.do)
}

func misconfigure(s *strike) error { return s.target.Misconfigured(s.ctx, s.rand) }
