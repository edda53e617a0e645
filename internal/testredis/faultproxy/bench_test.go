// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// What the proxy costs with no fault on: each case straight to the master and through the proxy.
func BenchmarkProxy(b *testing.B) {
	r := newRig(b, localredis.Config{})
	ctx := context.Background()
	for _, way := range []struct{ name, addr string }{{"direct", r.master.Addr()}, {"proxy", r.Addr()}} {
		c := r.client(way.addr, 3)
		b.Run("one/"+way.name, func(b *testing.B) {
			for b.Loop() {
				must(b, c.Incr(ctx, "k").Err())
			}
		})
		b.Run("pipeline100/"+way.name, func(b *testing.B) {
			for b.Loop() {
				_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
					for range 100 {
						p.Incr(ctx, "k")
					}
					return nil
				})
				must(b, err)
			}
		})
		b.Run("parallel/"+way.name, func(b *testing.B) {
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := c.Incr(ctx, "k").Err(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
