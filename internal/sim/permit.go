// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/semaphore"
)

const semaphoreName = "semaphore"

// oncePermit takes a permit of the semaphore in some way, works under it and gives it back. In the history it is the lock of its slot: if
// no slot has two holders, there are no more than k permits. A call without a permit counts for the turn.
func (k *worker) oncePermit() {
	var opts []redlock.LockOption
	if k.rnd.IntN(2) == 0 {
		opts = append(opts, redlock.WithoutRenewal())
	}
	c := k.m.use()
	if c == nil {
		return // its process is being restarted
	}
	op := history.Op{Kind: history.KindLock, Lock: semaphoreName + ":turn", Mode: history.Exclusive}
	var p *semaphore.Permit
	var lease *redlock.Lease
	k.p.does(DoingLock)
	err := k.rec.Do(&op, func() (err error) {
		if p, err = k.takePermit(c, opts); err == nil {
			lease = redlock.LeaseFrom(p.Context())
			op.Lock, op.Holder, op.Token, op.Deadline = p.Name(), p.Holder(), p.Token(), k.m.claim(lease)
		}
		return err
	})
	if k.died || err != nil {
		return
	}
	k.p.does(DoingHold)
	i := slices.IndexFunc(k.w.locks, func(l *lock) bool { return l.name == p.Name() })
	if i < 0 {
		k.w.fail(fmt.Errorf("sim: a permit of %q, which is none of %d slots", p.Name(), k.w.cfg.Permits))
		return
	}
	k.permit = p
	k.hold(k.w.locks[i], nil, lease, op)
	k.permit = nil
}

func (k *worker) takePermit(c *redlock.Client, opts []redlock.LockOption) (*semaphore.Permit, error) {
	s := semaphore.New(c, semaphoreName, k.w.cfg.Permits, opts...)
	if k.rnd.IntN(4) == 0 {
		return s.TryAcquire(k.p.ctx)
	}
	ctx, cancel := context.WithTimeout(k.p.ctx, k.about(500*time.Millisecond))
	defer cancel()
	return s.Acquire(ctx)
}
