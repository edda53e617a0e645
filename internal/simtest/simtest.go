// SPDX-License-Identifier: Apache-2.0

// Package simtest has masters in memory and clients on them, for tests under testing/synctest, and for examples in real time
// ([Masters.Patient]).
//
// It knows how a client, its clock and its ways to the masters belong together. What goes
// wrong, and when, is the test's to say: with [nodetest.Node.SetFault] on a way, with the
// methods of a master, and with those of a [Clock]. Package internal/sim has processes of its own,
// because each of their choices comes from a seed.
package simtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// Masters are the masters of one simulation, in the order of the clients' list.
type Masters []*nodetest.Master

// New returns n masters without data, called m0, m1 and so on.
func New(n int) (ms Masters) {
	for i := range n {
		ms = append(ms, nodetest.NewMaster(fmt.Sprintf("m%d", i)))
	}
	return ms
}

// Init lets the masters begin to vote, for clients with opts. No time passes.
func (ms Masters) Init(ctx context.Context, opts ...redlock.Option) error {
	return ms.init(ctx, node.Config{}, opts)
}

func (ms Masters) init(ctx context.Context, cfg node.Config, opts []redlock.Option) error {
	clk := clock.Monotonic()
	_, nodes := ms.connect(clk, cfg)
	defer closeAll(nodes)
	list := admin.List{Nodes: nodes, Options: append([]redlock.Option{redlock.WithClock(clk)}, opts...)}
	return admin.Init(ctx, list, nil, admin.NothingWasEverLocked)
}

func (ms Masters) connect(clk clock.Clock, cfg node.Config) (ways []*nodetest.Node, nodes []node.Node) {
	cfg.Clock = clk
	for _, m := range ms {
		n := m.Node(cfg)
		ways, nodes = append(ways, n), append(nodes, n)
	}
	return ways, nodes
}

func closeAll(nodes []node.Node) {
	for _, n := range nodes {
		_ = n.Close()
	}
}

// Client is one process: a client of the lock, its clock, and its ways to the masters. The
// caller closes it.
type Client struct {
	*redlock.Client
	Clock *Clock
	Ways  []*nodetest.Node // in the order of the masters
}

// Open opens a client on the masters. prepare is told the client before it connects, and may be
// nil. The client has no label but that of opts: the default differs from process to process, and a seed must not.
func (ms Masters) Open(ctx context.Context, prepare func(c *Client), opts ...redlock.Option) (*Client, error) {
	return ms.open(ctx, node.Config{}, prepare, opts)
}

func (ms Masters) open(ctx context.Context, cfg node.Config, prepare func(c *Client), opts []redlock.Option) (*Client, error) {
	c := &Client{Clock: &Clock{Clock: clock.Monotonic()}}
	var nodes []node.Node
	c.Ways, nodes = ms.connect(c.Clock.lanes(), cfg)
	if prepare != nil {
		prepare(c)
	}
	var err error
	if c.Client, err = redlock.New(ctx, nodes, append([]redlock.Option{redlock.WithClock(c.Clock), redlock.WithClientName("")}, opts...)...); err != nil {
		closeAll(nodes)
		return nil, err
	}
	return c, nil
}

// Clock is the clock of a client's host. Its zero changes show the bubble's time. It is safe for
// concurrent use.
type Clock struct {
	clock.Clock
	stopped atomic.Int64
	still   atomic.Int64 // what Elapsed shows while the clock stands still, else 0
	pause   atomic.Int64
	ahead   atomic.Int64
}

// lanes is the same elapsed time without the pauses of a caller: the client's lanes go on
// meanwhile.
func (c *Clock) lanes() clock.Clock { return lanes{c.Clock, c} }

type lanes struct {
	clock.Clock
	c *Clock
}

func (l lanes) Elapsed() time.Duration { return l.c.elapsed() }

// Elapsed implements [clock.Clock].
func (c *Clock) Elapsed() time.Duration {
	time.Sleep(time.Duration(c.pause.Swap(0)))
	return c.elapsed()
}

func (c *Clock) elapsed() time.Duration {
	if still := c.still.Load(); still != 0 {
		return time.Duration(still)
	}
	return c.Clock.Elapsed() + time.Duration(c.stopped.Load())
}

// Wall implements [clock.Clock].
func (c *Clock) Wall() time.Time { return c.Clock.Wall().Add(time.Duration(c.ahead.Load())) }

// Stop moves the clock on by d: the host was stopped for so long.
func (c *Clock) Stop(d time.Duration) { c.stopped.Add(int64(d)) }

// StandStill lets d pass without the clock.
func (c *Clock) StandStill(d time.Duration) {
	c.still.Store(int64(c.elapsed()))
	time.Sleep(d)
	c.Stop(-d)
	c.still.Store(0)
}

// PauseNext stops whoever reads the elapsed time next for d, before the reading. Lanes go on.
func (c *Clock) PauseNext(d time.Duration) { c.pause.Store(int64(d)) }

// SetAhead sets how far the time of day is ahead.
func (c *Clock) SetAhead(d time.Duration) { c.ahead.Store(int64(d)) }
