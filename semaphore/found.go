// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"

	"github.com/redlock-go/redlock/redlock"
)

// lookOnly says whether the maximum wait is shorter than any round, so that Acquire is TryAcquire: masters that are farther away than that would look
// like masters that are gone.
func (s *Semaphore) lookOnly() bool { return s.maxWait > 0 && inside.NoTime(s.turn, s.maxWait) }

// looked notes that a look ended with err. held is of slots that it found taken before, or nil.
func (s *Semaphore) looked(held, err error) {
	hurried, _ := inside.Hurried(err)
	switch {
	case hurried && held != nil:
		err = held
	case hurried && s.queued.Load() > 0: // those who wait know more
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	errors.As(err, &s.found)
}

// waited is the error of a caller whose wait ended with err. If its time was over, and the last round had too little of it to hear the masters, what was found
// before counts: permits that are taken must not look like masters that are gone.
// If the client knows that the masters are gone, nothing hides that: in a queue that is never empty each caller may have such a last round.
func (s *Semaphore) waited(ctx context.Context, err error) error {
	hurried, _ := inside.Hurried(err)
	s.mu.Lock()
	if !hurried {
		errors.As(err, &s.found)
	}
	found := s.found
	s.mu.Unlock() // the context may be that of a lease, which has a mutex of its own
	if hurried && found != nil && ctx.Err() != nil && !errors.Is(s.client.Ready(), redlock.ErrUnreachable) {
		return inside.GaveUp(ctx, found)
	}
	return err
}
