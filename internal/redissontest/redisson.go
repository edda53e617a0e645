// SPDX-License-Identifier: Apache-2.0

// Package redissontest runs a Java process that takes Redisson 4.7.0 locks as a test tells it to, so that Go locks can
// contend with real Java ones on the same masters.
//
// The guarantee: every instant it reports (Reply.Began, Reply.Ended, Interval) compares with time.Now() of this
// process, to the accuracy of one pair of clock readings (some 100 ns), and a span reported as held lies between the
// return of Java's lock() and the call of its unlock(). So an overlap of two exclusive holders' spans shows two that
// took themselves for the holder; whether the lock is to blame depends on the lease: Java does not look at it again
// before it unlocks. Conditions: the same machine, Linux, and HotSpot, where both clocks are CLOCK_MONOTONIC. Start
// checks that and fails where they are not.
//
// It needs java, javac (17 or newer) and mvn on the PATH; see ErrNoJava and Need. The Java sources are built once, into
// the user's cache directory.
package redissontest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/tail"
)

// Version is that of Redisson, which pom.xml names.
const Version = "4.7.0"

// ErrClosed is returned by every call on a peer that was closed or whose process has ended by itself. In the latter
// case the error that wraps it tells how it ended and the last of what it wrote to stderr.
var ErrClosed = errors.New("redissontest: peer is closed")

// A JavaError is an exception thrown by the Java call. Whether the call had an effect on the masters is unknown.
type JavaError struct {
	Class   string // such as java.lang.IllegalMonitorStateException
	Message string
}

func (e *JavaError) Error() string { return e.Class + ": " + e.Message }

// Config says what a peer connects to.
type Config struct {
	Masters  []string      // host:port each; Redisson gets one client, thus one owner uuid, for each
	Watchdog time.Duration // lockWatchdogTimeout: TTL of a lock without a lease; 0 leaves Redisson's 30 s
}

// Peer is one Java process. All its methods may be called by any goroutine.
type Peer struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	clock  monotonic
	exited chan struct{} // closed when the process is gone and its last reply is delivered

	writing sync.Mutex // one line at a time to stdin

	mu    sync.Mutex
	id    uint64
	calls map[uint64]*call // that wait for their reply
	end   error            // not nil: no reply will come any more
}

// call is a request under way. Its reply is guarded by Peer.mu until done is closed.
type call struct {
	reply Reply
	err   error
	done  chan struct{}
}

// Request is what Do sends. The Handle methods say which fields an Op takes.
type Request struct {
	Op      string // lock, tryLock, unlock, isLocked, forceUnlock, remaining, loop
	Session string // the Java thread; may be empty for isLocked, forceUnlock and remaining
	Lock    Lock

	Wait, Lease, Hold time.Duration
	Times             int
}

// Reply is the answer to a Request.
type Reply struct {
	Value string // true, false or a number
	// Right before and right after the Java call, on its thread. Zero where no answer came.
	Began, Ended time.Time
	Held         []Interval // of a loop, oldest first
}

// Interval is a span of time during which Java held a lock, by its own account.
type Interval struct {
	From, To time.Time // From: lock() had returned. To: unlock() was not yet called.
}

// Need starts a peer for a test and closes it at the test's end. Where there is no Java, and below .ci/run, it skips
// the test: see needs.Java.
func Need(t testing.TB, config Config) *Peer {
	t.Helper()
	needs.Java(t)
	peer, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peer.Close)
	return peer
}

// Start builds the Java side if need be, starts it and connects it to the masters, which must be up. The context
// bounds the start only; what it started then runs until Close, or ends with this process. When Start fails nothing
// is left running.
func Start(ctx context.Context, config Config) (*Peer, error) {
	java, classes, err := program(ctx)
	if err != nil {
		return nil, err
	}
	p, err := launch(java, classes)
	if err != nil {
		return nil, err
	}
	if err := p.connect(ctx, config); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func launch(java, classes string) (*Peer, error) {
	clock, err := readMonotonic()
	if err != nil {
		return nil, err
	}
	// A small heap, one GC thread and the quick compiler: tests start several on few cores. The VM's own warnings would
	// otherwise go to stdout. No CommandContext: the start's context must not end the process later.
	cmd := exec.Command(java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+DisplayVMOutputToStderr",
		"-cp", classes, "redlock.redissontest.RedissonPeer")
	stderr := &tail.Writer{Max: keptStderr}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("redissontest: %w", err)
	}
	p := &Peer{cmd: cmd, stdin: stdin, clock: clock, exited: make(chan struct{}), calls: map[uint64]*call{}}
	go func() {
		defer close(p.exited)
		err := p.read(stdout)
		if err != nil {
			cmd.Process.Kill() // it talks nonsense: no further reply could be trusted
		}
		err = errors.Join(err, cmd.Wait())
		p.fail(fmt.Errorf("%w: it ended by itself: %v, stderr: %s", ErrClosed, err, stderr))
	}()
	return p, nil
}

