// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// printed is what go-redis prints by itself, for all clients of the process.
type printed struct{ lines syncBuffer }

func (p *printed) Printf(_ context.Context, format string, v ...any) {
	fmt.Fprintf(&p.lines, format+"\n", v...)
}

// quietly runs fn, and fails if go-redis printed anything. Its logger belongs to the process, so such tests are not parallel. There is no
// way to get the logger that was there, so it is left as it would be: other tests want nothing printed either.
func quietly(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	var p printed
	redis.SetLogger(&p)
	fn(t)
	if lines := p.lines.String(); lines != "" {
		t.Errorf("go-redis printed\n%s", lines)
	}
}

// A client is closed while its masters do not answer, while they answer late, and while they are down.
func TestClose_slowLane_goRedisPrintsNothing(t *testing.T) {
	quietly(t, func(t *testing.T) {
		for _, answersAfter := range []time.Duration{0, 15 * time.Millisecond, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				f := farMasters(t, 3, 0)
				c := f.open(redlock.WithNodeTimeout(10 * time.Millisecond))
				for _, m := range f.masters {
					m.Pause()
					time.AfterFunc(answersAfter, m.Resume)
				}
				_, _ = c.Mutex("x").TryLock(t.Context())
				noErr(t, c.Close())
				for _, m := range f.masters {
					m.Resume()
				}
			})
		}
		synctest.Test(t, func(t *testing.T) { // the lane has its answer, and is held up before it goes on
			f := farMasters(t, 3, 0)
			c := f.open(redlock.WithNodeTimeout(10*time.Millisecond), redlock.WithObserver(&event.Observer{
				Voted: func(event.Vote) { time.Sleep(50 * time.Millisecond) },
			}))
			go func() { _, _ = c.Mutex("x").TryLock(t.Context()) }()
			time.Sleep(time.Millisecond)
			noErr(t, c.Close())
		})
		synctest.Test(t, func(t *testing.T) {
			f := farMasters(t, 3, 0)
			c := f.open()
			for _, m := range f.masters {
				m.Crash()
			}
			_, _ = c.Mutex("x").TryLock(t.Context())
			time.Sleep(time.Second)
			noErr(t, c.Close())
		})
	})
}
