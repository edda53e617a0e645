// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/hostpid"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// waits has a process wait for the lock x until the test ends.
func (c *cluster) waits(opts ...redlock.Option) (got chan *redlock.Lease) {
	c.t.Helper()
	m := c.client(opts...).Mutex("x")
	ctx, cancel := context.WithCancel(context.Background())
	got = make(chan *redlock.Lease, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if l, err := m.Lock(ctx); err == nil {
			got <- l
		}
	}()
	c.t.Cleanup(func() {
		cancel()
		<-ended
	})
	synctest.Wait()
	time.Sleep(10 * time.Millisecond) // the next one comes later on the masters' clocks too
	return got
}

func TestInspect_othersWait_namedInTheirOrder(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(redlock.WithClientName("billing/1")), c.client()
		lease := mustLock(t, a.Mutex("x"))
		began := time.Now()
		c.waits(redlock.WithClientName("shop/1"))
		c.waits()
		for _, m := range c.masters { // the place of a client that died
			wantErr(t, m.Do(func(db *nodetest.DB) {
				db.ZAdd("redlock:queue:{x}", 1, "00000000-0000-8000-8000-000000000000:1/x/")
			}), nil)
		}
		in := inspected(t, b)
		if in.Holders[0].Owner != "billing/1" || in.Holders[0].Read || !strings.Contains(in.String(), "billing/1") {
			t.Errorf("%v", in)
		}
		if len(in.Waiters) != 2 {
			t.Fatalf("%+v", in.Waiters)
		}
		for i, owner := range []string{"shop/1", ""} {
			w := in.Waiters[i]
			if late := w.Since.Sub(began); w.Owner != owner || w.Places != 5 || w.Read || late < 0 || late > time.Second {
				t.Errorf("%+v", w)
			}
		}
		if in.Waiters[0].Client == in.Waiters[1].Client || strings.HasPrefix(lease.Holder(), in.Waiters[0].Client) {
			t.Errorf("%+v", in.Waiters)
		}
	})
}

// The labels stay while the clients live, and for a while after: a holder that died has one.
func TestWithOwner_clientLivesOn_masterKeepsTheLabel(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(redlock.WithClientName("billing/1")), c.client()
		mustLock(t, a.Mutex("x"))
		time.Sleep(10 * time.Minute)
		if in := inspected(t, b); in.Holders[0].Owner != "billing/1" {
			t.Errorf("%+v", in)
		}
		for _, m := range c.masters {
			m.Flush()
		}
		time.Sleep(time.Minute)
		mustLock(t, a.Mutex("x"))
		wantErr(t, a.Close(), nil)
		time.Sleep(5 * time.Second)
		if in := inspected(t, b); in.Holders[0].Owner != "billing/1" {
			t.Errorf("%+v", in)
		}
	})
}

func TestTryLock_held_namesTheOwnerToThoseWhoHaveALabel(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client(redlock.WithClientName("billing/1"))
		lease := mustLock(t, a.Mutex("x"))
		for _, tc := range []struct {
			by    *member
			owner string
		}{{c.client(redlock.WithClientName("shop/1")), "billing/1"}, {c.client(), ""}} {
			var asked atomic.Int64
			for _, way := range tc.by.Ways {
				way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
					if cmd.Name == "inspect" {
						asked.Add(1)
					}
					return nodetest.Fault{}
				})
			}
			_, err := tc.by.Mutex("x").TryLock(t.Context())
			var round *redlock.RoundError
			if wantErr(t, err, redlock.ErrHeld); !errors.As(err, &round) || round.Owner != tc.owner || round.Holder != lease.Holder() {
				t.Errorf("%v", err)
			}
			if strings.Contains(err.Error(), "billing/1") != (tc.owner != "") || (asked.Load() > 0) != (tc.owner != "") || asked.Load() > 5 {
				t.Errorf("%v, asked %d times", err, asked.Load())
			}
		}
		// Where the masters do not answer the second question, the error is that of the first.
		deaf := func(label string) *redlock.Mutex {
			by := c.client(redlock.WithClientName(label))
			for _, way := range by.Ways {
				way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
					if cmd.Name == "inspect" {
						return nodetest.Fault{Lose: nodetest.LoseCommand}
					}
					return nodetest.Fault{}
				})
			}
			return by.Mutex("x")
		}
		start := time.Now()
		_, err := deaf("shop/2").TryLock(t.Context())
		wantErr(t, err, redlock.ErrHeld)
		if took := time.Since(start); took > 2*redlock.DefaultNodeTimeout {
			t.Errorf("took %v", took)
		}
		// A caller that cancels meanwhile hears that.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		_, err = deaf("shop/3").TryLock(ctx)
		wantErr(t, err, context.Canceled)
		wantHolder(t, "TryLock", err, lease.Holder(), "")
	})
}

