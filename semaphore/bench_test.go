// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"fmt"
	"testing"

	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// One caller takes a free permit and gives it back, beside a lock.
func BenchmarkFree(b *testing.B) {
	masters := quorumtest.Start(b, 5)
	c := masters.Open()
	s := New(c, "db", 10)
	b.Run("permit", func(b *testing.B) {
		for b.Loop() {
			p, err := s.Acquire(b.Context())
			quorumtest.NoErr(b, err)
			quorumtest.NoErr(b, p.Release(b.Context()))
		}
	})
	b.Run("lock", func(b *testing.B) {
		m := c.Mutex("m")
		for b.Loop() {
			lease, err := m.Lock(b.Context())
			quorumtest.NoErr(b, err)
			quorumtest.NoErr(b, lease.Unlock(b.Context()))
		}
	})
}

// All permits are taken, and two callers of each of two processes wait: how often a permit changes hands.
func BenchmarkHandOn(b *testing.B) {
	for _, k := range []int{1, 10, 100, MaxPermits} {
		b.Run(fmt.Sprint("k=", k), func(b *testing.B) {
			masters := quorumtest.Start(b, 5)
			first, second := masters.Open(), masters.Open()
			one := New(first, "db", k)
			two := New(second, "db", k)
			got := make(chan *Permit, k)
			for range k {
				p, err := one.TryAcquire(b.Context())
				quorumtest.NoErr(b, err)
				got <- p
			}
			wants := make(chan *Semaphore, 4)
			ask := func(s *Semaphore) {
				p, err := s.Acquire(b.Context())
				if err != nil {
					b.Error(err)
				}
				got <- p
				wants <- s
			}
			for range 2 {
				wants <- one
				wants <- two
			}
			for range 4 {
				go ask(<-wants)
			}
			for b.Loop() {
				quorumtest.NoErr(b, (<-got).Release(b.Context()))
				go ask(<-wants)
			}
			for range 4 {
				quorumtest.NoErr(b, (<-got).Release(b.Context()))
				<-wants
			}
			for range k {
				quorumtest.NoErr(b, (<-got).Release(b.Context()))
			}
		})
	}
}
