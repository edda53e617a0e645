// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// whole is a whole cluster as the quorum: vote i is the slot of tags[i], on server i.
type whole struct {
	slot
	url  string
	tags []string
}

func (w *whole) open(t testing.TB, opts ...redlock.Option) (*redlock.Client, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := redlock.OpenCluster(ctx, w.url, slices.Concat(clusterOpts, opts)...)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func (w *whole) mustOpen(t testing.TB, opts ...redlock.Option) *redlock.Client {
	t.Helper()
	c, err := w.open(t, opts...)
	noErr(t, err)
	return c
}

// wholeOf is the cluster of s as the quorum.
func wholeOf(t *testing.T, s slot) *whole {
	w := &whole{slot: s, url: fmt.Sprintf("redis-cluster://%s,%s", s.Servers[1].Addr(), s.Servers[2].Addr())}
	urls, err := redlock.ClusterURLs(w.url)
	noErr(t, err)
	for i, u := range urls {
		parsed, err := url.Parse(strings.Replace(u, ",", "-", 1))
		noErr(t, err)
		w.tags = append(w.tags, parsed.Query().Get("tag"))
		if on := s.Owner(w.tags[i], 1); on != i {
			t.Fatalf("vote %d is on server %d", i, on)
		}
	}
	return w
}

// clusterWhole has every master of the cluster be one vote.
func clusterWhole(t *testing.T, s slot) {
	w := wholeOf(t, s)
	urls, err := redlock.ClusterURLs(w.url)
	noErr(t, err)
	if _, err := redlock.Open(t.Context(), urls, clusterOpts...); err == nil {
		t.Fatal("Open took slots of several tags, whose locks would have other names")
	}
	initAt(t, urls, clusterOpts...)
	w.excludes(t)
	w.countsAHandOnce(t)
	w.hasEveryFeature(t)
	w.refusesTwoVotesOnOneMaster(t)
}

// once runs a part of the test again where the machine held it up: masters have a third of a TTL of two seconds for their answers. What a
// failed try leaves is waited for, since nobody renews it.
func (w *whole) once(t *testing.T, part func(t testing.TB)) {
	t.Helper()
	stall.Try(t, clusterWait/4, part)
}

// Two clients exclude each other, wait for each other, and leave nothing. Each server has keys of its own
// vote only.
func (w *whole) excludes(t *testing.T) {
	told := make(chan string, 1) // a name other than the lock's own
	a, b := w.mustOpen(t, redlock.WithObserver(&event.Observer{Voted: func(e event.Vote) {
		if e.Lock != "books" && e.Lock != "{tag}:lock" {
			select {
			case told <- e.Lock:
			default:
			}
		}
	}})), w.mustOpen(t)
	replay.Each(t, func(t *testing.T, seed uint64) {
		w.once(t, func(try testing.TB) { visits(try, t, seed, "books", quorumtest.Scale(60, 20_000), a, b) })
	})
	w.once(t, func(t testing.TB) { w.shows(t, a, b) })
	select {
	case name := <-told:
		t.Errorf("an Observer is told of a vote for %q", name)
	default:
	}
	_, err := a.Mutex("{redlock.3.0.0}:lock").TryLock(t.Context())
	wantIs(t, err, redlock.ErrConfig)
	wantText(t, err, `begins with "{redlock."`)
}

// shows has b see a lock of a.
func (w *whole) shows(t testing.TB, a, b *redlock.Client) {
	held := locked(t, a.Mutex("{tag}:lock"))
	settled(t, held, 3)
	for i, tag := range w.tags {
		for j := range w.tags {
			if w.has(j, "{"+tag+"}:{tag}:lock") != (i == j) {
				t.Errorf("vote %d, server %d", i, j)
			}
		}
	}
	_, err := b.Mutex("{tag}:lock").TryLock(t.Context())
	wantIs(t, err, redlock.ErrHeld)
	seen, err := b.Inspect(t.Context(), "{tag}:lock")
	noErr(t, err)
	if len(seen.Holders) != 1 || seen.Holders[0].ID != held.Holder() || seen.Name != "{tag}:lock" {
		t.Errorf("inspected: %v", seen)
	}
	var listed []string
	for in, err := range b.Locks(t.Context(), "{tag}:l") {
		noErr(t, err)
		listed = append(listed, in.Name)
	}
	if !slices.Equal(listed, []string{"{tag}:lock"}) {
		t.Errorf("listed %q", listed)
	}
	unlock(t, held)
	soon(t, "nothing is left", func() bool {
		for i := range w.tags {
			if slices.ContainsFunc(w.Keys(i), func(k string) bool {
				return strings.Contains(k, "books") || strings.Contains(k, "lock") && !strings.HasPrefix(k, "redlock:")
			}) {
				return false
			}
		}
		return true
	})
}

// The servers of a cluster pass on what one of them publishes, so a client hears a hand of one vote on its
// connections to all. It counts once: two others have the lock's votes.
func (w *whole) countsAHandOnce(t *testing.T) {
	try := 0
	w.once(t, func(t testing.TB) {
		try++ // a waiter of a failed try may still be in the queue
		w.countsAHandFor(t, fmt.Sprint("handed", try))
	})
}

func (w *whole) countsAHandFor(t testing.TB, name string) {
	a, b := w.mustOpen(t), w.mustOpen(t)
	held := locked(t, a.Mutex(name))
	settled(t, held, 3)
	got := waitFor(t.Context(), b.Mutex(name))
	queued(t, b, name, 1)
	key := "{" + w.tags[0] + "}:" + name
	soon(t, "it is in every queue", func() bool { return w.Direct[0].ZCard(t.Context(), "redlock:queue::"+key).Val() == 1 })
	places, err := w.Direct[0].ZRange(t.Context(), "redlock:queue::"+key, 0, -1).Result()
	noErr(t, err)
	if len(places) != 1 {
		t.Fatalf("places %q", places)
	}
	holder, _ := protocol.ParsePlace(places[0])
	state, err := w.Direct[0].HGet(t.Context(), protocol.Namespace("").Record(w.tags[0]), membership.FieldState).Result()
	noErr(t, err)
	stamp, err := w.Direct[0].Get(t.Context(), "redlock:alive:{"+w.tags[0]+"}:"+holder[:36]).Result()
	noErr(t, err)
	hand := strings.Join([]string{key, holder, fmt.Sprint(held.Token() + 1), stamp, "2000", state}, "\x00")
	noErr(t, w.Direct[0].Publish(t.Context(), protocol.Wake(holder[:36]), hand).Err())
	select {
	case o := <-got:
		t.Fatalf("one hand gave the lock: %v %v", o.lease.Holder(), o.err)
	case <-time.After(100 * time.Millisecond): // a message takes less than one
	}
	noErr(t, held.Err())
	unlock(t, held)
	unlock(t, inTime(t, got, 3*time.Second).lease)
}

// A slot that moves to the master of another vote has no vote there, until it is on a master of its own
// again.
func (w *whole) refusesTwoVotesOnOneMaster(t *testing.T) {
	c := w.mustOpen(t)
	var before *redlock.Lease
	w.once(t, func(t testing.TB) {
		before = locked(t, c.Mutex("before"))
		settled(t, before, 3)
		unlock(t, before)
	})
	_, finish := w.Migrate(w.tags[0], 0, 1)
	finish()
	w.once(t, func(try testing.TB) {
		for range 3 {
			l := locked(try, c.Mutex("moved"))
			time.Sleep(50 * time.Millisecond) // for a vote that there must not be
			if n := redlock.CountedVotes(l); n > 2 || w.has(1, "{"+w.tags[0]+"}:moved") {
				t.Errorf("%d votes on two masters", n)
			}
			unlock(try, l)
		}
	})
	_, err := w.open(t)
	wantIs(t, err, redlock.ErrConfig)
	wantText(t, err, "one master of the cluster has the slots of two votes", w.tags[0])

	// The slots change places: both are on masters of their own.
	_, finish = w.Migrate(w.tags[1], 1, 0)
	finish()
	soon(t, "both vote again", func() bool { return w.votes(t, c) == 3 })
	w.mustOpen(t)
	w.once(t, func(try testing.TB) {
		after := locked(try, c.Mutex("before"))
		if after.Token() <= before.Token() {
			t.Errorf("token %d after %d", after.Token(), before.Token())
		}
		unlock(try, after)
	})
}

// votes is how many votes a lock gets.
func (w *whole) votes(t *testing.T, c *redlock.Client) int {
	l, err := c.Mutex("probe").Lock(t.Context())
	if err != nil {
		return 0
	}
	defer func() { _ = l.Unlock(context.Background()) }()
	within(50*time.Millisecond, func() bool { return redlock.CountedVotes(l) == 3 })
	return redlock.CountedVotes(l)
}