// Close kills the process and waits until it is gone. Locks it holds stay on the masters for their TTL, as those of a
// service that crashed. Calls under way, and those to come, return ErrClosed. Closing again does nothing.
func (p *Peer) Close() {
	p.fail(ErrClosed)
	p.cmd.Process.Kill() // by its handle, so never another process that got the same pid
	p.stdin.Close()
	<-p.exited
}

func (p *Peer) connect(ctx context.Context, config Config) error {
	if len(config.Masters) == 0 {
		return errors.New("redissontest: no masters to connect to")
	}
	_, err := p.send(ctx, url.Values{
		"op": {"connect"}, "address": config.Masters, "watchdog": {nanos(config.Watchdog)},
	})
	if err != nil {
		return fmt.Errorf("redissontest: connect to %v: %w", config.Masters, err)
	}
	// A call that does nothing, so that the bounds are tight.
	sent := time.Now()
	reply, err := p.send(ctx, url.Values{"op": {"clock"}})
	if err != nil {
		return err
	}
	return p.clock.check(sent, reply.Began, reply.Ended, time.Now())
}

// Do sends a request and waits for its reply. Requests of one session are served in the order of the calls, different
// sessions at the same time. The error is a *JavaError where Java threw, ErrClosed where the peer is gone, or the
// context's: then Java still works on the request, and the session is busy until it is done. The reply of a failed
// loop holds the spans reported so far.
func (p *Peer) Do(ctx context.Context, r Request) (Reply, error) {
	return p.send(ctx, url.Values{
		"op": {r.Op}, "session": {r.Session},
		"kind": {string(r.Lock.Kind)}, "name": r.Lock.Names, "master": {strconv.Itoa(r.Lock.Master)},
		"wait": {nanos(r.Wait)}, "lease": {nanos(r.Lease)}, "hold": {nanos(r.Hold)}, "times": {strconv.Itoa(r.Times)},
	})
}

func nanos(d time.Duration) string { return strconv.FormatInt(int64(d), 10) }

func (p *Peer) send(ctx context.Context, form url.Values) (Reply, error) {
	c := &call{done: make(chan struct{})}
	p.mu.Lock()
	if p.end != nil {
		defer p.mu.Unlock()
		return Reply{}, p.end
	}
	p.id++
	id := p.id
	p.calls[id] = c
	p.mu.Unlock()

	form.Set("id", strconv.FormatUint(id, 10))
	p.writing.Lock()
	// An error is left to the reader, who sees the same end and knows its reason.
	io.WriteString(p.stdin, form.Encode()+"\n")
	p.writing.Unlock()

	select {
	case <-c.done:
		return c.reply, c.err
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.calls, id)
		return c.reply, context.Cause(ctx)
	}
}

// read delivers replies until stdout ends. Its error means that a line made no sense.
func (p *Peer) read(stdout io.Reader) error {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if err := p.deliver(lines.Text()); err != nil {
			return fmt.Errorf("reply %q: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

// deliver puts one line where it belongs: into a loop's spans, or as the last word to a call.
func (p *Peer) deliver(line string) error {
	values, err := url.ParseQuery(line)
	form := form{Values: values, err: err}
	id := uint64(form.number("id"))

	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.calls[id]
	if !ok {
		return form.err // its caller has gone
	}
	if form.Has("from") {
		held := Interval{From: p.clock.time(form.number("from")), To: p.clock.time(form.number("to"))}
		c.reply.Held = append(c.reply.Held, held)
		return form.err
	}
	began, ended := p.clock.time(form.number("began")), p.clock.time(form.number("ended"))
	if form.err != nil {
		return form.err // the call fails with the peer
	}
	c.reply.Value, c.reply.Began, c.reply.Ended = form.Get("value"), began, ended
	if form.Has("error") {
		c.err = &JavaError{Class: form.Get("error"), Message: form.Get("message")}
	}
	delete(p.calls, id)
	close(c.done)
	return nil
}

// fail answers all calls, and those to come, with err. The first reason stands.
func (p *Peer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		return
	}
	p.end = err
	for _, c := range p.calls {
		c.err = err
		close(c.done)
	}
	clear(p.calls)
}

// form is one line from Java; err is the first field that was no number.
type form struct {
	url.Values
	err error
}

func (f *form) number(field string) int64 {
	n, err := strconv.ParseInt(f.Get(field), 10, 64)
	if f.err == nil {
		f.err = err
	}
	return n
}

// keptStderr is how much of the end of what a process says is in its error, in bytes.
const keptStderr = 4096
