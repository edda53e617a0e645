// SPDX-License-Identifier: Apache-2.0

// Package semaphore lets up to k callers in at a time, over all processes.
//
// A semaphore of k permits is k locks of package redlock, the slots. A [Permit] is the lease of one
// slot, so it has the guarantees of that lease: renewal, a context that ends before validity does,
// and a fencing token. Masters count no holders. Package semaphore has a test that shows why:
// of three masters that each count to two, three callers can have a majority.
//
// It guarantees:
//
//   - While their validity lasts, there are no more than k permits, under the conditions under
//     which a redlock.Lease is the only one of its lock. Here k is the largest k that any process
//     gives to [New] with this name.
//   - Callers that wait are served in the order of one queue, over all processes. The first of them
//     is told of every slot that is released, by a message.
//   - A call that fails leaves nothing on the masters that lasts longer than a failed
//     redlock.Mutex.Lock does.
//
// docs/semaphore.md says how it works, what it costs, and what it does not do.
//
// # Tokens
//
// A fencing token is the token of a slot. Tokens of two slots say nothing about each other. So a
// resource needs one fence for each slot: [Permit.Name] names it.
package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/redlock"
)

// MaxPermits is the most permits that a semaphore can have. The first waiter of a semaphore waits
// for all slots, which costs each master k acquires and k releases each time that the first waiter
// gets its permit.
const MaxPermits = 256

const (
	// turnTTL bounds how long the queue stands still after the host of the first waiter died.
	// A lock that is handed on must have a TTL of 3 s or more.
	turnTTL = 3 * time.Second
	// turnLook is how often the waiter that is next looks whether the first waiter's process was killed.
	turnLook = 250 * time.Millisecond
	// looks is how many slots Acquire tries before it joins the queue: 1, and then 4 at once.
	looks = 5
	// growth is how many times as many slots look tries at once after it got none.
	growth = 4
)

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

// Semaphore is k permits by name. Make one with [New] and share it in the process: all methods are
// safe for concurrent use. It needs no close.
type Semaphore struct {
	client *redlock.Client
	name   string
	slots  []*redlock.Mutex
	// turn is the lock of the first waiter. It is for the order only. Two callers that both believe
	// that they have it wait for the same slots, and each slot has one holder.
	turn *redlock.Mutex
	// queued is how many callers of this Semaphore are in the queue. While there are any, callers that
	// come later join the queue at once, and do not look for a free slot.
	queued atomic.Int64
	// maxWait is how long Acquire waits at most; 0: until its context ends.
	maxWait time.Duration
	err     error // what is wrong with k, the name or the options; every call returns it

	mu    sync.Mutex
	rand  *rand.Rand
	found *redlock.RoundError // what the last round found that had its time, of any caller; a caller that does not look has no other
	freed []int               // the slots that permits of this Semaphore gave back, the last one last: likely free
}

// New returns the semaphore called name with k permits, 1 to [MaxPermits]. It does no I/O. The name
// is that of a redlock.Mutex, and up to 9 bytes shorter. opts are the options of the slots' locks, and
// of the queue where they make sense. redlock.WithMaxWait is that of Acquire. redlock.WithoutFairness gives up the order of the queue.
// redlock.WithReentry has no effect.
//
// The semaphore called "db" has the locks "db:slot:1" to "db:slot:k" and "db:turn". Do not use
// these names otherwise.
//
// All processes should give the same k. If they do not, the largest counts: a process with k = 5
// uses the slots 1 to 5, and one with k = 3 uses 1 to 3, so five permits are given in all. The
// processes cannot notice. That makes a change of k simple: each process has the new k when it has
// been restarted.
//
// The first call reports, as redlock.ErrConfig, that client is nil, or that k, the name or an option cannot work.
func New(client *redlock.Client, name string, k int, opts ...redlock.LockOption) *Semaphore {
	s := &Semaphore{client: client, name: name}
	s.err = s.init(client, k, opts)
	return s
}

