// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/event"
)

// A re-entry that fails, and is the last share by then, releases what its hold has: the other share was given back while it was under way.
func TestEnter_failsAsTheLastShare_releases(t *testing.T) {
	for name, lost := range map[string]bool{"held": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, true)
				if lost {
					time.Sleep(s.h.lastCall() - s.h.Granted - 10*time.Millisecond)
				}
				failed := make(chan error, 1)
				go func() { failed <- s.share.Enter(context.Background(), new(Share)) }()
				synctest.Wait()
				if lost {
					time.Sleep(20 * time.Millisecond)
				}
				was, last := s.share.Leave(s.r.Masters.Clock.Elapsed())
				if errors.Is(was, errs.ErrLost) != lost || last {
					t.Errorf("it was over because of %v, last %t", was, last)
				}
				s.want(protocol.Release, 0)
				if lost {
					s.answer(protocol.Extend, intact, 0, 1, 2)
				}
				time.Sleep(stageTimeout) // of the extend
				synctest.Wait()
				s.want(protocol.Release, 3)
				for i := range s.nodes {
					if hands := s.last(i, protocol.Release).Hand != 0; hands == lost {
						t.Errorf("master %d hands it on: %t", i, hands)
					}
				}
				s.answer(protocol.Release, protocol.Reply{Outcome: protocol.Granted}, 0, 1, 2)
				if err := <-failed; err == nil {
					t.Error("it was entered again")
				}
				if n := s.r.Held(); n != 0 {
					t.Errorf("%d holds are left", n)
				}
				s.r.Close()
			})
		})
	}
}

// The share that was left ends the context of who enters, as one that is locked with the context of a lease. The release waits for the
// masters all the same: observers are not told that nobody confirmed it.
func TestEnter_contextEndsAsTheLastShare_releaseIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, true)
		var told []error
		s.r.Events.Unlocked = func(_ context.Context, u event.Unlock) { told = append(told, u.Err) }
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- s.share.Enter(ctx, new(Share)) }()
		synctest.Wait()
		s.share.Leave(s.r.Masters.Clock.Elapsed())
		cancel()
		synctest.Wait()
		s.answer(protocol.Release, protocol.Reply{Outcome: protocol.Granted}, 0, 1, 2)
		if err := <-failed; err == nil {
			t.Error("it was entered again")
		}
		if len(told) != 1 || told[0] != nil {
			t.Errorf("observers were told %v", told)
		}
		s.r.Close()
	})
}

// A share that is left a second time ends nothing: whoever has the hold is told to release it once.
func TestLeave_twice_isTheLastOnce(t *testing.T) {
	for name, lost := range map[string]bool{"held": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, true)
				if lost {
					time.Sleep(s.h.lastCall() - s.h.Granted)
				}
				for i, want := range []bool{true, false} {
					if _, last := s.share.Leave(s.r.Masters.Clock.Elapsed()); last != want {
						t.Errorf("left %d times: last %t", i+1, last)
					}
				}
				s.r.Close()
			})
		})
	}
}
