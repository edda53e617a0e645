// SPDX-License-Identifier: Apache-2.0

// Package redlocktest is for tests of code that takes locks. It needs no Redis: [New] returns a
// client over masters in memory, which run the scripts that ship and vote at once. It also returns
// a handle, [Masters], with which a test makes life hard for that client:
//
//	client, masters := redlocktest.New(t)
//	masters.Hold("report")                        // another process has the lock
//	_, err := client.Mutex("report").TryLock(ctx) // your code
//	if !errors.Is(err, redlock.ErrHeld) { ... }
//
// The client is a real one, with all its defences. Nothing that a [Masters] does lets two clients
// hold one lock. docs/testing.md shows a test for each difficulty.
//
// # Time
//
// The package takes the time from package time, so it runs under testing/synctest. In a bubble a
// time.Sleep of a minute takes no time, and leases, renewals, TTLs and quarantines advance with
// it. Call [New] inside the bubble, with the t of the bubble. Outside of a bubble everything works
// in real time. Then give short times to New: [redlock.WithTTL] and [redlock.WithMaxTTL].
//
// # Misuse
//
// What cannot work ends the test by t.Fatalf, and so does an event that does not come within 10 s.
// Therefore call the methods of [Masters] on the goroutine of the test.
package redlocktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// All stands for the number of all masters, for [Masters.Outage] and [Masters.Restart].
const All = -1

const (
	// limit is how long the package waits for an event before it ends the test.
	limit = 10 * time.Second
	// patient is the node timeout of all clients. It is long, because the machine that runs the
	// tests may be busy.
	patient = 2 * time.Second
	// most is how many masters package redlock takes.
	most = 63
)

// Masters are the masters of one test. Make them with [New] or [NewN].
type Masters struct {
	t       testing.TB
	opts    []redlock.Option
	masters []*nodetest.Master
	clients []*client
	other   *redlock.Client // of Hold; nil before its first call

	// These say what goes wrong. The clients' goroutines read them.
	away   atomic.Int64 // the first so many masters are out of reach
	refuse atomic.Bool
	lost   sync.Map // the holders whose votes Lose took
}

// client is one process.
type client struct {
	*redlock.Client
	clock clock.Clock
	nodes []node.Node // in the order of the masters
}

// New starts three masters, and returns a client on them and the masters. t.Cleanup closes
// everything. The options are those of redlock.Open. The package sets the clock, and unless opts has
// others a node timeout of 2 s and no label: all clients of a test are one process.
func New(t testing.TB, opts ...redlock.Option) (*redlock.Client, *Masters) {
	t.Helper()
	return NewN(t, 3, opts...)
}

// NewN is [New] with n masters, 1 to 63. For 1 or an even number opts must have
// redlock.WithNodeCount(n), as for redlock.Open.
func NewN(t testing.TB, n int, opts ...redlock.Option) (*redlock.Client, *Masters) {
	t.Helper()
	if n < 1 || n > most {
		t.Fatalf("redlocktest: %d masters: want 1 to %d", n, most)
	}
	ms := &Masters{t: t, opts: append([]redlock.Option{redlock.WithNodeTimeout(patient), redlock.WithClientName("")}, opts...)}
	for i := range n {
		ms.masters = append(ms.masters, nodetest.NewMaster(fmt.Sprintf("m%d", i+1)))
	}
	operator := ms.connect()
	defer operator.closeNodes()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	list := admin.List{Nodes: operator.nodes, Options: operator.options(ms.opts)}
	if err := admin.Init(ctx, list, nil, admin.NothingWasEverLocked); err != nil {
		t.Fatalf("redlocktest: %v", err)
	}
	return ms.Client(), ms
}

// Client returns another client on the same masters: another process. It has the options that New
// got, and then opts. t.Cleanup closes it.
func (ms *Masters) Client(opts ...redlock.Option) *redlock.Client {
	ms.t.Helper()
	c := ms.connect()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var err error
	if c.Client, err = redlock.New(ctx, c.nodes, c.options(ms.opts, opts)...); err != nil {
		c.closeNodes()
		ms.t.Fatalf("redlocktest: opening a client: %v", err)
	}
	ms.t.Cleanup(func() { _ = c.Close() })
	ms.clients = append(ms.clients, c)
	return c.Client
}

// namespace is that of the options that New got.
func (ms *Masters) namespace() protocol.Namespace {
	return protocol.Namespace(redlock.Engine(engine.Key{}).Namespace(ms.clients[0].Client))
}

// connect makes the nodes of one client. They do not dial yet.
func (ms *Masters) connect() *client {
	c := &client{clock: clock.Monotonic()}
	for i, m := range ms.masters {
		n := m.Node(node.Config{Clock: c.clock, DialTimeout: limit, IOTimeout: limit, StallAfter: patient})
		n.SetFault(func(cmd nodetest.Command) nodetest.Fault {
			switch {
			case i >= int(ms.away.Load()):
				return nodetest.Fault{}
			case cmd.Name == "dial":
				return nodetest.Fault{Cut: true} // refused at once; a loss would cost the time of a dial
			}
			return nodetest.Fault{Cut: true, Lose: nodetest.LoseCommand}
		})
		c.nodes = append(c.nodes, &way{n, ms})
	}
	return c
}

func (c *client) options(opts ...[]redlock.Option) []redlock.Option {
	return append(slices.Concat(opts...), redlock.WithClock(c.clock))
}

func (c *client) closeNodes() {
	for _, n := range c.nodes {
		_ = n.Close()
	}
}

