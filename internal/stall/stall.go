// SPDX-License-Identifier: Apache-2.0

// Package stall notes how long a test was held up by its machine, so that a bound in real time can tell a slow machine from a fault. It is
// for tests only.
//
// A [Meter] adds up two things: how late the timers of the test's process fire, and for how long its threads and those of its child processes have
// waited for a processor. The first sees a machine that stands still. The second sees a redis-server that has to wait while the test does not.
// Threads that wait at the same time count each, so no chain of events was held up for longer than the sum.
package stall

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	beat  = time.Millisecond     // how often a meter looks
	slack = 2 * time.Millisecond // a look that comes no later than this is not held up
	every = 100                  // beats between two looks at the processors' queue
	tries = 3                    // how often Try runs a test at the most
)

// TriesVar is an environment variable that the gate sets: it runs a test that was held up in its first tries once more, when nothing runs beside it.
const (
	TriesVar   = "REDLOCK_TRIES"
	FirstTries = "2" // Try runs a test twice, and skips one that was held up both times, with AloneText
	LastTry    = "1"
)

// AloneText is in what a test says whose first tries failed and were held up. Such a test is skipped and does not fail: a failure of its own, beside its
// tries, still counts then, as go test sees it.
const AloneText = "; it is to run again, alone:"

// limit returns how often Try runs a test at the most, and whether there is one try more after that.
func limit() (most int, more bool) {
	switch os.Getenv(TriesVar) {
	case FirstTries:
		return tries - 1, true
	case LastTry:
		return 1, false
	}
	return tries, false
}

// A Meter notes how long its process and its child processes were held up. Any goroutine may ask it.
type Meter struct{ late, waited time.Duration } // what the watch had when the meter started, less what add adds

// The meters of a process share one watch: tests that run at the same time would each look at every thread of every server, ten times a second.
var shared watch

// A watch adds up for how long timers were late and threads waited, as long as there is a meter.
type watch struct {
	mu            sync.Mutex
	meters        int
	late          time.Duration
	queue         *queue
	stop, stopped chan struct{} // of its goroutine
}

// Start starts a meter. Stop ends it, and the last one that is stopped ends the goroutine of all.
func Start() *Meter { return shared.start() }

func (w *watch) start() *Meter {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.meters++; w.meters == 1 {
		w.queue, w.stop, w.stopped = newQueue(), make(chan struct{}), make(chan struct{})
		go w.run(w.stop, w.stopped)
	}
	return &Meter{w.late, w.queue.look()}
}

func (w *watch) run(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	ticker := time.NewTimer(beat)
	defer ticker.Stop()
	for n := 1; ; n++ {
		ticker.Reset(beat)
		began := time.Now()
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		late := time.Since(began) - beat
		if late <= slack && n%every != 0 {
			continue
		}
		w.mu.Lock()
		if late > slack {
			w.late += late
		}
		if n%every == 0 { // a child may end any time, and what it waited ends with it
			w.queue.look()
		}
		w.mu.Unlock()
	}
}

// Held returns for how long the process and its children were held up since Start, all stalls together.
func (m *Meter) Held() time.Duration {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return shared.late - m.late + shared.queue.look() - m.waited
}

// Stop ends the meter.
func (m *Meter) Stop() {
	shared.mu.Lock()
	shared.meters--
	stop, stopped, last := shared.stop, shared.stopped, shared.meters == 0
	shared.mu.Unlock()
	if last {
		close(stop)
		<-stopped
	}
}

// Try runs test. If it fails and was held up meanwhile for longer than margin, the machine may have been the reason: Try
// runs it again, at most twice, and logs that it did. A failure without such a stall counts at once, and so does a third one. margin is what
// the tightest bound in the test leaves to a correct build on an idle machine.
//
// What no stall excuses, test reports to the t of Try: it is not tried again then.
//
// test gets a testing.TB of its own. What it registers with Cleanup runs at the end of each try.
func Try(t testing.TB, margin time.Duration, test func(t testing.TB)) {
	t.Helper()
	try(t, margin, Start, test)
}

