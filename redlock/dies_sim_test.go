// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// fuse is the end of a process after so many commands. What it has sent arrives, and nothing that comes later: kill -9 between two messages.
type fuse struct {
	only  string // the commands that count; empty: all
	armed atomic.Bool
	dead  atomic.Bool
	died  chan struct{}
	mu    sync.Mutex
	left  int
}

func newFuse(only string) *fuse { return &fuse{only: only, died: make(chan struct{})} }

// arm lets n commands through from now on.
func (f *fuse) arm(n int) {
	f.left = n
	f.armed.Store(true)
}

// on has the fuse watch a way to a master.
func (f *fuse) on(way *nodetest.Node) {
	way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
		if f.armed.Load() && cmd.Name != "message" && cmd.Name != "dial" && (f.only == "" || f.only == cmd.Name) {
			f.burn()
		}
		if f.dead.Load() {
			return ofTheDead(cmd)
		}
		return nodetest.Fault{Delay: time.Millisecond}
	})
}

func (f *fuse) burn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left == -1 {
		f.dead.Store(true)
		close(f.died)
	}
}

// death is one run: a process dies in an act, and others go on.
type death struct {
	t     *testing.T
	c     *cluster
	fuse  *fuse
	dying *member // nil where the act is an operator's on another list
	other *member
	at    time.Time // when it died, or had done
	mu    sync.Mutex
	until time.Time // until when the one that died has the lock, by its own account
	token int64
}

// has notes what the process that may be dead by now was granted. A process that is dead takes nothing.
func (d *death) has(l *redlock.Lease, err error) *redlock.Lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil || d.fuse.dead.Load() {
		return nil
	}
	d.until, d.token = l.ValidUntil(), l.Token()
	return l
}

// leaves notes that the process has stopped to work under the lock.
func (d *death) leaves() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.fuse.dead.Load() {
		d.until = time.Time{}
	}
}

// taken judges a lease that another was granted: not while the one that died had it, soon after its TTL, with a larger token.
func (d *death) taken(l *redlock.Lease, within time.Duration) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Before(d.until) {
		d.t.Errorf("granted %v before the one that died had lost it", d.until.Sub(now))
	}
	if took := time.Since(d.at); took > within {
		d.t.Errorf("granted %v after the death", took)
	}
	if l.Token() <= d.token {
		d.t.Errorf("token %d after %d", l.Token(), d.token)
	}
}

// aTTL is how long it takes at most until a lock that was held by the dead is had by another.
const aTTL = redlock.DefaultTTL + time.Second

// next has another process take the lock, and give it back.
func (d *death) next(lock string, within time.Duration, opts ...redlock.LockOption) {
	d.t.Helper()
	l, err := d.other.Mutex(lock, opts...).Lock(d.t.Context())
	noErr(d.t, err)
	d.taken(l, within)
	noErr(d.t, l.Unlock(d.t.Context()))
}

// An act is what a process does when it dies. prepare makes what must be there before, and returns the act and what others do after it.
type deadlyAct struct {
	name    string
	only    string // see fuse
	prepare func(d *death) (act func(ctx context.Context), after func())
}

// A process dies between any two messages of each act that takes several. Another goes on: it has what the dead one had, at the end of a
// TTL at the latest and not before its validity was over, and nothing is left.
func TestDies_betweenAnyTwoMessages_anotherGoesOn(t *testing.T) {
	needs.Test(t)
	needs.NoRace(t, "a large simulation")
	for _, a := range deadlyActs {
		t.Run(a.name, func(t *testing.T) {
			n, step := 0, 5
			if needs.InSoak(t) {
				step = 1 // between any two; the gate has every fifth
			}
			for died := true; died && !t.Failed(); n += step {
				simulate(t, func(t *testing.T, c *cluster) { died = a.run(t, c, n) })
				if t.Failed() {
					t.Logf("after %d commands", n)
				}
			}
			t.Logf("fewer than %d messages", n)
			if n < 5 {
				t.Errorf("%d messages are no act of several", n)
			}
		})
	}
}

// run has the process die after n commands. It says whether it did.
func (a deadlyAct) run(t *testing.T, c *cluster, n int) (died bool) {
	d := &death{t: t, c: c, fuse: newFuse(a.only)}
	if a.only == "" {
		c.init()
		d.dying, d.other = c.client(), c.client()
		for _, way := range d.dying.Ways {
			d.fuse.on(way)
		}
	}
	act, after := a.prepare(d)
	time.Sleep(time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	did := make(chan struct{})
	d.fuse.arm(n)
	go func() {
		defer close(did)
		act(ctx)
	}()
	select {
	case <-did:
	case <-d.fuse.died:
		died = true
	}
	d.at = time.Now()
	cancel() // what waits in it ends, and can tell nobody
	if died && d.dying != nil {
		for _, way := range d.dying.Ways {
			way.Cut()
		}
	}
	after()
	<-did
	if d.dying != nil {
		_ = d.dying.Close()
	}
	c.nothingLeft()
	return died
}

// operator is a list of masters for an act of an operator who dies.
func (d *death) watched(nodes []node.Node) {
	for _, n := range nodes {
		d.fuse.on(n.(*nodetest.Node))
	}
}
