// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/crowd"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/masters"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/pairs"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/termline"
	"github.com/redlock-go/redlock/internal/testbed"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock"
)

const contentionHelp = `All waiters want one lock, hold it for --hold, give it back and want it again.
They are spread over several clients, each with its own connections, or with
--processes over as many programs of their own, which share out the cores. With
--readers the lock is a read-write lock, which so many of the waiters want for
reading.

  acquired/s   how often the lock was taken, all waiters together
  wait         from asking for the lock to having it; the longest also counts
               those still waiting at the end. Counted from when everybody has
               had the lock once, but a quarter of the run at the latest: all
               connect at the same time first. From the beginning if no later
               wait ended, as when a turn of all takes longer than the run
  limit        what physics allows: a turn is the time that a holder has the
               lock, on average, and one round trip, from the holder to the
               masters and on to the next. A trip is what giving back a lock
               that nobody else wants takes, the median of 100 before each cell
  Jain         fairness index of what each waiter got: 1 is even, 1/waiters is
               one who got everything; readers that share get more than writers
  share        what the least and the most lucky waiter got; 1 is an even share
  commands     eval, evalsha, fcall, subscribe and unsubscribe that one master
               executed for one acquisition, from its INFO commandstats. Redis
               does not tell what scripts call (HSET, PUBLISH...) from what
               clients send, so only commands that no script may call count.
               Other clients of your masters count too.
  rounds       questions to all masters that were needed for one acquisition; 1
               when nobody else wants it
  clients      their CPU for one acquisition, all threads; not with
               --processes or embedded masters
  overlaps     how often one holder began before another had ended, readers
               beside readers excepted, over all clients and processes, on
               the monotonic clock of this host: from when Lock had returned to
               when Unlock was about to be called or the lease was no longer
               valid. Anything but 0 is a violation; exit code 1.
`

// contention measures one lock that many want.
type contention struct {
	setup
	waiters   counts
	clients   int
	processes int // 0: all in this one
	readers   int
	unfair    bool
	hold      time.Duration
	delay     time.Duration
}

const (
	maxClients, maxProcesses = 64, 256
	maxDelay                 = time.Second
)

func (c *contention) define(fs *flag.FlagSet) {
	c.setup.define(fs, 3*time.Second)
	c.waiters = counts{8, 64}
	fs.Var(&c.waiters, "waiters", "`N,N,...` waiters, a cell for each")
	fs.IntVar(&c.clients, "clients", 4, "`N` clients that share the waiters")
	fs.IntVar(&c.processes, "processes", 0, "`N` processes that share them, with a client each")
	fs.IntVar(&c.readers, "readers", 0, "`N` of the waiters read, the others write")
	fs.BoolVar(&c.unfair, "unfair", false, "take the lock when it is free, whoever waits longer")
	fs.DurationVar(&c.delay, "delay", 0, "`TIME` that proxies add to a round trip")
	fs.DurationVar(&c.hold, "hold", time.Millisecond, "`TIME` that each holder keeps the lock")
}

func (c *contention) check() error {
	switch least := slices.Min(c.waiters); {
	case c.clients < 1 || c.clients > maxClients:
		return fmt.Errorf("--clients %d: want 1 to %d", c.clients, maxClients)
	case c.processes < 0 || c.processes > maxProcesses:
		return fmt.Errorf("--processes %d: want 1 to %d, or 0 for none but this", c.processes, maxProcesses)
	case c.processes > 0 && c.given("clients"):
		return errors.New("--processes have one client each: give --clients or --processes")
	case c.readers < 0 || c.readers > least:
		return fmt.Errorf("--readers %d: want 0 to the smallest of --waiters, %d", c.readers, least)
	case c.delay < 0 || c.delay > maxDelay:
		return fmt.Errorf("--delay %v: want 0 to %v", c.delay, maxDelay)
	case c.delay > 0 && len(c.nodes) > 0:
		return errors.New("--delay is for masters of our own: --nodes are as far away as they are")
	case c.hold < 0 || c.hold > c.duration:
		return fmt.Errorf("--hold %v: want 0 to the --duration, %v", c.hold, c.duration)
	}
	return c.setup.check()
}

func (c *contention) run(ctx context.Context, o output) error {
	return c.setup.measure(ctx, o, "contention", c.cells)
}

