// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/nemesis"
)

// strike starts the strike loops and waits until cfg.Duration is over, every nemesis has struck, and cfg.LeastFaults and cfg.LeastLocks are reached. A
// busy machine gets another cfg.Duration and 30 s for the nemeses and faults that have not struck, and a minute for the locks. What it has not reached
// by then is a Finding.
func (r *run) strike(ctx context.Context) error {
	begun := time.Now()
	live, stop := context.WithCancel(ctx)
	defer stop()
	during, cancel := context.WithTimeout(live, r.cfg.Duration)
	defer cancel()
	extra := r.cfg.Duration + graceTime
	if r.cfg.LeastLocks > 0 {
		extra = max(extra, maxQuotaTime)
	}
	longest, cancel := context.WithTimeout(live, r.cfg.Duration+extra)
	defer cancel()
	start := func(f func() error) <-chan error {
		return background(func() error {
			err := guard(f)
			if err != nil {
				stop()
			}
			return err
		})
	}
	for _, i := range rand.New(rand.NewPCG(r.cfg.Seed, 0)).Perm(len(r.cfg.Nemeses)) {
		r.due.put(r.cfg.Nemeses[i])
	}
	parts := []<-chan error{
		start(func() error { return r.watch(live) }), start(func() error { return r.died(live) }), start(func() error { r.countGrants(live); return nil }),
		start(func() error { return r.serve(live) }),
	}
	var all error
	if len(r.cfg.Nemeses) > 0 {
		var loops []<-chan error
		for i := range r.cfg.AtOnce {
			loops = append(loops, start(func() error { return r.strikeLoop(during, longest, i) }))
		}
		all = await(longest, "a nemesis", loops...)
	}
	<-during.Done()
	r.lasted = time.Since(begun)
	r.judgeable(live)
	stop()
	all = errors.Join(all, await(live, "the watch over the masters", parts...))
	if ctx.Err() != nil {
		return fmt.Errorf("chaos: interrupted: %w", ctx.Err())
	}
	if all != nil { // what broke off has done too little
		return all
	}
	return r.missed()
}

// missed records whether the time for faults was over before cfg.LeastFaults and cfg.LeastLocks were reached. It goes by the counts of the strike
// loops, which differ a little from those of the checker: a run that reached them by the one must not miss them by the other.
func (r *run) missed() error {
	_, struck := r.faults.now()
	var errs []error
	for _, least := range []struct {
		what      string
		got, want int
	}{{"faults that struck", struck, r.cfg.LeastFaults}, {"locks that were granted under faults", int(r.disturbed.Load()), r.cfg.LeastLocks}} {
		if least.got < least.want {
			errs = append(errs, r.history.Append(history.Finding{At: history.Now(), Checker: "effort",
				Detail: fmt.Sprintf("%s: %d, want at least %d", least.what, least.got, least.want)}))
		}
	}
	return errors.Join(errs...)
}

// judgeable waits until clients have had a second without faults: until the last fault can no longer matter, and all masters vote. Some checkers
// judge only such a time.
func (r *run) judgeable(ctx context.Context) {
	if len(r.cfg.Nemeses) > 0 {
		sleep(ctx, r.cfg.TTL+r.cfg.MaxTTL+time.Second)
	}
}

// graceTime is how much longer than another Duration faults go on for what a run must still do. Less in tests.
var graceTime = 30 * time.Second

// maxQuotaTime bounds how long faults go on for cfg.LeastLocks.
const maxQuotaTime = time.Minute

// countGrants counts the locks that are granted while a fault is at work, until ctx ends. It looks now and then, so it leaves out what is
// granted around the beginning and the end of a fault.
func (r *run) countGrants(ctx context.Context) {
	before, disturbed := 0, false
	for ctx.Err() == nil {
		granted := 0
		for _, s := range r.clients {
			granted += s.granted()
		}
		on, _ := r.faults.now()
		if disturbed && len(on) > 0 {
			r.disturbed.Add(int64(granted - before))
		}
		before, disturbed = granted, len(on) > 0
		sleep(ctx, watchEvery/10)
	}
}

// hangTime is how long a part of the run may take to end after it was told to. A nemesis has healTime for each fault that it ends. Less in tests.
var hangTime = time.Minute

// background runs f in a goroutine, and returns a channel for its error.
func background(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// await waits until all of parts have ended and joins their errors. hangTime after the end of ctx it waits no longer and returns an error that
// says that what hangs.
func await(ctx context.Context, what string, parts ...<-chan error) error {
	var all error
	over, hangs := ctx.Done(), (<-chan time.Time)(nil)
	for len(parts) > 0 {
		select {
		case err := <-parts[0]:
			all, parts = errors.Join(all, err), parts[1:]
		case <-over:
			over, hangs = nil, time.After(hangTime)
		case <-hangs:
			return errors.Join(all, fmt.Errorf("chaos: %s hangs: it has not ended within %v", what, hangTime))
		}
	}
	return all
}

// guard runs f and turns a panic into an error, so that the run is still cleaned up.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("chaos: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// strikeLoop strikes with one nemesis after another. cfg.AtOnce of these loops run at the same time; nth tells them apart.
//
// The loops share a first round, in which each nemesis strikes once. After it they choose nemeses at random. A loop ends when during is
// over, the first round is over, cfg.LeastFaults faults struck and cfg.LeastLocks locks were granted under them; or when longest is over.
func (r *run) strikeLoop(during, longest context.Context, nth int) error {
	choose := rand.New(rand.NewPCG(r.cfg.Seed, uint64(nth)+1))
	for longest.Err() == nil {
		n, first := r.due.take()
		ctx := during
		if during.Err() != nil {
			if _, struck := r.faults.now(); !first && struck >= r.cfg.LeastFaults && r.disturbed.Load() >= int64(r.cfg.LeastLocks) {
				return nil
			}
			ctx = longest
		}
		if !first {
			n = r.cfg.Nemeses[choose.IntN(len(r.cfg.Nemeses))]
		}
		id := r.faults.begin(n.Name)
		f, ok := n.Strike(ctx, r.target, choose)
		applied := ok && f.Error == ""
		r.faults.end(id, n.Name, applied)
		if first && !applied {
			r.due.put(n)
		}
		if !ok {
			sleep(ctx, 20*time.Millisecond)
			continue
		}
		// A fault that the end of the run broke off is recorded too: it may have been applied in part.
		if err := r.history.Append(f); err != nil {
			return err
		}
		sleep(ctx, time.Duration(choose.Int64N(int64(r.cfg.TTL/2))))
	}
	return nil
}

// queue holds the nemeses of the first round that have not struck yet. Any goroutine may call its methods.
type queue struct {
	mu      sync.Mutex
	nemeses []nemesis.Nemesis
}

func (q *queue) take() (n nemesis.Nemesis, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.nemeses) == 0 {
		return n, false
	}
	n, q.nemeses = q.nemeses[0], q.nemeses[1:]
	return n, true
}

func (q *queue) put(n nemesis.Nemesis) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nemeses = append(q.nemeses, n)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// died waits until ctx ends. If a client process ends before, died returns an error that says why.
func (r *run) died(ctx context.Context) error {
	ended := make(chan error, len(r.clients))
	for _, s := range r.clients {
		go func() { ended <- s.ended(ctx) }()
	}
	for range r.clients {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}
