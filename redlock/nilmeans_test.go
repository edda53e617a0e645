// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// The holder hands its lease off, and another process adopts it, after ForceUnlock has seen the holder's votes and
// before it takes them away. The adopter goes on, and ForceUnlock says so.
func TestForceUnlock_leaseAdoptedMeanwhile_saysWhoHasIt(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b, operator := c.client(), c.client(), c.client()
		lease := mustLock(t, a.Mutex("x"))
		for _, way := range operator.Ways { // the bar is the first that it sends after it has looked
			way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
				if cmd.Name == "set" {
					return nodetest.Fault{Delay: 50 * time.Millisecond}
				}
				return nodetest.Fault{}
			})
		}
		forced := make(chan error, 1)
		go func() { forced <- operator.ForceUnlock(context.Background(), "x", lease.Holder()) }()
		time.Sleep(10 * time.Millisecond)
		ticket, err := lease.Transfer(t.Context())
		wantErr(t, err, nil)
		adopted, err := b.Adopt(t.Context(), ticket)
		wantErr(t, err, nil)
		err = <-forced
		wantErr(t, err, redlock.ErrNotHolder)
		wantText(t, err, lease.Holder(), "now "+adopted.Holder()+" has it")
		time.Sleep(30 * time.Second)
		wantErr(t, adopted.Err(), nil)
		wantErr(t, operator.ForceUnlock(t.Context(), "x", adopted.Holder()), nil)
	})
}

// The holder unlocks by itself before its votes are taken away. Nobody has the lock, and that is what was asked for.
func TestForceUnlock_holderUnlocksMeanwhile_isNil(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, operator := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x"))
		operator.faultOn("set", nodetest.Fault{Delay: 50 * time.Millisecond}, 0, 1, 2, 3, 4)
		forced := make(chan error, 1)
		go func() { forced <- operator.ForceUnlock(context.Background(), "x", lease.Holder()) }()
		time.Sleep(10 * time.Millisecond)
		wantErr(t, lease.Unlock(t.Context()), nil)
		wantErr(t, <-forced, nil)
	})
}

// Resign returns nil only if the masters confirmed that the lock was given back.
func TestResign_notConfirmed_saysSo(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(c *cluster)
		want  error
	}{
		{"well", func(*cluster) {}, nil},
		{"masters frozen", func(c *cluster) {
			for _, m := range c.masters[:3] {
				m.Pause()
			}
		}, redlock.ErrUnconfirmed},
		{"votes gone", func(c *cluster) {
			for _, m := range c.masters {
				_ = m.Do(func(db *nodetest.DB) { db.Del("x") })
			}
		}, redlock.ErrLost},
	} {
		simulate(t, func(t *testing.T, c *cluster) {
			e := election.New(c.client().Client.Client, "x")
			ctx, cancel := context.WithCancel(context.Background())
			out := make(chan error, 1)
			go func() {
				out <- e.Run(ctx, func(ctx context.Context, _ *election.Term) error { <-ctx.Done(); return nil })
			}()
			synctest.Wait()
			tc.spoil(c)
			if err := e.Resign(t.Context()); !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
			}
			for _, m := range c.masters {
				m.Resume()
			}
			cancel()
			wantErr(t, <-out, context.Canceled)
		})
	}
}

// While masters recover, or do not answer for a moment, flight.Do waits as Lock does.
func TestFlightDo_mastersRecover_waits(t *testing.T) {
	for name, spoil := range map[string]func(c *cluster){
		"recovering": func(c *cluster) {
			for _, m := range c.masters[:3] {
				m.Crash()
				m.Flush()
				m.Restart()
			}
		},
		"silent for a moment": func(c *cluster) {
			for _, m := range c.masters[:3] {
				m.Pause()
				time.AfterFunc(500*time.Millisecond, m.Resume)
			}
		},
	} {
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			a := c.client()
			time.Sleep(time.Second)
			spoil(c)
			loads := 0
			got, err := flight.Do(t.Context(), a.Client.Client, "x", func(context.Context) (int, bool, error) { return 0, false, nil },
				func(context.Context) (int, error) { loads++; return 7, nil })
			if got != 7 || err != nil || loads != 1 {
				t.Errorf("%s: %d, %v, %d loads", name, got, err, loads)
			}
		})
	}
}