// cells measures one cell after the other until ctx ends. Its error is errViolation when one saw an overlap.
func (c *contention) cells(ctx context.Context, b *masters.Backend, r *report) error {
	if c.processes > 0 && b.Kind == masters.Embedded {
		return errors.New("--processes need redis-server: embedded masters are in this process alone")
	}
	far, err := b.Delayed(ctx, c.delay)
	if err != nil {
		return err
	}
	defer far()
	r.contentionHead(b, c)
	var violation error
	for i, n := range c.waiters {
		cell, err := c.cell(ctx, b, fmt.Sprintf("%shot:%d", b.Prefix, i), n, r.progress)
		if cell != nil {
			r.contentionRow(cell)
			if cell.Overlaps > 0 {
				violation = errViolation
			}
		}
		if err != nil {
			return errors.Join(violation, err)
		}
	}
	return violation
}

// contenders are a crowd in this process, or a fleet of others.
type contenders interface {
	// press lets them all take the lock in turn for d, or until ctx ends.
	Press(ctx context.Context, d time.Duration) (crowd.Sight, error)
	Close()
}

// cell measures n waiters for the lock called name. When ctx ends it returns what it has, and ctx's error.
func (c *contention) cell(ctx context.Context, b *masters.Backend, name string, n int, p *termline.Line) (*results.ContentionCell, error) {
	defer p.Clear()
	p.Show("contention, %s: %v", text.Plural(n, "waiter"), c.duration)
	all, err := c.gather(ctx, b, name, n)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	trip, err := c.trip(ctx, b)
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	before, ok := b.Commands(ctx)
	spent := testbed.Own()
	saw, err := all.Press(ctx, c.duration)
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	spent = testbed.Own() - spent
	after, okAfter := b.Commands(context.WithoutCancel(ctx))
	cell := crowd.NewCell(saw, c.hold, trip)
	cell.Clients, cell.Processes, cell.Readers, cell.Unfair = c.parts(n), min(c.processes, n), c.readers, c.unfair
	if cell.Acquired == 0 && ctx.Err() == nil {
		err := fmt.Errorf("the lock could not be taken once in %v", c.duration)
		if cell.FirstErr != nil {
			err = fmt.Errorf("%w: %w", err, cell.FirstErr)
		}
		return nil, err
	}
	if ok && okAfter && cell.Acquired > 0 {
		per := float64(after-before) / float64(len(b.Admins)) / float64(cell.Acquired)
		cell.Commands = &per
	}
	if c.processes == 0 && b.Kind != masters.Embedded && c.delay == 0 && cell.Acquired > 0 { // proxies are in this process
		cpu := pairs.Micros(spent) / float64(cell.Acquired)
		cell.ClientCPU = &cpu
	}
	return cell, ctx.Err()
}

// trip is how long it takes to give back a lock that nobody else wants: the median of 100 times. A release that no quorum
// confirmed says nothing of that, and is left out.
func (c *contention) trip(ctx context.Context, b *masters.Backend) (time.Duration, error) {
	client, err := b.NewClient(c.options(b.N)...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var took []time.Duration
	for range 100 {
		lease, err := client.Mutex(b.Prefix + "trip").Lock(ctx)
		if err != nil {
			return 0, err
		}
		gave := crowd.Monotonic()
		switch err := lease.Unlock(ctx); {
		case err == nil:
			took = append(took, crowd.Monotonic()-gave)
		case !errors.Is(err, redlock.ErrUnconfirmed) || ctx.Err() != nil:
			return 0, err
		}
	}
	if len(took) == 0 {
		return 0, fmt.Errorf("%w: none of 100 releases of a lock that nobody else wants", redlock.ErrUnconfirmed)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// parts is over how many clients n waiters are spread.
func (c *contention) parts(n int) int {
	if c.processes > 0 {
		return min(c.processes, n)
	}
	return min(c.clients, n)
}

// gather brings n waiters to the lock called name.
func (c *contention) gather(ctx context.Context, b *masters.Backend, name string, n int) (contenders, error) {
	t := &crowd.Task{
		Nodes: b.Nodes, Fixed: b.Kind == masters.OwnServers, Name: name, TTL: c.ttl, MaxTTL: c.listTTL, Hold: c.hold, Duration: c.duration,
		Unfair: c.unfair, ReadWrite: c.readers > 0, Clients: c.parts(n), Waiters: n, Readers: c.readers,
	}
	newClient := func() (*redlock.Client, error) { return b.NewClient(c.options(b.N)...) }
	if c.processes == 0 {
		return t.Crowd(newClient)
	}
	client, err := newClient() // only this one has the masters begin, or finds that they do not vote
	if err != nil {
		return nil, err
	}
	_ = client.Close()
	return t.Fleet(ctx, c.parts(n))
}
