// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// The masters stop answering while callers with a maximum wait come and go, so that the queue is never empty. What an earlier caller found does
// not hide that from later ones. When the masters answer again, those find that the permits are taken.
func TestAcquire_mastersStopWhileTheQueueStands_errUnreachable(t *testing.T) {
	const wait = 300 * time.Millisecond
	for _, every := range []time.Duration{250 * time.Millisecond, 10 * time.Millisecond} { // the first has time for long rounds
		t.Run(every.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				acquire(t, must(t, w.client(), 2))
				acquire(t, must(t, w.client(), 2))
				s := must(t, w.client(), 2, redlock.WithMaxWait(wait))
				var callers sync.WaitGroup
				calls := func(n int, want error) {
					for range n {
						callers.Go(func() {
							if _, err := s.Acquire(t.Context()); want != nil {
								quorumtest.Is(t, err, want)
							}
						})
						time.Sleep(every)
					}
				}
				n := int(wait / every)
				calls(3*n, redlock.ErrHeld)
				calls(n, nil) // these stand in the queue while the masters stop
				for _, m := range w.ms {
					m.Pause()
				}
				calls(int(2*time.Second/every), nil) // the client looks at its masters every second
				calls(3, redlock.ErrUnreachable)
				calls(n, nil) // these stand in the queue while the masters go on
				for _, m := range w.ms {
					m.Resume()
				}
				calls(int(2*time.Second/every), nil)
				calls(3, redlock.ErrHeld)
				callers.Wait()
			})
		})
	}
}

// Callers come more often than the masters, which are well, can answer. The last round of each is too short, and that is no outage.
func TestAcquire_queueStandsAtFarMasters_errHeld(t *testing.T) {
	for _, wait := range []time.Duration{35 * time.Millisecond, 55 * time.Millisecond, 95 * time.Millisecond} {
		t.Run(wait.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				acquire(t, must(t, w.client(), 1))
				c := w.client()
				slow(c, 5*time.Millisecond)
				time.Sleep(500 * time.Millisecond) // its own looks at the masters are over
				s := must(t, c, 1, redlock.WithMaxWait(wait))
				var callers sync.WaitGroup
				for range 100 {
					callers.Go(func() {
						_, err := s.Acquire(t.Context())
						quorumtest.Is(t, err, redlock.ErrHeld)
					})
					time.Sleep(10 * time.Millisecond)
				}
				callers.Wait()
			})
		})
	}
}

// Masters fall silent while the call that got the permit still gives the turn back. Release does not wait for that when its caller's time is over,
// and the turn is given back all the same.
func TestRelease_mastersSilentDuringTheTidying_returnsInTime(t *testing.T) {
	const wait = 50 * time.Millisecond
	inWorld(t, func(t *testing.T, w *world) {
		held, c := acquire(t, must(t, w.client(), 1)), w.client(redlock.WithNodeTimeout(time.Second))
		slow(c, 5*time.Millisecond)
		got := waits(t.Context(), must(t, c, 1))
		release(t, held)
		p := <-got
		for _, m := range w.ms[:2] {
			m.Pause()
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		start := time.Now()
		err := p.Release(ctx)
		if took := time.Since(start); err == nil || took > wait+parting {
			t.Errorf("%v after %v", err, took)
		}
		for _, m := range w.ms[:2] {
			m.Resume()
		}
		quorumtest.NoErr(t, c.Shutdown(t.Context()))
		w.nothingLeft()
	})
}

// A look got further slots besides the permit, and releases are slow. The caller has the permit when its time is over, and the slots are given
// back all the same.
func TestAcquire_furtherSlotsGoBackSlowly_returnsInTime(t *testing.T) {
	const wait, slowly = 50 * time.Millisecond, 200 * time.Millisecond
	inWorld(t, func(t *testing.T, w *world) {
		acquire(t, must(t, w.client(), 1)) // slot 1, where the caller looks first
		time.Sleep(time.Millisecond)       // two votes are enough for that: a third that comes later would split the slot
		c := w.client(redlock.WithNodeTimeout(time.Second))
		for _, n := range c.Ways {
			n.SetFault(func(cmd nodetest.Command) (f nodetest.Fault) {
				if cmd.Name == "release" {
					f.Delay = slowly
				}
				return f
			})
		}
		s := must(t, c, 5)
		s.freed = []int{0}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		start := time.Now()
		p, err := s.Acquire(ctx)
		quorumtest.NoErr(t, err)
		if took := time.Since(start); took < wait || took > wait+parting {
			t.Errorf("it took %v", took)
		}
		quorumtest.NoErr(t, p.Release(t.Context()))
		for _, slot := range s.slots[1:] {
			free, err := w.client().Mutex(slot.Name()).TryLock(t.Context())
			quorumtest.NoErr(t, err)
			quorumtest.NoErr(t, free.Unlock(t.Context()))
		}
	})
}
