// SPDX-License-Identifier: Apache-2.0

// Package floor is the least that acquiring and releasing a key on a majority of Redis masters costs with go-redis: the yardstick that
// redlock-bench holds the lock to. With OpenRaw it is what that costs without go-redis.
//
// It does what no quorum lock can leave out, as cheaply as we know how: a script that sets key, holder and TTL if the key is free and one
// that deletes it if the holder is the same, a fresh holder each time, sent to every master through one connection that pipelines whatever
// is queued, and a caller that goes on at the majority. A release is queued behind its own acquire on every master and counts only where
// it found the key, so no work can be skipped.
//
// It is not a lock. It has no validity, no timeout of its own, no clean-up after a failed round and no retries: an attempt that finds no
// majority leaves its keys to their TTL.
package floor

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed release.lua
	releaseSource string

	acquireScript = redis.NewScript(acquireSource)
	releaseScript = redis.NewScript(releaseSource)

	acquireHash any = acquireScript.Hash()
	releaseHash any = releaseScript.Hash()
)

// ErrNoMajority: a majority of the masters did not grant, or did not find, the key.
var ErrNoMajority = errors.New("floor: no majority")

// background is the context of every command: the connections have their own timeouts.
var background = context.Background()

// Floor is one connection to each of a set of masters. Its methods may be called from any goroutine; Close is the last one.
type Floor struct {
	lanes    []*lane
	majority int
}

// Open connects to one master per element of opts, which it does not change, and loads the scripts. What decides
// is a majority of so many masters: more than opts has if some are down. On an error nothing is left behind.
func Open(opts []*redis.Options, masters int) (*Floor, error) {
	return openAll(opts, masters, func(o *redis.Options) (*lane, error) { return openLane(*o) })
}

// OpenRaw is Open with the protocol written by hand on a plain connection. Of the options it takes the address alone.
func OpenRaw(opts []*redis.Options, masters int) (*Floor, error) {
	return openAll(opts, masters, func(o *redis.Options) (*lane, error) { return openRawLane(o.Addr) })
}

func openAll(opts []*redis.Options, masters int, connect func(*redis.Options) (*lane, error)) (*Floor, error) {
	f := &Floor{majority: masters/2 + 1}
	if len(opts) < f.majority {
		return nil, ErrNoMajority
	}
	for _, o := range opts {
		l, err := connect(o)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("floor: %s: %w", o.Addr, err)
		}
		f.lanes = append(f.lanes, l)
	}
	return f, nil
}

// Close sends what is queued and closes the connections.
func (f *Floor) Close() {
	for _, l := range f.lanes {
		l.close()
	}
}

// Caller acquires and releases one key. It is for one goroutine.
type Caller struct {
	lanes    []*lane
	majority int
	key, ttl any    // arguments that do not change, made interfaces once
	holder   []byte // what every holder of this caller begins with
	number   uint64
	now      any       // the holder
	done     chan bool // the verdict of the round under way
}

// Caller returns a caller for key, whose TTL is cut to whole milliseconds. No other caller should have the same key.
func (f *Floor) Caller(key string, ttl time.Duration) *Caller {
	return &Caller{
		lanes: f.lanes, majority: f.majority, key: key, ttl: ttl.Milliseconds(),
		holder: append([]byte(rand.Text()), ':'), done: make(chan bool, 1),
	}
}

// Pair acquires the key and releases it again. It returns ErrNoMajority unless a majority granted it and a majority found it to delete.
func (c *Caller) Pair() error {
	acquired := c.Acquire()
	released := c.Release() // also after a lost acquire: some masters may have granted it
	return errors.Join(acquired, released)
}

// Acquire returns ErrNoMajority unless a majority granted the key to a new holder.
func (c *Caller) Acquire() error {
	c.number++
	c.now = string(strconv.AppendUint(c.holder, c.number, 10))
	return c.round("evalsha", acquireHash, 1, c.key, c.now, c.ttl)
}

// Release returns ErrNoMajority unless a majority found the key of the last Acquire to delete.
func (c *Caller) Release() error {
	return c.round("evalsha", releaseHash, 1, c.key, c.now)
}

// round sends one command to every master and waits for the verdict.
func (c *Caller) round(args ...any) error {
	r := &round{asked: int32(len(c.lanes)), majority: int32(c.majority), done: c.done}
	for _, l := range c.lanes {
		l.submit(args, r)
	}
	if !<-c.done {
		return ErrNoMajority
	}
	return nil
}

// round counts the replies to one command. It is made anew each time, for the slower masters' replies come when the caller has gone on.
type round struct {
	asked, majority int32
	yes, no         atomic.Int32
	done            chan bool
}

// add counts one reply. Exactly one reply of a round decides it: the majority's last yes, or the no after which there can be none.
func (r *round) add(yes bool) {
	if yes {
		if r.yes.Add(1) == r.majority {
			r.done <- true
		}
	} else if r.no.Add(1) == r.asked-r.majority+1 {
		r.done <- false
	}
}
