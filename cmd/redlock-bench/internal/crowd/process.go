// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Contender is the hidden command by which the program plays one process of a contention. See startProcess.
const Contender = "contender"

// Fleet is crowds in processes of their own.
type Fleet struct{ processes []*process }

// process is one of them.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr strings.Builder
}

// grace is how long a process may take to end by itself.
const grace = 10 * time.Second

// Fleet shares the task's waiters out among n processes, and returns when all are ready. The caller closes what it returns; on an error
// nothing is left behind.
func (t *Task) Fleet(ctx context.Context, n int) (*Fleet, error) {
	f := &Fleet{}
	for k := range n {
		share := *t
		share.Clients = 1
		share.Waiters, share.Readers = portion(t.Waiters, n, k), portion(t.Readers, n, k)
		p, err := startProcess(share, max(1, runtime.NumCPU()/n))
		if err != nil {
			f.Close()
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
		f.Close()
		return nil, errors.Join(ctx.Err(), err)
	}
	return f, nil
}

// portion is how many of n things the k-th of m gets when they are dealt out one by one.
func portion(n, m, k int) int { return (n + m - 1 - k) / m }

// startProcess starts one that runs on so many cores at a time. If each thought that it had the whole machine, they would wake each other's
// threads more than they worked.
func startProcess(t Task, cores int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, Contender)}
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
func (f *Fleet) each(fn func(p *process) error) error {
	var g errgroup.Group
	for _, p := range f.processes {
		g.Go(func() error { return fn(p) })
	}
	return g.Wait()
}

// dismiss makes the processes stop and say what they have seen so far.
func (f *Fleet) dismiss() {
	for _, p := range f.processes {
		_ = p.in.Close()
	}
}

// Close ends the processes.
func (f *Fleet) Close() {
	_ = f.each(func(p *process) error {
		p.end()
		return nil
	})
}

// Press is Crowd.Press for all of them. How long it takes they know from their task.
func (f *Fleet) Press(ctx context.Context, _ time.Duration) (Sight, error) {
	stop := context.AfterFunc(ctx, f.dismiss)
	defer stop()
	for _, p := range f.processes {
		_ = json.NewEncoder(p.in).Encode("begin")
	}
	var mu sync.Mutex
	var all Sight
	err := f.each(func(p *process) error {
		var saw Sight
		if err := p.decode(&saw); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all.Add(saw)
		return nil
	})
	return all, err
}
