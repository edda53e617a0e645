// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// A quorum of masters becomes unusable while a client runs. Lock, Ready and the Observers say the same thing of it, at once, and the masters
// vote again when that is mended.
func TestRefused_whileAClientRuns_lockAndReadySaySo(t *testing.T) {
	t.Parallel()
	right := func(name string) (spoil, mend func(ms *masters, i int)) {
		return func(ms *masters, i int) { ms.acl(i, "setuser", "locker", "-"+name) },
			func(ms *masters, i int) { ms.acl(i, "setuser", "locker", "+"+name) }
	}
	type fault struct{ spoil, mend func(ms *masters, i int) }
	faults := map[string]fault{
		"allkeys-lru": {
			func(ms *masters, i int) {
				noErr(ms.t, ms.direct[i].ConfigSet(ms.t.Context(), "maxmemory-policy", "allkeys-lru").Err())
			},
			func(ms *masters, i int) {
				noErr(ms.t, ms.direct[i].ConfigSet(ms.t.Context(), "maxmemory-policy", "noeviction").Err())
			},
		},
		"WRONGPASS": {
			func(ms *masters, i int) { ms.acl(i, "deluser", "locker") },
			func(ms *masters, i int) { ms.acl(i, "setuser", "locker", "on", ">first", "~*", "&*", "+@all") },
		},
	}
	for _, name := range []string{"evalsha", "hset", "pexpire", "hdel", "info", "time"} {
		var f fault
		f.spoil, f.mend = right(name)
		faults[name] = f
	}
	for says, f := range faults {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			ms := startMasters(t, 3, localredis.Config{})
			initAt(t, ms.urls())
			urls := ms.withUser("locker", "first")
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var states masterStates
			c, err := redlock.Open(ctx, urls, patient, states.observer())
			noErr(t, err)
			defer c.Close()
			noErr(t, locked(t, c.Mutex("x")).Unlock(ctx))
			// Another program, whose user is another one, has y on all masters.
			other, err := redlock.Open(ctx, ms.urls())
			noErr(t, err)
			defer other.Close()
			held := locked(t, other.Mutex("y"))
			for i := range 2 {
				f.spoil(ms, i)
			}
			m0, votes := ms.servers[0].Addr(), func() bool { return states.now(ms.servers[0].Addr()).To == event.MasterVotes }
			soon(t, "the state is refuses", func() bool {
				if lease, err := c.Mutex("x").TryLock(ctx); err == nil {
					_ = lease.Unlock(ctx)
				}
				return states.now(m0).To == event.MasterRefuses && states.now(ms.servers[1].Addr()).To == event.MasterRefuses
			})
			for range 3 {
				began, meter := time.Now(), stall.Start()
				_, err = c.Mutex("x").Lock(ctx)
				took := time.Since(began) - meter.Held()
				meter.Stop()
				wantErr(t, err, redlock.ErrRefused)
				wantErr(t, c.Ready(), redlock.ErrRefused)
				if ran, err := c.Mutex("y").TryDo(ctx, func(context.Context, *redlock.Lease) error { return nil }); ran || !errors.Is(err, redlock.ErrRefused) {
					t.Errorf("of a lock that another has: ran %t, %v", ran, err)
				}
				for _, err := range []error{err, c.Ready(), states.now(m0).Err} {
					if !strings.Contains(err.Error(), says) {
						t.Errorf("%v does not say %s", err, says)
					}
				}
				if took > redlock.DefaultOutageTimeout {
					t.Errorf("Lock waited for %v", took)
				}
				time.Sleep(100 * time.Millisecond)
				if votes() {
					t.Error("an event says that the master votes")
				}
			}
			for i := range 2 {
				f.mend(ms, i)
			}
			_ = held.Unlock(ctx) // of some of these faults it knows too
			soon(t, "it votes again", func() bool { return c.Ready() == nil && votes() })
			noErr(t, locked(t, c.Mutex("x")).Unlock(ctx))
		})
	}
}

// A right is taken from the user on a quorum that no lease of the client needs. New locks are refused, and what the client holds it keeps, past
// the TTL, and gives back.
func TestRefused_whileAClientRuns_leasesGoOn(t *testing.T) {
	t.Parallel()
	for _, cmd := range []string{"zadd", "hset", "hgetall", "info", "time"} {
		t.Run(cmd, func(t *testing.T) {
			t.Parallel()
			stall.Try(t, time.Second, func(t testing.TB) { leaseGoesOnWithout(t, cmd) })
		})
	}
}

func leaseGoesOnWithout(t testing.TB, cmd string) {
	ms := startMasters(t, 3, localredis.Config{})
	initAt(t, ms.urls())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := redlock.Open(ctx, ms.withUser("locker", "first"), patient)
	noErr(t, err)
	defer c.Close()
	const ttl = 3 * time.Second
	lease := locked(t, c.Mutex("held", redlock.WithTTL(ttl)))
	for i := range 3 {
		ms.acl(i, "setuser", "locker", "-"+cmd)
	}
	taken := time.Now()
	soon(t, "a waiter is refused, and Ready says so", func() bool {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := c.Mutex("held").Lock(short)
		_, other := c.Mutex("other").TryLock(ctx)
		return errors.Is(err, redlock.ErrRefused) && errors.Is(other, redlock.ErrRefused) && errors.Is(c.Ready(), redlock.ErrRefused)
	})
	select {
	case <-lease.Context().Done():
		t.Errorf("lost after %v: %v", time.Since(taken), context.Cause(lease.Context()))
	case <-time.After(ttl + ttl/2):
	}
	noErr(t, lease.Unlock(ctx))
	ms.givenBack("held")
}
