// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// steady has a client do what it does all the time: many short orders, each with a lock of its own, one stock that is wanted now and then, and
// reports that one of the clients makes while the other leaves them out.
func (s *site) steady(ctx context.Context, c *redlock.Client) {
	for range 6 {
		s.work.Go(func() {
			for sleep(ctx, between(20, 60)) {
				hold(ctx, c.Mutex(fmt.Sprint("orders/", rand.IntN(500))), between(3, 12))
			}
		})
	}
	s.work.Go(func() {
		for sleep(ctx, between(100, 300)) {
			hold(ctx, c.Mutex("stock/4711"), between(3, 12))
		}
	})
	for _, region := range []string{"eu", "us", "asia"} {
		s.work.Go(func() {
			for sleep(ctx, between(300, 800)) {
				// A TTL shorter than the outage of the quorum, and a hold that is longer: a lease is lost then.
				_, _ = c.Mutex("reports/"+region, redlock.WithTTL(2*time.Second)).TryDo(ctx, work(between(4000, 4800)))
			}
		})
	}
}

// burst has many callers of each client want one lock until ctx ends.
func (s *site) burst(ctx context.Context) error {
	for _, c := range s.clients {
		for range 40 / clientCount {
			s.work.Go(func() {
				for ctx.Err() == nil {
					hold(ctx, c.Mutex("stock/4711"), between(3, 8))
				}
			})
		}
	}
	<-ctx.Done() // which ends with this call
	return nil
}

// hold takes a lock and holds it for d. What becomes of it is what the metrics show.
func hold(ctx context.Context, m *redlock.Mutex, d time.Duration) {
	_ = m.Do(ctx, work(d))
}

// work takes d, or ends with the lease.
func work(d time.Duration) func(context.Context, *redlock.Lease) error {
	return func(ctx context.Context, _ *redlock.Lease) error {
		sleep(ctx, d)
		return ctx.Err()
	}
}

func between(low, high int) time.Duration {
	return time.Duration(low+rand.IntN(high-low)) * time.Millisecond
}
