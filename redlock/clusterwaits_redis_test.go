// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock"
)

// The slot gets another master while a client waits: by a planned failover, whose old master lives on as the replica, and by a move
// of the slot. Neither breaks the client's subscription, and both servers' messages reach it. The new master sees no subscriber, and
// must not pass the client over for one that came later. Then the subscription follows.
func clusterServesInOrder(t *testing.T, s slot) {
	opts := []redlock.Option{redlock.WithTTL(30 * time.Second), redlock.WithNodeCount(1), redlock.WithUnsafeRecoveryOff(), redlock.WithNodeTimeout(time.Second)}
	// A takeover asks no other master, which votes about each master once in two minutes.
	for _, tc := range []struct {
		name    string
		happens func()
		owner   int
	}{
		{"a planned failover", func() { s.Promote(0, "takeover") }, 0},
		{"the slot moves", func() {
			s.Promote(3, "takeover")
			_, finish := s.Migrate(s.tag, 3, 2)
			finish()
		}, 2},
	} {
		name, owner := tc.name, tc.owner
		holder, first := openAt(t, []string{s.URL(s.tag, 1)}, opts...), openAt(t, []string{s.URL(s.tag, 1)}, opts...)
		held := locked(t, holder.Mutex(s.lock("turns")))
		got := waitFor(t.Context(), first.Mutex(s.lock("turns")))
		queued(t, first, s.lock("turns"), 1)
		place, _ := s.firstPlace(s.Owner(s.tag, 1))

		tc.happens()
		_, stamp := s.firstPlace(owner)
		soon(t, name+": the waiter finds the new master", func() bool {
			_, now := s.firstPlace(owner)
			return now != "" && now != stamp
		})
		later := openAt(t, []string{s.URL(s.tag, owner)}, opts...)
		behind := waitFor(t.Context(), later.Mutex(s.lock("turns")))
		queued(t, later, s.lock("turns"), 2)
		_ = held.Unlock(t.Context()) // not confirmed where the slot has to be found again
		select {
		case <-behind:
			t.Fatalf("%s: the lock went to the client that came later", name)
		case o := <-got:
			noErr(t, o.err)
			soon(t, name+": the subscription follows", func() bool {
				n, err := s.Direct[owner].PubSubNumSub(t.Context(), protocol.Wake(place[:36])).Result()
				return err == nil && n[protocol.Wake(place[:36])] == 1
			})
			unlock(t, o.lease)
		}
		unlock(t, inTime(t, behind, 3*time.Second).lease)
		noErr(t, holder.Close())
		noErr(t, first.Close())
		noErr(t, later.Close())
	}
}

// firstPlace is the first place in the queue of the lock turns on server i, and its client's sign of life; empty where there is none.
func (s slot) firstPlace(i int) (place, sign string) {
	places, err := s.Direct[i].ZRange(s.t.Context(), s.queue("turns"), 0, 0).Result()
	if err != nil || len(places) == 0 {
		return "", ""
	}
	sign, _ = s.Direct[i].Get(s.t.Context(), "redlock:alive:{"+s.tag+"}:"+places[0][:36]).Result()
	return places[0], sign
}

// queue is the queue of a lock with the tag.
func (s slot) queue(name string) string { return protocol.NewLock(s.lock(name), protocol.Plain).Queue }
