// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

func TestForceUnlock_held_nextHasItAndTheHolderIsTold(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, operator := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x"))
		got := c.waits()
		start := time.Now()
		wantErr(t, operator.ForceUnlock(t.Context(), "x", lease.Holder()), nil)
		next := <-got
		if took := time.Since(start); took > time.Second {
			t.Errorf("the next had it after %v", took)
		}
		if next.Token() <= lease.Token() {
			t.Errorf("token %d after %d", next.Token(), lease.Token())
		}
		<-lease.Context().Done()
		wantErr(t, context.Cause(lease.Context()), redlock.ErrLost)
		if took := time.Since(start); took > redlock.DefaultTTL/3+time.Second {
			t.Errorf("the holder was told after %v", took)
		}
		time.Sleep(time.Minute)
		c.wantVotes("x", next.Holder(), 5)
		// Once more, with the id of the holder that it had: the next one is not hit.
		wantErr(t, operator.ForceUnlock(t.Context(), "x", lease.Holder()), redlock.ErrNotHolder)
		time.Sleep(time.Minute)
		wantErr(t, next.Err(), nil)
		c.wantVotes("x", next.Holder(), 5)
	})
}

// Two masters were asked for the lock after it was taken away: they have queued the holder, and may hand it their votes. So it is not lost
// before the third has said that the vote is gone, and the first two have said so before.
func TestForceUnlock_lateAcquires_holderIsTold(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, operator := c.client(), c.client()
		a.faultOn("acquire", nodetest.Fault{Delay: 100 * time.Millisecond}, 3, 4)
		lease, err := a.Mutex("x").Lock(t.Context())
		wantErr(t, err, nil)
		wantErr(t, operator.ForceUnlock(t.Context(), "x", lease.Holder()), nil)
		mustLock(t, operator.Mutex("x"))
		time.Sleep(200 * time.Millisecond)
		a.faultOn("extend", nodetest.Fault{Delay: 20 * time.Millisecond}, 2)
		wantErr(t, lease.Extend(t.Context()), redlock.ErrLost)
	})
}

// A top-up that was sent before arrives after. It must not bring the vote back.
func TestForceUnlock_topUpsOnTheirWay_bringNothingBack(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, operator := c.client(redlock.WithTTL(9*time.Second), redlock.WithRenewal(3*time.Second)), c.client()
		lease := mustLock(t, a.Mutex("x"))
		a.faultOn("topup", nodetest.Fault{Delay: 100 * time.Millisecond}, 0, 1)
		for _, m := range c.masters[:2] {
			wantErr(t, m.Do(func(db *nodetest.DB) { db.Del("x") }), nil)
		}
		time.Sleep(3*time.Second + 50*time.Millisecond) // the extend has found two missing
		c.wantVotes("x", lease.Holder(), 3)
		// The top-ups come before the bar. So the release must come behind it.
		operator.faultOn("set", nodetest.Fault{Delay: 70 * time.Millisecond}, 0, 1)
		wantErr(t, operator.ForceUnlock(t.Context(), "x", lease.Holder()), nil)
		for range 30 {
			time.Sleep(time.Second)
			c.wantVotes("x", lease.Holder(), 0)
		}
		wantErr(t, lease.Err(), redlock.ErrLost)
		time.Sleep(time.Minute)
		for _, m := range c.masters {
			wantErr(t, m.Do(func(db *nodetest.DB) {
				if keys := db.Keys(); len(keys) > 1 || len(keys) == 1 && keys[0] != "redlock:node" {
					t.Errorf("left behind: %v", keys)
				}
			}), nil)
		}
	})
}

// Too few masters give the votes up. The holder goes on with those that it has. The others are sent
// the release again, and the end is told.
func TestForceUnlock_tooFewConfirm_saysSo(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, operator := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x"))
		operator.faultOn("release", nodetest.Fault{Lose: nodetest.LoseCommand}, 2, 3, 4)
		start := time.Now()
		err := operator.ForceUnlock(t.Context(), "x", lease.Holder())
		wantErr(t, err, redlock.ErrUnconfirmed)
		wantText(t, err, "2 of the 5", lease.Holder(), "3 must")
		if took := time.Since(start); took > 3*redlock.DefaultNodeTimeout {
			t.Errorf("took %v", took)
		}
		c.wantVotes("x", lease.Holder(), 3)
		time.Sleep(time.Second)
		wantErr(t, lease.Err(), nil)
		for _, way := range operator.Ways {
			way.SetFault(nil)
			way.Cut()
		}
		time.Sleep(20 * time.Second)
		wantErr(t, lease.Err(), redlock.ErrLost)
		c.wantVotes("x", lease.Holder(), 0)

		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		lease = mustLock(t, a.Mutex("x"))
		operator.faultOn("release", nodetest.Fault{Delay: time.Second}, 0, 1, 2, 3, 4)
		err = operator.ForceUnlock(short, "x", lease.Holder())
		wantErr(t, err, redlock.ErrUnconfirmed)
		wantErr(t, err, context.DeadlineExceeded)
	})
}

