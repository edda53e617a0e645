// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/protocol"
)

// labelEvery is how often a client tells the masters its label, and labelledFor how long they keep it at least.
const labelEvery, labelledFor = 20 * time.Second, time.Minute

// LabelLives is how long the masters keep the label of a client, whose votes last for maxTTL or less.
func LabelLives(maxTTL time.Duration) time.Duration { return max(labelledFor, 2*maxTTL) }

// Labeller tells the masters the label of a client. Without a label it does nothing.
type Labeller struct {
	Nodes         []protocol.Node
	Clock         clock.Clock
	Client, Label string                              // the id of the client, and its label
	Lives         time.Duration                       // how long a master keeps the label, if it is not told again
	Jitter        func(d time.Duration) time.Duration // a random time in [0, d)

	begun  atomic.Bool
	mu     sync.Mutex
	timer  *time.Timer // nil before the client is open, and without a label
	closed bool
}

// Begin tells all masters the label now, and again from then on, until Close.
func (lb *Labeller) Begin() {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	if lb.Label != "" && !lb.closed {
		lb.begun.Store(true)
		for i := range lb.Nodes {
			lb.Tell(i) // so that the label is there before the first vote
		}
		lb.timer = time.AfterFunc(labelEvery, lb.again)
	}
}

func (lb *Labeller) again() {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	if lb.closed {
		return
	}
	for i := range lb.Nodes {
		lb.Tell(i)
	}
	lb.timer.Reset(labelEvery - lb.Jitter(labelEvery/4)) // clients that started together must not send together
}

// Tell tells master i the label, from Begin on: a client that was not opened leaves none. The label outlives the votes of a client that dies.
func (lb *Labeller) Tell(i int) {
	if !lb.begun.Load() {
		return
	}
	now := lb.Clock.Elapsed()
	lb.Nodes[i].Submit(&protocol.Op{To: quorum.Ignore{}, Request: &protocol.Request{Kind: protocol.Introduce, Holder: lb.Client, Owner: lb.Label,
		TTL: lb.Lives, Start: now, Deadline: now + labelEvery}})
}

// Close ends the telling.
func (lb *Labeller) Close() {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	lb.closed = true
	if lb.timer != nil {
		lb.timer.Stop()
	}
}
