// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/logline"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// heldFor lets another client have a lock for so long.
func (c *cluster) heldFor(name string, d time.Duration) {
	lease := mustLock(c.t, c.client().Mutex(name, redlock.WithTTL(redlock.DefaultMaxTTL)))
	time.AfterFunc(d, func() { wantErr(c.t, lease.Unlock(context.Background()), nil) })
}

func (c *cluster) all(do func(i int)) {
	for i := range c.masters {
		do(i)
	}
}

// forget has all masters lose their data, so long after their last vote that an operator must act.
func (c *cluster) forget() {
	c.all(func(i int) { c.masters[i].Pause() })
	time.Sleep(2 * time.Minute)
	c.all(func(i int) { c.masters[i].Flush(); c.masters[i].Restart(); c.masters[i].Resume() })
}

// Scenes in which the lines are logged, for each line one. a is a client with a logger.
var logScenes = map[string]func(t *testing.T, c *cluster, a *member, log slog.Handler){
	"opening waits for a quorum of masters": func(t *testing.T, c *cluster, _ *member, log slog.Handler) {
		c.all(func(i int) { c.masters[i].Pause() })
		time.AfterFunc(3*time.Second, func() { c.all(func(i int) { c.masters[i].Resume() }) })
		c.client(redlock.WithLogger(slog.New(log)))
	},
	"a master is down": func(_ *testing.T, c *cluster, _ *member, _ slog.Handler) { c.masters[0].Crash() },
	"a master recovers and does not vote": func(_ *testing.T, c *cluster, _ *member, _ slog.Handler) {
		c.masters[0].Flush()
		c.masters[0].Restart()
	},
	"a master votes again": func(_ *testing.T, c *cluster, _ *member, _ slog.Handler) {
		c.masters[0].Restart()
		time.Sleep(2 * redlock.DefaultMaxTTL)
	},
	"a master votes": func(_ *testing.T, c *cluster, _ *member, log slog.Handler) {
		c.masters[0].Crash()
		c.client(redlock.WithLogger(slog.New(log)))
		time.Sleep(time.Minute)
		c.masters[0].Restart()
		time.Sleep(2 * redlock.DefaultMaxTTL)
	},
	"a master will not vote until somebody acts": func(_ *testing.T, c *cluster, _ *member, _ slog.Handler) { c.forget() },
	"a lease is lost": func(t *testing.T, c *cluster, a *member, _ slog.Handler) {
		lease := mustLock(t, a.Mutex("x"))
		c.all(func(i int) { c.masters[i].Crash() })
		<-lease.Context().Done()
	},
	"a release is not confirmed": func(t *testing.T, c *cluster, a *member, _ slog.Handler) {
		lease := mustLock(t, a.Mutex("x"))
		c.all(func(i int) { c.masters[i].Pause() })
		wantErr(t, lease.Unlock(t.Context()), redlock.ErrUnconfirmed)
	},
	"a Lock still waits": func(t *testing.T, c *cluster, a *member, _ slog.Handler) {
		c.heldFor("x", time.Minute)
		_, err := a.Mutex("x", redlock.WithMaxWait(20*time.Second)).Lock(t.Context())
		wantErr(t, err, redlock.ErrHeld)
	},
	"a long wait ended with the lock": func(t *testing.T, c *cluster, a *member, _ slog.Handler) {
		c.heldFor("x", 20*time.Second)
		_, err := a.Mutex("x").Lock(t.Context())
		wantErr(t, err, nil)
	},
	"a long wait ended without the lock": func(t *testing.T, c *cluster, a *member, _ slog.Handler) {
		c.heldFor("x", time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := a.Mutex("x").Lock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
	},
	"a Lock waits for masters that recover": func(t *testing.T, c *cluster, a *member, _ slog.Handler) {
		for _, m := range c.masters[:3] {
			m.Flush()
			m.Restart()
		}
		_, err := a.Mutex("x").TryLock(t.Context()) // finds its connections broken
		wantErr(t, err, redlock.ErrUnreachable)
		time.Sleep(time.Second)
		_, err = a.Mutex("x").Lock(t.Context())
		wantErr(t, err, nil)
	},
	"round trips are too long for the node timeout": func(t *testing.T, _ *cluster, _ *member, log slog.Handler) {
		far := farMasters(t, 3, 300*time.Millisecond)
		m := far.open(redlock.WithNodeTimeout(500*time.Millisecond), redlock.WithLogger(slog.New(log)))
		for range 5 {
			_, _ = m.Mutex("x").TryLock(t.Context())
			time.Sleep(10 * time.Second)
		}
	},
	"a clock seems to have jumped": func(t *testing.T, c *cluster, a *member, _ slog.Handler) {
		wantErr(t, mustLock(t, a.Mutex("x")).Unlock(t.Context()), nil)
		c.masters[0].StepClock(time.Minute)
		wantErr(t, mustLock(t, a.Mutex("x")).Unlock(t.Context()), nil)
	},
	"the clock of this host jumped; all its leases are lost": func(t *testing.T, c *cluster, a *member, _ slog.Handler) {
		mustLock(t, a.Mutex("x", redlock.WithoutRenewal()))
		time.Sleep(time.Second)
		a.Clock.StandStill(2 * time.Second)
		_, _ = a.Mutex("y").TryLock(t.Context())
	},
	"a function of the program panicked and is not called any more": func(t *testing.T, c *cluster, _ *member, log slog.Handler) {
		b := c.client(redlock.WithLogger(slog.New(log)), redlock.WithObserver(&event.Observer{
			Acquired: func(context.Context, event.Acquire) { panic("ouch") },
		}))
		mustLock(t, b.Mutex("x"))
	},
	"the masters vote in another epoch": func(t *testing.T, c *cluster, _ *member, _ slog.Handler) {
		c.forget()
		time.Sleep(time.Minute)
		wantErr(t, c.masters.Init(t.Context()), nil)
	},
}

// Each line that docs/observe.md lists is logged in its scene, at its level, once or a few times; and no scene logs a line that the page does
// not have.
func TestWithLogger_eachLine_isLoggedInItsScene(t *testing.T) {
	lines := logline.All()
	if len(logScenes) != len(lines) {
		t.Errorf("%d scenes for %d lines", len(logScenes), len(lines))
	}
	for _, line := range lines {
		text := strings.TrimPrefix(line.Text, "redlock: ")
		t.Run(text, func(t *testing.T) {
			scene := logScenes[text]
			if scene == nil {
				t.Fatal("it has no scene")
			}
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				var out syncBuffer
				log := slog.NewJSONHandler(&out, nil)
				a := c.client(redlock.WithLogger(slog.New(log)), redlock.WithClock(clock.Monotonic()))
				time.Sleep(time.Second)
				scene(t, c, a, log)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				got := out.String()
				want := `"level":"` + line.Level.String() + `","msg":"` + line.Text + `"`
				if n := strings.Count(got, want); n < 1 || n > 10 {
					t.Errorf("%d times %s:\n%s", n, want, got)
				}
				for _, one := range strings.Split(strings.TrimSpace(got), "\n") {
					known := one == ""
					for _, l := range lines {
						known = known || strings.Contains(one, `"msg":"`+l.Text+`"`)
					}
					if !known {
						t.Errorf("no line of the page: %s", one)
					}
				}
			})
		})
	}
}
