// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// A quorum of masters evicts a lock that is held. The record stays, because it has no TTL. Nobody is
// granted the lock on those masters: neither a client that was connected, idle or busy, nor a new
// one.
func TestSim_evictionOnAQuorum_nobodyElseIsGranted(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, b *member){
		"idle": func(*testing.T, *member) { time.Sleep(time.Second) },
		"busy": func(t *testing.T, b *member) {
			for range 20 { // longer than the lane goes without asking
				_, _ = b.Mutex("y").TryLock(t.Context())
				time.Sleep(time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				a, b := c.client(), c.client()
				lease := mustLock(t, a.Mutex("x"))
				wantErr(t, mustLock(t, b.Mutex("warm")).Unlock(t.Context()), nil)
				for _, m := range c.masters[:3] {
					m.Evict("x")
				}
				before(t, b)
				_, err := b.Mutex("x").TryLock(t.Context())
				wantNoLease(t, err)
				if fresh, err := c.masters.Open(t.Context(), nil); err == nil { // else the masters wait already
					_, err = fresh.Mutex("x").TryLock(t.Context())
					wantNoLease(t, err)
					_ = fresh.Close()
				}
				_ = lostAfter(t, lease)
				// The masters vote again when no vote that they may have forgotten counts any more.
				began := time.Now()
				_, err = b.Mutex("x").Lock(t.Context())
				wantErr(t, err, nil)
				if d := time.Since(began); d < 20*time.Second {
					t.Errorf("granted after %v, although the masters may have forgotten more", d)
				}
			})
		})
	}
}

func wantNoLease(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("a second holder")
	}
}

// The vote of an acquire behind which the master says that it has evicted keys does not count, and is released.
func TestSim_evictedSinceTheLastLook_voteIsDropped(t *testing.T) {
	simulateWith(t, 1, func(t *testing.T, c *cluster) {
		c.init(redlock.WithNodeCount(1))
		a := c.client(redlock.WithNodeCount(1))
		time.Sleep(3 * time.Second)
		_ = c.masters[0].Do(func(db *nodetest.DB) { db.SetPX("of somebody else", "", 10_000) })
		c.masters[0].Evict("of somebody else")
		_, err := a.Mutex("x").TryLock(t.Context())
		wantNoLease(t, err)
		wantText(t, err, "evicted")
		time.Sleep(time.Second)
		c.wantVotes("x", "", 1)
		_, err = a.Mutex("x").TryLock(t.Context())
		wantErr(t, err, redlock.ErrRecovering)
		lease, err := a.Mutex("x").Lock(t.Context())
		wantErr(t, err, nil)
		wantErr(t, lease.Unlock(t.Context()), nil)
	})
}

// The policy is changed under connected clients, and put back. Meanwhile the master is not asked for votes,
// and a lease goes on with the other masters.
func TestSim_policyChangedOnALiveMaster_itDoesNotVoteMeanwhile(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		var mu sync.Mutex
		var told []event.Master
		a := c.client(redlock.WithObserver(&event.Observer{Master: func(e event.Master) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
		}}))
		lease := mustLock(t, a.Mutex("held"))
		policy := func(to string) {
			id := c.masters[1].Identity()
			id.Eviction = to
			c.masters[1].SetIdentity(id)
			time.Sleep(8 * time.Second) // an idle client looks every 7.5 s
		}
		policy("volatile-lru")
		x := mustLock(t, a.Mutex("x"))
		if c.masters[1].Holder("x") != "" {
			t.Error("the master was asked for a vote")
		}
		mu.Lock()
		last := told[len(told)-1]
		mu.Unlock()
		if last.Master != "m1" || last.To == event.MasterVotes {
			t.Errorf("the last event is %+v", last)
		}
		wantErr(t, last.Err, node.ErrEviction)
		wantText(t, last.Err, "volatile-lru", "noeviction")
		policy("noeviction")
		wantErr(t, x.Unlock(t.Context()), nil)
		wantErr(t, lease.Err(), nil)
		c.wantVotes("x", mustLock(t, a.Mutex("x")).Holder(), 3) // nothing was evicted, so the master votes at once
		synctest.Wait()
	})
}

// The same on real masters: a quorum gets a policy that evicts, and a limit that it is above, under connected
// clients. Then everything is put back, so that nothing but the count of evicted keys tells of it.
func TestEviction_onLiveMasters_noSecondHolder(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	a := ms.begin()
	b := ms.open()
	held := locked(t, a.Mutex("x"))
	settled(t, held, 3)
	noErr(t, locked(t, b.Mutex("warm")).Unlock(t.Context()))
	time.Sleep(20 * time.Millisecond) // the lane asks at most every 10 ms
	for _, i := range []int{0, 1} {
		for _, set := range [][2]string{{"maxmemory-policy", "volatile-lru"}, {"maxmemory", "1"}} {
			noErr(t, ms.direct[i].ConfigSet(t.Context(), set[0], set[1]).Err())
		}
		soon(t, "the lock is evicted", func() bool { return ms.direct[i].Exists(t.Context(), "x").Val() == 0 })
		if ms.recordState(i) == "" {
			t.Error("the record is evicted too")
		}
		for _, set := range [][2]string{{"maxmemory-policy", "noeviction"}, {"maxmemory", "0"}} {
			noErr(t, ms.direct[i].ConfigSet(t.Context(), set[0], set[1]).Err())
		}
	}
	l, err := b.Mutex("x").TryLock(t.Context())
	if err == nil {
		t.Fatalf("a second holder, with token %d; the first has %d", l.Token(), held.Token())
	}
	if fresh, err := redlock.Open(t.Context(), ms.urls()); err == nil { // else the masters wait already
		_, err = fresh.Mutex("x").TryLock(t.Context())
		wantNoLease(t, err)
		noErr(t, fresh.Close())
	}
	soon(t, "both masters wait", func() bool { return ms.phase(0) == 'R' && ms.phase(1) == 'R' })
	if text := ms.recordState(0); !strings.Contains(text, "+") {
		t.Errorf("the record is not of the data set after the eviction: %s", text)
	}
}