// init makes the locks, or returns what is wrong with them.
func (s *Semaphore) init(client *redlock.Client, k int, opts []redlock.LockOption) error {
	name := s.name
	switch {
	case k < 1:
		return fmt.Errorf("%w: semaphore %q of %d permits: want 1 to %d", redlock.ErrConfig, name, k, MaxPermits)
	case k > MaxPermits:
		return fmt.Errorf("%w: semaphore %q of %d permits: want 1 to %d; divide the work among several semaphores by a hash",
			redlock.ErrConfig, name, k, MaxPermits)
	case name == "":
		return fmt.Errorf("%w: an empty semaphore name", redlock.ErrConfig)
	}
	own := append(slices.Clone(opts), redlock.WithMaxWait(0)) // Acquire has the wait
	for i := range k {
		s.slots = append(s.slots, client.Mutex(fmt.Sprintf("%s%d", s.prefix(), i+1), own...))
	}
	longest := client.Mutex(s.slots[k-1].Name(), opts...) // of the names
	if err := inside.Check(longest); err != nil {
		return fmt.Errorf("semaphore %q: %w", name, err)
	}
	s.maxWait = inside.MaxWait(longest)
	// The first waiter holds the turn for as long as it waits, however the permits are held.
	kept := append(slices.Clone(opts), inside.Renewed(), redlock.WithMinHold(0), redlock.WithMinValidity(0), redlock.WithMaxWait(0), inside.ForOrder(turnLook))
	turn := name + ":turn"
	if mutants.TurnApart {
		turn = fmt.Sprint(turn, inside.Rand(client))
	}
	s.turn = client.Mutex(turn, append(kept, redlock.WithTTL(turnTTL), redlock.WithRenewal(turnTTL/3))...)
	if inside.Check(s.turn) != nil { // the maximum TTL is below turnTTL
		s.turn = client.Mutex(turn, kept...)
	}
	s.rand = rand.New(rand.NewPCG(inside.Rand(client), 0))
	return nil
}

// prefix begins the names of the slots' locks.
func (s *Semaphore) prefix() string { return s.name + ":slot:" }

// Name is the semaphore's name.
func (s *Semaphore) Name() string {
	if s == nil {
		return ""
	}
	return s.name
}

// Permits is k, how many permits there are.
func (s *Semaphore) Permits() int {
	if s == nil {
		return 0
	}
	return len(s.slots)
}

var (
	errZero       = fmt.Errorf("%w: a nil or zero Semaphore; make it with New", redlock.ErrConfig)
	errNilContext = fmt.Errorf("%w: a nil context; use context.Background()", redlock.ErrConfig)
	errNilFunc    = fmt.Errorf("%w: a nil function", redlock.ErrConfig)
)

func (s *Semaphore) check(ctx context.Context) error {
	switch {
	case s == nil || s.err == nil && len(s.slots) == 0:
		return errZero
	case s.err != nil:
		return s.err
	case ctx == nil:
		return errNilContext
	}
	return nil
}

// error says which semaphore err is of.
func (s *Semaphore) error(err error) error {
	return fmt.Errorf("semaphore %q of %d: %w", s.name, len(s.slots), err)
}

// TryAcquire takes a permit if one is free now. It never waits for a holder, nor goes past the first
// waiter. It asks for one slot, then for four at once, 16 and so on: one round trip if the first is
// free, and nine at most. The errors are those of redlock.Mutex.TryLock: ErrHeld says that each slot
// was taken when it was asked. As it does not ask for all at the same moment, it may miss a slot
// that is released while it asks for others, or that another call takes and gives back.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	p, err := s.look(&outside{ctx, s.prefix()}, len(s.slots))
	if err != nil {
		return nil, s.error(err)
	}
	return p, nil
}

// Acquire waits until it has a permit or ctx ends, or for the maximum wait (redlock.WithMaxWait). If it finds a free slot at once, it takes it in
// one round trip. Otherwise it joins the queue. The errors are those of redlock.Mutex.Lock.
//
// Callers in the queue are served in the order in which they joined it, over all processes. The
// first of them has a place in the queue of every slot, so a release hands it the slot, and
// a caller that is not in the queue cannot take it. A caller that comes later can take a slot that
// is released in the short time, about two trips, between one first waiter and the next. In
// one process it cannot: there, while a caller is in the queue, all who come later join it.
//
// If ctx has a permit of this semaphore (see [Permit.Context]), Acquire takes another one. Callers
// that each hold a permit and wait for a second one can wait for each other for ever: give ctx a
// deadline.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	p, err := s.acquireFor(&outside{ctx, s.prefix()})
	if err != nil {
		return nil, s.error(err)
	}
	return p, nil
}

// acquireFor is acquire that waits for the maximum wait at most. After that it returns what the last round found, or the error of ctx if
// that has ended.
func (s *Semaphore) acquireFor(ctx context.Context) (*Permit, error) {
	switch {
	case s.maxWait == 0:
		return s.acquire(ctx)
	case s.lookOnly():
		return s.look(ctx, len(s.slots))
	}
	bounded, cancel := context.WithTimeout(ctx, s.maxWait)
	defer cancel()
	p, err := s.acquire(bounded)
	if err == nil || bounded.Err() == nil {
		return p, err
	}
	if last := (*redlock.RoundError)(nil); errors.As(err, &last) {
		return nil, inside.GaveUp(ctx, last) // ctx may have ended after bounded
	}
	return s.look(ctx, len(s.slots))
}

