// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// BenchmarkPair is one acquire and release of an uncontended lock over five real masters. It is for
// profiles and allocations. redlock-bench measures the speed as a ratio to the floor. Without an
// Observer it allocates what it did before there were any, and with one no more.
func BenchmarkPair(b *testing.B) {
	needs.Redis(b)
	servers, err := localredis.StartN(context.Background(), 5, localredis.Config{})
	if err != nil {
		b.Fatal(err)
	}
	var urls []string
	for _, s := range servers {
		defer s.Close()
		urls = append(urls, s.URL())
	}
	for _, observer := range []string{"nil", "all"} {
		opts := []redlock.Option{redlock.WithUnsafeRecoveryOff(), redlock.WithNodeTimeout(2 * time.Second), redlock.WithTTL(30 * time.Second)}
		if observer == "all" {
			opts = append(opts, redlock.WithObserver(idleObserver()))
		}
		client, err := redlock.Open(b.Context(), urls, opts...)
		if err != nil {
			b.Fatal(err)
		}
		defer client.Close()
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("observer=%s/callers=%d", observer, callers), func(b *testing.B) { benchmarkPair(b, client, callers) })
		}
	}
}

// idleObserver has every function, and does nothing in them.
func idleObserver() *event.Observer {
	return &event.Observer{
		Waits:    func(context.Context, event.Wait) {},
		Acquired: func(context.Context, event.Acquire) {},
		Voted:    func(event.Vote) {},
		Extended: func(event.Extend) {},
		Ended:    func(event.End) {},
		Unlocked: func(context.Context, event.Unlock) {},
		Master:   func(event.Master) {},
	}
}

func benchmarkPair(b *testing.B, client *redlock.Client, callers int) {
	b.ReportAllocs()
	b.SetParallelism(max(callers/2, 1))
	var id atomic.Int64
	pair := func(ctx context.Context, m redlock.Locker) {
		lease, err := m.Lock(ctx)
		if err != nil {
			b.Error(err)
			return
		}
		if err := lease.Unlock(ctx); err != nil {
			b.Error(err)
		}
	}
	if callers == 1 {
		m := client.Mutex("bench")
		for b.Loop() {
			pair(b.Context(), m)
		}
		return
	}
	b.RunParallel(func(pb *testing.PB) {
		m := client.Mutex(fmt.Sprintf("bench%d", id.Add(1)))
		ctx, cancel := context.WithCancel(b.Context()) // each its own, as a server's requests have
		defer cancel()
		for pb.Next() {
			pair(ctx, m)
		}
	})
}

// BenchmarkTokenAgreement reports how often the masters' votes agree on a token, so that a grant
// takes one round trip. docs/internals/algorithm.md says why. Each client stands for a process, and
// locks and unlocks without a pause.
func BenchmarkTokenAgreement(b *testing.B) {
	ms := startMasters(b, 5, localredis.Config{})
	noErr(b, ms.begin().Close())
	for _, lock := range []string{"same", "same, unfair", "different"} {
		for _, clients := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("lock=%s/clients=%d", lock, clients), func(b *testing.B) {
				cs := make([]*redlock.Client, clients)
				for i := range cs {
					cs[i] = openAt(b, ms.urls(), redlock.WithNodeTimeout(time.Second))
				}
				var next atomic.Int64
				var wg sync.WaitGroup
				b.ResetTimer()
				for i, c := range cs {
					name, how := "same", []redlock.LockOption(nil)
					switch lock {
					case "same, unfair":
						how = append(how, redlock.WithoutFairness())
					case "different":
						name = fmt.Sprintf("different-%d", i)
					}
					wg.Go(func() {
						for next.Add(1) <= int64(b.N) {
							lease, err := c.Mutex(name, how...).Lock(context.Background())
							if err == nil {
								err = lease.Unlock(context.Background())
							}
							if err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				granted, second := 0.0, 0.0
				for _, c := range cs {
					granted += float64(c.Stats().Granted)
					second += float64(c.Stats().SecondRounds)
					noErr(b, c.Close())
				}
				b.ReportMetric(100*(1-second/granted), "%one-trip")
				b.ReportMetric(second, "second-trips")
			})
		}
	}
}
