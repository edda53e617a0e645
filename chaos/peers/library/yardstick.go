// SPDX-License-Identifier: Apache-2.0

package library

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/internal/floor"
)

// The names of what is no lock, and what locks are held against.
const (
	Floor = "floor" // with go-redis
	Resp  = "resp"  // with the protocol written by hand
)

// yardstick is package floor as a library. Only one caller at a time may ask for a name, and none waits.
type yardstick struct {
	*floor.Floor
	ttl     time.Duration
	callers sync.Map // of each name
}

// OpenFloor opens a yardstick: Floor or Resp.
func OpenFloor(name string, t client.Task) (Locker, error) {
	if name == Resp {
		return openYardstick(t, floor.OpenRaw)
	}
	return openYardstick(t, floor.Open)
}

func openYardstick(t client.Task, open func([]*redis.Options, int) (*floor.Floor, error)) (Locker, error) {
	opts, err := options(t)
	if err != nil {
		return nil, err
	}
	f, err := open(opts, len(opts))
	return &yardstick{Floor: f, ttl: t.TTL}, err
}

func (y *yardstick) Take(_ context.Context, name string) (Lease, error) {
	known, ok := y.callers.Load(name)
	if !ok {
		known, _ = y.callers.LoadOrStore(name, y.Caller(name, y.ttl))
	}
	c := known.(*floor.Caller)
	return Lease{Release: func(context.Context) error { return c.Release() }}, c.Acquire()
}
