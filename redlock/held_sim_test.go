// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// One master of five recovers, and a lock is held: a caller is told that it is held, and by errors.Is of nothing else. A caller
// that waits for it does not wait for that master. Nor does Inspect count a vote that was put back there.
func TestSim_heldWhileAMasterRecovers_isHeld(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		var said syncBuffer
		a := c.client()
		b := c.client(redlock.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
		lease := mustLock(t, a.Mutex("x"))
		c.masters[0].Flush()
		c.masters[0].Restart()
		_, _ = b.Inspect(t.Context(), "x") // finds its connection broken
		time.Sleep(5 * time.Second)        // the lease was renewed, and put its vote back
		_, err := b.Mutex("x").TryLock(t.Context())
		wantErr(t, err, redlock.ErrHeld)
		for _, not := range []error{redlock.ErrRecovering, redlock.ErrUnreachable, redlock.ErrRefused} {
			if errors.Is(err, not) {
				t.Errorf("%v is %v too", err, not)
			}
		}
		wantText(t, err, "m0", "quarantined")
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := b.Mutex("x").Lock(ctx)
			cancel()
			wantErr(t, err, context.DeadlineExceeded)
		}
		if strings.Contains(said.String(), "waits for masters that recover") {
			t.Errorf("the log says: %s", said.String())
		}
		in := inspected(t, b)
		if len(in.Masters[0].Holders) != 1 || in.Masters[0].Votes {
			t.Fatalf("no vote was put back: %+v", in.Masters[0])
		}
		if len(in.Holders) != 1 || in.Holders[0].Votes != 4 {
			t.Errorf("%+v", in.Holders)
		}
		wantErr(t, lease.Unlock(t.Context()), nil)
	})
}

// Two of five masters answer: one has another's vote, and one has lost its data under its client's connection. Whether the lock is held nobody
// knows then, and TryDo must not take an outage for work that another process does.
func TestSim_heldByOneAndAMasterThatLostItsData_isUnreachable(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x"))
		for _, m := range c.masters[1:4] {
			m.Pause()
		}
		c.masters[0].Flush()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(150*time.Millisecond+1, cancel) // after the first round: the client has looked at the master by the next one
		_, err := b.Mutex("x").TryLock(ctx)
		var round *redlock.RoundError
		if !errors.As(err, &round) || !errors.Is(round, redlock.ErrUnreachable) || round.Held != 1 || round.Refused != 1 || round.Unknown != 3 {
			t.Errorf("%v", err)
		}
		for _, m := range c.masters[1:4] {
			m.Resume()
		}
		wantErr(t, lease.Unlock(t.Context()), nil)
	})
}

// A master that says that a lease's vote is not there has answered: it refuses to hand it to an adopter.
func TestSim_adoptOfVotesThatAreGone_countsTheMastersThatAnswered(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		voucher := handedOff(t, mustLock(t, a.Mutex("x")))
		for _, m := range c.masters[:2] {
			wantErr(t, m.Do(func(db *nodetest.DB) { db.Del("x") }), nil)
		}
		c.masters[2].Pause()
		_, err := b.Adopt(t.Context(), voucher)
		var round *redlock.RoundError
		if !errors.Is(err, redlock.ErrUnreachable) || !errors.As(err, &round) || round.Granted != 2 || round.Refused != 2 || round.Unknown != 1 {
			t.Errorf("%v", err)
		}
	})
}

// The log of a clock that jumped says when the master votes again, and not when the client looks at it again.
func TestSim_clockJumped_logSaysTheWholeWait(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		var said syncBuffer
		b := c.client(redlock.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
		wantErr(t, mustLock(t, b.Mutex("x")).Unlock(t.Context()), nil)
		c.masters[0].StepClock(20 * time.Second)
		for range 5 {
			time.Sleep(time.Second)
			wantErr(t, mustLock(t, b.Mutex("x")).Unlock(t.Context()), nil)
		}
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, "a master recovers") && (!strings.Contains(line, "30.6s") || strings.Contains(line, "for=50ms")) {
				t.Error(line)
			}
		}
		if !strings.Contains(said.String(), "votes again after 30.6s") {
			t.Error(said.String())
		}
	})
}

// A client whose masters lost their records for good logs the command that helps.
func TestSim_needsInit_logHasTheCommand(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		var said syncBuffer
		b := c.client(redlock.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
		wantErr(t, mustLock(t, b.Mutex("x")).Unlock(t.Context()), nil)
		for _, m := range c.masters {
			m.Pause()
		}
		time.Sleep(2 * time.Minute) // nobody saw the list vote in the last maximum TTL
		for _, m := range c.masters {
			m.Flush()
			m.Restart()
			m.Resume()
		}
		time.Sleep(time.Minute)
		if text := said.String(); !strings.Contains(text, "will not vote until somebody acts") || !strings.Contains(text, "redlock init --nothing-was-ever-locked --nodes URLS") {
			t.Error(text)
		}
	})
}

// A lease that is lost is held no more, although nobody has unlocked it: no count has it, and no Shutdown waits for it.
func TestSim_lostBeforeItsEnd_isNotHeld(t *testing.T) {
	for name, happens := range map[string]func(c *cluster, a *member){
		"its votes are gone": func(c *cluster, _ *member) {
			for _, m := range c.masters {
				m.Flush()
			}
		},
		"the clock of its host jumped": func(_ *cluster, a *member) {
			time.Sleep(time.Second)
			a.Clock.StandStill(2 * time.Second)
			if other, err := a.Mutex("y").TryLock(context.Background()); err == nil { // a look had found the jump before
				_ = other.Unlock(context.Background())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				a := c.client()
				wantErr(t, mustLock(t, a.Mutex("y")).Unlock(t.Context()), nil)
				lease := mustLock(t, a.Mutex("x"))
				happens(c, a)
				time.Sleep(redlock.DefaultTTL/3 + time.Second)
				wantErr(t, lease.Err(), redlock.ErrLost)
				if s := a.Stats(); s.Lost != 1 || s.Held != 0 {
					t.Errorf("%d lost and %d held", s.Lost, s.Held)
				}
				start := time.Now()
				wantErr(t, a.Shutdown(t.Context()), nil)
				if took := time.Since(start); took > time.Second {
					t.Errorf("Shutdown waited %v for it", took)
				}
			})
		})
	}
}

// Who asks to write with the context of a read lease that is over is told why that is over, as who asks to read is: to unlock it is no remedy.
func TestSim_upgradeOfALeaseThatIsOver_saysWhyItIsOver(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		rw := a.RWMutex("x")
		released, lost := mustLock(t, rw.RLocker()), mustLock(t, a.RWMutex("x", redlock.WithoutRenewal()).RLocker())
		wantErr(t, second(rw.TryLock(lost.Context())), redlock.ErrUpgrade)
		wantErr(t, released.Unlock(t.Context()), nil)
		time.Sleep(redlock.DefaultTTL + time.Second)
		for lease, want := range map[*redlock.Lease]error{released: redlock.ErrReleased, lost: redlock.ErrLost} {
			for _, err := range []error{second(rw.TryLock(lease.Context())), second(rw.Lock(lease.Context()))} {
				if !errors.Is(err, want) || errors.Is(err, redlock.ErrUpgrade) {
					t.Errorf("%v, want %v", err, want)
				}
			}
		}
		wantErr(t, second(rw.TryLock(t.Context())), nil)
	})
}
