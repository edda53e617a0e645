// SPDX-License-Identifier: Apache-2.0

// Package gocronlock lets several processes run one schedule of github.com/go-co-op/gocron/v2.
//
// With a [Locker], every process tries to run every job, and the first one that has the job's lock runs
// it:
//
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlock.NewLocker(client, time.Second)))
//
// With an [Elector], one process runs all jobs until it stops or dies, and then another one does:
//
//	elector := gocronlock.NewElector(client, "scheduler")
//	defer elector.Close()
//	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// gocron does not stop a job whose lock or term was lost while it ran. A job that must not run twice at
// once does its work under [Locker.Lease] or [Elector.Lease], and presents the fencing token.
// docs/adapters.md says which of both to use.
package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/redlock"
)

// again is how long an Elector waits after the masters refused before it campaigns again.
const again = 5 * time.Second

// Locker is a gocron.Locker. Make it with [NewLocker]. It is safe for concurrent use, by several
// schedulers too.
type Locker struct {
	client *redlock.Client
	opts   []redlock.LockOption

	mu   sync.Mutex
	held map[string]*redlock.Lease
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker on client, which stays the caller's to close.
//
// minHold is how long a job's lock stays taken at least, from its grant on (redlock.WithMinHold). It
// must be longer than the clocks of the processes are apart: if a job takes less time than that, a
// process whose clock is behind finds the lock free, and runs the same run of the job again. It must be
// shorter than the job's interval.
//
// Leases are renewed, so a job may take longer than the TTL. opts are options of the locks.
func NewLocker(client *redlock.Client, minHold time.Duration, opts ...redlock.LockOption) *Locker {
	opts = append([]redlock.LockOption{redlock.WithMinHold(minHold)}, opts...)
	return &Locker{client: client, opts: opts, held: make(map[string]*redlock.Lease)}
}

// Lock implements gocron.Locker. key is the job's name, and the name of the lock: give each job a name
// with gocron.WithName, because the default is the name of its function.
//
// Lock does not wait. If another process runs the job, the error is redlock.ErrHeld: gocron skips this
// run, and tells its listener AfterLockError. Other errors are those of redlock.Mutex.TryLock.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if l == nil || l.held == nil {
		return nil, fmt.Errorf("%w: a nil or zero Locker; make it with NewLocker", redlock.ErrConfig)
	}
	lease, err := l.client.Mutex(key, l.opts...).TryLock(ctx)
	if err != nil {
		return nil, fmt.Errorf("gocronlock: job %q is skipped: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[key] = lease
	return &lock{l, lease}, nil
}

// Lease returns the lease under which the job called key runs in this process, or nil if it does not
// run. Inside the job:
//
//	lease := locker.Lease("report")
//	ctx, stop := lease.Bind(ctx) // ends when the lock is lost
//	defer stop()
//	err := write(ctx, lease.Token())
//
// If the Lease is nil, the context of Bind has ended.
//
// Call it once, first thing in the job. A run that goes on although its lock was lost may overlap with the next one in this process, and
// Lease is that one's from then on: a token that belongs to other work. gocron.WithSingletonMode keeps runs from overlapping.
func (l *Locker) Lease(key string) *redlock.Lease {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[key]
}

// lock is the lock of one run of one job.
type lock struct {
	l     *Locker
	lease *redlock.Lease
}

// Unlock implements gocron.Lock. A ctx that has ended, as it has when the scheduler was shut down, does
// not keep it from its work.
func (k *lock) Unlock(ctx context.Context) error {
	k.l.mu.Lock()
	if k.l.held[k.lease.Name()] == k.lease {
		delete(k.l.held, k.lease.Name())
	}
	k.l.mu.Unlock()
	return k.lease.Unlock(ctx)
}

// Elector is a gocron.Elector. Make it with [NewElector], and close it. It is safe for concurrent use, by
// several schedulers too.
type Elector struct {
	name string
	end  context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	lease *redlock.Lease // of this process' term, or nil
	err   error          // why the last campaign ended; nil while there is one
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector begins to campaign in the election called name, in the background, until Close. See
// package election for what it promises and for opts. Other processes may watch who leads with an
// election.Election of the same name. client stays the caller's to close, after the Elector.
func NewElector(client *redlock.Client, name string, opts ...election.Option) *Elector {
	ctx, end := context.WithCancel(context.Background())
	e := &Elector{name: name, end: end}
	candidate := election.New(client, name, opts...)
	e.done.Go(func() { e.campaign(ctx, candidate) })
	return e
}

// campaign runs for election until ctx ends, or an error says that it never can win.
func (e *Elector) campaign(ctx context.Context, candidate *election.Election) {
	for {
		e.set(nil, nil) // what was wrong before may be over
		err := candidate.Run(ctx, func(ctx context.Context, _ *election.Term) error {
			e.set(redlock.LeaseFrom(ctx), nil)
			defer e.set(nil, nil)
			<-ctx.Done()
			return nil
		})
		e.set(nil, err)
		if errors.Is(err, redlock.ErrConfig) || errors.Is(err, redlock.ErrClosed) {
			return
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return
		}
	}
}

func (e *Elector) set(lease *redlock.Lease, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lease, e.err = lease, err
}

// IsLeader implements gocron.Elector. It returns nil if this process leads. It asks no master: a process
// stops leading by itself, before another one can lead. Otherwise the error is election.ErrNotLeader. If
// the campaign failed, the error wraps the reason. redlock.ErrConfig and redlock.ErrClosed are for good;
// after another reason the Elector campaigns again, and names it no more.
func (e *Elector) IsLeader(ctx context.Context) error {
	if e == nil || e.end == nil {
		return fmt.Errorf("%w: a nil or zero Elector; make it with NewElector", redlock.ErrConfig)
	}
	e.mu.Lock()
	lease, err := e.lease, e.err
	e.mu.Unlock() // Err may be the first to see that the lease is over, and call an Observer that asks the Elector
	switch {
	case lease.Err() == nil:
		return nil
	case err != nil:
		return fmt.Errorf("gocronlock: %w: %q: %w", election.ErrNotLeader, e.name, err)
	}
	return fmt.Errorf("gocronlock: %w: %q", election.ErrNotLeader, e.name)
}

// Lease returns the lease of the term in which this process leads, or nil if it does not lead. See
// [Locker.Lease] for its use inside a job.
func (e *Elector) Lease() *redlock.Lease {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lease
}

// Close gives up the term, if there is one, and ends the campaign. Shut the scheduler down first: jobs
// that still run when Close is called may run elsewhere before they end. Close is safe twice. It returns
// nil.
func (e *Elector) Close() error {
	if e != nil && e.end != nil {
		e.end()
		e.done.Wait()
	}
	return nil
}
