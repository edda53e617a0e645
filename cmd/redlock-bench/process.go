// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/redlock"
)

// contenderName is the hidden command by which the program plays one process of a contention.
const contenderName = "contender"

// contender is that command. On its standard input come a task and, when all processes are ready, a word to begin; to its standard output
// go a word that it is ready, and what it saw; each is one value of JSON. It ends when its input does, so that it never outlives the
// program that started it, however that ended. (The task is no argument: a URL may hold a password, and arguments are for all to see.)
type contender struct{}

func (contender) define(*flag.FlagSet) {}
func (contender) check() error         { return nil }

func (contender) run(ctx context.Context, o output) error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(o.out)
	var t task
	if err := in.Decode(&t); err != nil {
		return usageError{err}
	}
	s := setup{ttl: t.TTL}
	opts := s.options(len(t.Nodes))
	if t.Fixed {
		opts = append(opts, redlock.WithFixedMasters())
	}
	crowd, err := t.crowd(func() (*redlock.Client, error) { return openWithin(t.Nodes, opts) })
	if err != nil {
		return err
	}
	defer crowd.close()
	var begin string
	if err := errors.Join(out.Encode("ready"), in.Decode(&begin)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	saw, _ := crowd.press(ctx, t.Duration)
	return out.Encode(saw)
}

// fleet is crowds in processes of their own.
type fleet struct{ processes []*process }

// process is one of them.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr strings.Builder
}

// grace is how long a process may take to end by itself.
const grace = 10 * time.Second

// fleet shares the task's waiters out among n processes, and returns when all are ready. The caller closes what it returns; on an error
// nothing is left behind.
func (t *task) fleet(ctx context.Context, n int) (*fleet, error) {
	f := &fleet{}
	for k := range n {
		share := *t
		share.Clients = 1
		share.Waiters, share.Readers = portion(t.Waiters, n, k), portion(t.Readers, n, k)
		p, err := startProcess(share, max(1, runtime.NumCPU()/n))
		if err != nil {
			f.close()
			return nil, err
		}
		f.processes = append(f.processes, p)
	}
	stop := context.AfterFunc(ctx, f.dismiss)
	defer stop()
	err := f.each(func(p *process) error {
		var ready string
		return p.decode(&ready)
	})
	if err != nil || ctx.Err() != nil {
		f.close()
		return nil, errors.Join(ctx.Err(), err)
	}
	return f, nil
}

// portion is how many of n things the k-th of m gets when they are dealt out one by one.
func portion(n, m, k int) int { return (n + m - 1 - k) / m }

// startProcess starts one that runs on so many cores at a time. If each thought that it had the whole machine, they would wake each other's
// threads more than they worked.
func startProcess(t task, cores int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, contenderName)}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", cores))
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	_ = json.NewEncoder(p.in).Encode(t) // if it cannot read, its output tells
	return p, nil
}

// decode reads what the process says next.
func (p *process) decode(to any) error {
	if err := p.out.Decode(to); err != nil {
		said := strings.TrimPrefix(strings.TrimSpace(p.end()), "redlock-bench: ")
		return fmt.Errorf("a process of the contention ended: %w: %s", err, said)
	}
	return nil
}

// end ends the process and returns what it had to complain of. It may be called again.
func (p *process) end() string {
	_ = p.in.Close()
	kill := time.AfterFunc(grace, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.cmd.Wait() // how it ended does not matter: it has said what it had to say, or has not
	return p.stderr.String()
}

// each calls fn for all processes at once and returns the first error.
func (f *fleet) each(fn func(p *process) error) error {
	var g errgroup.Group
	for _, p := range f.processes {
		g.Go(func() error { return fn(p) })
	}
	return g.Wait()
}

// dismiss makes the processes stop and say what they have seen so far.
func (f *fleet) dismiss() {
	for _, p := range f.processes {
		_ = p.in.Close()
	}
}

func (f *fleet) close() {
	_ = f.each(func(p *process) error {
		p.end()
		return nil
	})
}

// press is crowd.press for all of them. How long it takes they know from their task.
func (f *fleet) press(ctx context.Context, _ time.Duration) (sight, error) {
	stop := context.AfterFunc(ctx, f.dismiss)
	defer stop()
	for _, p := range f.processes {
		_ = json.NewEncoder(p.in).Encode("begin")
	}
	var mu sync.Mutex
	var all sight
	err := f.each(func(p *process) error {
		var saw sight
		if err := p.decode(&saw); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all.add(saw)
		return nil
	})
	return all, err
}
