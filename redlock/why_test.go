// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// The validity of a lease ends for one of several reasons. The error of the loss says which.
func TestLost_validityIsOver_saysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		opts  []redlock.LockOption
		spoil error // what masters answer to a write
		says  []string
	}{
		"maximum hold": {[]redlock.LockOption{redlock.WithMaxHold(300 * time.Millisecond)}, nil, []string{"it reached its maximum hold of 300ms"}},
		"no renewal":   {[]redlock.LockOption{redlock.WithoutRenewal()}, nil, []string{"it is not renewed"}},
		"refused":      {nil, errNoReplicas, []string{"0 of 5 masters confirmed the vote", "m", "NOREPLICAS"}},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				lease := mustLock(t, c.client().Mutex("x", tc.opts...))
				for _, m := range c.masters {
					m.RefuseWrites(tc.spoil)
				}
				<-lease.Context().Done()
				err := context.Cause(lease.Context())
				wantErr(t, err, redlock.ErrLost)
				wantText(t, err, append(tc.says, "validity is over: ")...)
				if errors.Is(err, redlock.ErrUnreachable) {
					t.Errorf("%v is ErrUnreachable too", err)
				}
			})
		})
	}
}

// Extend and Unlock that no quorum confirms say what a master has answered.
func TestExtendAndUnlock_mastersRefuse_sayWhy(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		lease := mustLock(t, c.client().Mutex("x"))
		for _, m := range c.masters {
			m.RefuseWrites(errNoReplicas)
		}
		err := lease.Extend(t.Context())
		wantErr(t, err, redlock.ErrUnreachable)
		wantText(t, err, "0 of 5 masters confirmed the vote, quorum is 3; m", "NOREPLICAS", "min-replicas-to-write")
		err = lease.Unlock(t.Context())
		wantErr(t, err, redlock.ErrUnconfirmed)
		wantText(t, err, "0 of 5 masters released it, quorum is 3; m", "NOREPLICAS", "min-replicas-to-write")
		for _, m := range c.masters {
			m.RefuseWrites(nil)
		}
		time.Sleep(time.Second)
	})
}

// A round whose caller had too little time for the masters says how little. Without that its text is that of an outage.
func TestLock_tooLittleTime_saysHowLittle(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a := c.client()
		for _, way := range a.Ways {
			way.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{ReplyDelay: 20 * time.Millisecond} })
		}
		for name, lock := range map[string]func(context.Context) (*redlock.Lease, error){"Lock": a.Mutex("x").Lock, "TryLock": a.Mutex("x").TryLock} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond) // of which a round has a part, so that another may follow
			err := second(lock(ctx))
			if cancel(); err == nil || !strings.Contains(err.Error(), "the caller's time left them 1ms to answer") {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, m := range c.masters {
			m.Pause()
		}
		if err := second(a.Mutex("x").TryLock(t.Context())); err == nil || strings.Contains(err.Error(), "left them") {
			t.Errorf("in an outage: %v", err)
		}
		for _, m := range c.masters {
			m.Resume()
		}
	})
}
