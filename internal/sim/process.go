// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// process is one life of a client: from its start until it is killed. Its threads are the workers of the client.
type process struct {
	number  int // 1 is the first process of the client
	ctx     context.Context
	end     context.CancelFunc // of ctx, when the process is killed
	revive  chan struct{}      // closed when another process may start in its place
	threads sync.WaitGroup
	killed  atomic.Bool
	doing   atomic.Pointer[string] // what the worker that acted last does, or did when the process was killed

	mu     sync.Mutex
	nodes  []*nodetest.Node // its connections
	doomed bool             // a fault kills it
	fuse   int              // it dies when it sends so many more commands of a kind; 0: it does not
	kind   string
}

// What a client did when it was killed, for Stats.Killed.
const (
	DoingNothing = "between two locks"
	DoingLock    = "waiting for a lock or taking it"
	DoingHold    = "holding a lock"
	DoingUnlock  = "giving a lock back"
)

var errDead = errors.New("the process was killed")

func newProcess(number int) *process {
	p := &process{number: number, revive: make(chan struct{})}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.does(DoingNothing)
	return p
}

func (p *process) does(what string) {
	if !p.killed.Load() {
		p.doing.Store(&what)
	}
}

// sends is called with each command before it is sent. It says what happens to the command, if the process is dead or dies with it.
func (p *process) sends(cmd nodetest.Command) (f nodetest.Fault, dead bool) {
	if cmd.Name != "message" {
		p.mu.Lock()
		if p.fuse > 0 && cmd.Name == p.kind {
			if p.fuse--; p.fuse == 0 {
				p.killed.Store(true) // nothing is sent after this instant
				go p.die()
			}
		}
		p.mu.Unlock()
	}
	if !p.killed.Load() {
		return f, false
	}
	return nodetest.Fault{Lose: lostOf(cmd), Cut: true, Refuse: errDead}, true
}

// lostOf is what a dead process loses of a command: an attempt to connect fails at once, and a message is a reply.
func lostOf(cmd nodetest.Command) nodetest.Lost {
	switch cmd.Name {
	case "dial":
		return nodetest.LoseNothing
	case "message":
		return nodetest.LoseReply
	}
	return nodetest.LoseCommand
}

// die ends the process: nothing is sent any more, and what it had sent still arrives.
func (p *process) die() {
	p.killed.Store(true)
	p.end()
	p.mu.Lock()
	nodes := p.nodes
	p.mu.Unlock()
	for _, n := range nodes {
		n.Cut()
	}
}

// doom says that a fault is about to kill p; false if another one does. kind and fuse are as in process.
func (p *process) doom(kind string, fuse int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doomed {
		return false
	}
	p.doomed, p.kind, p.fuse = true, kind, fuse
	return true
}

// killClient kills the process of a client, at any time or when it sends a command of some kind. The fault lasts until another process may
// start in its place.
func (w *world) killClient(rnd *rand.Rand) fault {
	order := rnd.Perm(len(w.members))
	kind, n, when := "", 0, "at any time"
	if rnd.IntN(3) > 0 {
		// The masters before this one execute the command, and the others never see it.
		kind = []string{"acquire", "release", "release", "confirm", "extend"}[rnd.IntN(5)]
		n = 1 + rnd.IntN(len(w.masters))
		when = fmt.Sprintf("before it sends %s number %d", kind, n)
	}
	for _, i := range order {
		m, p := w.members[i], w.members[i].running()
		if p == nil || !p.doom(kind, n) {
			continue
		}
		if n == 0 {
			p.die()
		}
		return goesWrong("kill-client", fmt.Sprintf("%s killed %s", m.name(p), when), func() { m.mayStart(p) })
	}
	return goesWrong("kill-client", "nobody is there to be killed", func() {})
}

// mayStart ends the fault of a killed process: another one may start in its place.
func (m *member) mayStart(p *process) {
	p.die() // it may not have sent the command
	if m.w.op != nil {
		m.restart(time.Now())
	}
	close(p.revive)
}

// running is the process of m, or nil if it is down.
func (m *member) running() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client == nil || m.proc.killed.Load() {
		return nil
	}
	return m.proc
}

// last is the process of m that was begun last.
func (m *member) last() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc
}

// begin is the process that a client is about to be opened in: a new one where the last one was killed.
func (m *member) begin() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil {
		m.proc = newProcess(1)
	} else if m.proc.killed.Load() {
		m.proc = newProcess(m.proc.number + 1)
	}
	return m.proc
}

// opened makes c the client of p.
func (m *member) opened(p *process, c *redlock.Client, l *list) {
	m.mu.Lock()
	m.client, m.list = c, l
	m.mu.Unlock()
	select {
	case m.born <- struct{}{}:
	default:
	}
}

// name is that of m in the history, as long as p is its process.
func (m *member) name(p *process) string {
	if p.number == 1 {
		return fmt.Sprintf("c%d", m.id)
	}
	return fmt.Sprintf("c%d.%d", m.id, p.number)
}

// work runs the workers of m, in one process after the other, until the time comes.
func (m *member) work(until time.Time) {
	for {
		p := m.last() // which may have been killed before its workers started
		for i := range m.w.cfg.Workers {
			p.threads.Go(func() { newWorker(m, p, i).run(until) })
		}
		p.threads.Wait()
		if !p.killed.Load() {
			return
		}
		m.w.mu.Lock()
		m.w.stats.kill(*p.doing.Load())
		m.w.mu.Unlock()
		m.closeProcess(p)
		if !m.awaitNext(p, until) {
			return
		}
	}
}

// awaitNext waits until another process runs in the place of p, and starts it unless the operators' life of clients does that. It says
// whether one runs.
func (m *member) awaitNext(p *process, until time.Time) bool {
	if m.w.op == nil {
		<-p.revive
		return m.reopen() == nil
	}
	for m.running() == nil {
		timer := time.NewTimer(time.Until(until))
		select {
		case <-m.born:
			timer.Stop()
		case <-timer.C:
			return false
		}
	}
	return true
}

// reopen starts a process, again and again until it finds a quorum, as a supervisor would.
func (m *member) reopen() (err error) {
	for range 400 {
		ctx, cancel := context.WithTimeout(context.Background(), m.w.cfg.MaxTTL/4)
		err = m.open(ctx)
		cancel()
		if err == nil {
			return nil
		}
		time.Sleep(m.w.cfg.MaxTTL / 100)
	}
	m.w.fail(fmt.Errorf("sim: client %d does not start again: %w", m.id, err))
	return err
}
