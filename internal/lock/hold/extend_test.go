// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/protocol"
)

// The masters answered the extend in flight before the call, and have lost the vote since: what the call returns is what they say to it.
func TestExtend_duringAnother_isToldWhatTheMastersSayThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, true)
		s.extending()
		late := make(chan error, 2)
		for range 2 {
			go func() { late <- s.h.Extend(t.Context()) }()
		}
		synctest.Wait()
		s.want(protocol.Extend, 3)
		s.answer(protocol.Extend, intact, 0, 1)
		synctest.Wait()
		s.want(protocol.Extend, 6) // one for both
		s.answer(protocol.Extend, gone, 0, 1)
		for range 2 {
			if err := <-late; !errors.Is(err, errs.ErrLost) {
				t.Errorf("a vote that two of three masters have lost: %v, want ErrLost", err)
			}
		}
		s.r.Close()
		time.Sleep(2 * time.Minute) // the timers of batches
	})
}

// A process that was held up for longer than an extend may take finds the answers unread: its timers run before it looks at the network. They
// count. Masters that are silent are waited for once more, for as long as the timer was late.
func TestExtend_processWasHeldUp_answersThatLieThereCount(t *testing.T) {
	const late = 40 * time.Millisecond
	for name, answers := range map[string]bool{"answers": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, true)
				extended := make(chan error, 1)
				go func() { extended <- s.h.Extend(t.Context()) }()
				synctest.Wait()
				e := s.last(0, protocol.Extend).op.To.(*batch)
				fired := time.Now()
				e.mu.Lock()
				e.limit.At = fired.Add(-late) // as if the process had stood still since the timer was set
				e.mu.Unlock()
				e.timeout()
				if answers {
					s.answer(protocol.Extend, intact, 0, 1)
				}
				err, took := <-extended, time.Since(fired)
				switch {
				case answers && err != nil:
					t.Errorf("two of three masters confirmed it: %v", err)
				case !answers && (!errors.Is(err, errs.ErrUnreachable) || took != late):
					t.Errorf("%v after %v, want ErrUnreachable after %v", err, took, late)
				}
				s.r.Close()
				time.Sleep(2 * time.Minute) // the timers of batches
			})
		})
	}
}

// A host may take the processor away between two masters that are asked, for as long as the answers of a quorum need. The next extend has a
// newer number of shares, and no master may be asked for it before the older one.
func TestExtend_answeredBeforeAllWereAsked_nextOneComesAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, true)
		entered := make(chan error, 2)
		enter := func() { entered <- s.share.Enter(t.Context(), new(Share)) }
		away := make(chan struct{})
		s.nodes[2].told = func(protocol.Kind) {
			s.nodes[2].told = nil
			s.answer(protocol.Extend, intact, 0, 1)
			go enter()
			synctest.Wait()
			close(away)
		}
		go enter()
		<-away
		synctest.Wait()
		s.answer(protocol.Extend, intact, 0, 1)
		for range 2 {
			if err := <-entered; err != nil {
				t.Error(err)
			}
		}
		for i, node := range s.nodes {
			var counts []int
			for _, a := range node.all() {
				if a.Kind == protocol.Extend {
					counts = append(counts, a.Items[0].Count)
				}
			}
			if !slices.Equal(counts, []int{2, 3}) {
				t.Errorf("master %d was sent the counts %v, want 2 and then 3", i, counts)
			}
		}
		s.r.Close()
		time.Sleep(2 * time.Minute) // the timers of batches
	})
}

// extend extends the hold, and the masters named say that the vote is there.
func (s *stage) extend(masters ...int) error {
	done := make(chan error, 1)
	go func() { done <- s.h.Extend(s.t.Context()) }()
	synctest.Wait()
	s.answer(protocol.Extend, intact, masters...)
	time.Sleep(stageTimeout)
	return <-done
}

