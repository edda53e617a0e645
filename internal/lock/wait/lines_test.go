// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errOver   = errors.New("over")
	errFailed = errors.New("failed")
	lockX     = protocol.NewLock("x", protocol.Plain)
)

const me = "client"

// master is a master with one lock.
type master struct {
	protocol.Node // what Lines do not call

	way    time.Duration // how long an answer takes
	trip   time.Duration // how long it seems to take
	mu     sync.Mutex
	holder string
	places []string
	heard  []string              // channels that are subscribed to
	keeps  bool                  // it lets nobody take over
	kinds  map[protocol.Kind]int // how many ops of each kind it was sent
}

func (m *master) Name() string                       { return "master" }
func (m *master) Trip() time.Duration                { return m.trip }
func (m *master) VotingState() string                { return "" }
func (m *master) ClockOffset() (time.Duration, bool) { return 0, true }

func (m *master) Subscribe(channel string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = append(m.heard, channel)
}

func (m *master) Unsubscribe(channel string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = slices.DeleteFunc(m.heard, func(c string) bool { return c == channel })
}

func (m *master) Submit(op *protocol.Op) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kinds == nil {
		m.kinds = map[protocol.Kind]int{}
	}
	m.kinds[op.Kind]++
	switch op.Kind {
	case protocol.Acquire:
		op.Reply = protocol.Reply{Outcome: protocol.Held, Ticket: op.Wait.Ticket, Remaining: time.Minute}
		if m.holder == "" && !op.Wait.Only {
			m.holder = op.Holder
			m.places = slices.DeleteFunc(m.places, func(h string) bool { return h == op.Holder }) // it may have asked before
			op.Reply = protocol.Reply{Outcome: protocol.Granted, Token: op.Token}
		} else {
			m.places = append(m.places, op.Holder)
		}
	case protocol.Adopt:
		op.Reply = protocol.Reply{Outcome: protocol.Absent}
		if m.holder == op.From && !m.keeps {
			m.holder = op.Holder
			op.Reply = protocol.Reply{Outcome: protocol.Granted, Token: op.Token}
		}
	case protocol.Release:
		m.places = slices.DeleteFunc(m.places, func(h string) bool { return h == op.Holder })
		if m.holder == op.Holder {
			m.holder = ""
		}
		op.Reply = protocol.Reply{Outcome: protocol.Granted}
	default:
		op.Reply = protocol.Reply{Outcome: protocol.Granted}
	}
	go func() {
		time.Sleep(m.way)
		op.To.Receive(op)
	}()
	return true
}

// world is a client's lines over three masters.
type world struct {
	t       *testing.T
	masters [3]*master
	lines   *Lines
	tries   attempt.Tries

	mu     sync.Mutex
	over   error
	handed []int // the masters of which Handed was told
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	m := &quorum.Masters{Need: 2, All: 0b111, Clock: clock.Monotonic(), Drift: clock.DefaultDrift(),
		Timeout: func() time.Duration { return 50 * time.Millisecond }, Trip: func() time.Duration { return 0 }, Trusted: func() time.Duration { return -1 << 62 }}
	for i := range w.masters {
		w.masters[i] = &master{holder: "another"}
		m.Nodes = append(m.Nodes, w.masters[i])
	}
	w.tries.Masters, w.tries.Client = m, me
	w.lines = New(Config{
		Masters: m, Client: me, Jitter: func(d time.Duration) time.Duration { return d / 2 },
		Over: func() error {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.over
		},
		GaveUp: func(ctx context.Context, _ *protocol.Lock, last error) error {
			w.unlocked()
			return errors.Join(ctx.Err(), last)
		},
		Waits: func(context.Context, *Caller, error) { w.unlocked() },
		Handed: func(i int, _ string) {
			w.unlocked()
			w.handed = append(w.handed, i)
		},
	})
	return w
}

// unlocked says that the lines are not locked by the goroutine that calls it: what they tell may call them.
func (w *world) unlocked() {
	for range 10_000_000 { // another goroutine has it for a moment
		if w.lines.mu.TryLock() {
			w.lines.mu.Unlock()
			return
		}
		runtime.Gosched()
	}
	w.t.Error("the lines are locked")
}

// caller is a call, and the face of its lock.
type caller struct {
	Caller
	w        *world
	won      *attempt.Won
	err      error
	end      chan struct{}
	released int // how often it was told that its release is on its way
}

func (c *caller) Terms() Terms { c.w.unlocked(); return Terms{Patience: time.Second} }

func (c *caller) Begin(ctx context.Context, place *protocol.Wait) *attempt.Attempt {
	return c.begin(ctx, &protocol.Request{Wait: place})
}

