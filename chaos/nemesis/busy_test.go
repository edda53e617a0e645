// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// server starts a redis-server of the test's own, and returns it with a connection whose commands have so long.
func server(t testing.TB, limit time.Duration) (*localredis.Server, *redis.Client) {
	t.Helper()
	s, err := localredis.Start(t.Context(), localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ReadTimeout: limit})
	t.Cleanup(func() {
		_ = c.Close()
		_ = s.Close()
	})
	return s, c
}

func setting(t testing.TB, c *redis.Client) string {
	t.Helper()
	got, err := c.ConfigGet(t.Context(), busySetting).Result()
	if err != nil {
		t.Errorf("read %s: %v", busySetting, err)
	}
	return got[busySetting]
}

// A busy script is seen: the server answers BUSY while it runs. Afterwards the server works, with the setting that it had.
func TestKeepBusy_realServer_answersBUSYAndRecovers(t *testing.T) {
	needs.Redis(t)
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) { // BUSY must come within a second
		_, c := server(t, 5*time.Second)
		before := setting(t, c)
		s := &strike{ctx: t.Context(), target: &Target{TTL: 100 * time.Millisecond}, rand: rand.New(rand.NewPCG(1, 1))}
		if err := s.keepBusy(t.Context(), c); err != nil {
			t.Error(err)
		}
		if s.end(); s.unhealed != nil {
			t.Error(s.unhealed)
		}
		if after := setting(t, c); after != before {
			t.Errorf("%s is %q, was %q", busySetting, after, before)
		}
	})
}

// A server that does not answer when the script is to be killed is told so again: else it is busy for ever.
func TestKeepBusy_silentWhenTheScriptIsKilled_recovers(t *testing.T) {
	needs.Redis(t)
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		const limit = 300 * time.Millisecond
		r, look := server(t, 5*time.Second)
		before := setting(t, look)
		o := *look.Options()
		o.ReadTimeout = limit
		c := redis.NewClient(&o)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &strike{ctx: ctx, target: &Target{TTL: time.Hour}, rand: rand.New(rand.NewPCG(1, 1))}
		began := make(chan error, 1)
		go func() { began <- s.keepBusy(ctx, c) }()
		if err := awaitBusy(ctx, look); err != nil {
			t.Error(err)
		}
		if err := r.Pause(); err != nil {
			t.Fatal(err)
		}
		resumed := make(chan error, 1)
		time.AfterFunc(2*limit, func() { resumed <- r.Resume() })
		cancel()
		<-began       // it may not have seen BUSY itself by now
		_ = c.Close() // as Admin does
		s.end()
		if err := errors.Join(s.unhealed, <-resumed); err != nil {
			t.Error(err)
		}
		if after := setting(t, look); after != before {
			t.Errorf("%s is %q, was %q", busySetting, after, before)
		}
	})
}

// A harness that is killed heals nothing: the script ends by itself, and the server then puts its setting back.
func TestKeepBusy_harnessIsKilled_serverRecoversByItself(t *testing.T) {
	needs.Test(t)
	needs.Redis(t)
	defer func(turns float64) { busyTurns = turns }(busyTurns)
	busyTurns = 3e8
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) { // BUSY must come within a second
		_, c := server(t, 5*time.Second)
		before := setting(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := &strike{ctx: ctx, target: &Target{TTL: 100 * time.Millisecond}, rand: rand.New(rand.NewPCG(1, 1))}
		if err := s.keepBusy(ctx, c); err != nil {
			t.Error(err)
		}
		if err := until(ctx, func() error { return c.Ping(ctx).Err() }); err != nil {
			t.Errorf("it is busy for ever: %v", err)
		} else if after := setting(t, c); after != before {
			t.Errorf("%s is %q, was %q", busySetting, after, before)
		}
		if s.end(); s.unhealed != nil {
			t.Error(s.unhealed)
		}
	})
}

// A script that does not make the server busy shows nothing, so the fault does not count.
func TestAwaitBusy_serverAnswers_error(t *testing.T) {
	needs.Redis(t)
	_, c := server(t, 5*time.Second)
	if err := awaitBusy(t.Context(), c); err == nil {
		t.Error("a server that answers counted as busy")
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := awaitBusy(stopped, c); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the end of the run: %v", err)
	}
}

// A pause cannot be ended before its time, so the fault lasts until the server answers: also when the run ends.
func TestPauseClients_serverPaused_lastsUntilItAnswers(t *testing.T) {
	needs.Redis(t)
	stall.Try(t, 100*time.Millisecond, func(t testing.TB) {
		_, c := server(t, 5*time.Second)
		s := &strike{ctx: t.Context(), target: &Target{TTL: 600 * time.Millisecond}, rand: rand.New(rand.NewPCG(3, 3))}
		before := time.Now()
		if err := s.pauseClients(t.Context(), c); err != nil {
			t.Error(err)
		}
		s.end()
		lasted := time.Since(before)
		ended := time.Now()
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
		if still := time.Since(ended); still > 100*time.Millisecond {
			t.Errorf("the fault was over after %v, and the server was paused for %v more", lasted, still)
		}
	})
}
