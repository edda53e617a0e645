// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock/internal/supervise"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/termline"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock"
)

// take takes the lock, or gives up at a signal. The caller closes the client.
func (r *runner) take(signals supervise.Signals) (*redlock.Client, *redlock.Lease, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := watch(signals, cancel)
	client, lease, err := r.acquire(ctx)
	if sig := stop(); sig != 0 {
		if err == nil {
			_ = inside.Abandon(lease, context.Background()) // nothing has run: the period of --every is not used up
			r.leave(client)
		}
		return nil, nil, interruptedBy(sig)
	}
	return client, lease, r.why(err)
}

func interruptedBy(sig syscall.Signal) error {
	return &exitError{exitSignal + int(sig), said.StoppedWaiting.Text}
}

// open connects to the masters, and does not wait for them longer than patience.
func (r *runner) open(ctx context.Context, patience time.Duration) (*redlock.Client, error) {
	opening, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.more("connecting to the masters")
	return r.client(opening, redlock.WithTTL(r.ttl), redlock.WithOutageTimeout(mastersPatience), redlock.WithClientName(r.owner))
}

// warn says why the masters do not vote yet, if that is so: to wait for them in silence would look like a hang.
func (r *runner) warn(client *redlock.Client) {
	if err := client.Ready(); err != nil {
		r.say(said.WaitsForMasters.With(err))
	}
}

// leave ends the client, and gives back what it still holds.
func (r *runner) leave(client *redlock.Client) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = client.Shutdown(now)
}

// acquire returns a lease that has its whole TTL before it. On an error nothing is left behind.
func (r *runner) acquire(ctx context.Context) (*redlock.Client, *redlock.Lease, error) {
	patience, began := mastersPatience, time.Now()
	if r.wait > 0 {
		patience = min(patience, r.wait)
	}
	client, err := r.open(ctx, patience)
	if err != nil {
		return nil, nil, err
	}
	r.noWait = r.noWait || r.every > 0
	if !r.noWait {
		r.warn(client)
	}
	opts := []redlock.LockOption{redlock.WithMinHold(max(r.minHold, r.every))}
	if r.wait > 0 {
		opts = append(opts, redlock.WithMaxWait(max(r.wait-time.Since(began), 1)))
	}
	mutex := client.Mutex(r.name, opts...)
	defer r.tellWho(ctx, client)()
	var lease *redlock.Lease
	switch {
	case r.noWait:
		lease, err = tryLock(ctx, mutex)
	default:
		if r.wait == 0 {
			r.more("waiting for lock %q", r.name)
		}
		lease, err = mutex.Lock(ctx)
	}
	if err == nil {
		if err = r.lengthen(ctx, lease); err != nil {
			_ = inside.Abandon(lease, context.Background()) // also if it is lost: a minority may have its votes
		}
	}
	if err != nil {
		if errors.Is(err, redlock.ErrHeld) {
			r.seen, _ = client.Inspect(ctx, r.name)
		}
		r.leave(client)
		return nil, nil, err
	}
	return client, lease, nil
}

// tryLock is TryLock that goes on while no quorum of masters answers, as Lock does: a host that is busy in the moment of its one round would
// take masters that are well for gone.
func tryLock(ctx context.Context, m *redlock.Mutex) (*redlock.Lease, error) {
	for began := time.Now(); ; pause(ctx) {
		lease, err := m.TryLock(ctx)
		if !errors.Is(err, redlock.ErrUnreachable) || time.Since(began) > mastersPatience {
			return lease, err
		}
	}
}

// pause is the time between two rounds. The next one says it if ctx has ended.
func pause(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}

// After waitsLong a person wants to know for whom. If the masters could not tell they are asked again after waitsOn.
const waitsLong, waitsOn = 2 * time.Second, time.Second

// tellWho says who has the lock, once it was waited for long: on a terminal, and with --verbose. stop ends it.
func (r *runner) tellWho(ctx context.Context, client *redlock.Client) (stop func()) {
	if r.noWait || !r.verbose && !termline.IsTerminal(os.Stderr) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait := waitsLong; ; wait = waitsOn {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			in, err := client.Inspect(ctx, r.name)
			if told := err == nil && (in.Free || len(in.Holders) > 0); told && ctx.Err() == nil {
				r.say(said.WaitsForLock.With(strconv.Quote(r.name), who(in)))
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func who(in *redlock.Inspection) string {
	if len(in.Holders) == 0 {
		return "nobody has it: others wait before this one, or it rests"
	}
	switch h := &in.Holders[0]; {
	case !h.Resting && h.Left <= 0:
		return nameOfHolder(h) + " has it, " + lasts(h)
	case !h.Resting:
		return nameOfHolder(h) + " has it"
	}
	return "it " + rests(&in.Holders[0])
}

func rests(h *redlock.Holder) string {
	return fmt.Sprintf("rests for %v after %s", short(h.Left), nameOfHolder(h))
}

// taken says why the lock could not be had, by round or by what was seen after it.
func (r *runner) taken(err error) (what string) {
	var h *redlock.Holder
	if r.seen != nil && len(r.seen.Holders) > 0 {
		h = &r.seen.Holders[0]
	}
	var round *redlock.RoundError
	switch {
	case inside.NoTTL(err):
		return fmt.Sprintf("lock %q is held by another: the key at its name has no TTL and stays for ever; if no program needs it, delete it on each master", r.name)
	case h != nil && h.Resting && r.every > 0:
		return fmt.Sprintf("%q ran already: it %s", r.name, rests(h))
	case h != nil && h.Resting:
		return fmt.Sprintf("lock %q %s", r.name, rests(h))
	case h != nil && r.every > 0:
		return fmt.Sprintf("%q runs now: %s has it", r.name, nameOfHolder(h))
	case r.every > 0:
		return fmt.Sprintf("%q runs now, or ran already", r.name)
	case errors.As(err, &round) && round.Owner != "":
		return fmt.Sprintf("lock %q is held by another, %s", r.name, round.Owner)
	}
	return fmt.Sprintf("lock %q is held by another", r.name)
}

// lengthen gives a lease its whole TTL. One that was handed over by its last holder is short until it is renewed. A round that masters did not
// answer in time does not end it: there is another, until the lease is over.
func (r *runner) lengthen(ctx context.Context, lease *redlock.Lease) error {
	var silent error
	for ; time.Until(lease.ValidUntil()) < r.ttl/2; pause(ctx) { // the lease's own renewal may have come first
		err := lease.Extend(ctx)
		switch {
		case errors.Is(err, redlock.ErrUnreachable):
			silent = err
		case errors.Is(err, redlock.ErrLost) && silent != nil:
			return silent // that is why, and nothing has run under the lock
		default:
			return err
		}
	}
	return nil
}

// why is the exit code of an error of acquire.
func (r *runner) why(err error) error {
	var epoch *redlock.EpochError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redlock.ErrHeld):
		what := r.taken(err)
		if !r.noWait {
			what += fmt.Sprintf(", still after %v", r.wait)
		}
		r.more("%s", text.OneLine(err))
		return &exitError{exitHeld, what}
	case errors.Is(err, redlock.ErrConfig), errors.As(err, &epoch): // other arguments are what helps
		return usageError{err}
	case errors.Is(err, redlock.ErrLost):
		return &exitError{exitLost, err.Error()}
	}
	return &exitError{exitMasters, r.fit(err.Error())}
}
