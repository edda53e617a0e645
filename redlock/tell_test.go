// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// onEach is an Observer that calls f with the name of each of its functions.
func onEach(f func(name string)) *event.Observer {
	return &event.Observer{
		Opening:  func(context.Context, event.Opening) { f("Opening") },
		Opened:   func(event.Client) { f("Opened") },
		Closed:   func(event.Client) { f("Closed") },
		Waits:    func(context.Context, event.Wait) { f("Waits") },
		Acquired: func(context.Context, event.Acquire) { f("Acquired") },
		Voted:    func(event.Vote) { f("Voted") },
		Extended: func(event.Extend) { f("Extended") },
		Ended:    func(event.End) { f("Ended") },
		Unlocked: func(context.Context, event.Unlock) { f("Unlocked") },
		Master:   func(event.Master) { f("Master") },
		Clock:    func(event.Clock) { f("Clock") },
		Epoch:    func(event.Epoch) { f("Epoch") },
	}
}

// A function of an Observer panics, whichever it is: the client goes on, logs that once, and calls that
// Observer no more. The other Observer hears everything.
func TestObserver_panics_isSwitchedOffAndLoggedOnce(t *testing.T) {
	heard := live(t, nil)
	if len(heard) != 12 {
		t.Errorf("heard of %v", slices.Sorted(maps.Keys(heard)))
	}
	for name := range heard {
		calls, after := 0, 0
		var at time.Time
		var out syncBuffer
		others := live(t, func(n string) {
			calls++
			if !at.IsZero() && time.Now().After(at) { // at the same moment calls may be under way
				after++
			}
			if n == name {
				at = time.Now()
				panic("ouch")
			}
		}, redlock.WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
		for n := range heard {
			if others[n] == 0 {
				t.Errorf("%s panicked: the other Observer does not hear of %s", name, n)
			}
		}
		if got := out.String(); strings.Count(got, "panicked") != 1 || !strings.Contains(got, "function=Observer."+name+" panic=ouch") || !strings.Contains(got, "tell_test.go") {
			t.Errorf("%s panicked: the log:\n%.2000s", name, got)
		}
		if calls == 0 || after != 0 {
			t.Errorf("%s panicked: %d calls, %d of them later", name, calls, after)
		}
	}
}

// live is a life of a client with all events. It returns how often an Observer heard of each. first, if there is
// one, is another Observer that hears of them before.
func live(t *testing.T, first func(name string), opts ...redlock.Option) map[string]int {
	t.Helper()
	var mu sync.Mutex // the functions of first are called one at a time
	heard := make(map[string]int)
	one := func(f func(string)) *event.Observer {
		return onEach(func(name string) {
			mu.Lock()
			defer mu.Unlock()
			f(name)
		})
	}
	if first != nil {
		opts = append(opts, redlock.WithObserver(one(first)))
	}
	opts = append(opts, redlock.WithObserver(one(func(name string) { heard[name]++ })))
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		for _, m := range c.masters {
			m.Pause()
		}
		go func() {
			time.Sleep(5 * time.Second)
			for _, m := range c.masters {
				m.Resume()
			}
		}()
		a, b := c.client(opts...), c.client()
		held := mustLock(t, b.Mutex("x"))
		go func() {
			time.Sleep(time.Second)
			wantErr(t, held.Unlock(context.Background()), nil)
		}()
		lease, err := a.Mutex("x").Lock(t.Context())
		wantErr(t, err, nil)
		time.Sleep(4 * time.Second)
		wantErr(t, lease.Unlock(t.Context()), nil)
		c.masters[0].StepClock(time.Minute)
		mustLock(t, a.Mutex("y"))
		time.Sleep(2 * time.Second)
		lost := mustLock(t, a.Mutex("z", redlock.WithoutRenewal(), redlock.WithTTL(time.Second)))
		<-lost.Context().Done()
		if first != nil && a.Stats().Panics > 1 {
			t.Errorf("%d panics", a.Stats().Panics)
		}
		wantErr(t, a.Close(), nil)
		if first != nil && a.Stats().Panics != 1 {
			t.Errorf("%d panics", a.Stats().Panics)
		}
		synctest.Wait()
	})
	return heard
}

// The handler of the logger panics. There is nobody to tell, and the client goes on.
func TestWithLogger_handlerPanics_clientGoesOn(t *testing.T) {
	var mu sync.Mutex
	var calls []time.Time // of the bubble's clock
	live(t, nil, redlock.WithLogger(slog.New(slog.NewTextHandler(&syncBuffer{}, &slog.HandlerOptions{
		ReplaceAttr: func([]string, slog.Attr) slog.Attr {
			mu.Lock()
			calls = append(calls, time.Now())
			mu.Unlock()
			panic("ouch")
		}}))))
	// Three masters' goroutines may log in one moment, and the panic is logged once more.
	if len(calls) == 0 || len(calls) > 4 || calls[0] != calls[len(calls)-1] {
		t.Errorf("called at %v", calls)
	}
}

