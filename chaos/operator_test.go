// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// operatorVar makes the test binary a process of an operator: what it does, and the lists of masters, with a space between them.
const operatorVar = "REDLOCK_CHAOS_OPERATOR"

var operated = []redlock.Option{redlock.WithTTL(150 * time.Millisecond), redlock.WithMaxTTL(200 * time.Millisecond),
	redlock.WithNodeTimeout(time.Second)}

func listOf(urls []string) admin.List { return admin.List{URLs: urls, Options: operated} }

// operate does what operatorVar says, and ends the process.
func operate(order string) {
	words := strings.Fields(order)
	from, to := listOf(strings.Split(words[1], ",")), listOf(strings.Split(words[2], ","))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	switch words[0] {
	case "init":
		err = admin.Init(ctx, from, nil, admin.NothingWasEverLocked)
	case "reconfigure":
		err = admin.Reconfigure(ctx, from, to, nil)
	case "cancel":
		err = admin.Cancel(ctx, from)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// office is where operators work: their own links to the masters.
type office struct {
	t     *testing.T
	links []*faultproxy.Proxy
}

// process starts processes of an operator, one after the other, until one succeeds or is killed. A process is killed with SIGKILL as it sends its
// nth write of a record, or not if n is 0. It returns the write, which no master has seen yet, or nil.
func (o *office) process(order string, n int64) *faultproxy.Held {
	o.t.Helper()
	for try := 1; ; try++ {
		write, err := o.once(order, n)
		if err == nil {
			return write
		}
		if o.t.Logf("%v", err); try == 5 { // a busy machine may be too slow for one
			o.t.Fatal("no process succeeded")
		}
	}
}

// once is process for one process. It returns an error if that fails by itself. The link kills the process as it takes the write: a test that
// was told of it, and then held up, would let the process send the write again and go on.
func (o *office) once(order string, n int64) (write *faultproxy.Held, err error) {
	var stderr bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), operatorVar+"="+order), &stderr
	started := make(chan struct{})
	var writes atomic.Int64
	var held []*faultproxy.Held
	if n > 0 {
		for _, p := range o.links {
			held = append(held, p.Hold(func(c [][]byte) bool {
				if !writesState(c) || writes.Add(1) != n {
					return false
				}
				<-started
				if cmd.Process != nil {
					_ = cmd.Process.Kill()
				}
				return true
			}))
		}
	}
	err = cmd.Start()
	close(started)
	if err == nil {
		if err = cmd.Wait(); err != nil {
			err = fmt.Errorf("%s: %w: %s", order, err, &stderr)
		}
	}
	if n > 0 && writes.Load() >= n {
		write, err = taken(held), nil
	}
	for _, h := range held {
		if h != write {
			h.Drop()
		}
	}
	return write, err
}

