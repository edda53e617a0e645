// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// opening opens a client whose messages to and from some masters take this long in the first moments.
func (c *cluster) opening(trip, first time.Duration, masters []int, opts ...redlock.Option) *member {
	c.t.Helper()
	start := time.Now()
	m, err := c.masters.Open(c.t.Context(), func(m *simtest.Client) {
		for _, i := range masters {
			m.Ways[i].SetFault(func(cmd nodetest.Command) nodetest.Fault {
				if d := time.Since(start); cmd.Name != "dial" && d < first {
					return nodetest.Fault{Delay: trip / 2, ReplyDelay: trip / 2}
				}
				return nodetest.Fault{}
			})
		}
	}, opts...)
	wantErr(c.t, err, nil)
	c.t.Cleanup(func() { _ = m.Close() })
	return &member{m}
}

// Issue 25, 8: messages take 200 ms while a client opens, longer than it waits for an answer. Open returns when a quorum was seen to
// vote, so a lock that is free is had at once, and not at the next look of an idle client, 7 s later.
func TestSim_open_slowAtFirst_locksAtOnce(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		for _, first := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second} {
			start := time.Now()
			m := c.opening(200*time.Millisecond, first, []int{0, 1, 2})
			opened := time.Since(start)
			wantErr(t, mustLock(t, m.Mutex("free")).Unlock(t.Context()), nil)
			if opened > first+time.Second {
				t.Errorf("slow for %v: opened after %v", first, opened)
			}
		}
	})
}

// Issue 25, 14: all masters are restarted, and a client that is in use will recover them as soon as it has looked. A program that starts
// in that moment waits for that, and calls no operator. Nor does status.
func TestSim_open_allRestartedAndAClientLives_noOperatorIsCalled(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		a := c.client()
		wantErr(t, mustLock(t, a.Mutex("x")).Unlock(t.Context()), nil)
		var inUse sync.WaitGroup
		defer inUse.Wait()
		slow := func(name string) { // the client that lives is connected again some tenths of a second later
			for i := range c.masters {
				a.Ways[i].SetFault(func(cmd nodetest.Command) nodetest.Fault { return nodetest.Fault{Cut: true} })
				a.Ways[i].Cut()
				c.masters[i].Restart()
			}
			time.AfterFunc(500*time.Millisecond, a.heal)
			inUse.Go(func() {
				for range 20 {
					_, _ = a.Mutex("y").TryLock(t.Context())
					time.Sleep(100 * time.Millisecond)
				}
			})
			t.Log(name)
		}
		slow("open")
		m, err := c.masters.Open(t.Context(), nil)
		wantErr(t, err, nil)
		_, err = m.Mutex("x").TryLock(t.Context())
		wantErr(t, err, redlock.ErrRecovering)
		wantErr(t, m.Close(), nil)
		time.Sleep(40 * time.Second) // they vote again
		wantErr(t, mustLock(t, a.Mutex("x")).Unlock(t.Context()), nil)
		slow("status")
		clk := clock.Monotonic()
		list := admin.List{Options: []redlock.Option{redlock.WithClock(clk)}}
		for _, m := range c.masters {
			n := m.Node(node.Config{Clock: clk})
			defer n.Close()
			list.Nodes = append(list.Nodes, n)
		}
		if s, err := admin.ReadStatus(t.Context(), list); err != nil || s.Standing != admin.TooFewVote {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// With nobody who vouches the operator is called, a second later.
func TestSim_open_allRestarted_operatorIsCalled(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		for _, m := range c.masters {
			m.Restart()
		}
		start := time.Now()
		_, err := c.masters.Open(t.Context(), nil)
		wantErr(t, err, redlock.ErrNeedsInit)
		if d := time.Since(start); d < time.Second || d > 1500*time.Millisecond {
			t.Errorf("called after %v", d)
		}
		for _, within := range []time.Duration{90 * time.Millisecond, 100 * time.Millisecond} { // between two looks, and at one
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err = c.masters.Open(ctx, nil)
			wantErr(t, err, redlock.ErrNeedsInit)
		}
	})
}

// A quorum has answered, and Open waits all the same: for an operator, or for records that come late. The logger says so, and goes on.
func TestWithLogger_openWaitsForMoreThanAnswers_saysWhyAndGoesOn(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		var out syncBuffer
		logger := redlock.WithLogger(slog.New(slog.NewTextHandler(&out, nil)))
		_, err := c.masters.Open(t.Context(), nil, logger)
		wantErr(t, err, redlock.ErrNeedsInit)
		if text := out.String(); strings.Contains(text, "panicked") || !strings.Contains(text, "quorum=2 why=") || !strings.Contains(text, "an operator's word") {
			t.Errorf("nobody has initialized the masters: %s", text)
		}
	})
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		var out syncBuffer
		logger := redlock.WithLogger(slog.New(slog.NewTextHandler(&out, nil)))
		for _, first := range []time.Duration{500 * time.Millisecond, 3 * time.Second} {
			a := c.opening(200*time.Millisecond, first, []int{0, 1, 2}, logger)
			if n := a.Stats().Panics; n != 0 {
				t.Errorf("slow for %v: %d panics", first, n)
			}
			wantErr(t, a.Close(), nil)
		}
		if text := out.String(); !strings.Contains(text, "have not been read in time") {
			t.Errorf("records come late: %s", text)
		}
		a := c.opening(200*time.Millisecond, 500*time.Millisecond, []int{0, 1, 2}, logger)
		c.masters[0].Crash()
		time.Sleep(10 * time.Second)
		if text := out.String(); a.Stats().Panics != 0 || !strings.Contains(text, "a master is down") {
			t.Errorf("%d panics: %s", a.Stats().Panics, text)
		}
	})
}

