// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

// A program that starts in an outage waits, logs which masters it waits for, and goes on when the
// masters are back.
func TestOpen_outage_waitsForAQuorum(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	for _, s := range ms.servers[:2] {
		noErr(t, s.Kill())
	}
	var log syncBuffer
	opened := make(chan error, 1)
	go func() {
		c, err := redlock.Open(t.Context(), ms.urls(), patient, redlock.WithUnsafeRecoveryOff(),
			redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err == nil {
			var l *redlock.Lease
			if l, err = c.Mutex("outage").Lock(t.Context()); err == nil {
				err = l.Unlock(t.Context())
			}
			_ = c.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("opened without a quorum: %v", err)
	case <-time.After(1500 * time.Millisecond):
	}
	noErr(t, ms.servers[1].Restart(t.Context()))
	select {
	case err := <-opened:
		noErr(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("it is not opened although a quorum is back")
	}
	if n := strings.Count(log.String(), "waits for a quorum"); n != 1 {
		t.Errorf("%d lines in the log that it waits, want 1", n)
	}
	for _, want := range []string{"waits for a quorum", ms.servers[0].Addr(), "answered=1", "quorum=2"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, log.String())
		}
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestOpen_contextEndsFirst_namesWhoDidNotAnswer(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 2*time.Second, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		noErr(t, ms.servers[0].Kill())  // refuses connections
		noErr(t, ms.servers[1].Pause()) // accepts them and says nothing
		noErr(t, ms.servers[2].Pause())
		shutdown := errors.New("shutting down")
		gaveUp := func(ctx context.Context, within time.Duration, want ...error) {
			t.Helper()
			start := time.Now()
			var nodes []node.Node
			for _, u := range ms.urls() {
				n, err := node.Open(u, node.Config{})
				noErr(t, err)
				defer n.Close()
				nodes = append(nodes, n)
			}
			_, newErr := redlock.New(ctx, nodes, redlock.WithUnsafeRecoveryOff())
			_, openErr := redlock.Open(ctx, ms.urls(), redlock.WithUnsafeRecoveryOff())
			if d := time.Since(start); d > within {
				t.Errorf("it took %v to give up", d)
			}
			for _, err := range []error{newErr, openErr} {
				for _, w := range append(want, redlock.ErrUnreachable) {
					wantIs(t, err, w)
				}
				wantText(t, err, "quorum is 3", ms.servers[0].Addr(), ms.servers[1].Addr(), ms.servers[2].Addr())
				for _, not := range []error{redlock.ErrHeld, redlock.ErrConfig, redlock.ErrRefused} {
					if errors.Is(err, not) {
						t.Errorf("%v is %v", err, not)
					}
				}
			}
			if strings.Contains(newErr.Error(), ms.servers[4].Addr()) {
				t.Errorf("%v names one that answered", newErr)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		gaveUp(ctx, 3*time.Second, context.DeadlineExceeded)
		stopped, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(300*time.Millisecond, func() { stop(shutdown) })
		gaveUp(stopped, 3*time.Second, context.Canceled, shutdown)
	})
}

// If a quorum has answered, Open succeeds when the deadline passes, and fails when ctx is cancelled.
func TestOpen_contextEndsWithAQuorum(t *testing.T) {
	t.Parallel()
	stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		noErr(t, ms.servers[0].Pause())
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		start := time.Now()
		c, err := redlock.Open(ctx, ms.urls(), redlock.WithUnsafeRecoveryOff())
		noErr(t, err)
		if d := time.Since(start); d > 900*time.Millisecond { // a dial takes a second
			t.Errorf("Open took %v", d)
		}
		noErr(t, locked(t, c.Mutex("deadline")).Unlock(t.Context()))
		noErr(t, c.Close())

		gone, stop := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, stop)
		_, err = redlock.Open(gone, ms.urls(), redlock.WithUnsafeRecoveryOff())
		wantIs(t, err, context.Canceled)
		if errors.Is(err, redlock.ErrUnreachable) {
			t.Errorf("%v, although a quorum answered", err)
		}
	})
}

// Open returns an error that waiting cannot cure at once, even if only some masters of an outage
// report it.
func TestOpen_outage_whatWaitingCannotMendComesAtOnce(t *testing.T) {
	t.Parallel()
	stall.Try(t, 2*time.Second, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		noErr(t, ms.begin(redlock.WithMaxTTL(20*time.Second)).Close())
		urls := ms.urls()
		denied := func(n int) (of []string) {
			for i, u := range urls {
				if i < n {
					u = strings.Replace(u, "redis://", "redis://nobody:wrong@", 1)
				}
				of = append(of, u)
			}
			return of
		}
		atOnce := func(urls []string, want error, opts ...redlock.Option) {
			t.Helper()
			start := time.Now()
			_, err := redlock.Open(t.Context(), urls, opts...)
			wantIs(t, err, want)
			if d := time.Since(start); d > 4*time.Second {
				t.Errorf("%v took %v", err, d)
			}
		}
		atOnce(denied(2), redlock.ErrRefused)
		c, err := redlock.Open(t.Context(), denied(1), redlock.WithMaxTTL(20*time.Second))
		noErr(t, err)
		noErr(t, c.Close())
		noErr(t, ms.servers[2].Kill())
		for _, i := range []int{0, 1} {
			noErr(t, ms.direct[i].ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
		}
		atOnce(urls, redlock.ErrConfig)
		atOnce(urls, node.ErrEviction)
		noErr(t, ms.direct[0].ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
		noErr(t, ms.servers[1].Kill())
		var epoch *redlock.EpochError
		_, err = redlock.Open(t.Context(), urls, redlock.WithMaxTTL(25*time.Second))
		if !errors.As(err, &epoch) {
			t.Errorf("%v, want an EpochError", err)
		}
		wantNotConfig(t, err)
		atOnce(urls, redlock.ErrConfig, redlock.WithTTL(-1))
		var none context.Context
		for _, err := range []error{second(redlock.Open(none, urls)), second(redlock.New(none, nil))} {
			wantIs(t, err, redlock.ErrConfig)
			wantText(t, err, "nil context")
		}
	})
}
