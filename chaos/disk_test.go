// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/cluster/clockshim"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// disks are three masters with disks of their own, and clients of them.
type disks struct {
	t       testing.TB
	masters []*cluster.Master
	looks   []*redis.Client
}

func openDisks(t testing.TB, p cluster.Persistence) *disks {
	t.Helper()
	c, err := cluster.Open(t.Context(), cluster.Config{Driver: cluster.Process, Masters: 3, Persistence: p, Clocks: true})
	if errors.Is(err, clockshim.ErrUnavailable) {
		needs.Missing(t, "programs", err.Error())
	}
	d := &disks{t: t}
	d.must(err)
	t.Cleanup(func() { d.must(c.Close()) })
	d.masters = c.Masters()
	for _, m := range d.masters {
		look := redis.NewClient(&redis.Options{Addr: m.Addr()})
		t.Cleanup(func() { _ = look.Close() })
		d.looks = append(d.looks, look)
	}
	return d
}

func (d *disks) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *disks) urls() (urls []string) {
	for _, m := range d.masters {
		urls = append(urls, "redis://"+m.Addr())
	}
	return urls
}

// init lets the masters begin.
func (d *disks) init(opts ...redlock.Option) {
	d.t.Helper()
	d.must(admin.Init(d.t.Context(), admin.List{URLs: d.urls(), Options: opts}, nil, admin.NothingWasEverLocked))
}

func (d *disks) client(opts ...redlock.Option) *redlock.Client {
	d.t.Helper()
	c, err := redlock.Open(d.t.Context(), d.urls(), append(opts, redlock.WithNodeTimeout(time.Second))...)
	d.must(err)
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (d *disks) stall(by time.Duration) {
	d.t.Helper()
	for _, m := range d.masters {
		d.must(m.StallDisk(by))
	}
}

// killStalled kills all masters while their disks stall, and starts them on good ones.
func (d *disks) killStalled() {
	d.t.Helper()
	for _, m := range d.masters {
		d.must(m.Kill(d.t.Context()))
	}
	d.stall(0)
	var g errgroup.Group // a start takes a while on a busy machine, and a lease goes on
	for _, m := range d.masters {
		g.Go(func() error { return m.Start(d.t.Context()) })
	}
	d.must(g.Wait())
}

func (d *disks) votes(lock string) (n int) {
	d.t.Helper()
	for _, look := range d.looks {
		there, err := look.Exists(d.t.Context(), lock).Result()
		d.must(err)
		n += int(there)
	}
	return n
}

func (d *disks) soon(what string, ok func() bool) {
	d.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("not within 30s: %s", what)
		}
	}
}

// docs/safety.md A8. With an fsync each second a master grants votes that are on no
// disk yet. All three forget one; nobody else gets the lock before its lease is over.
func TestStalledDisk_everysecKilled_forgetsVotesAndWaits(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	t.Parallel()
	// What a master writes reaches the file after one second at the least, and a start takes a part of the TTL.
	stall.Try(t, 500*time.Millisecond, func(try testing.TB) { forgetsVotesAndWaits(t, try) })
}

func forgetsVotesAndWaits(t *testing.T, try testing.TB) {
	d := openDisks(try, cluster.EverySec)
	const ttl = 8 * time.Second // longer than three starts on a busy machine
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl), redlock.WithoutRenewal()}
	d.init(opts...)
	c, other := d.client(opts...), d.client(opts...)
	d.stall(time.Hour)
	// While an fsync is under way in the background, what comes next waits in memory, for
	// two seconds at most.
	d.soon("their fsyncs are stalled", func() bool {
		stalled := 0
		for _, look := range d.looks {
			d.must(look.Set(try.Context(), "early", "x", 0).Err())
			info, err := look.Info(try.Context(), "persistence").Result()
			d.must(err)
			if strings.Contains(info, "aof_pending_bio_fsync:1") {
				stalled++
			}
		}
		return stalled == len(d.looks)
	})
	held, err := c.Mutex("held").Lock(try.Context())
	d.must(err)
	d.soon("all have voted", func() bool { return d.votes("held") == 3 })
	d.killStalled()
	if n := d.votes("held"); n > 1 {
		try.Fatalf("%d votes survived, so nothing is shown", n)
	}
	refused := 0
	for held.Err() == nil {
		next, err := other.Mutex("held").TryLock(try.Context())
		switch {
		case err == nil && held.Err() == nil:
			t.Errorf("%s has it while %s does, until %v", next.Holder(), held.Holder(), held.ValidUntil())
			return
		case errors.Is(err, redlock.ErrRecovering):
			refused++
		}
		time.Sleep(time.Millisecond)
	}
	if refused == 0 {
		try.Error("nobody was told that the masters recover")
	}
	next, err := other.Mutex("held").Lock(try.Context())
	d.must(err)
	if next.Token() <= held.Token() {
		t.Errorf("token %d after %d", next.Token(), held.Token())
	}
}

// With an fsync before each reply nothing is granted that a kill could undo, and nothing
// is forgotten: a lease that is held outlives a restart of all masters at once, while they
// wait.
func TestStalledDisk_alwaysKilled_grantsNothingAndForgetsNothing(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	t.Parallel()
	stall.Try(t, 500*time.Millisecond, func(try testing.TB) { grantsNothingAndForgetsNothing(t, try) })
}

func grantsNothingAndForgetsNothing(t *testing.T, try testing.TB) {
	d := openDisks(try, cluster.Always)
	const ttl = 8 * time.Second // longer than three starts on a busy machine
	opts := []redlock.Option{redlock.WithTTL(ttl), redlock.WithMaxTTL(ttl)}
	d.init(opts...)
	c, other := d.client(opts...), d.client(opts...)
	held, err := c.Mutex("held").Lock(try.Context())
	d.must(err)
	d.soon("all have voted", func() bool { return d.votes("held") == 3 })
	d.stall(time.Hour)
	switch late, err := c.Mutex("late").TryLock(try.Context()); {
	case err == nil:
		t.Errorf("got %v from disks that do not answer", late)
	case !errors.Is(err, redlock.ErrUnreachable):
		try.Fatalf("got %v from disks that do not answer", err)
	}
	d.killStalled()
	inTime := func() testing.TB { // no stall excuses what is wrong while the lease lasts
		if held.Err() == nil {
			return t
		}
		return try
	}
	if n := d.votes("held"); n != 3 {
		inTime().Errorf("%d of 3 votes survived", n)
	}
	d.soon("the lease lives", func() bool { return held.Extend(try.Context()) == nil })
	d.soon("votes are had again", func() bool {
		_, err := other.Mutex("held").TryLock(try.Context())
		if err == nil {
			inTime().Error("a second holder")
			return true
		}
		return errors.Is(err, redlock.ErrHeld)
	})
	d.must(held.Err())
	d.soon("what was not granted is not held", func() bool {
		late, err := other.Mutex("late").TryLock(context.Background())
		if err == nil {
			d.must(late.Unlock(context.Background()))
		}
		return err == nil
	})
}