func try(t testing.TB, margin time.Duration, start func() *Meter, test func(t testing.TB)) {
	t.Helper()
	most, more := limit()
	for n := 1; ; n++ {
		meter := start()
		one := newAttempt(t)
		one.run(test)
		held := time.Duration(0)
		if one.failed {
			held = meter.Held()
		}
		meter.Stop()
		switch {
		case one.skipped:
			t.Skip(one.text())
		case !one.failed:
			return
		case t.Failed():
			t.Fatalf("try %d failed, and no stall excuses it:\n%s", n, one.text())
		case held > margin && n == most && more:
			t.Skipf("try %d failed while it was held up for %v, more than its margin of %v%s\n%s", n, held, margin, AloneText, one.text())
		case held <= margin || n == most:
			t.Fatalf("try %d failed, it was held up for %v (margin %v):\n%s", n, held, margin, one.text())
		}
		t.Logf("try %d failed while it was held up for %v, more than its margin of %v; it runs again:\n%s", n, held, margin, one.text())
	}
}

// attempt is the testing.TB of one try. It keeps what the test says.
type attempt struct {
	testing.TB // for what a try shares with its test, such as its name
	ctx        context.Context
	cancel     context.CancelFunc

	mu       sync.Mutex
	failed   bool
	skipped  bool
	log      []string
	cleanups []func()
}

func newAttempt(t testing.TB) *attempt {
	a := &attempt{TB: t}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	if of, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := of.Deadline(); ok { // what waits for something that does not come says so, and leaves time for another try
			a.ctx, a.cancel = context.WithTimeout(context.Background(), time.Until(end)/2)
		}
	}
	return a
}

// run runs test and what it cleans up, each in a goroutine that a Fatal may end.
func (a *attempt) run(test func(testing.TB)) {
	apart(func() { test(a) })
	a.cancel()
	for {
		a.mu.Lock()
		n := len(a.cleanups)
		if n == 0 {
			a.mu.Unlock()
			return
		}
		last := a.cleanups[n-1]
		a.cleanups = a.cleanups[:n-1]
		a.mu.Unlock()
		apart(last)
	}
}

func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (a *attempt) say(failed bool, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = a.failed || failed
	a.log = append(a.log, text)
}

func (a *attempt) text() (text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range a.log {
		text += "    " + line + "\n"
	}
	return text
}

func (a *attempt) Helper()                           {}
func (a *attempt) Context() context.Context          { return a.ctx }
func (a *attempt) Log(args ...any)                   { a.say(false, fmt.Sprint(args...)) }
func (a *attempt) Logf(format string, args ...any)   { a.say(false, fmt.Sprintf(format, args...)) }
func (a *attempt) Error(args ...any)                 { a.say(true, fmt.Sprint(args...)) }
func (a *attempt) Errorf(format string, args ...any) { a.say(true, fmt.Sprintf(format, args...)) }
func (a *attempt) Fatal(args ...any)                 { a.say(true, fmt.Sprint(args...)); runtime.Goexit() }
func (a *attempt) Fatalf(format string, args ...any) {
	a.say(true, fmt.Sprintf(format, args...))
	runtime.Goexit()
}
func (a *attempt) Fail()                            { a.say(true, "failed") }
func (a *attempt) FailNow()                         { a.say(true, "failed"); runtime.Goexit() }
func (a *attempt) Skip(args ...any)                 { a.skip(fmt.Sprint(args...)) }
func (a *attempt) Skipf(format string, args ...any) { a.skip(fmt.Sprintf(format, args...)) }
func (a *attempt) SkipNow()                         { a.skip("skipped") }

func (a *attempt) skip(why string) {
	a.say(false, why)
	a.mu.Lock()
	a.skipped = true
	a.mu.Unlock()
	runtime.Goexit()
}

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func (a *attempt) Cleanup(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleanups = append(a.cleanups, f)
}
