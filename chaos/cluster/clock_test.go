// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster/clockshim"
	"github.com/redlock-go/redlock/internal/needs"
)

// openClocks opens one master with a clock, or skips the test where there is no compiler.
func openClocks(t *testing.T, driver Driver, p Persistence) *Master {
	t.Helper()
	if err := clockshim.Build(t.Context(), t.TempDir()); errors.Is(err, clockshim.ErrUnavailable) {
		needs.Missing(t, "programs", err.Error())
	}
	return open(t, Config{Driver: driver, Masters: 1, Persistence: p, Clocks: true}).Masters()[0]
}

// reading is what a master says of the time, and the real times before and after it was asked.
type reading struct {
	before, after time.Time
	shown         time.Time
	pttl          time.Duration // of the key "ttl"
}

func read(t *testing.T, m *Master) (r reading) {
	t.Helper()
	must(t, withRedis(t.Context(), m.Addr(), func(c *redis.Client) (err error) {
		r.before = time.Now()
		pipe := c.TxPipeline()
		shown, pttl := pipe.Time(t.Context()), pipe.PTTL(t.Context(), "ttl")
		_, err = pipe.Exec(t.Context())
		r.after = time.Now()
		r.shown, r.pttl = shown.Val(), pttl.Val()
		return err
	}))
	return r
}

// wantAhead checks that both TIME and the remaining TTL are between lo and hi ahead of the real time since start.
func wantAhead(t *testing.T, what string, r reading, expiry time.Time, lo, hi time.Duration) {
	t.Helper()
	const rounding = 2 * time.Millisecond // PTTL counts in ms
	for clock, shown := range map[string]time.Time{"TIME": r.shown, "PTTL": expiry.Add(-r.pttl)} {
		if shown.Before(r.before.Add(lo-rounding)) || shown.After(r.after.Add(hi+rounding)) {
			t.Errorf("%s: by %s the clock is %v ahead, want %v to %v", what, clock, shown.Sub(r.before), lo, hi)
		}
	}
}

func TestMaster_clock_timeAndTTLFollow(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		m := openClocks(t, driver, None)
		expiry := time.Now().Add(10 * time.Minute).Truncate(time.Millisecond)
		must(t, withRedis(t.Context(), m.Addr(), func(c *redis.Client) error {
			err := c.Set(t.Context(), "ttl", "x", 0).Err()
			return errors.Join(err, c.PExpireAt(t.Context(), "ttl", expiry).Err())
		}))
		wantAhead(t, "untouched", read(t, m), expiry, 0, 0)

		for _, offset := range []time.Duration{time.Minute, -time.Minute} {
			must(t, m.StepClock(offset))
			wantAhead(t, fmt.Sprintf("step %v", offset), read(t, m), expiry, offset, offset)
		}
		must(t, m.Kill(t.Context()))
		must(t, m.Start(t.Context()))
		if r := read(t, m); r.shown.After(r.after.Add(-50 * time.Second)) {
			t.Errorf("a restart put the clock right: it shows %v at %v", r.shown, r.after)
		}
		must(t, m.StepClock(0))
		must(t, withRedis(t.Context(), m.Addr(), func(c *redis.Client) error {
			err := c.Set(t.Context(), "ttl", "x", 0).Err()
			return errors.Join(err, c.PExpireAt(t.Context(), "ttl", expiry).Err())
		}))
		wantAhead(t, "put right", read(t, m), expiry, 0, 0)

		before := time.Now()
		must(t, m.SetRate(2))
		after := time.Now()
		time.Sleep(200 * time.Millisecond) // not for an event: the gain under test is made of time
		r := read(t, m)
		wantAhead(t, "rate 2", r, expiry, r.before.Sub(after), r.after.Sub(before))
		must(t, m.SetRate(1))
		must(t, m.StepClock(0))
		wantAhead(t, "healed", read(t, m), expiry, 0, 0)
		must(t, m.StepClock(10*time.Minute))
		if r := read(t, m); r.pttl >= 0 {
			t.Errorf("the key has %v to live after its time has passed", r.pttl)
		}
	})
}

func TestMaster_stallDisk_holdsRepliesUntilCalledOff(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		m := openClocks(t, driver, Always)
		set(t, m, "before")
		must(t, m.StallDisk(100*time.Millisecond))
		start := time.Now()
		set(t, m, "slow")
		if took := time.Since(start); took < 100*time.Millisecond {
			t.Errorf("a write took %v with a disk stalled by 100ms", took)
		}

		must(t, m.StallDisk(time.Hour))
		done := make(chan error)
		go func() {
			done <- withRedis(t.Context(), m.Addr(), func(c *redis.Client) error { return c.Set(t.Context(), "key", "stalled", 0).Err() })
		}()
		for limit := time.Now().Add(aWhile); answers(t, m, aMoment); { // the write has reached the server once it hangs
			if time.Now().After(limit) {
				t.Fatal("the server answers on a stalled disk")
			}
		}
		must(t, m.StallDisk(0))
		must(t, <-done)
		wantValue(t, m, "stalled")
	})
}

func TestMaster_snapshotOnSlowDisk_hasAllAcknowledged(t *testing.T) {
	needs.Redis(t)
	ctx := t.Context()
	m := openClocks(t, Process, EverySec)
	must(t, m.StallDisk(time.Second))
	// While an fsync is under way in the background, redis-server holds back what it has acknowledged.
	must(t, poll(ctx, func(ctx context.Context) error {
		set(t, m, "early")
		return m.awaitInfo(ctx, "persistence", "aof_pending_bio_fsync:1")
	}))
	set(t, m, "acknowledged")
	must(t, m.Snapshot(ctx))
	must(t, m.StallDisk(0))
	set(t, m, "new")
	must(t, m.RollBack(ctx))
	wantValue(t, m, "acknowledged")
}

func TestMaster_proveClock_libraryNotLoaded_fails(t *testing.T) {
	needs.Redis(t)
	m := open(t, Config{Driver: Process, Masters: 1}).Masters()[0]
	clock, err := clockshim.New(t.TempDir())
	must(t, err)
	m.clock = clock
	if err := m.proveClock(t.Context()); err == nil || !strings.Contains(err.Error(), "not loaded") {
		t.Fatalf("got %v", err)
	}
}