func (c *caller) TakeOver(ctx context.Context, o *attempt.Offer) *attempt.Attempt {
	return c.begin(ctx, o.Request())
}

func (c *caller) begin(ctx context.Context, req *protocol.Request) *attempt.Attempt {
	c.w.unlocked()
	a := c.w.tries.Begin(ctx, c.Lock, attempt.Settings{TTL: 10 * time.Second}, req)
	return &a
}

func (c *caller) Win(a *attempt.Attempt, v counting.Verdict) (attempt.Lost, bool) {
	c.w.unlocked()
	won, lost, ok := a.Win(v)
	if ok {
		c.won = &won
	}
	return lost, ok
}

func (c *caller) Alone(context.Context) bool { return false }

func (c *caller) Failed(a *attempt.Attempt, _ attempt.Lost) Failed {
	c.w.unlocked()
	return Failed{Err: errors.Join(errFailed, a.Ctx.Err()), Saw: waiting.Round{Held: true, MayVote: 3, RetryAfter: time.Minute}}
}

// lock begins a call, which runs until it waits or ends.
func (w *world) lock(ctx context.Context) *caller {
	c := &caller{w: w, end: make(chan struct{})}
	c.Face, c.Lock = c, lockX
	go func() {
		defer close(c.end)
		c.err = w.lines.Lock(ctx, &c.Caller)
	}()
	synctest.Wait()
	return c
}

// ended says whether the call has ended by now.
func (c *caller) ended() bool {
	synctest.Wait()
	select {
	case <-c.end:
		return true
	default:
		return false
	}
}

// free has all masters let go of the lock, and wake the client.
func (w *world) free() {
	for _, m := range w.masters {
		m.mu.Lock()
		m.holder = ""
		m.mu.Unlock()
	}
	for i := range w.masters {
		w.lines.Message(i, protocol.Namespace("").Wake(me), lockX.Key)
	}
}

// unlock gives back what the caller has, and says so.
func (c *caller) unlock() {
	c.won.Call.Done()
	for _, m := range c.w.masters {
		m.Submit(&protocol.Op{To: quorum.Ignore{}, Request: &protocol.Request{Kind: protocol.Release, Lock: lockX, Holder: c.won.Holder}})
	}
	c.w.lines.Released(lockX)
}

// nothingLeft checks that nobody waits any more: neither here nor on the masters.
func (w *world) nothingLeft() {
	w.t.Helper()
	time.Sleep(2 * waiting.HeartbeatEvery) // the heartbeat that finds nobody ends the subscription
	synctest.Wait()
	w.lines.mu.Lock()
	lines := len(w.lines.contenders)
	w.lines.mu.Unlock()
	if lines > 0 {
		w.t.Errorf("%d lines are left", lines)
	}
	for i, m := range w.masters {
		if len(m.places) > 0 || len(m.heard) > 0 {
			w.t.Errorf("master %d has places %v, and is heard on %v", i, m.places, m.heard)
		}
	}
}

func TestLock_aWake_takesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.lock(t.Context())
		if c.ended() || !c.Waited {
			t.Fatalf("a lock that another has: %v, waited %v", c.err, c.Waited)
		}
		w.free()
		if !c.ended() || c.err != nil || c.won == nil || c.Rounds != 2 {
			t.Fatalf("after the wake: %v, %+v, %d rounds", c.err, c.won, c.Rounds)
		}
		c.unlock()
		w.nothingLeft()
	})
}

func TestLock_votesByMessages_takeTheLockWithoutAnotherRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.lock(t.Context())
		for i, m := range w.masters[:2] {
			if c.ended() {
				t.Fatalf("%d votes were enough", i)
			}
			m.holder, m.places = m.places[0], nil
			hand := strings.Join([]string{lockX.Key, m.holder, "7", "0", "3000", ""}, "\x00")
			w.lines.Message(i, protocol.Namespace("").Wake(me), hand)
			w.lines.Message(i, protocol.Namespace("").Wake(me), hand) // a message that comes twice counts once
		}
		if !c.ended() || c.err != nil || c.won == nil || c.won.Token != 7 || c.Rounds != 1 {
			t.Fatalf("two votes: %v, %+v, %d rounds", c.err, c.won, c.Rounds)
		}
		if want := []int{0, 1}; !slices.Equal(w.handed, want) {
			t.Errorf("told of votes of masters %v, want %v", w.handed, want)
		}
		for _, m := range w.masters { // the place on the third master is the lease's, which gives it back
			m.places = nil
		}
		c.unlock()
		w.nothingLeft()
	})
}

