// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/chaos/client"
)

const (
	threads = 8           // of a client process
	wait    = time.Second // for one lock, at most
)

// work takes the locks of the task until ctx ends. Every library does the same work.
func work(ctx context.Context, s *client.Session) error {
	open, known := libraries()[s.Library]
	if !known {
		return fmt.Errorf("no library %q", s.Library)
	}
	locks, err := open(ctx, s.Task)
	if err != nil {
		return err
	}
	defer locks.close()
	// No thread uses a register, and no library but this one has tokens and counters: exclusion is what all are judged by.
	if err := s.Ready("tokens", "fenced-register", "counters"); err != nil {
		return err
	}
	var g errgroup.Group
	for i := range threads {
		t := s.Thread(fmt.Sprint(i + 1))
		h := fnv.New64a()
		fmt.Fprintf(h, "%s.%d", s.Name, i)
		r := rand.New(rand.NewPCG(s.Seed, h.Sum64()))
		g.Go(func() error {
			for ctx.Err() == nil && t.Err() == nil {
				turn(ctx, s, t, locks, r)
				pause(ctx, time.Duration(r.Int64N(int64(2*s.Think))))
			}
			return t.Err()
		})
	}
	return g.Wait()
}

// turn takes a lock, holds it, and releases it. One in three holds lasts up to 0.8 TTLs, which no library has to extend; the others a moment.
func turn(ctx context.Context, s *client.Session, t *client.Thread, locks locker, r *rand.Rand) {
	name := s.Locks[r.IntN(len(s.Locks))]
	hold := time.Duration(r.Int64N(int64(s.TTL / 100)))
	if r.IntN(3) == 0 {
		hold = time.Duration(r.Int64N(int64(s.TTL * 8 / 10)))
	}
	var l lease
	g, ok := t.Lock(name, func() (client.Grant, error) {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		var err error
		l, err = locks.take(waiting, name)
		return l.Grant, err
	})
	if !ok {
		return
	}
	held := ctx
	if l.lost != nil {
		held = l.lost // a client that is told that its lock is lost stops at once
	}
	pause(held, hold)
	t.Unlock(name, g.Holder, func() error { return l.release(context.Background()) })
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// jitter is d on the average: callers that pause for the same time would come back at the same time.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