// The masters greet, and their records do not come in the caller's time.
func TestSim_open_recordsUnreadInTime_namesThem(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		open := func(ctx context.Context) error {
			return second(c.masters.Open(ctx, func(m *simtest.Client) {
				for _, way := range m.Ways[1:] {
					greeted := false
					way.SetFault(func(cmd nodetest.Command) (f nodetest.Fault) {
						if cmd.Name == "hgetall" || cmd.Name == "hmget" {
							if greeted {
								f.Delay = time.Hour
							}
							greeted = true
						}
						return f
					})
				}
			}))
		}
		late, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err := open(late)
		wantErr(t, err, redlock.ErrUnreachable)
		wantErr(t, err, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), "before the records of a quorum of 2 were read") {
			t.Error(err)
		}
		for i := range c.masters {
			if name := c.masters[i].Name(); strings.Contains(err.Error(), name) != (i > 0) {
				t.Errorf("master %d, %s: %v", i, name, err)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		if err := open(gone); !errors.Is(err, context.Canceled) || errors.Is(err, redlock.ErrUnreachable) {
			t.Errorf("given up by its caller: %v", err)
		}
	})
}

// New takes the nodes, and not the caller's slice of them: a program that opens one client after the other may use one slice.
func TestNew_callersSlice_isItsOwn(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		nodes := make([]node.Node, 3)
		var clients []*redlock.Client
		for range 2 {
			clk := clock.Monotonic()
			for i, m := range c.masters {
				nodes[i] = m.Node(node.Config{Clock: clk})
			}
			client, err := redlock.New(t.Context(), nodes, redlock.WithUnsafeRecoveryOff(), redlock.WithClock(clk))
			wantErr(t, err, nil)
			clients = append(clients, client)
		}
		clear(nodes)
		wantErr(t, clients[0].Close(), nil)
		lease, err := clients[1].Mutex("x").TryLock(t.Context())
		wantErr(t, err, nil)
		wantErr(t, lease.Unlock(t.Context()), nil)
		wantErr(t, clients[1].Close(), nil)
	})
}

// A node serves one client, or one operation, and none after it was closed: else two clients would take each other's votes for their
// own, and one on closed nodes would wait for masters that nobody dials.
func TestNew_nodesInUseOrClosed_errConfigAtOnce(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		clk := clock.Monotonic()
		opts := []redlock.Option{redlock.WithUnsafeRecoveryOff(), redlock.WithClock(clk)}
		make3 := func() (nodes []node.Node) {
			for _, m := range c.masters {
				nodes = append(nodes, m.Node(node.Config{Clock: clk}))
			}
			return nodes
		}
		inUse, closed := make3(), make3()
		client, err := redlock.New(t.Context(), inUse, opts...)
		wantErr(t, err, nil)
		for _, n := range closed {
			wantErr(t, n.Close(), nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, redlock.ErrConfig) || !strings.Contains(err.Error(), inUse[0].Name()) || !strings.Contains(err.Error(), "node.Open") || ctx.Err() != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err = redlock.New(ctx, inUse, opts...)
		refused("a client's nodes", err)
		_, err = redlock.New(ctx, closed, opts...)
		refused("closed nodes", err)
		_, err = admin.ReadStatus(ctx, admin.List{Nodes: inUse, Options: opts[1:]})
		refused("a client's nodes, for an operation", err)
		lease, err := client.Mutex("x").TryLock(t.Context())
		wantErr(t, err, nil)
		wantErr(t, lease.Unlock(t.Context()), nil)
		wantErr(t, client.Close(), nil)
		_, err = redlock.New(ctx, inUse, opts...)
		refused("nodes that a client has closed", err)
	})
}

// Nodes that are closed while New waits are not masters that may come back.
func TestNew_nodesClosedMeanwhile_errConfigAtOnce(t *testing.T) {
	for name, begin := range map[string]func(ctx context.Context, nodes []node.Node, clk clock.Clock) error{
		"New": func(ctx context.Context, nodes []node.Node, clk clock.Clock) error {
			_, err := redlock.New(ctx, nodes, redlock.WithUnsafeRecoveryOff(), redlock.WithClock(clk))
			return err
		},
		"Init": func(ctx context.Context, nodes []node.Node, clk clock.Clock) error {
			return admin.Init(ctx, admin.List{Nodes: nodes, Options: []redlock.Option{redlock.WithClock(clk)}}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulateWith(t, 3, func(t *testing.T, c *cluster) {
				clk := clock.Monotonic()
				var nodes []node.Node
				for _, m := range c.masters {
					m.Pause()
					defer m.Resume()
					nodes = append(nodes, m.Node(node.Config{Clock: clk}))
				}
				time.AfterFunc(10*time.Millisecond, func() {
					for _, n := range nodes {
						_ = n.Close()
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := begin(ctx, nodes, clk); !errors.Is(err, redlock.ErrConfig) || !errors.Is(err, node.ErrClosed) || ctx.Err() != nil {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
