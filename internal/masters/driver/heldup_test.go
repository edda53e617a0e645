// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/protocol"
)

// unread is a node whose answers lie in the socket.
type unread struct {
	protocol.Node
	ops chan *protocol.Op
}

func (u unread) Submit(op *protocol.Op) bool {
	u.ops <- op
	return true
}

// stops is a context with which a process stands still for a time when it begins to wait.
type stops struct {
	context.Context
	once  bool
	still func()
}

func (s *stops) Done() <-chan struct{} {
	if !s.once {
		s.once = true
		s.still()
	}
	return s.Context.Done()
}

// A process that was held up while it looked at the masters takes the answers that lie there. It does not wait for them for ever.
func TestCallEach_processWasHeldUp_takesTheAnswersThatLieThere(t *testing.T) {
	const timeout, late = 150 * time.Millisecond, 40 * time.Millisecond
	for name, answers := range map[string]bool{"answers": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := unread{ops: make(chan *protocol.Op, 1)}
				d := &Driver{order: []int{0}, cfg: Config{Nodes: []protocol.Node{node}, Clock: clock.Monotonic(), Timeout: func() time.Duration { return timeout }}}
				ctx := &stops{Context: t.Context(), still: func() {
					time.Sleep(timeout + late)
					go func() {
						if op := <-node.ops; answers {
							time.Sleep(time.Millisecond) // it is read after the timers that are due have run
							op.Reply.Outcome = protocol.Granted
							op.To.Receive(op)
						}
					}()
				}}
				began := time.Now()
				got := d.callEach(ctx, []*protocol.Request{{Kind: protocol.ReadRecord}})
				if heard := got[0].Outcome == protocol.Granted; heard != answers {
					t.Errorf("%v, want an answer: %v", got[0], answers)
				}
				if took := time.Since(began); took > timeout+2*late {
					t.Errorf("it waited for %v, where its timer was %v late", took, late)
				}
				time.Sleep(time.Second) // the goroutine of an answer that was not waited for
			})
		})
	}
}
