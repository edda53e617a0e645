// SPDX-License-Identifier: Apache-2.0

// Package election has one of several processes lead, and tells everybody who that is.
//
//	e := election.New(client, "scheduler", election.WithValue("http://10.0.0.7:8080"))
//	err := e.Run(ctx, func(ctx context.Context, term *election.Term) error {
//		return schedule(ctx, term.Token()) // until ctx ends, which it does before the term
//	})
//
// An election is a lock: who holds the [redlock.Mutex] of the election's name leads. So a term has
// exactly the guarantees of a lease (docs/safety.md), its fencing token is the term's number, and
// candidates wait by push, in the order in which they came.
//
// Only [Election.Run] makes a process the leader. What [Election.Leader] and [Election.Observe] say
// is advice: a quorum of masters named that leader when they were asked. Use it to find the leader,
// never to decide that you are it, and have the leader present its token to whatever it writes.
//
// docs/election.md compares it with the elections of Kubernetes and etcd.
package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/redlock"
)

// The errors of this package. The others are those of package redlock.
var (
	// ErrNoLeader says that nobody leads, or that the leader has not announced itself.
	ErrNoLeader = errors.New("election: nobody leads")
	// ErrNotLeader says that Resign was called while this Election did not lead.
	ErrNotLeader = errors.New("election: not the leader")
	// ErrResigned is the cause with which the context of a term ends when the leader resigned.
	ErrResigned = errors.New("election: the leader resigned")
	// ErrRunning says that Run is under way already for this Election.
	ErrRunning = errors.New("election: Run is under way already")
)

// Defaults and bounds.
const (
	DefaultPause = time.Second
	maxPause     = 24 * time.Hour
	MaxValue     = 1024 // bytes: see [WithValue]
)

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

// Option is a setting of an Election. A value out of range makes every call of the Election fail
// with [redlock.ErrConfig].
type Option interface{ apply(*settings) }

type settings struct {
	value string
	pause time.Duration
	lock  []redlock.LockOption
}

type option func(*settings)

func (f option) apply(s *settings) { f(s) }

// WithValue sets what this candidate announces while it leads: an address, for example. Default
// host/pid, also for an empty value. The most is [MaxValue].
func WithValue(value string) Option { return option(func(s *settings) { s.value = value }) }

// WithPause sets how long Run waits before it campaigns again after a term that was given up: the
// function returned nil, or the leader resigned. Up to half of it is cut off at random. Default 1 s, at most a
// day. After a term that was lost Run does not wait. Candidates that wait meanwhile lead at once.
func WithPause(d time.Duration) Option { return option(func(s *settings) { s.pause = d }) }

// WithLock sets options of the lock under the election: redlock.WithTTL bounds how long nobody leads
// after a leader died, and is the same for all candidates. A term within a term, which redlock.WithReentry allows, announces nothing. A [redlock.WithOutageTimeout] has no effect: Run waits for masters as long as its
// context allows.
func WithLock(opts ...redlock.LockOption) Option {
	return option(func(s *settings) { s.lock = append(s.lock, opts...) })
}

// Election is an election by name, and one candidate for it. All methods are safe for concurrent
// use. It costs nothing to make and needs no close: Run and Observe end with their contexts, or when
// the client is closed.
type Election struct {
	client *redlock.Client
	mutex  *redlock.Mutex
	set    settings
	err    error // what is wrong with name or options; every call returns it

	mu      sync.Mutex
	running bool
	leads   *leading // nil while this Election does not lead
}

// leading is the term that this Election has now.
type leading struct {
	lease  *redlock.Lease
	resign context.CancelCauseFunc
	over   chan struct{} // closed when the lock was given back
	err    error         // of that; it is there when over is closed
}

