// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/chaos/peers/library"
	"github.com/redlock-go/redlock/chaos/peers/rivals"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testbed"
)

// renewing are the libraries that renew a lock by themselves and say when it is lost.
var renewing = []string{"redlock", "rueidislock"}

// most is how many locks the other library is asked to keep: it has a goroutine or more for each.
const most = 100_000

// takers is how many goroutines take the locks.
const takers = 64

// keepAll has one process keep so many locks at once, by each library that renews them.
func keepAll(ctx context.Context, names []string, counts []int, ttl time.Duration, say io.Writer) (all []rivals.Held, err error) {
	for _, n := range counts {
		for _, name := range names {
			if !slices.Contains(renewing, name) || name != "redlock" && n > most {
				continue
			}
			fmt.Fprintf(say, "held: %d by %s\n", n, name)
			h, err := keep(ctx, name, n, max(ttl, time.Duration(n)*forEach))
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil { // it cannot be measured so, which is a result too
				h = rivals.Held{Library: name, Leases: n, Failed: err.Error()}
			}
			all = append(all, h)
		}
	}
	return all, nil
}

// forEach is how long a TTL is at the least, by the number of locks: ten thousand are renewed in a second.
const forEach = 300 * time.Microsecond

// keep takes n locks, and looks after a TTL which of them are left: each was renewed three times by then, or is lost.
func keep(ctx context.Context, name string, n int, ttl time.Duration) (h rivals.Held, err error) {
	err = withMasters(ctx, world{maxTTL: ttl}, func(b *bed) (err error) {
		h, err = b.keep(ctx, name, n, ttl)
		return err
	})
	return h, err
}

func (b *bed) keep(ctx context.Context, name string, n int, ttl time.Duration) (h rivals.Held, err error) {
	nodes, pids := b.nodes, pidsOf(b.servers)
	l, err := press{library: name}.open(ctx, client.Task{Nodes: nodes, TTL: ttl, MaxTTL: ttl})
	if err != nil {
		return h, err
	}
	defer l.Close()
	memory, keys := inUse(), usedBy(ctx, nodes)
	begun := time.Now()
	leases := make([]library.Lease, n)
	var next atomic.Int64
	var g errgroup.Group
	for range takers {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				var err error
				if leases[i], err = l.Take(ctx, "held-"+strconv.Itoa(i)); err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return h, err
	}
	h = rivals.Held{Library: name, Leases: n, TTL: ttl.Seconds(), Took: time.Since(begun).Seconds()}
	since, spent, theirs := time.Now(), testbed.Own(), testbed.Used(pids)
	library.Pause(ctx, ttl+ttl/10)
	h.For = time.Since(since).Seconds()
	h.CPU, h.Masters = (testbed.Own()-spent).Seconds()/h.For, (testbed.Used(pids)-theirs).Seconds()/h.For
	each := float64(n)
	h.Memory = (inUse() - memory) / each
	h.Keys = (usedBy(ctx, nodes) - keys) / each
	if name != "rueidislock" { // whose locks are on one master
		h.Keys /= float64(len(nodes))
	}
	for _, l := range leases {
		if l.Lost.Err() != nil {
			h.Lost++
		}
	}
	runtime.KeepAlive(leases)
	return h, ctx.Err()
}

// inUse is the heap and the stacks of this process, after a collection.
func inUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// usedBy is the memory of all masters together.
func usedBy(ctx context.Context, nodes []string) (sum float64) {
	for _, node := range nodes {
		o, err := redis.ParseURL(node)
		if err != nil {
			continue
		}
		c := redis.NewClient(o)
		n, _ := strconv.ParseFloat(protocol.InfoField(c.Info(ctx, "memory").Val(), "used_memory"), 64)
		sum += n
		_ = c.Close()
	}
	return sum
}