// A master that was silent for the TTL of its vote says that the vote is there. It may have been put back late: it makes no quorum.
func TestExtend_voteNotHeardOfForItsTTL_makesNoQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, true)
		for range 2 {
			if err := s.extend(0, 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(stageTTL/2 - stageTimeout)
		}
		if err := s.extend(0, 2); !errors.Is(err, errs.ErrUnreachable) {
			t.Errorf("renewed with a vote that was last heard of at the acquire: %v", err)
		}
		s.r.Close()
	})
}

// A master gave a place, and says to an extend that the vote is there. If it has the data of then, it handed the vote, and nobody else had it since.
// If it was restarted with other data, the vote may be a copy of one on another master, or may have ended before.
func TestExtend_placeOfAMasterWithOtherData_makesNoQuorum(t *testing.T) {
	for name, replaced := range map[string]bool{"the same data": false, "other data": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStageWith(t, true, protocol.Reply{Outcome: protocol.Held, Ticket: 1, Remaining: time.Second})
				if replaced {
					s.nodes[2].replace()
				}
				if err := s.extend(0, 2); replaced != errors.Is(err, errs.ErrUnreachable) {
					t.Errorf("the place and one vote are a quorum: %v", err)
				}
				if err := s.extend(0, 1); err != nil {
					t.Fatal(err)
				}
				s.answer(protocol.Extend, intact, 2) // soon after an extend that won
				if err := s.extend(1, 2); err != nil {
					t.Errorf("the vote was there soon after an extend that won: %v", err)
				}
				s.r.Close()
			})
		})
	}
}

// A vote that was missing may be put back when the next extend has begun and has not asked that master yet. The master then says that the vote is
// there, and means the one that was put back: it counts no sooner than any other that was (docs/safety.md A53).
func TestExtend_voteIsPutBackWhileItBegins_doesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, true)
		late := s.extendedButFor(2)
		until := s.h.Until()
		time.Sleep(stageTTL * 2 / 5) // too late for a vote that is put back
		s.nodes[0].told = func(protocol.Kind) {
			s.nodes[0].told = nil
			says(late, gone)
		}
		s.extending()
		if sent := s.nodes[2].all(); sent[len(sent)-2].Kind != protocol.TopUp || sent[len(sent)-1].Kind != protocol.Extend {
			t.Fatalf("master 2 was sent %v last", sent[len(sent)-1].Kind)
		}
		s.answer(protocol.TopUp, protocol.Reply{Outcome: protocol.Granted}, 2)
		s.answer(protocol.Extend, intact, 1, 2)
		time.Sleep(stageTimeout)
		synctest.Wait()
		if got := s.h.Until(); got != until {
			t.Errorf("valid until %v, and was until %v: a vote that was put back late counts", got, until)
		}
		s.r.Close()
		time.Sleep(2 * time.Minute)
	})
}

// What a master said to an extend is no news any more when the vote was put back there since: a lease that a quorum has is not lost.
func TestExtend_missingThenPutBack_isNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, true)
		late := s.extendedButFor(2)
		s.extending()
		says(late, gone)
		s.answer(protocol.Extend, gone, 2)
		s.answer(protocol.TopUp, protocol.Reply{Outcome: protocol.Granted}, 2)
		s.answer(protocol.Extend, intact, 0)
		s.answer(protocol.Extend, gone, 1)
		if err := s.share.Err(); err != nil {
			t.Errorf("masters 0 and 2 have the vote, and the lease is over: %v", err)
		}
		s.r.Close()
		time.Sleep(2 * time.Minute)
	})
}

// A vote that a master has lost is lost also for the next extend, which that master does not answer: nobody has to wait for the end of validity.
func TestExtend_missingInTwo_isLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, true)
		for _, missing := range []int{2, 1} {
			s.extending()
			s.answer(protocol.Extend, intact, 0)
			s.answer(protocol.Extend, gone, missing)
			time.Sleep(stageTimeout)
			synctest.Wait()
		}
		s.wantEnded(errs.ErrLost)
		s.r.Close()
		time.Sleep(2 * time.Minute)
	})
}
