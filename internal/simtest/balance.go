// SPDX-License-Identifier: Apache-2.0

package simtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// Balance checks what the Observer of one client is told: each wait ends, each grant ends once, and
// no state of a master is skipped. The zero Balance is ready.
type Balance struct {
	mu                            sync.Mutex
	waiting, granted, ended, lost int
	states                        map[string]event.State
	wrong                         []string
}

// Observer is what the client is to be opened with.
func (b *Balance) Observer() *event.Observer {
	b.states = make(map[string]event.State)
	check := func(ok bool, e any) { // with b.mu locked
		if !ok && len(b.wrong) < 10 {
			b.wrong = append(b.wrong, fmt.Sprintf("%+v", e))
		}
	}
	return &event.Observer{
		Waits: func(_ context.Context, e event.Wait) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if e.First {
				b.waiting++
			}
			check(e.Waited >= e.Before && !(e.First && e.Before != 0), e)
		},
		Acquired: func(_ context.Context, e event.Acquire) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if e.Waited {
				b.waiting--
			}
			won := e.Err == nil
			if won {
				b.granted++
			}
			check(won == (e.Token > 0) && !(won && e.Rounds == 0) && e.Took >= 0, e)
		},
		Voted: func(e event.Vote) {
			b.mu.Lock()
			defer b.mu.Unlock()
			good := e.Answer == event.VoteGranted || e.Answer == event.VoteHeld
			check(good == (e.Err == nil) || e.Answer == event.VoteNotAsked, e)
		},
		Ended: func(e event.End) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.ended++
			if e.Ending.Lost() {
				b.lost++
			}
			check(e.Ending.Lost() == errors.Is(e.Err, redlock.ErrLost) && e.Held >= 0, e)
		},
		Master: func(e event.Master) {
			b.mu.Lock()
			defer b.mu.Unlock()
			check(b.states[e.Master] == e.From && e.From != e.To, e)
			b.states[e.Master] = e.To
		},
	}
}

// Counts are the grants and the leases that were lost.
func (b *Balance) Counts() (granted, lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.granted, b.lost
}

// States are the states of the masters.
func (b *Balance) States() map[string]event.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.states)
}

// Err is what does not balance when all calls have returned and the client was closed, or nil.
func (b *Balance) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting != 0 || b.granted != b.ended || len(b.wrong) > 0 {
		return fmt.Errorf("an Observer was told of %d waits without an end, and of %d grants of which %d ended; wrong events: %q",
			b.waiting, b.granted, b.ended, b.wrong)
	}
	return nil
}