// Hold takes the lock called name with a client of its own: somebody else has it, until the test
// calls Unlock of the lease. The lease is renewed, also if New got redlock.WithoutRenewal or redlock.WithMaxHold. Hold ends the
// test if the lock is not free.
// To hold a side of an RWMutex, lock it with a client of [Masters.Client].
func (ms *Masters) Hold(name string) *redlock.Lease {
	ms.t.Helper()
	if ms.other == nil {
		ms.other = ms.Client()
	}
	lease, err := ms.other.Mutex(name, redlock.Engine(engine.Key{}).Renewed()).TryLock(context.Background())
	if err != nil {
		ms.t.Fatalf("redlocktest: Hold: %v", err)
	}
	return lease
}

// AwaitWaiter returns when a Lock waits for the lock called name: it is in the queues of a quorum
// of masters, and hears when they hand it the lock.
func (ms *Masters) AwaitWaiter(name string) {
	ms.t.Helper()
	const clientID = 36 // bytes at the beginning of a place
	ns := ms.namespace()
	queue := ns.Lock(name, protocol.Plain).Queue
	ms.await(fmt.Sprintf("somebody waits for %q", name), func() bool {
		waits := 0
		for _, m := range ms.masters {
			_ = m.Do(func(db *nodetest.DB) {
				if slices.ContainsFunc(db.ZRange(queue, -1), func(place string) bool {
					return len(place) > clientID && db.Subscribers(ns.Wake(place[:clientID])) > 0
				}) {
					waits++
				}
			})
		}
		return waits > len(ms.masters)/2
	})
}

// Lose waits until somebody holds the lock called name, and takes the votes of that lease. The
// holder learns it when it extends the lease, which it does by itself after a third of the TTL: the
// context of the lease ends with redlock.ErrLost. The masters keep the lock taken until the holder
// calls Unlock or the TTL is over, so nobody else has it before the holder knows.
func (ms *Masters) Lose(name string) {
	ms.t.Helper()
	key := ms.namespace().Lock(name, protocol.Plain).Key
	ms.await(fmt.Sprintf("somebody holds %q", name), func() (found bool) {
		votes := make(map[string]int)
		for _, m := range ms.masters {
			_ = m.Do(func(db *nodetest.DB) {
				for _, field := range db.HKeys(key) {
					votes[strings.TrimSuffix(field, ":write")]++
				}
			})
		}
		delete(votes, "mode") // a field of an RWMutex
		for holder, n := range votes {
			if n > len(ms.masters)/2 {
				_, before := ms.lost.LoadOrStore(holder, true)
				found = found || !before
			}
		}
		return found
	})
}

// Refuse makes all masters refuse to vote, as they do for a user without the right: Lock and
// TryLock return redlock.ErrRefused. Leases that are held go on. A Lock that waits already is
// refused when it asks next, and may be handed the lock before. [Masters.Heal] ends it.
func (ms *Masters) Refuse() { ms.refuse.Store(true) }

// Outage puts n masters out of reach of every client, or [All]. They keep their data. Without a
// quorum TryLock returns redlock.ErrUnreachable, and Lock does so after the outage timeout ([redlock.WithOutageTimeout]). Leases are
// lost when their validity ends. Another Outage replaces this one. [Masters.Heal] ends it.
func (ms *Masters) Outage(n int) {
	ms.t.Helper()
	ms.away.Store(int64(ms.number("Outage", n)))
}

// Heal ends Outage and Refuse. It returns when every client has reached every master.
func (ms *Masters) Heal() {
	ms.t.Helper()
	ms.away.Store(0)
	ms.refuse.Store(false)
	ms.reach(len(ms.masters))
}

// Restart restarts n masters, or [All], and returns when every client knows. The masters have their
// data, but may have lost the last votes. So they are in quarantine: they do not vote until the
// maximum TTL (30 s by default) and twice its drift have passed. Without a quorum TryLock returns
// redlock.ErrRecovering meanwhile, and Lock waits. Leases that are held go on.
func (ms *Masters) Restart(n int) {
	ms.t.Helper()
	n = ms.number("Restart", n)
	rest := len(ms.masters) - n
	if away := int(ms.away.Load()); away > rest { // the first masters are away, and the last restart
		ms.t.Fatalf("redlocktest: Restart of %d masters: %d of %d are out of reach; call Heal before", n, away, len(ms.masters))
	}
	for _, m := range ms.masters[rest:] {
		m.Restart()
	}
	for _, c := range ms.reach(n) {
		ms.await("every client sees that the masters recover (with WithUnsafeRecoveryOff they do not)",
			func() bool { return c.Stats().Recovering >= n })
	}
}

// number is n, or the number of all masters.
func (ms *Masters) number(method string, n int) int {
	ms.t.Helper()
	switch {
	case n == All:
		return len(ms.masters)
	case n < 1 || n > len(ms.masters):
		ms.t.Fatalf("redlocktest: %s of %d masters: want 1 to %d, or All", method, n, len(ms.masters))
	}
	return n
}

// reach waits until every client has an answer from each of the last n masters. It returns the
// clients that are not closed.
func (ms *Masters) reach(n int) (open []*client) {
	ms.t.Helper()
	for _, c := range ms.clients {
		var err error
		for _, way := range c.nodes[len(c.nodes)-n:] {
			ms.await("every client reaches the masters", func() bool {
				err = ask(way, c.clock)
				return err == nil || errors.Is(err, node.ErrClosed)
			})
		}
		if err == nil {
			open = append(open, c)
		}
	}
	return open
}

// await waits until ok. It asks again and again, because nothing tells it of a change; asking
// costs no I/O.
func (ms *Masters) await(what string, ok func() bool) {
	ms.t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			ms.t.Fatalf("redlocktest: not within %v: %s", limit, what)
		}
	}
}
