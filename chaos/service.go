// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/redlock"
)

const (
	// serviceLock is a lock that nobody but the harness takes.
	serviceLock = "service"
	// serviceEvery is the pause between two attempts. It leaves time for three in each window of the checker availability.
	serviceEvery = 30 * time.Millisecond
	// servicePatience bounds one attempt.
	servicePatience = time.Second
)

// openService opens the client that takes serviceLock. A run with clients of the user's has none: its floors are those of this library.
func (r *run) openService(ctx context.Context, opts []redlock.Option) (err error) {
	if r.target.Service, err = r.links(); err != nil {
		return err
	}
	r.service, err = redlock.Open(ctx, urls(r.target.Service, r.cluster.Masters()), opts...)
	return err
}

// serve takes serviceLock again and again until ctx ends, and records each attempt. Nobody else wants the lock, so it measures the service of
// the masters and not how long others hold a lock. Its links have the faults that a nemesis puts on all links to a master.
func (r *run) serve(ctx context.Context) error {
	if r.service == nil {
		return nil
	}
	name := r.cfg.Prefix + serviceLock
	m := r.service.Mutex(name, redlock.WithoutRenewal(), redlock.WithMaxWait(servicePatience))
	for ctx.Err() == nil {
		op := history.Op{Kind: history.KindService, Client: "harness.service", Lock: name, Outcome: history.OK, Call: history.Now()}
		l, err := m.Lock(ctx)
		op.Return = history.Now()
		if err != nil {
			op.Outcome, op.Error = history.Failed, "not taken"
		} else {
			op.Holder = l.Holder()
			_ = l.Unlock(context.WithoutCancel(ctx)) // the library releases it in the background if this fails
		}
		if err != nil && ctx.Err() != nil {
			return nil // the run ended during the attempt
		}
		if err := r.history.Append(op); err != nil {
			return err
		}
		sleep(ctx, serviceEvery)
	}
	return nil
}
