// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

const (
	masters = 5
	// ttl of every lease, and the maximum: what a restarted master waits.
	ttl = 10 * time.Second
	// heal bounds how long after the last fault the lock may be unavailable (checker healed). A vote that is never released makes the lock
	// unavailable for nearly a TTL.
	heal = 2 * time.Second
	// lock is the one that every schedule is about.
	lock = "L"
)

// world is one run: masters, their clients, and what is put on record.
type world struct {
	rng     *rand.Rand
	masters simtest.Masters
	probed  simtest.Masters // where the probe takes the lock
	clients []*client
	moves   bool // an operator changes the masters
	ttl     time.Duration
	looked  int      // how often look was called
	lost    []string // what it found

	mu sync.Mutex
	h  history.History
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0)), ttl: ttl}
	w.h.Header = history.Header{Seed: seed, Driver: "sim", Masters: masters, TTL: ttl}
	w.masters = simtest.New(masters)
	w.probed = w.masters
	return w
}

// close frees the clients and puts the history in order.
func (w *world) close() *history.History {
	for _, c := range w.clients {
		_ = c.Close()
	}
	slices.SortStableFunc(w.h.Ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
	return &w.h
}

func now() int64 { return time.Now().UnixNano() }

// fault begins a fault of a nemesis. The function that it returns ends the fault and records it.
func (w *world) fault(nemesis, detail string) (healed func()) {
	start := now()
	return func() {
		w.h.Faults = append(w.h.Faults, history.Fault{Nemesis: nemesis, Start: start, End: now(), Detail: detail})
	}
}

func (w *world) record(op history.Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.h.Ops = append(w.h.Ops, op)
}

// probe takes the lock and gives it back, after the last fault, and looks for keys that were left behind.
func (w *world) probe() error {
	c, err := w.client("probe", w.probed)
	if err != nil {
		return err
	}
	m := c.mutex()
	for range int(3 * ttl / (100 * time.Millisecond)) {
		op := history.Op{Kind: history.KindProbe, Client: c.name, Lock: lock, Call: now(), Outcome: history.Failed}
		lease, err := m.TryLock(context.Background())
		op.Return = now()
		if err == nil {
			op.Outcome = history.OK
			err = lease.Unlock(context.Background())
		}
		w.record(op)
		if op.Outcome == history.OK {
			w.scan()
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.scan()
	return nil
}

// debts is a checker of this package alone, because a history does not show it: after the last fault no client still sends a release
// that a master has acknowledged.
func (w *world) debts() check.Result {
	r := check.Result{ID: "debts", Question: "Does no client owe a release when all is quiet?", Verdict: check.Ok, Observed: len(w.clients)}
	for _, c := range w.clients {
		if n := c.Stats().Unacknowledged; n > 0 {
			r.Verdict = check.Illegal
			r.Violations = append(r.Violations, check.Violation{Text: fmt.Sprintf("client %s owes %d releases", c.name, n), From: now(), To: now()})
		}
	}
	r.Summary = fmt.Sprintf("clients that owe a release: %d of %d", len(r.Violations), len(w.clients))
	return r
}

// kept is another checker of this package alone: no lease is lost while a quorum of masters has its vote.
func (w *world) kept() check.Result {
	r := check.Result{ID: "kept", Question: "Is no lease lost while a quorum has its vote?", Verdict: check.Ok, Observed: w.looked}
	for _, text := range w.lost {
		r.Verdict = check.Illegal
		r.Violations = append(r.Violations, check.Violation{Text: text, From: now(), To: now()})
	}
	r.Summary = fmt.Sprintf("leases that were lost although a quorum had the vote: %d of %d", len(w.lost), w.looked)
	return r
}

// look notes for kept whether a lease was lost although a quorum of masters has its vote.
func (w *world) look(lease *redlock.Lease) {
	votes := 0
	for _, m := range w.masters {
		if m.Holder(lock) == lease.Holder() {
			votes++
		}
	}
	w.looked++
	if err := lease.Err(); err != nil && 2*votes > masters {
		w.lost = append(w.lost, fmt.Sprintf("%d masters have the vote of %s: %v", votes, lease.Holder(), err))
	}
}

func (w *world) scan() {
	for _, m := range w.masters {
		if m.Holder(lock) != "" {
			w.h.Keys = append(w.h.Keys, history.Key{Node: m.Name(), Lock: lock, At: now(), TTL: m.PTTL(lock)})
		}
	}
}

// client is one process: a client of the lock with ways of its own to the masters.
type client struct {
	*simtest.Client
	w    *world
	name string

	mu    sync.Mutex
	rng   *rand.Rand
	away  map[*nodetest.Node]bool // cut off from it
	fault func(node int, cmd nodetest.Command) nodetest.Fault
	reads bool // it takes read locks
	// writes: it takes write locks. renews: its leases are renewed. Only such a lock is handed to a waiter.
	writes, renews bool
	unfair         bool          // it passes waiters
	ttl            time.Duration // of its locks; 0: that of the world
}

// client opens one on the masters given. It does not renew: what a schedule does not say does not happen.
func (w *world) client(name string, on simtest.Masters) (*client, error) {
	c := &client{w: w, name: name, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 0)), away: make(map[*nodetest.Node]bool)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := on.Open(ctx, func(sim *simtest.Client) {
		c.Client = sim
		for i, n := range sim.Ways {
			n.SetFault(func(cmd nodetest.Command) nodetest.Fault { return c.faultOf(i, cmd) })
		}
	}, w.options()...)
	if err != nil {
		return nil, fmt.Errorf("client %s: %w", name, err)
	}
	w.clients = append(w.clients, c)
	return c, nil
}

// options are those of every client.
func (w *world) options() []redlock.Option {
	opts := []redlock.Option{redlock.WithTTL(w.ttl), redlock.WithMaxTTL(w.ttl), redlock.WithoutRenewal()}
	if !w.moves {
		opts = append(opts, redlock.WithFixedMasters())
	}
	return opts
}

// begin lets masters begin.
func (w *world) begin(masters simtest.Masters) error {
	return masters.Init(context.Background(), w.options()...)
}

// start opens clients called by names on all masters, which vote from then on.
func (w *world) start(names ...string) error {
	if err := w.begin(w.masters); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := w.client(name, w.masters); err != nil {
			return err
		}
	}
	time.Sleep(time.Second) // what Init set going has settled
	return nil
}

// faultOf is what happens to cmd on its way: what the schedule says, and some tens of microseconds. They are random so that no two
// things happen at one instant: the order of those is nobody's to repeat.
//
// Connecting takes no time: go-redis does it under a mutex, and synctest's clock stands still while anybody waits for one.
func (c *client) faultOf(i int, cmd nodetest.Command) nodetest.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	var f nodetest.Fault
	switch away := c.away[c.Ways[i]]; cmd.Name {
	case "dial", "hello", "subscribe", "unsubscribe", "ping":
		return nodetest.Fault{Cut: away}
	default:
		if away {
			f = nodetest.Fault{Lose: nodetest.LoseCommand, Cut: true}
		} else if c.fault != nil {
			f = c.fault(i, cmd)
		}
	}
	f.Delay += time.Duration(20_000 + c.rng.IntN(20_000))
	return f
}

