// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/protocol"
)

// A hold that is given back is offered to the next caller of the process. Whatever becomes of the offer, each master has the release once: it
// is acknowledged where that caller got the vote, and sent to the others, in whichever order that comes with the end of the Unlock.
func TestRelease_offered_eachMasterHasItOnce(t *testing.T) {
	yes, none := protocol.Reply{Outcome: protocol.Granted}, protocol.Reply{Outcome: protocol.Absent}
	for name, test := range map[string]struct {
		then func(s *stage, o *attempt.Offer)
		sent int   // releases
		late int   // so many more may be sent, to a master whose answer comes beside the verdict
		want error // of Release
	}{
		"taken over on all masters": {func(s *stage, o *attempt.Offer) { s.takeOver(o); s.answer(protocol.Adopt, yes, 0, 1, 2) }, 0, 1, nil},
		"taken over by a quorum": {func(s *stage, o *attempt.Offer) {
			s.takeOver(o)
			s.answer(protocol.Adopt, none, 1)
			s.answer(protocol.Adopt, yes, 0, 2)
		}, 1, 0, nil},
		"taken over by a quorum, and a master is silent": {func(s *stage, o *attempt.Offer) {
			s.takeOver(o)
			s.answer(protocol.Adopt, yes, 0, 2)
			synctest.Wait()
			s.wantDrained()
			s.answer(protocol.Adopt, yes, 1)
			s.answer(protocol.Release, none, 1)
		}, 1, 0, nil},
		"taken over by a minority": {func(s *stage, o *attempt.Offer) {
			s.takeOver(o)
			s.answer(protocol.Adopt, none, 1, 2)
			s.answer(protocol.Adopt, yes, 0)
			s.answer(protocol.Release, yes, 1, 2)
		}, 2, 1, nil},
		"who took it over gave up at once": {func(s *stage, o *attempt.Offer) {
			s.takeOver(o)
			s.giveUp()
			synctest.Wait()
			s.wantDrained()
			s.answer(protocol.Adopt, yes, 0, 1, 2)
			s.answer(protocol.Release, none, 0, 1, 2) // the vote is in the hands of who gave up, who gives it back
		}, 3, 0, nil},
		"who took it over gave up, and the vote was lost": {func(s *stage, o *attempt.Offer) {
			s.takeOver(o)
			s.giveUp()
			synctest.Wait()
			s.answer(protocol.Adopt, none, 0, 1, 2)
			s.answer(protocol.Release, none, 0, 1, 2)
		}, 3, 0, errs.ErrLost},
		"nobody knows who has the vote": {func(s *stage, o *attempt.Offer) {
			s.takeOver(o)
			s.answer(protocol.Adopt, yes, 2) // before it is lost: with that the release goes to who has not answered
			s.answer(protocol.Adopt, protocol.Reply{}, 0, 1)
			s.answer(protocol.Release, none, 0, 1)
		}, 2, 0, errs.ErrUnconfirmed},
		"declined": {func(s *stage, o *attempt.Offer) {
			o.Claim()
			o.Decline(0b111)
			s.answer(protocol.Release, yes, 0, 1, 2)
		}, 3, 0, nil},
		"the vote was lost": {func(s *stage, o *attempt.Offer) {
			s.takeOver(o)
			s.answer(protocol.Adopt, none, 0, 1, 2)
			s.answer(protocol.Release, none, 0, 1, 2)
		}, 3, 0, errs.ErrLost},
		"nobody comes to it": {func(s *stage, o *attempt.Offer) {
			time.Sleep(5 * time.Millisecond)
			if synctest.Wait(); o.Claim() {
				s.t.Error("it can still be claimed when the release was sent")
			}
			s.answer(protocol.Release, yes, 0, 1, 2)
		}, 3, 0, nil},
		"nobody comes to it, and the masters are silent": {func(s *stage, o *attempt.Offer) {
			time.Sleep(2 * stageTimeout)
		}, 3, 0, errs.ErrUnconfirmed},
		"answered too late for the Unlock": {func(s *stage, o *attempt.Offer) {
			s.takeOver(o)
			time.Sleep(2 * stageTimeout)
			s.wantDrained()
			s.answer(protocol.Adopt, yes, 2)
			s.answer(protocol.Adopt, protocol.Reply{}, 0, 1)
		}, 3, 0, errs.ErrUnconfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, false)
				var o *attempt.Offer
				s.r.Events.Offer = func(made attempt.Offer) *attempt.Offer {
					o = &made
					return o
				}
				s.r.Events.Released = func(*protocol.Lock) { t.Error("the next caller is to ask behind a release that was not sent") }
				was, _ := s.share.Leave(s.r.Masters.Clock.Elapsed())
				done := make(chan error, 1)
				go func() { done <- s.h.Release(context.Background(), was, s.r.Masters.Clock.Elapsed()) }()
				synctest.Wait()
				if o.Holder != "me" || o.Token != grantedVote.Token || o.Set != 0b111 {
					t.Errorf("offered %+v", o)
				}
				s.want(protocol.Release, 0)
				test.then(s, o)
				synctest.Wait()
				if err := <-done; !errors.Is(err, test.want) {
					t.Errorf("the Unlock: %v, want %v", err, test.want)
				}
				if n := s.count(protocol.Release); n < test.sent || n > test.sent+test.late {
					t.Errorf("the masters were sent %d releases, want %d to %d", n, test.sent, test.sent+test.late)
				}
				s.wantDrained()
				s.r.Close()
			})
		})
	}
}

// wantDrained checks that the renewer has no hold any more, which says that each release is on its way, or the vote another's.
func (s *stage) wantDrained() {
	s.t.Helper()
	select {
	case <-s.r.Drain():
	default:
		s.t.Error("the renewer still has the hold")
	}
}

// takeOver has another caller ask for what it was offered, in a goroutine, until giveUp.
func (s *stage) takeOver(o *attempt.Offer) {
	if !o.Claim() {
		s.t.Fatal("somebody else has claimed it")
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.giveUp = cancel
	tries := attempt.Tries{Masters: s.r.Masters, Client: "heir"}
	a := tries.Begin(ctx, o.Lock, attempt.Settings{TTL: stageTTL}, o.Request())
	go func() {
		o.Ask(&a)
		a.Call.Done()
	}()
	synctest.Wait()
}

// What must not go from hand to hand within a process is not offered.
func TestRelease_notToBePassedOn_isSent(t *testing.T) {
	for name, test := range map[string]struct {
		lock  *protocol.Lock
		terms Terms
		lost  bool
	}{
		"rests":       {protocol.NewLock("x", protocol.Plain), Terms{MinHold: time.Minute}, false},
		"is kept":     {protocol.NewLock("x", protocol.Plain), Terms{Kept: true}, false},
		"of a reader": {protocol.NewLock("x", protocol.Read), Terms{}, false},
		"of a writer": {protocol.NewLock("x", protocol.Write), Terms{}, false},
		"was lost":    {protocol.NewLock("x", protocol.Plain), Terms{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, true)
				s.r.Events.Offer = func(attempt.Offer) *attempt.Offer {
					t.Error("offered")
					return nil
				}
				s.h.mu.Lock()
				s.h.Lock, s.h.Terms.MinHold, s.h.Terms.Kept = test.lock, test.terms.MinHold, test.terms.Kept
				s.h.mu.Unlock()
				if test.lost {
					time.Sleep(2 * stageTTL)
				}
				s.release()
				s.want(protocol.Release, 3)
				s.r.Close()
			})
		})
	}
}