func TestForceUnlock_whoDoesNotHoldIt_isNotTouched(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		wantErr(t, b.ForceUnlock(t.Context(), "x", "nobody"), redlock.ErrNotHolder)
		lease := mustLock(t, a.Mutex("x"))
		c.hold("stranger", time.Minute, 0, 1)
		err := b.ForceUnlock(t.Context(), "x", "stranger")
		wantErr(t, err, redlock.ErrNotHolder)
		wantText(t, err, `"x"`, "stranger")
		c.wantVotes("x", "stranger", 2)
		c.masters[4].Pause() // the stranger may have a vote here, and so a quorum
		wantErr(t, b.ForceUnlock(t.Context(), "x", "stranger"), redlock.ErrUnconfirmed)
		c.wantVotes("x", "stranger", 0)
		c.masters[3].Pause()
		c.masters[2].Pause()
		wantErr(t, b.ForceUnlock(t.Context(), "x", lease.Holder()), redlock.ErrUnreachable)

		var none *redlock.Client
		for _, tc := range []struct {
			c            *redlock.Client
			ctx          context.Context
			name, holder string
			want         error
		}{
			{b.Client.Client, nil, "x", "h", redlock.ErrConfig},
			{b.Client.Client, t.Context(), "", "h", redlock.ErrConfig},
			{b.Client.Client, t.Context(), "x", "", redlock.ErrConfig},
			{none, t.Context(), "x", "h", redlock.ErrConfig},
			{b.Client.Client, ended(t), "x", "h", context.Canceled},
		} {
			if err := tc.c.ForceUnlock(tc.ctx, tc.name, tc.holder); !errors.Is(err, tc.want) {
				t.Errorf("%q: %v", tc.name, err)
			}
		}
		wantErr(t, b.Close(), nil)
		wantErr(t, b.ForceUnlock(t.Context(), "x", "h"), redlock.ErrClosed)
	})
}

// The same, where whoever has the lock has it rest: its period goes on.
func TestForceUnlock_whoDoesNotHoldIt_restOfTheHolderStays(t *testing.T) {
	for _, unlocked := range []bool{false, true} { // before that
		simulate(t, func(t *testing.T, c *cluster) {
			a, b := c.client(), c.client()
			lease := mustLock(t, a.Mutex("x", redlock.WithMinHold(time.Hour)))
			if unlocked {
				wantErr(t, lease.Unlock(t.Context()), nil)
			}
			c.hold("stranger", time.Minute, 0, 1)
			c.masters[4].Pause()
			wantErr(t, b.ForceUnlock(t.Context(), "x", "stranger"), redlock.ErrUnconfirmed)
			c.masters[4].Resume()
			time.Sleep(time.Second) // a release that is kept for it would have come
			if !unlocked {
				wantErr(t, lease.Unlock(t.Context()), nil)
			}
			_, err := b.Mutex("x").TryLock(t.Context())
			wantErr(t, err, redlock.ErrHeld)
		})
	}
}

// Clients lock, masters pause and lose messages and votes, and an operator forces whom it finds. When
// ForceUnlock has returned nil, that lease is over within a third of its TTL of its holder's time, or
// when its validity ends, and its votes never come back. Tokens grow in the order of the grants.
//
// Two must be forced, or the run shows nothing. In 60 runs of one seed each 12 to 20 were, 17.7 in the mean with a standard deviation of 1.8: fewer than
// two is 8.7 sigma away.
func TestForceUnlock_faults_holderStaysOverAndTokensGrow(t *testing.T) {
	replay.Each(t, forceUnlockUnderFaults)
}