func (s *Semaphore) acquire(ctx context.Context) (*Permit, error) {
	if s.queued.Load() == 0 {
		p, err := s.look(ctx, looks)
		switch {
		case p != nil:
			return p, nil
		case !passes(err):
			return nil, s.waited(ctx, err)
		}
	}
	s.queued.Add(1)
	defer s.queued.Add(-1)
	turn, err := s.turn.Lock(ctx)
	if err != nil {
		return nil, s.waited(ctx, err)
	}
	first, rest := s.await(ctx)
	unlock := func() { _ = turn.Unlock(context.WithoutCancel(ctx)) }
	if first.err != nil {
		givenBack(ctx, rest, unlock)
		return nil, s.waited(ctx, first.err)
	}
	p := s.permit(first)
	p.tidy.Go(rest)
	p.tidy.Go(unlock)
	return p, nil
}

// passes says whether Lock waits until err is over.
func passes(err error) bool {
	return errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrRecovering) || errors.Is(err, redlock.ErrUnreachable)
}

// result is what a lock of a slot returned.
type result struct {
	slot  int
	lease *redlock.Lease
	err   error
}

// look tries up to n slots: the one that was given back last here, then random ones. It asks for one
// slot, then for four at once, 16 and so on. So it seldom takes more than one, although it needs few
// round trips if most are taken. It ends at an answer other than ErrHeld.
func (s *Semaphore) look(ctx context.Context, n int) (*Permit, error) {
	var held, refused error // held: what was refused before, which is ErrHeld
	order := s.order(n)
	for n := 1; len(order) > 0; n *= growth {
		some := order[:min(n, len(order))]
		order = order[len(some):]
		results := make([]result, len(some))
		var g sync.WaitGroup
		try := func(i int) {
			lease, err := s.slots[some[i]].TryLock(ctx)
			results[i] = result{some[i], lease, err}
		}
		for i := range some[1:] {
			g.Go(func() { try(i + 1) })
		}
		try(0)
		g.Wait()
		var p *Permit
		for _, r := range results {
			switch {
			case r.lease != nil && p == nil:
				p = s.permit(r)
			case r.lease != nil:
				g.Go(func() { s.giveBack(ctx, r) })
			case refused == nil || errors.Is(refused, redlock.ErrHeld):
				held, refused = refused, r.err
			}
		}
		if p != nil {
			awaitReleases(ctx, &g) // else the caller's next call could find its own slots taken
			return p, nil
		}
		if !errors.Is(refused, redlock.ErrHeld) {
			break
		}
	}
	s.looked(held, refused)
	return nil, refused
}

// order returns n slots to look at.
func (s *Semaphore) order(n int) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := s.rand.Perm(len(s.slots))
	if last := len(s.freed) - 1; last >= 0 {
		i := slices.Index(slots, s.freed[last])
		slots[0], slots[i] = slots[i], slots[0]
		s.freed = s.freed[:last]
	}
	return slots[:min(n, len(slots))]
}

// wasFreed notes that a permit gave the slot back.
func (s *Semaphore) wasFreed(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freed = append(slices.DeleteFunc(s.freed, func(o int) bool { return o == slot }), slot)
}

// await waits for all slots and takes the first that it gets. It is for the caller that has the turn.
// A slot that it gets besides goes back at once, by rest, and so to the next in that slot's queue.
//
// It ends at the first error, even if other slots could be waited for: a caller that waited for some
// of the slots only could wait for ever.
func (s *Semaphore) await(ctx context.Context) (first result, rest func()) {
	waits, cancel := context.WithCancel(ctx)
	results := make(chan result, len(s.slots))
	for i, m := range s.slots {
		go func() {
			lease, err := m.Lock(waits)
			results <- result{i, lease, err}
		}()
	}
	first = <-results
	cancel()
	return first, func() {
		var g sync.WaitGroup
		for range s.slots[1:] {
			if r := <-results; r.lease != nil {
				g.Go(func() { s.giveBack(ctx, r) })
			}
		}
		g.Wait()
	}
}

// giveBack unlocks a slot that was taken in vain. It does not stay taken for a minimum hold.
func (s *Semaphore) giveBack(ctx context.Context, r result) {
	if inside.Abandon(r.lease, context.WithoutCancel(ctx)) == nil {
		s.wasFreed(r.slot)
	}
}

func (s *Semaphore) permit(r result) *Permit { return &Permit{s: s, slot: r.slot, lease: r.lease} }

// outside is a context without the leases of the semaphore's slots that it carries. With such a lease
// a slot's Lock would fail, or re-enter, which is no further permit.
type outside struct {
	context.Context
	prefix string
}

func (c *outside) Value(key any) any {
	v := c.Context.Value(key)
	l, ok := v.(*redlock.Lease) // which the program may have put there, under a key of its own
	if ok && inside.Asked(l, key) && strings.HasPrefix(l.Name(), c.prefix) && !mutants.PermitReenters {
		return nil
	}
	return v
}