// busy is for tests in real time, on a machine that may be busy.
var busy = redlock.WithNodeTimeout(10 * time.Second)

// While an Observer is told, no mutex of the client is locked: what needs one is done at once on another
// goroutine. In real time, because a goroutine that waits for a mutex stops a bubble.
func TestObserver_isTold_noMutexLocked(t *testing.T) {
	t.Parallel()
	masters := simtest.New(3)
	wantErr(t, masters.Init(t.Context(), busy), nil)
	var client atomic.Pointer[redlock.Client]
	var lease atomic.Pointer[redlock.Lease]
	var mu sync.Mutex
	probed := make(map[string]bool)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	probe := func(name string) {
		c := client.Load()
		if c == nil {
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = lease.Load().Err() // the hold's
			lease.Load().ValidUntil()
			_ = c.Stats() // the renewer's, the keeper's, that of the masters' states
			_ = c.Ready()
			_, _ = c.Mutex("x").Lock(over) // that of the waiters
		}()
		select {
		case <-done:
			mu.Lock()
			defer mu.Unlock()
			probed[name] = true
		case <-time.After(10 * time.Second):
			t.Errorf("%s is told with a mutex locked", name)
		}
	}
	quiet := onEach(probe)
	quiet.Waits = func(ctx context.Context, _ event.Wait) {
		if ctx != over { // else of the probe itself
			probe("Waits")
		}
	}
	quiet.Acquired = func(ctx context.Context, _ event.Acquire) {
		if ctx != over {
			probe("Acquired")
		}
	}
	quiet.Voted = func(e event.Vote) {
		if e.Handed {
			probe("handed")
		}
		probe("Voted")
	}
	quiet.Master = func(e event.Master) {
		if e.To == event.MasterRecovers { // that is the keeper's to say
			probe("recovers")
		}
		probe("Master")
	}
	open := func(opts ...redlock.Option) *redlock.Client {
		c, err := masters.Open(t.Context(), nil, append(opts, busy)...)
		wantErr(t, err, nil)
		t.Cleanup(func() { _ = c.Close() })
		return c.Client
	}
	a, b := open(redlock.WithObserver(quiet)), open()
	client.Store(a)
	lease.Store(new(redlock.Lease))
	was := func(name string) bool {
		mu.Lock()
		defer mu.Unlock()
		return probed[name]
	}
	for tries := 0; tries < 50 && !was("handed") && !t.Failed(); tries++ { // a message needs the subscription to be there
		held, err := b.Mutex("x").Lock(t.Context())
		wantErr(t, err, nil)
		time.AfterFunc(50*time.Millisecond, func() { _ = held.Unlock(context.Background()) })
		got, err := a.Mutex("x").Lock(t.Context())
		wantErr(t, err, nil)
		lease.Store(got)
		_ = got.Extend(t.Context())
		_ = got.Unlock(t.Context())
	}
	masters[0].Crash()
	masters[0].Restart()
	for began := time.Now(); !was("recovers") && time.Since(began) < 10*time.Second; {
		time.Sleep(10 * time.Millisecond)
		_, _ = a.Inspect(t.Context(), "x")
	}
	short, err := a.Mutex("y", redlock.WithTTL(100*time.Millisecond), redlock.WithoutRenewal()).Lock(t.Context())
	wantErr(t, err, nil)
	lease.Store(short)
	<-short.Context().Done()
	wantErr(t, a.Close(), nil)
	mu.Lock()
	defer mu.Unlock()
	for _, name := range []string{"Waits", "Acquired", "Voted", "handed", "Extended", "Ended", "Unlocked", "Master", "recovers", "Closed"} {
		if !probed[name] {
			t.Errorf("%s was not told", name)
		}
	}
}

// A function that hears of an extend from one master's goroutine keeps no other master's waiting: the lock is to be had.
func TestObserver_extendedBlocks_otherMastersGoOn(t *testing.T) {
	t.Parallel()
	masters := simtest.New(3)
	told, locked := make(chan struct{}, 10), make(chan struct{})
	c, err := masters.Open(t.Context(), nil, busy, redlock.WithUnsafeRecoveryOff(), redlock.WithObserver(&event.Observer{Extended: func(event.Extend) {
		told <- struct{}{}
		select {
		case <-locked:
		case <-time.After(10 * time.Second):
			t.Error("no lock while Extended is told")
		}
	}}))
	wantErr(t, err, nil)
	t.Cleanup(func() { _ = c.Close() })
	lease, err := c.Mutex("x").Lock(t.Context())
	wantErr(t, err, nil)
	extended := make(chan error, 1)
	go func() { extended <- lease.Extend(context.Background()) }()
	<-told
	for second(c.Mutex("y", redlock.WithTTL(time.Second)).TryLock(t.Context())) != nil {
	}
	close(locked)
	wantErr(t, <-extended, nil)
}