// New returns the election called name. The name is that of a lock, as in [redlock.Client.Mutex]: a
// program that locks it keeps everybody from leading. A name or an option that cannot work is
// reported by the first call.
func New(client *redlock.Client, name string, opts ...Option) *Election {
	e := &Election{client: client, set: settings{pause: DefaultPause}}
	for _, o := range opts {
		if o == nil {
			e.err = errors.Join(e.err, fmt.Errorf("%w: a nil option", redlock.ErrConfig))
			continue
		}
		o.apply(&e.set)
	}
	if e.set.value == "" {
		e.set.value = defaultValue()
	}
	switch {
	case len(e.set.value) > MaxValue:
		e.err = errors.Join(e.err, fmt.Errorf("%w: election value of %d bytes: want %d or fewer; announce where to find the rest", redlock.ErrConfig, len(e.set.value), MaxValue))
	case e.set.pause < 0 || e.set.pause > maxPause:
		e.err = errors.Join(e.err, fmt.Errorf("%w: pause %v: want 0 to %v", redlock.ErrConfig, e.set.pause, maxPause))
	}
	const aYear = 365 * 24 * time.Hour // the most
	e.mutex = client.Mutex(name, append(e.set.lock, redlock.WithOutageTimeout(aYear))...)
	e.err = errors.Join(e.err, inside.Check(e.mutex))
	return e
}

// defaultValue is host/pid.
func defaultValue() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// Name is the election's name.
func (e *Election) Name() string {
	if e == nil {
		return ""
	}
	return e.mutex.Name()
}

// check returns the error of every call, or nil.
func (e *Election) check(ctx context.Context) error {
	switch {
	case e == nil || e.mutex == nil:
		return fmt.Errorf("%w: a nil or zero Election; make it with New", redlock.ErrConfig)
	case e.err != nil:
		return e.err
	case ctx == nil:
		return fmt.Errorf("%w: a nil context; use context.Background()", redlock.ErrConfig)
	}
	return nil
}

// Run campaigns until this process leads, runs fn while it does, and campaigns again, until ctx ends
// or fn fails.
//
// fn's context is ctx, ended early by the end of the term: with [redlock.ErrLost] as its cause if the
// lease was lost, before another process can lead, with [ErrResigned], or with redlock.ErrClosed when
// redlock.Client.Shutdown begins. [redlock.LeaseFrom] finds the lease in it. When it ends fn must stop what only a leader may do, and return. Run never
// calls fn while an earlier call has not returned, so a fn that ignores its context does not lead
// again. As long as such a fn runs after ctx ended or the leader resigned, the term goes on and nobody
// else leads ([redlock.WithMaxHold] bounds that).
//
// When fn returns, the lock is given back to the next candidate, and
//
//	fn returned                    its term lasted        its term was lost or resigned
//	nil                            Run campaigns again    Run campaigns again
//	an error                       Run returns it         Run campaigns again
//
// An error after the end of a term is taken for its consequence. To end Run then, cancel ctx. When ctx
// has ended, Run returns once fn has returned and the lock is given back: ctx's error, joined with
// fn's if that is another one. A panic in fn gives the lock back and goes on.
//
// Run waits for masters that do not answer or recover. With redlock.WithMaxWait it gives up when it has waited that long for a
// term, and returns what the lock's Lock returns then, redlock.ErrHeld for instance. It returns at once, besides the above,
//
//	ErrRunning   Run is under way for this Election
//	ErrRefused, ErrNotReentrant, ErrConfig, ErrClosed  of package redlock: waiting does not help
func (e *Election) Run(ctx context.Context, fn func(ctx context.Context, term *Term) error) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	if fn == nil {
		return fmt.Errorf("%w: a nil function", redlock.ErrConfig)
	}
	if !e.start() {
		return fmt.Errorf("%w: %q; make another Election to be two candidates", ErrRunning, e.Name())
	}
	defer e.stop()
	for {
		lease, err := e.mutex.Lock(ctx)
		if err != nil {
			return err
		}
		lost, err := e.lead(ctx, lease, fn)
		if err != nil {
			return err
		}
		if !lost && !e.pause(ctx) {
			return e.ended(ctx, nil)
		}
	}
}

func (e *Election) start() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.running
	e.running = true
	return !was
}

func (e *Election) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = false
}

