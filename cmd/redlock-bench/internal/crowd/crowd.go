// SPDX-License-Identifier: Apache-2.0

// Package crowd is many waiters for one lock, in this process or in a fleet of others, and what they saw. A time in which a waiter held the lock
// lies within what the lock promised, on a clock that all processes share. So two that overlap are two holders, never an effect of the measuring.
package crowd

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/cmd/internal/masterurl"
	"github.com/redlock-go/redlock/internal/testbed"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock"
)

// locker is a lock that a crowd waits for: the product's, or a test's broken one.
type locker interface {
	lock(ctx context.Context) (held, error)
}

// held is a lock that was taken. *redlock.Lease is one.
type held interface {
	ValidUntil() time.Time
	Unlock(ctx context.Context) error
}

type mutexLocker struct{ redlock.Locker }

func (m mutexLocker) lock(ctx context.Context) (held, error) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// Task is what a crowd is to do. It crosses a pipe, for crowds in processes of their own.
type Task struct {
	Fixed     bool           // the clients have WithFixedMasters
	Nodes     masterurl.URLs `json:"nodes"`
	Name      string         `json:"name"` // of the lock
	TTL       time.Duration  `json:"ttl"`
	MaxTTL    time.Duration  `json:"max_ttl,omitempty"` // of the masters; 0: the default
	Hold      time.Duration  `json:"hold"`
	Duration  time.Duration  `json:"duration"`
	Unfair    bool           `json:"unfair"`
	ReadWrite bool           `json:"read_write"` // an RWMutex
	Clients   int            `json:"clients"`
	Waiters   int            `json:"waiters"`
	Readers   int            `json:"readers"` // so many of the waiters read
}

// seen is what one waiter saw.
type seen struct {
	Spans []span `json:"spans"`
	// Cut is how long it had waited when the run ended: a wait that was at least so long.
	Cut    time.Duration `json:"cut"`
	Lost   int           `json:"lost"` // leases whose validity ended during the hold
	Errors int           `json:"errors"`
	First  string        `json:"first_error"`
}

// Sight is what a crowd saw.
type Sight struct {
	Waiters []seen        `json:"waiters"`
	Rounds  uint64        `json:"rounds"` // of acquire, won or not
	Elapsed time.Duration `json:"elapsed"`
}

// Add makes s what two crowds saw at the same time.
func (s *Sight) Add(other Sight) {
	s.Waiters = append(s.Waiters, other.Waiters...)
	s.Rounds += other.Rounds
	s.Elapsed = max(s.Elapsed, other.Elapsed)
}

// settled is when everybody had had the lock once, but a quarter of the run at the latest. What is asked for before waits for connections
// too, all of which are made at the same time: that is not what a wait costs from then on. If no wait that began later has ended, as when a
// turn of all takes longer than that, it is 0: the waits from the beginning are all that was seen.
func (s *Sight) settled() (at time.Duration) {
	begin := time.Duration(math.MaxInt64)
	for _, w := range s.Waiters {
		if len(w.Spans) == 0 {
			at = math.MaxInt64
			continue
		}
		begin = min(begin, w.Spans[0].Asked)
		at = max(at, w.Spans[0].From)
	}
	if begin == math.MaxInt64 {
		return 0 // nobody had it
	}
	at = min(at, begin+s.Elapsed/4)
	later := func(w seen) bool { return len(w.Spans) > 0 && w.Spans[len(w.Spans)-1].Asked >= at }
	if !slices.ContainsFunc(s.Waiters, later) {
		return 0
	}
	return at
}

// Crowd is waiters in this process that want one lock.
type Crowd struct {
	hold    time.Duration
	waiters []*waiter
	clients []*redlock.Client
}

// newCrowd makes a waiter of each locker. All of them must be for the same lock.
func newCrowd(lockers []locker, hold time.Duration) *Crowd {
	c := &Crowd{hold: hold}
	for _, l := range lockers {
		c.waiters = append(c.waiters, &waiter{lock: l})
	}
	return c
}

// Crowd opens the clients that the task wants. The caller closes what it returns; on an error nothing is left behind.
func (t *Task) Crowd(newClient func() (*redlock.Client, error)) (*Crowd, error) {
	c := &Crowd{hold: t.Hold}
	for range t.Clients {
		client, err := newClient()
		if err != nil {
			c.Close()
			return nil, err
		}
		c.clients = append(c.clients, client)
	}
	for i := range t.Waiters {
		read := i < t.Readers
		m := t.mutex(c.clients[i%len(c.clients)], read)
		c.waiters = append(c.waiters, &waiter{lock: mutexLocker{m}, read: read})
	}
	return c, nil
}

func (t *Task) mutex(client *redlock.Client, read bool) redlock.Locker {
	var opts []redlock.LockOption
	if t.Unfair {
		opts = append(opts, redlock.WithoutFairness())
	}
	switch {
	case !t.ReadWrite:
		return client.Mutex(t.Name, opts...)
	case read:
		return client.RWMutex(t.Name, opts...).RLocker()
	}
	return client.RWMutex(t.Name, opts...).Locker()
}

// Close closes the clients.
func (c *Crowd) Close() {
	for _, client := range c.clients {
		_ = client.Close()
	}
}

// Press lets all waiters take the lock in turn for d, or until ctx ends, and returns when the last has given it back. It has no error; the
// crowds in other processes have.
func (c *Crowd) Press(ctx context.Context, d time.Duration) (Sight, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	s := Sight{Rounds: -c.rounds()}
	begin := time.Now()
	var wg sync.WaitGroup
	for _, w := range c.waiters {
		wg.Go(func() { w.work(ctx, c.hold) })
	}
	<-ctx.Done()
	s.Elapsed = time.Since(begin)
	wg.Wait()
	s.Rounds += c.rounds()
	for _, w := range c.waiters {
		s.Waiters = append(s.Waiters, w.seen)
	}
	return s, nil
}

func (c *Crowd) rounds() (n uint64) {
	for _, client := range c.clients {
		n += client.Stats().Rounds
	}
	return n
}

// waiter is one goroutine that wants the lock again and again.
type waiter struct {
	lock locker
	read bool
	seen
}

func (w *waiter) work(ctx context.Context, hold time.Duration) {
	for ctx.Err() == nil {
		asked := Monotonic()
		h, err := w.lock.lock(ctx)
		got := Monotonic()
		switch {
		case err == nil:
			w.hold(ctx, h, span{Asked: asked, From: got, Read: w.read}, hold)
		case ctx.Err() != nil:
			w.Cut = got - asked
		default:
			w.fail(err)
		}
	}
}

// napMost is how long a holder sleeps before it looks whether the measurement was broken off.
const napMost = 50 * time.Millisecond

// hold keeps the lock for a while, or until ctx ends. A span ends with the lease's validity if that is sooner: a holder that was stopped for
// longer has been told, and another may have the lock.
func (w *waiter) hold(ctx context.Context, h held, s span, d time.Duration) {
	for ; d > napMost && ctx.Err() == nil; d -= napMost {
		testbed.Nap(napMost)
	}
	testbed.Nap(min(d, napMost))
	s.To = Monotonic()
	s.To += min(0, time.Until(h.ValidUntil())) // asked second: a pause in between makes the span shorter, never longer
	err := h.Unlock(context.Background())
	w.Spans = append(w.Spans, s)
	switch {
	case errors.Is(err, redlock.ErrLost):
		w.Lost++
	case err != nil:
		w.fail(err)
	}
}

func (w *waiter) fail(err error) {
	w.Errors++
	if w.First == "" {
		w.First = text.OneLine(err)
	}
}
