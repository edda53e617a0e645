// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
)

// A master queues the waiter, and wakes it while the other masters are slow. So it is asked a second time, and that op is not sent:
// the connection breaks while it is queued. The place of the first ask is there all the same, and is given back however the
// round ends. Else it would be handed the lock later, and nobody would count that vote.
func TestSim_askedAgainInVain_placeIsGivenBack(t *testing.T) {
	for name, ends := range map[string]func(t *testing.T, unlock func() error, cancel func()){
		"gives up":  func(_ *testing.T, _ func() error, cancel func()) { cancel() },
		"asks anew": func(*testing.T, func() error, func()) { time.Sleep(time.Second) },
		"is handed the lock by the others": func(t *testing.T, unlock func() error, _ func()) {
			wantErr(t, unlock(), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				a, b := c.client(), c.client()
				mustLock(t, a.Mutex("other"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _, _ = b.Mutex("other").Lock(ctx) }() // so b hears messages
				time.Sleep(100 * time.Millisecond)
				held := mustLock(t, a.Mutex("x"))
				unlock := sync.OnceValue(func() error { return held.Unlock(t.Context()) })

				b.slow(80*time.Millisecond, 1, 2, 3, 4)
				waits, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				done := make(chan struct{})
				go func() {
					defer close(done)
					if lease, err := b.Mutex("x").Lock(waits); err == nil {
						wantErr(t, lease.Unlock(t.Context()), nil)
					}
				}()
				synctest.Wait()
				place := c.places(0, "x")
				if len(place) != 1 {
					t.Fatalf("m0 has the places %q", place)
				}
				b.slow(80*time.Millisecond, 0)
				go func() { _, _ = b.Mutex("z").TryLock(ctx) }() // the lane of m0 is busy
				synctest.Wait()
				wantErr(t, c.masters[0].Do(func(db *nodetest.DB) { db.Publish("redlock:wake:"+place[0][:36], "x\x00"+place[0]) }), nil)
				synctest.Wait()
				b.Ways[0].Cut()
				synctest.Wait()

				ends(t, unlock, giveUp)
				b.heal()
				time.Sleep(time.Second)
				for i := range c.masters {
					if slices.Contains(c.places(i, "x"), place[0]) {
						t.Errorf("m%d still has the place", i)
					}
					if holder, _, _ := strings.Cut(place[0], "/"); c.masters[i].Holder("x") == holder {
						t.Errorf("m%d gave the place a vote, which nobody has given back", i)
					}
				}
				wantErr(t, unlock(), nil)
				<-done
			})
		})
	}
}

// A waiter gives up while the lock's key is of another type. Its places go all the same: once the key is away the lock is there for anybody, though the
// waiter's client gives signs of life on.
func TestSim_places_keyOfAnotherType_goWithTheirWaiter(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		mustLock(t, a.Mutex("other"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = b.Mutex("other").Lock(ctx) }() // so b is alive
		mustLock(t, a.Mutex("x"))
		waits, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = b.Mutex("x").Lock(waits)
		}()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if n := len(c.places(0, "x")); n != 1 {
			t.Fatalf("%d places", n)
		}
		each := func(do func(db *nodetest.DB)) {
			for _, m := range c.masters {
				wantErr(t, m.Do(do), nil)
			}
		}
		each(func(db *nodetest.DB) {
			db.Del("x")
			db.Set("x", "text")
		})
		giveUp()
		<-done
		time.Sleep(time.Second)
		each(func(db *nodetest.DB) { db.Del("x") })
		lease, err := c.client().Mutex("x").TryLock(t.Context())
		wantErr(t, err, nil)
		wantErr(t, lease.Unlock(t.Context()), nil)
	})
}

// slow makes each command of the client to these masters take that long, but no message.
func (m *member) slow(d time.Duration, masters ...int) {
	for _, i := range masters {
		m.Ways[i].SetFault(func(cmd nodetest.Command) nodetest.Fault {
			if cmd.Name == "message" {
				return nodetest.Fault{}
			}
			return nodetest.Fault{ReplyDelay: d}
		})
	}
}

// slowRelease makes each release of the client reach these masters that much later.
func (m *member) slowRelease(d time.Duration, masters ...int) {
	m.faultOn("release", nodetest.Fault{Delay: d}, masters...)
}

// places returns the lock's queue on master i.
func (c *cluster) places(i int, lock string) []string {
	key := "redlock:queue:{" + lock + "}"
	if !slices.Contains(c.masters[i].Keys(), key) {
		return nil
	}
	var places []string
	_ = c.masters[i].Do(func(db *nodetest.DB) { places = db.ZRange(key, -1) })
	return places
}