// taken waits until one of them has the command that it takes, which is now.
func taken(held []*faultproxy.Held) *faultproxy.Held {
	for {
		for _, h := range held {
			if h.Command() != nil {
				return h
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// writesState tells whether a command sets the state of a record: a step of an operator or of a client.
func writesState(cmd [][]byte) bool {
	const field = 4 + 5 // EVALSHA, the script, 1, the key; then 2, two fields with their values, and the first field to set
	return len(cmd) > field+1 && bytes.HasPrefix(bytes.ToLower(cmd[0]), []byte("eval")) && string(cmd[field]) == membership.FieldState
}

// kill kills a process at its nth write. The write then is lost, or arrives at once, or after another process has ended what the first began:
// then does that. It returns false if there is no nth write.
func (o *office) kill(order string, n int64, then func()) bool {
	o.t.Helper()
	write := o.process(order, n)
	if write == nil {
		return false
	}
	deliver := func() {
		if _, err := write.Deliver(o.t.Context()); err != nil {
			o.t.Error(err)
		}
	}
	switch n % 3 {
	case 0:
		then()
		deliver()
	case 1:
		deliver()
		then()
	default:
		then()
	}
	write.Drop()
	return true
}

// user locks and unlocks on the list of the moment until ctx ends. A client that is told that its list was left starts again with the next.
func user(ctx context.Context, t *testing.T, name string, w *history.Writer, lists [][]string, granted *atomic.Int64) {
	rec := workload.NewRecorder(w, name)
	for at := 0; ctx.Err() == nil; at++ {
		try, cancel := context.WithTimeout(ctx, time.Second)
		c, err := redlock.Open(try, lists[at%len(lists)], operated...)
		cancel()
		for err == nil && ctx.Err() == nil {
			var lease *redlock.Lease
			lease = rec.Lock("x", history.Exclusive, true, func() (*redlock.Lease, error) {
				try, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				lease, err = c.Mutex("x").Lock(try)
				return lease, err
			})
			if lease != nil {
				granted.Add(1)
				rec.Unlock("x", lease.Holder(), func() error { return lease.Unlock(ctx) })
			}
			var moved *redlock.EpochError
			if err != nil && !errors.As(err, &moved) && ctx.Err() == nil {
				err = nil // for example its masters do not vote at the moment
			}
		}
		if c != nil {
			_ = c.Close()
		}
	}
	if err := rec.Err(); err != nil {
		t.Error(err)
	}
}

// masters starts five masters, and returns an office with links to them and the lists that the two ends of a change have, as operators and as
// clients reach them.
func masters(t *testing.T) (o *office, a, b string, lists [][]string) {
	t.Helper()
	c, err := cluster.Open(t.Context(), cluster.Config{Driver: cluster.Process, Masters: 5})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	o = &office{t: t}
	var direct, proxied []string
	for i, m := range c.Masters() {
		p, err := faultproxy.Start(m.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		o.links = append(o.links, p)
		proxied = append(proxied, fmt.Sprintf("redis://%s?name=m%d", p.Addr(), i+1))
		direct = append(direct, fmt.Sprintf("redis://%s?name=m%d", m.Addr(), i+1))
	}
	return o, strings.Join(proxied[:3], ","), strings.Join(proxied[2:], ","), [][]string{direct[:3], direct[2:]}
}

// underUsers runs f while three clients lock, and judges what they recorded. granted is how often they have been granted the lock.
func underUsers(t *testing.T, lists [][]string, f func(granted func() int64)) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "history.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := history.NewWriter(file, history.Header{Started: time.Now(), Driver: "process", Masters: 3, TTL: 200 * time.Millisecond,
		Promises: history.Promises{Exclusion: true, Tokens: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var users sync.WaitGroup
	var granted atomic.Int64
	for i := range 3 {
		users.Go(func() { user(ctx, t, fmt.Sprintf("c%d", i+1), w, lists, &granted) })
	}
	func() {
		defer users.Wait()
		defer cancel()
		f(granted.Load)
	}()
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadFiles(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []check.Result{check.Whole(safety.Assumptions(), h), check.Whole(safety.Exclusion(), h), check.Whole(safety.Tokens(), h)} {
		t.Logf("%s: %s", r.ID, r.Summary)
		if r.Verdict != check.Ok {
			t.Errorf("%s %s: %s", r.ID, r.Verdict, r.Summary)
		}
	}
}

// An operator's Reconfigure is killed at each of its writes, in turn, while clients lock. Another process ends the change.
func TestOperator_reconfigureKilledAtEachWrite_keepsPromises(t *testing.T) {
	needs.NoRace(t, aboutTime)
	needs.Test(t)
	needs.Redis(t)
	t.Parallel()
	o, a, b, lists := masters(t)
	o.process("init "+a+" "+b, 0)
	underUsers(t, lists, func(func() int64) {
		n := int64(1)
		for ; ; n++ {
			change := "reconfigure " + a + " " + b
			killed := o.kill(change, n, func() { o.process(change, 0) })
			a, b = b, a
			if !killed {
				break
			}
		}
		t.Logf("killed at each of %d writes", n-1)
		if n < 7 {
			t.Errorf("a change of three masters to three has more than %d writes", n-1)
		}
	})
}

// The same with an operator who cancels what another began, and is killed as well.
func TestOperator_cancelKilledAtEachWrite_keepsPromises(t *testing.T) {
	needs.NoRace(t, aboutTime)
	needs.Redis(t)
	t.Parallel()
	o, a, b, lists := masters(t)
	old := &office{t, o.links[:3]}
	o.process("init "+a+" "+b, 0)
	underUsers(t, lists, func(func() int64) {
		n := int64(1)
		for killed := true; killed; n++ {
			// The change has reached one of three old masters: it has begun and is not decided.
			if !old.kill("reconfigure "+a+" "+b, 1, func() {}) {
				t.Fatal("the change was not stopped")
			}
			cancel := "cancel " + a + " " + b
			killed = o.kill(cancel, n, func() { o.process(cancel, 0) })
		}
		t.Logf("killed at each of %d writes", n-2)
		if n < 4 {
			t.Errorf("a cancel has more than %d writes", n-2)
		}
	})
}

// Init is killed at each of its writes, on new masters each time. Clients wait for them.
func TestOperator_initKilledAtEachWrite_keepsPromises(t *testing.T) {
	needs.NoRace(t, aboutTime)
	needs.Redis(t)
	t.Parallel()
	for n, killed := int64(1), true; killed; n++ {
		o, a, b, lists := masters(t)
		underUsers(t, lists[:1], func(granted func() int64) {
			begin := "init " + a + " " + b
			killed = o.kill(begin, n, func() { o.process(begin, 0) })
			c, err := redlock.Open(t.Context(), lists[0], operated...)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			// The users are granted it in between. On a busy machine that takes a while.
			for end := time.Now().Add(20 * time.Second); granted() < 3 && time.Now().Before(end); {
				lease, err := c.Mutex("x").Lock(t.Context())
				if errors.Is(err, redlock.ErrUnreachable) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				// Its TTL is 150 ms: the history says whether a promise was kept.
				if err := lease.Unlock(t.Context()); err != nil && !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrUnconfirmed) {
					t.Fatal(err)
				}
			}
		})
		if !killed {
			t.Logf("killed at each of %d writes", n-1)
			if n < 4 {
				t.Errorf("three masters begin with more than %d writes", n-1)
			}
		}
	}
}
