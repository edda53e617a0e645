// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/node/localredis"
	"github.com/redlock-go/redlock/redlock"
)

// BenchmarkPair is one acquire and release of a lock nobody else wants, over five
// real masters. Speed as a ratio to the floor is redlock-bench's business; this
// one is for profiles and allocations.
func BenchmarkPair(b *testing.B) {
	servers, err := localredis.StartN(context.Background(), 5, localredis.Config{})
	if err != nil {
		b.Skip(err)
	}
	var urls []string
	for _, s := range servers {
		defer s.Close()
		urls = append(urls, s.URL())
	}
	client, err := redlock.Open(urls, redlock.WithUnsafeRecoveryOff(), redlock.WithNodeTimeout(2*time.Second), redlock.WithTTL(30*time.Second))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(max(callers/2, 1))
			var id atomic.Int64
			pair := func(m *redlock.Mutex) {
				lease, err := m.Lock(context.Background())
				if err != nil {
					b.Error(err)
					return
				}
				if err := lease.Unlock(context.Background()); err != nil {
					b.Error(err)
				}
			}
			if callers == 1 {
				m := client.Mutex("bench")
				for b.Loop() {
					pair(m)
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				m := client.Mutex(fmt.Sprintf("bench%d", id.Add(1)))
				for pb.Next() {
					pair(m)
				}
			})
		})
	}
}