// hurt makes fn decide what happens to the client's commands; nil ends it.
func (c *client) hurt(fn func(node int, cmd nodetest.Command) nodetest.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fn
}

// reach cuts the client off from all masters but those given.
func (c *client) reach(ids ...int) {
	c.mu.Lock()
	for i, n := range c.Ways {
		c.away[n] = !slices.Contains(ids, i)
	}
	c.mu.Unlock()
	for i, n := range c.Ways {
		if !slices.Contains(ids, i) {
			n.Cut()
		}
	}
}

func (c *client) mutex() redlock.Locker {
	var opts []redlock.LockOption
	if c.renews {
		opts = append(opts, redlock.WithRenewal(c.w.ttl/4))
	}
	if c.unfair {
		opts = append(opts, redlock.WithoutFairness())
	}
	if c.ttl != 0 {
		opts = append(opts, redlock.WithTTL(c.ttl))
	}
	switch {
	case c.reads:
		return c.RWMutex(lock, opts...).RLocker()
	case c.writes:
		return c.RWMutex(lock, opts...).Locker()
	}
	return c.Mutex(lock, opts...)
}

// try is TryLock on record; the lease is nil when it was refused.
func (c *client) try(ctx context.Context) *redlock.Lease { return c.take(ctx, c.mutex().TryLock) }

// wait is Lock on record, for at most d.
func (c *client) wait(d time.Duration) *redlock.Lease {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return c.take(ctx, c.mutex().Lock)
}

func (c *client) take(ctx context.Context, fn func(context.Context) (*redlock.Lease, error)) (lease *redlock.Lease) {
	op := history.Op{Kind: history.KindLock, Mode: history.Exclusive, Lock: lock}
	if c.reads {
		op.Mode = history.Shared
	}
	_ = c.do(&op, func() (err error) {
		if lease, err = fn(ctx); err == nil {
			op.Holder, op.Token, op.Deadline = lease.Holder(), lease.Token(), lease.ValidUntil().UnixNano()
		}
		return err
	})
	return lease
}

// do makes a call on record. A client may have several under way.
func (c *client) do(op *history.Op, call func() error) error {
	r := history.Recorder{Client: c.name, Now: now, Failure: workload.Failure, Append: func(op history.Op) error { c.w.record(op); return nil }}
	return r.Do(op, call)
}

// extend is Extend on record. A nil lease is none of its business, nor of unlock's: the lock was refused.
func (c *client) extend(lease *redlock.Lease) {
	if lease == nil {
		return
	}
	op := history.Op{Kind: history.KindExtend, Lock: lock, Holder: lease.Holder()}
	_ = c.do(&op, func() error {
		err := lease.Extend(context.Background())
		if err == nil {
			op.Deadline = lease.ValidUntil().UnixNano()
		}
		return err
	})
}

// use holds the lock for a second and gives it back.
func (c *client) use(lease *redlock.Lease) {
	if lease == nil {
		return
	}
	select {
	case <-time.After(time.Second):
	case <-lease.Context().Done():
	}
	c.unlock(lease)
}

// unlock is Unlock on record.
func (c *client) unlock(lease *redlock.Lease) {
	if lease == nil {
		return
	}
	op := history.Op{Kind: history.KindUnlock, Lock: lock, Holder: lease.Holder()}
	_ = c.do(&op, func() error { return lease.Unlock(context.Background()) })
}