// The masters wake a caller one after the other, and each is asked when it does. The caller then knows how long a master takes to answer:
// not less than that, or it would throw away votes whose messages are about to come, and not much more, or it would sleep on votes that
// never come.
func TestLock_wakesOneAfterAnother_theTripIsThatOfAMaster(t *testing.T) {
	const apart = 800 * time.Microsecond // the wakes
	for _, way := range []time.Duration{apart / 2, apart, 40 * time.Millisecond} {
		for decide := 1; decide <= 2; decide++ { // masters that wake the caller at once
			t.Run(fmt.Sprint(way, decide), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					ctx, cancel := context.WithCancel(t.Context())
					c := w.lock(ctx)
					for _, m := range w.masters {
						m.way = way
					}
					for i := range w.masters {
						if i >= decide {
							time.Sleep(apart)
						}
						w.lines.Message(i, protocol.Namespace("").Wake(me), lockX.Key) // the lock is another's again at once
					}
					time.Sleep(2*waiting.PauseMin + 2*way)
					synctest.Wait()
					w.lines.mu.Lock()
					if trip := w.lines.contenders[lockKey{lockX.Name, lockX.Mode}].trip; trip < way || trip > way+2*apart {
						t.Errorf("a trip of %v, where a master takes %v", trip, way)
					}
					w.lines.mu.Unlock()
					cancel()
					if <-c.end; c.Rounds < 2 {
						t.Errorf("%d rounds", c.Rounds)
					}
					w.nothingLeft()
				})
			})
		}
	}
}

func TestLock_callersOfOneProcess_inTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		callers := []*caller{w.lock(t.Context()), w.lock(t.Context()), w.lock(t.Context())}
		w.free()
		for i, c := range callers {
			if !c.ended() || c.err != nil {
				t.Fatalf("caller %d: ended %v, %v", i, c.ended(), c.err)
			}
			for _, later := range callers[i+1:] {
				if later.ended() {
					t.Fatalf("a caller behind caller %d has ended: %v", i, later.err)
				}
			}
			c.unlock()
			w.free()
			time.Sleep(waiting.PauseMax) // the next may wait a moment for messages that hand it the votes
		}
		w.nothingLeft()
	})
}

func TestLock_cancelled_givesBackItsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		first, second := w.lock(ctx), w.lock(ctx)
		if n := len(w.masters[0].places); n != 1 {
			t.Errorf("%d places for one line", n)
		}
		cancel()
		if !first.ended() || !errors.Is(first.err, context.Canceled) || !errors.Is(first.err, errFailed) || first.Rounds != 1 {
			t.Errorf("the first: %v, %d rounds", first.err, first.Rounds)
		}
		if !second.ended() || !errors.Is(second.err, context.Canceled) || second.Rounds != 0 {
			t.Errorf("the second: %v, %d rounds", second.err, second.Rounds)
		}
		w.nothingLeft()
	})
}

func TestClose_allCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		callers := []*caller{w.lock(t.Context()), w.lock(t.Context())}
		if err := w.lines.Enter(t.Context(), lockX); err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.over = errOver
		w.mu.Unlock()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			w.lines.Close()
		}()
		for i, c := range callers {
			if !c.ended() || !errors.Is(c.err, errOver) {
				t.Errorf("caller %d: %v", i, c.err)
			}
		}
		select {
		case <-closed:
			t.Error("Close returned before a round that is under way")
		default:
		}
		w.lines.Leave()
		<-closed
		late := w.lock(t.Context())
		if !late.ended() || !errors.Is(late.err, errOver) || late.turn != nil {
			t.Errorf("after Close: %v, joined %v", late.err, late.turn != nil)
		}
		if err := w.lines.Enter(t.Context(), lockX); !errors.Is(err, errOver) {
			t.Errorf("Enter after Close: %v", err)
		}
	})
}

// Messages on a channel may have been missed. Those who would have been woken by them ask again, and nobody else.
func TestSubscribed_toAChannel_itsCallersAskAgain(t *testing.T) {
	for channel, asks := range map[string]bool{
		protocol.Wake(me): true, lockX.Channel: true, protocol.NewLock("y", protocol.Plain).Channel: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			ctx, cancel := context.WithCancel(t.Context())
			c := w.lock(ctx)
			for _, m := range w.masters {
				m.mu.Lock()
				m.holder = ""
				m.mu.Unlock()
			}
			for i := range w.masters {
				w.lines.Subscribed(i, channel)
			}
			if c.ended() != asks {
				t.Errorf("%s: asked again %t, want %t", channel, c.ended(), asks)
			}
			cancel()
			if c.ended(); c.won != nil {
				c.unlock()
			}
			w.nothingLeft()
		})
	}
}