func TestWithOwner_badLabel_isRefused(t *testing.T) {
	for label, says := range map[string]string{"a b": `client name "a b"`, "pod\n7": "printable", "käse": "'ä'", strings.Repeat("x", 129): "client name of 129 bytes"} {
		wantNotOpened(t, []string{"redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"}, redlock.ErrConfig, []string{says}, redlock.WithClientName(label))
	}
}

// On real servers: the connections have the label as their name, and a user without the right to name
// them locks all the same.
func TestWithOwner_realMasters_connectionsAreNamed(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin(redlock.WithClientName("billing/pod-7"))
	ctx := t.Context()
	lease := locked(t, c.Mutex("x"))
	settled(t, lease, 3)
	got := make(chan error, 1)
	go func() {
		l, err := c.Mutex("x").Lock(context.Background())
		if err == nil {
			err = l.Unlock(context.Background())
		}
		got <- err
	}()
	soon(t, "lane and subscription are named", func() bool {
		return !slices.ContainsFunc(ms.direct, func(d *redis.Client) bool {
			return strings.Count(d.ClientList(ctx).Val(), "name=billing/pod-7 ") != 2
		})
	})
	soon(t, "the waiter is there", func() bool {
		in, err := c.Inspect(ctx, "x")
		noErr(t, err)
		return len(in.Holders) == 1 && in.Holders[0].Owner == "billing/pod-7" && len(in.Waiters) == 1 &&
			in.Waiters[0].Owner == "billing/pod-7" && in.Waiters[0].Places == 3 && time.Since(in.Waiters[0].Since) < time.Minute
	})
	noErr(t, lease.Unlock(ctx))
	noErr(t, <-got)
	few := slices.DeleteFunc(rightsOf(""), func(r any) bool { return r == "+client|setname" })
	other, err := redlock.Open(ctx, limited(ms, few...), redlock.WithClientName("shop/pod-1"), redlock.WithNodeTimeout(time.Second))
	noErr(t, err)
	defer other.Close()
	unnamed := locked(t, other.Mutex("x"))
	in, err := c.Inspect(ctx, "x")
	noErr(t, err)
	if in.Holders[0].Owner != "shop/pod-1" {
		t.Errorf("%+v", in)
	}
	noErr(t, unnamed.Unlock(ctx))
}

// A client has the host and the id of the process as its label, and asks the masters no more than one without.
func TestWithClientName_notGiven_isHostAndPID(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c, mute := ms.begin(), ms.open(redlock.WithClientName(""))
	named := ms.urls()
	for i := range named {
		named[i] += "?client_name=of-the-url"
	}
	other, err := redlock.Open(t.Context(), named, redlock.WithNodeTimeout(time.Second))
	noErr(t, err)
	defer other.Close()
	for _, tc := range []struct {
		client         *redlock.Client
		owner, connect string
	}{{c, hostpid.Name(), hostpid.Name()}, {mute, "", ""}, {other, hostpid.Name(), "of-the-url"}} {
		lease := locked(t, tc.client.Mutex("x"))
		settled(t, lease, 3)
		in, err := c.Inspect(t.Context(), "x")
		noErr(t, err)
		if in.Holders[0].Owner != tc.owner {
			t.Errorf("the label %q, want %q", in.Holders[0].Owner, tc.owner)
		}
		for i, d := range ms.direct {
			if list := d.ClientList(t.Context()).Val(); !strings.Contains(list, " name="+tc.connect+" ") {
				t.Errorf("master %d has no connection called %q:\n%s", i, tc.connect, list)
			}
		}
		_, err = c.Mutex("x").TryLock(t.Context())
		var round *redlock.RoundError
		if wantIs(t, err, redlock.ErrHeld); !errors.As(err, &round) || round.Owner != "" {
			t.Errorf("%v: it has asked for the label", err)
		}
		noErr(t, lease.Unlock(t.Context()))
	}
}
