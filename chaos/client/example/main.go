// SPDX-License-Identifier: Apache-2.0

// Command example is an application that redlock-bench chaos --client tests (docs/history.md). Replace the calls of package redlock by those
// of your application.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/redlock"
)

func main() { client.Main(work) }

// work takes the locks of the task with eight threads until ctx ends.
func work(ctx context.Context, s *client.Session) error {
	locks, err := redlock.Open(ctx, s.Nodes, redlock.WithTTL(s.TTL), redlock.WithMaxTTL(s.MaxTTL), redlock.WithFixedMasters(),
		redlock.WithClientName("")) // its label would stay on the masters for a minute after the run
	if err != nil {
		return err
	}
	defer locks.Close()
	if err := s.Ready("fenced-register"); err != nil { // no thread uses the register
		return err
	}
	var g errgroup.Group
	for i := range 8 {
		t := s.Thread(fmt.Sprint(i + 1))
		g.Go(func() error {
			for ctx.Err() == nil && t.Err() == nil {
				job(ctx, t, locks.Mutex(s.Locks[rand.IntN(len(s.Locks))], redlock.WithMaxWait(time.Second)))
				time.Sleep(rand.N(2 * s.Think))
			}
			return t.Err()
		})
	}
	return g.Wait()
}

// job takes a lock, works for a moment, and releases the lock.
func job(ctx context.Context, t *client.Thread, m *redlock.Mutex) {
	var l *redlock.Lease
	g, ok := t.Lock(m.Name(), func() (_ client.Grant, err error) {
		if l, err = m.Lock(ctx); err != nil {
			return client.Grant{}, err
		}
		return client.Grant{Holder: l.Holder(), Token: l.Token(), ValidUntil: l.ValidUntil()}, nil
	})
	if ok {
		time.Sleep(rand.N(4 * time.Millisecond))
		t.Unlock(m.Name(), g.Holder, func() error { return l.Unlock(context.Background()) })
	}
}