func forceUnlockUnderFaults(t *testing.T, seed uint64) {
	simulate(t, func(t *testing.T, c *cluster) {
		rng := rand.New(rand.NewPCG(seed, 18))
		withRand := inside.WithRand
		const ttl = 3 * time.Second
		operator := c.client(withRand(rand.NewPCG(rng.Uint64(), 1).Uint64))
		ctx, cancel := context.WithCancel(context.Background())
		leases := make(chan *redlock.Lease, 1000)
		const workers = 2
		ended := make(chan struct{}, workers)
		var clients []*member
		for range workers {
			m := c.client(redlock.WithTTL(ttl), withRand(rand.NewPCG(rng.Uint64(), 2).Uint64))
			clients = append(clients, m)
			own := rand.New(rand.NewPCG(rng.Uint64(), 3))
			go func() {
				defer func() { ended <- struct{}{} }()
				for ctx.Err() == nil {
					l, err := m.Mutex("x").Lock(ctx)
					if err != nil {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					leases <- l
					select {
					case <-l.Context().Done():
					case <-time.After(time.Duration(own.IntN(10_000)) * time.Millisecond):
					}
					_ = l.Unlock(context.Background())
					time.Sleep(time.Duration(own.IntN(5000)) * time.Millisecond) // where nobody waits a vote could come back
				}
			}()
		}
		forced, last := 0, int64(0)
		byID := make(map[string]*redlock.Lease)
		for range 20 {
			time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
			switch i := rng.IntN(5); rng.IntN(4) {
			case 0:
				c.masters[i].Pause()
				time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
				c.masters[i].Resume()
			case 1, 2: // its votes are put back there, but late
				for _, m := range clients {
					m.faultOn("topup", nodetest.Fault{Delay: time.Duration(rng.IntN(1000)) * time.Millisecond}, i, (i+1)%5)
				}
				wantErr(t, c.masters[i].Do(func(db *nodetest.DB) { db.Del("x") }), nil)
				wantErr(t, c.masters[(i+1)%5].Do(func(db *nodetest.DB) { db.Del("x") }), nil)
				time.Sleep(ttl/3 + time.Duration(rng.IntN(200))*time.Millisecond)
			case 3:
				clients[rng.IntN(workers)].Ways[i].Cut()
			}
			in, err := operator.Inspect(ctx, "x")
			if err != nil || len(in.Holders) == 0 {
				continue
			}
			id := in.Holders[0].ID
			err = operator.ForceUnlock(ctx, "x", id)
			synctest.Wait()
			for len(leases) > 0 {
				l := <-leases
				if byID[l.Holder()] = l; l.Token() <= last {
					t.Errorf("token %d after %d", l.Token(), last)
				}
				last = l.Token()
			}
			if l := byID[id]; err == nil && l != nil {
				forced++
				for range 30 {
					time.Sleep(ttl / 30)
					if n := c.votes("x", id); n > 0 {
						t.Errorf("%d votes came back", n)
						break
					}
				}
				if l.Err() == nil {
					t.Errorf("the lease with token %d goes on", l.Token())
				}
			}
		}
		cancel()
		for range workers {
			<-ended
		}
		t.Logf("%d were forced", forced)
		if forced < 2 {
			t.Errorf("only %d were forced", forced)
		}
	})
}

// On real servers: a writer, a reader beside another, and a lock that was re-entered.
func TestForceUnlock_realMasters_everyKind(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin(redlock.WithRenewal(500 * time.Millisecond)) // by which a holder is told
	ctx := t.Context()
	rw := c.RWMutex("rw")
	force := func(name string, l *redlock.Lease) {
		t.Helper()
		settled(t, l, 3)
		noErr(t, c.ForceUnlock(ctx, name, l.Holder()))
		soon(t, fmt.Sprintf("%s: the holder is told", name), func() bool { return errors.Is(l.Err(), redlock.ErrLost) })
	}
	writer := locked(t, rw)
	force("rw", writer)
	one, err := rw.RLock(ctx)
	noErr(t, err)
	two, err := rw.RLock(ctx)
	noErr(t, err)
	settled(t, two, 3)
	force("rw", one)
	noErr(t, two.Extend(ctx))
	noErr(t, two.Unlock(ctx))
	outer := locked(t, c.Mutex("m", redlock.WithReentry()))
	_, err = c.Mutex("m", redlock.WithReentry()).Lock(outer.Context())
	noErr(t, err)
	force("m", outer)
	next := locked(t, c.Mutex("m"))
	if next.Token() <= outer.Token() {
		t.Errorf("token %d after %d", next.Token(), outer.Token())
	}
	noErr(t, next.Unlock(ctx))
	ms.givenBack("m", "rw", "{rw}*")
	for _, d := range ms.direct {
		for _, key := range d.Keys(ctx, "redlock:barred:*").Val() {
			if left := d.PTTL(ctx, key).Val(); left <= 0 || left > 3*redlock.DefaultMaxTTL {
				t.Errorf("%s lives for %v", key, left)
			}
		}
	}
}
