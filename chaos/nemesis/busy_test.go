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
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// server returns a connection to a redis-server of the test's own.
func server(t *testing.T) *redis.Client {
	t.Helper()
	needs.Redis(t)
	s, err := localredis.Start(t.Context(), localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ReadTimeout: time.Second})
	t.Cleanup(func() {
		_ = c.Close()
		_ = s.Close()
	})
	return c
}

// A busy script is seen: the server answers BUSY while it runs. Afterwards the server works, with the setting that it had.
func TestKeepBusy_realServer_answersBUSYAndRecovers(t *testing.T) {
	c := server(t)
	before, err := c.ConfigGet(t.Context(), busySetting).Result()
	if err != nil {
		t.Fatal(err)
	}
	s := &strike{ctx: t.Context(), target: &Target{TTL: 100 * time.Millisecond}, rand: rand.New(rand.NewPCG(1, 1))}
	if err := s.keepBusy(t.Context(), c); err != nil {
		t.Error(err)
	}
	after, err := c.ConfigGet(t.Context(), busySetting).Result()
	if err != nil || after[busySetting] != before[busySetting] {
		t.Errorf("%s is %q, was %q, error %v", busySetting, after[busySetting], before[busySetting], err)
	}
}

// A script that does not make the server busy shows nothing, so the fault does not count.
func TestAwaitBusy_serverAnswers_error(t *testing.T) {
	c := server(t)
	if err := awaitBusy(t.Context(), c); err == nil {
		t.Error("a server that answers counted as busy")
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := awaitBusy(stopped, c); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the end of the run: %v", err)
	}
}
