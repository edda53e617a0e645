// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// register is what a lock guards: it sees two holders at once, and tokens that do not grow.
type register struct {
	t     testing.TB
	mu    sync.Mutex
	lease *redlock.Lease // inside
	token int64
	last  time.Time // when the last one came in
	gap   time.Duration
	count int
}

func (r *register) enter(l *redlock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.lease; o != nil && o.Err() == nil && time.Now().Before(o.ValidUntil()) {
		r.t.Errorf("%s came in while %s was inside, until %v", l.Holder(), o.Holder(), o.ValidUntil())
	}
	if l.Token() <= r.token {
		r.t.Errorf("token %d after %d", l.Token(), r.token)
	}
	now := time.Now()
	if !r.last.IsZero() {
		r.gap = max(r.gap, now.Sub(r.last))
	}
	r.last = now
	r.lease, r.token, r.count = l, l.Token(), r.count+1
}

func (r *register) leave(l *redlock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease == l {
		r.lease = nil
	}
}

// Issue 14, "Must hold": a change of masters under load from 16 clients.
func TestReconfigure_underLoadOf16Clients(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	replay.Each(t, func(t *testing.T, seed uint64) {
		stall.Try(t, time.Second, func(t testing.TB) { changeUnderLoad(t, seed) })
	})
}

func changeUnderLoad(t testing.TB, seed uint64) {
	const clients, locks, deaths = 16, 4, 8
	rng := replay.RNG(seed)
	ms := startMasters(t, 8, localredis.Config{})
	lists := [][]string{ms.pick(0, 1, 2), ms.pick(2, 3, 4), ms.pick(5, 6, 7, 0, 1)}
	initAt(t, lists[0], quick...)
	registers := make([]*register, locks)
	for i := range registers {
		registers[i] = &register{t: t}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range clients {
		own := replay.RNG(rng.Uint64())
		wg.Go(func() { underLoad(ctx, t, own, lists, registers) })
	}
	soon(t, "all locks are taken", func() bool { return total(registers) > 200 })
	longest := time.Duration(0)
	for i := range lists[1:] {
		start := time.Now()
		from, to := list(lists[i], quick...), list(lists[i+1], quick...)
		// As an operator whose process dies now and then. On a machine so busy that a change takes longer than any of these lives, the clients
		// that begin again and again kept it so for minutes: after some deaths one process lives.
		for died := 0; ; died++ {
			try, end := context.WithTimeout(t.Context(), time.Minute)
			if i > 0 && died < deaths {
				try, end = context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(3*quickWait))))
			}
			err := admin.Reconfigure(try, from, to, nil)
			end()
			if err == nil {
				break
			}
			if try.Err() == nil {
				t.Fatal(err)
			}
		}
		longest = max(longest, time.Since(start))
		before := total(registers)
		soon(t, "locks go on", func() bool { return total(registers) > before+200 })
	}
	cancel()
	wg.Wait()
	for i, r := range registers {
		t.Logf("lock %d: %d grants; it stopped for %v at most, the operator was at work for %v", i, r.count, r.gap, longest)
		// A client learns of the end within a second, and a new one has to start.
		if r.gap > longest+3*time.Second {
			t.Error("locks stopped for longer than the change took")
		}
	}
}

func total(rs []*register) (n int) {
	for _, r := range rs {
		r.mu.Lock()
		n += r.count
		r.mu.Unlock()
	}
	return n
}

// underLoad takes locks until ctx ends. When it is told that its masters were left it starts
// again with the next list, as a deploy does.
func underLoad(ctx context.Context, t testing.TB, rnd *rand.Rand, lists [][]string, registers []*register) {
	for at := range lists {
		var c *redlock.Client
		for c == nil && ctx.Err() == nil {
			var err error
			if c, err = redlock.Open(ctx, lists[at], append(quick, redlock.WithNodeTimeout(time.Second))...); err != nil {
				var epoch *redlock.EpochError
				if ctx.Err() != nil {
					return
				}
				if !errors.As(err, &epoch) && !errors.Is(err, redlock.ErrNeedsInit) {
					t.Errorf("list %d: %v", at, err)
					return
				}
				time.Sleep(20 * time.Millisecond) // the new list has not begun
			}
		}
		if c == nil {
			return
		}
		for ctx.Err() == nil {
			r := rnd.IntN(len(registers))
			l, err := c.Mutex(string(rune('a'+r)), redlock.WithOutageTimeout(time.Minute)).Lock(ctx) // a busy machine is no outage
			var epoch *redlock.EpochError
			switch {
			case err == nil:
				registers[r].enter(l)
				time.Sleep(time.Duration(rnd.Int64N(int64(time.Millisecond))))
				registers[r].leave(l)
				_ = l.Unlock(context.Background())
				continue
			case ctx.Err() != nil:
			case errors.As(err, &epoch):
			case errors.Is(err, redlock.ErrUnfinished): // the operator's process is dead
				time.Sleep(20 * time.Millisecond) // as one that comes back: without it, sixteen that ask at once are all that runs
				continue
			default:
				t.Errorf("list %d: %v", at, err)
			}
			break
		}
		_ = c.Close()
	}
}

// changer is the environment variable with which this test binary plays an operator's process.
const changer = "REDLOCK_TEST_CHANGE"

// A process that changes the masters is killed with SIGKILL at any point, and another one
// ends the change.
func TestReconfigure_killed_anotherProcessEndsIt(t *testing.T) {
	needs.Test(t)
	if lists := os.Getenv(changer); lists != "" {
		from, to, _ := strings.Cut(lists, " ")
		reconfigure(t, list(strings.Split(from, ","), quick...), list(strings.Split(to, ","), quick...))
		return
	}
	t.Parallel()
	replay.Each(t, func(t *testing.T, seed uint64) {
		stall.Try(t, time.Second, func(t testing.TB) { killedInAChange(t, seed) })
	})
}

func killedInAChange(t testing.TB, seed uint64) {
	rng := replay.RNG(seed)
	ms := startMasters(t, 6, localredis.Config{})
	a, b := ms.pick(0, 1, 2), ms.pick(2, 3, 4)
	initAt(t, a, quick...)
	token, killed, ended := int64(0), 0, 0
	for round := 0; round < 3 || killed == 0; round++ {
		c := openAt(t, a, quick...)
		l := locked(t, c.Mutex("x"))
		if l.Token() <= token {
			t.Errorf("token %d after %d", l.Token(), token)
		}
		token = l.Token()
		noErr(t, c.Close())
		for tries := 0; ; tries++ {
			cmd := exec.Command(os.Args[0], "-test.run=^TestReconfigure_killed_anotherProcessEndsIt$")
			cmd.Env = append(os.Environ(), changer+"="+strings.Join(a, ",")+" "+strings.Join(b, ","))
			noErr(t, cmd.Start())
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			var err error
			select {
			case err = <-done:
			case <-time.After(time.Duration(rng.Int64N(int64(3 * quickWait * time.Duration(1+tries))))):
				if err := cmd.Process.Kill(); err == nil {
					killed++
				} else if !errors.Is(err, os.ErrProcessDone) { // it ends at this moment
					t.Fatal(err)
				}
				err = <-done
			}
			if err == nil {
				ended++
				break
			}
		}
		a, b = b, a
	}
	t.Logf("%d processes killed, %d ended", killed, ended)
}
