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
	"github.com/redlock-go/redlock/chaos/peers/library"
)

const (
	threads = 8           // of a client process
	wait    = time.Second // for one lock, at most
)

// work takes the locks of the task until ctx ends. Every library does the same work.
func work(ctx context.Context, s *client.Session) error {
	locks, err := library.Open(ctx, s.Library, s.Task)
	if err != nil {
		return err
	}
	defer locks.Close()
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
				library.Pause(ctx, time.Duration(r.Int64N(int64(2*s.Think))))
			}
			return t.Err()
		})
	}
	return g.Wait()
}

// turn takes a lock, holds it, and releases it. One in three holds lasts up to 0.8 TTLs, which no library has to extend; the others a moment.
func turn(ctx context.Context, s *client.Session, t *client.Thread, locks library.Locker, r *rand.Rand) {
	name := s.Locks[r.IntN(len(s.Locks))]
	hold := time.Duration(r.Int64N(int64(s.TTL / 100)))
	if r.IntN(3) == 0 {
		hold = time.Duration(r.Int64N(int64(s.TTL * 8 / 10)))
	}
	var l library.Lease
	g, ok := t.Lock(name, func() (client.Grant, error) {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		var err error
		l, err = locks.Take(waiting, name)
		return l.Grant, err
	})
	if !ok {
		return
	}
	held := ctx
	if l.Lost != nil {
		held = l.Lost // a client that is told that its lock is lost stops at once
	}
	library.Pause(held, hold)
	t.Unlock(name, g.Holder, func() error { return l.Release(context.Background()) })
}
