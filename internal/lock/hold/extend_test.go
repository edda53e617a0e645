// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"errors"
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
