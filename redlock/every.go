// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Every runs a function at most once a period, over all hosts. Make one with [Client.Every]. It
// holds no state, and may be used by many goroutines.
type Every struct {
	m   *Mutex
	err error // what is wrong with the period; every call returns it
}

// Every returns an Every for the lock called name: at least d passes between two runs under that
// name, whichever hosts they are on. d counts from when the masters were told of the run, which is a trip
// before fn begins. The hosts need no common clock. d is 10 ms to a year. A name, a period or an option that cannot work is reported
// by the first call, as [ErrConfig].
//
// Give all hosts the same d: the period that counts is that of the last run. Do not use the name for a [Mutex]: its Lock waits for
// the rest of the period.
//
// Call [Every.Do] from a timer on each host. Choose d shorter than the time between two ticks,
// for example half of it: a host whose timer fires a little before d is over runs nothing, and
// asks again at its next tick only.
func (c *Client) Every(name string, d time.Duration, opts ...LockOption) *Every {
	once := lockOption(func(s *lockSettings) { s.MinHold, s.reentrant = d, false })
	e := &Every{m: c.Mutex(name, append(slices.Clone(opts), once)...)}
	if d < minTTL || d > longest {
		e.err = fmt.Errorf("%w: %q every %v: want %v to %v", ErrConfig, name, d, minTTL, longest)
	}
	return e
}

// Do runs fn, unless a run was started less than a period ago, here or elsewhere, or goes on. ran says whether fn ran. If it is not
// time yet, Do returns false and no error at once. Do never waits for the next period.
//
// Do asks the masters twice before fn runs: for the lock, and to have it rest for the whole
// period ([WithMinHold]). So the period holds even if this process is killed in the middle of fn. It is used up
// when fn fails too, because fn may have done its work in part.
//
// fn's context is that of the lock's lease, as in [Mutex.Do]: it ends when the lease is lost. fn
// may take longer than the period: nobody else starts meanwhile. The fencing token,
// lease.Token(), grows from run to run.
//
// The errors are those of [Mutex.TryDo]. If ran is false the period is not used up, with one exception: the
// masters were told of the run, their answers were lost, and this process ends, or stays cut off, before it could take that back.
// If a quorum of masters loses its data within the period, fn may run twice: see [WithMinHold].
func (e *Every) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (ran bool, err error) {
	switch {
	case e == nil || e.m == nil:
		return false, fmt.Errorf("%w: an Every that no Client made; use Client.Every", ErrConfig)
	case e.err != nil:
		return false, e.err
	}
	return e.m.TryDo(ctx, fn)
}

// Name is the lock's name.
func (e *Every) Name() string {
	if e == nil {
		return ""
	}
	return e.m.Name()
}
