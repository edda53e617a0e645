// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/redlock-go/redlock/chaos/peers/etcd"
	"github.com/redlock-go/redlock/chaos/peers/rivals"
	"github.com/redlock-go/redlock/internal/redissontest"
	"github.com/redlock-go/redlock/internal/testbed"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// world is what cells must have in common to be measured on the same masters.
type world struct {
	delay      time.Duration // that proxies add to each round trip
	slow       time.Duration // the same, of one master
	maxTTL     time.Duration // of its record; 0: the default
	hung, dead bool
}

func worldOf(c *rivals.Cell) world {
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return world{delay: ms(c.Delay), slow: ms(c.Slow), hung: c.Hung, dead: c.Dead}
}

// plain says that nothing is wrong with any master: what needs masters of its own can be measured beside.
func (w world) plain() bool { return w == world{} }

// bed is where libraries are measured: five masters, and what is started when it is first asked for.
type bed struct {
	nodes   []string
	servers []*localredis.Server
	press   *redissontest.Press // Redisson
	etcd    *etcd.Cluster
}

// withMasters starts five masters, behind proxies if one is to be slow, and calls fn.
func withMasters(ctx context.Context, w world, fn func(b *bed) error) error {
	servers, err := localredis.StartN(ctx, 5, localredis.Config{})
	if err != nil {
		return err
	}
	b := &bed{servers: servers}
	defer b.close()
	for i, s := range servers {
		defer s.Close()
		at, delay := s.URL(), w.delay
		if i == 0 {
			delay += w.slow
		}
		if delay > 0 {
			proxy, err := faultproxy.Start(s.Addr())
			if err != nil {
				return err
			}
			defer proxy.Close()
			proxy.Set(faultproxy.ToMaster, faultproxy.Fault{Delay: delay / 2})
			proxy.Set(faultproxy.ToClient, faultproxy.Fault{Delay: delay - delay/2})
			at = "redis://" + proxy.Addr()
		}
		b.nodes = append(b.nodes, at)
	}
	list := admin.List{URLs: b.nodes, Options: []redlock.Option{redlock.WithFixedMasters(), redlock.WithMaxTTL(cmp.Or(w.maxTTL, redlock.DefaultMaxTTL))}}
	if err := admin.Init(ctx, list, nil, admin.NothingWasEverLocked); err != nil {
		return err
	}
	return fn(b)
}

func (b *bed) close() {
	if b.press != nil {
		b.press.Close()
	}
	if b.etcd != nil {
		b.etcd.Close()
	}
}

// The names of what is no library of this module.
const (
	redissonName = "redisson"
	etcdName     = "etcd"
)

// measure measures one library. masters are those that answer.
func (b *bed) measure(ctx context.Context, p press, masters []*localredis.Server) (pressed, error) {
	p.masters = pidsOf(masters)
	nodes := b.nodes
	switch p.library {
	case redissonName:
		return b.redisson(ctx, p)
	case etcdName:
		if b.etcd == nil {
			var err error
			if b.etcd, err = etcd.Start(ctx); err != nil {
				return pressed{}, err
			}
		}
		nodes, p.masters = b.etcd.Endpoints, b.etcd.PIDs()
	}
	return p.run(ctx, nodes)
}

func pidsOf(servers []*localredis.Server) (pids []int) {
	for _, s := range servers {
		pids = append(pids, s.PID())
	}
	return pids
}

// warmUp is for how long Java works before it is measured: its compiler has seen the code then.
const warmUp = 3 * time.Second

func (b *bed) redisson(ctx context.Context, p press) (saw pressed, err error) {
	m := redissontest.Pressing{Callers: p.waiters, Hold: p.hold, Duration: p.duration, Period: p.period, Own: p.own, Locks: p.locks}
	if b.press == nil {
		var addrs []string
		for _, n := range b.nodes {
			u, err := url.Parse(n)
			if err != nil {
				return saw, err
			}
			addrs = append(addrs, u.Host)
		}
		if b.press, err = redissontest.StartPress(ctx, p.clients, addrs); err != nil {
			return saw, err
		}
		if _, err := b.press.Measure(redissontest.Pressing{Callers: 16, Duration: warmUp, Own: true, Name: "warm-up"}); err != nil {
			return saw, err
		}
	}
	m.Name = newSalt()
	if p.own {
		once := m
		once.Once, once.Duration, once.Period, once.Hold = true, 10*time.Second, 0, 0
		if _, err := b.press.Measure(once); err != nil {
			return saw, err
		}
	}
	if p.opened != nil {
		if err := p.opened(); err != nil {
			return saw, err
		}
	}
	theirs := testbed.Used(p.masters)
	got, err := b.press.Measure(m)
	if err != nil || got.Count == 0 {
		return pressed{failures: got.Failures}, err
	}
	n := time.Duration(got.Count)
	return pressed{
		rate: float64(got.Count) / min(got.Elapsed, p.duration).Seconds(), p50: got.P50, p99: got.P99, jain: float64(got.Count) * float64(got.Count) / (float64(p.waiters) * got.Squares),
		cpu: got.CPU / n, masters: (testbed.Used(p.masters) - theirs) / n, held: got.Held / n, failures: got.Failures,
	}, nil
}

// absent says why a library cannot be measured here, or nil.
func absent(library string) error {
	switch library {
	case redissonName:
		return redissontest.Available()
	case etcdName:
		_, err := etcd.Version()
		return err
	}
	return nil
}

// ask measures one library. A master that has been killed is not used again: it forgot its votes, and ours would wait for them to end.
func (b *bed) ask(ctx context.Context, c *rivals.Cell, p press) (saw pressed, err error) {
	switch {
	case c.Hung:
		p.opened = b.servers[0].Pause
		saw, err = b.measure(ctx, p, b.servers)
		return saw, errors.Join(err, b.servers[0].Resume())
	case c.Dead:
		err := withMasters(ctx, world{}, func(b *bed) (err error) {
			p.opened = b.servers[0].Kill
			saw, err = b.measure(ctx, p, b.servers[1:])
			return err
		})
		return saw, err
	}
	return b.measure(ctx, p, b.servers)
}