// lead is one term. It says whether the lease was lost. It returns an error if Run is to return it.
func (e *Election) lead(ctx context.Context, lease *redlock.Lease, fn func(context.Context, *Term) error) (lost bool, err error) {
	term := &Term{lease: lease, value: e.set.value, since: time.Now().Truncate(time.Millisecond)}
	candidate, resign := context.WithCancelCause(ctx)
	now := &leading{lease: lease, resign: resign, over: make(chan struct{})}
	e.mu.Lock()
	e.leads = now
	e.mu.Unlock()
	served := inside.Serving(e.client)
	unhook := context.AfterFunc(served, func() { resign(context.Cause(served)) }) // else Shutdown would wait for a leader that knows nothing
	// Not if the lock was entered again: who leads has said so, and still does when this term ends.
	silent := !inside.StartAnnouncing(lease)
	hush := func() {}
	if !silent {
		hush = e.announce(ctx, lease, term)
	}
	leader, stop := lease.Bind(candidate)
	if mutants.LeadsOn {
		leader = candidate
	}
	var unlocked error
	end := inside.Abandon // of a term that nobody served: the lock does not rest for it
	func() {
		defer func() { // after a panic too
			stop()
			unhook()
			resign(context.Canceled)
			hush()
			unlocked = e.giveBack(ctx, lease, silent, end)
			now.err = unlocked
			e.mu.Lock()
			e.leads = nil
			e.mu.Unlock()
			close(now.over)
		}()
		if leader.Err() == nil {
			end = (*redlock.Lease).Unlock
			err = fn(leader, term)
		}
		lost = lease.Err() != nil
		if lost || leader.Err() != nil {
			err = e.afterEnd(ctx, err)
		} else if err != nil {
			err = fmt.Errorf("election %q: %w", e.Name(), err)
		}
	}()
	if err != nil && errs.IsUntold(unlocked, err) {
		err = errors.Join(err, unlocked)
	}
	return lost, err
}

// afterEnd is what Run returns after fn returned err when the term was over; nil: it goes on.
func (e *Election) afterEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return nil
	}
	return e.ended(ctx, err)
}

// ended is the error of Run when ctx has ended. err is what fn returned.
func (e *Election) ended(ctx context.Context, err error) error {
	over := fmt.Errorf("election %q: %w", e.Name(), errs.OfContext(ctx))
	if err != nil && !errors.Is(err, ctx.Err()) {
		return errors.Join(over, err)
	}
	return over
}

// announce tells the masters who leads, and goes on doing so until hush is called. It returns when a
// quorum of them has it, so that fn can point others to itself, or does not answer in time.
func (e *Election) announce(ctx context.Context, lease *redlock.Lease, term *Term) (hush func()) {
	again := inside.Announce(ctx, lease, term.since, term.value)
	telling, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		for sleep(telling, again-e.jitter(again/4)) {
			inside.Announce(telling, lease, term.since, term.value)
		}
	})
	return func() {
		end()
		wg.Wait()
	}
}

// Resign gives up the term of this Election: the context of the function ends with [ErrResigned] as
// its cause, and when the function has returned, the next candidate leads. Run goes on, and campaigns
// again after the pause ([WithPause]). To stop being a candidate, end Run's context.
//
// Resign returns nil when a quorum of the masters has confirmed that the lock was given back. Otherwise
// it returns one of
//
//	ErrNotLeader            this Election does not lead
//	redlock.ErrUnconfirmed  the term is over, and too few masters confirmed it: the next leader may have
//	                        to wait for the TTL
//	redlock.ErrLost         the term was lost before; another may lead
//	redlock.ErrClosed       the client was closed
//	ctx.Err()               the function has not returned yet; the term ends when it does
//
// With the function's context, [Term.Context], or one made of either it returns nil at once: the function would wait for itself.
func (e *Election) Resign(ctx context.Context) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	now := e.leads
	e.mu.Unlock()
	if now == nil {
		return fmt.Errorf("%w: %q", ErrNotLeader, e.Name())
	}
	now.resign(ErrResigned)
	if inside.Carries(ctx, now.lease) { // the term's context does not end with the resignation: the function would wait for itself
		return nil
	}
	select {
	case <-now.over:
		return e.resigned(now)
	case <-ctx.Done():
	}
	select {
	case <-now.over: // both came; which of them select chose is no matter then
		return e.resigned(now)
	default:
	}
	if errors.Is(context.Cause(ctx), ErrResigned) {
		return nil
	}
	return fmt.Errorf("election %q: resigned, and the leader's function has not returned: %w", e.Name(), errs.OfContext(ctx))
}

// resigned is what Resign returns when the term is over.
func (e *Election) resigned(was *leading) error {
	if was.err == nil || errors.Is(was.err, redlock.ErrReleased) { // the function may have handed its lease off
		return nil
	}
	return fmt.Errorf("election %q: resigned: %w", e.Name(), was.err)
}

// sleep waits for d. It says whether ctx has not ended by then.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// jitter is a random time in [0, d]: processes must not act together.
func (e *Election) jitter(d time.Duration) time.Duration { return inside.Jitter(e.client, d+1) }
