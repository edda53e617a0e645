// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
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
	"syscall"
	"time"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/internal/tail"
)

// Process is one client process. Any goroutine may call its methods.
type Process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr tail.Writer // as much as is kept of a master's log; complete once exited is closed
	exited chan struct{}
	ready  chan struct{}
	err    error // of the process; set before exited is closed

	mu      sync.Mutex
	held    map[string]int       // lock -> how many of the client's workers have it
	took    map[string]time.Time // lock -> when it said last that it was granted it
	granted int
}

// Start starts this very program again, or another build of it, as a client and returns when it is connected to its masters. ctx bounds the start only. On an
// error nothing is left behind. The process does not outlive this program, stopped or not, where the kernel can see to that (Linux).
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	exe, err := spec.Program, error(nil)
	if exe == "" {
		exe, err = os.Executable()
	}
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	line, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	p := &Process{name: spec.Name, cmd: exec.Command(exe), stderr: tail.Writer{Max: 1 << 20}, exited: make(chan struct{}), ready: make(chan struct{}), held: map[string]int{}, took: map[string]time.Time{}}
	// GOMAXPROCS: several clients share the machine with their masters.
	p.cmd.Env = append(os.Environ(), client.Env+"=1", "GOMAXPROCS=2")
	p.cmd.SysProcAttr = childAttr()
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	if err := p.spawn(out); err != nil {
		return nil, fmt.Errorf("workload: start %s: %w", spec.Name, err)
	}
	_, err = p.in.Write(append(line, '\n')) // fails if the process has ended
	select {
	case <-p.ready:
		if err == nil {
			return p, nil
		}
	case <-p.exited:
		if err = errEarly; p.err != nil {
			err = fmt.Errorf("%w: %w", errEarly, p.err)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.Kill()
	return nil, fmt.Errorf("workload: start %s: %w", spec.Name, errors.Join(err, p.complaint()))
}

var errEarly = errors.New("the program ended before it was ready")

// spawn starts the process and reaps it. The kernel kills a child when the thread that forked it ends, so that thread waits for the child
// and is not given back (see internal/testredis/localredis).
func (p *Process) spawn(out io.Reader) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.listen(out)
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return <-started
}

// longestLine is how long a line of a client may be that means something: a lock's name, and a sign.
const longestLine = 64 << 10

// listen reads what the client says until it ends, so that it can go on saying it. A program of the user's may say more than once that it is ready.
func (p *Process) listen(out io.Reader) {
	ready := sync.OnceFunc(func() { close(p.ready) })
	for lines := bufio.NewReaderSize(out, longestLine); ; {
		word, more, err := lines.ReadLine()
		for skip := more; skip && err == nil; { // longer than any line that means something
			_, skip, err = lines.ReadLine()
		}
		if err != nil {
			return
		}
		switch line := string(word); {
		case more:
		case line == client.ReadyLine:
			ready()
		case strings.HasPrefix(line, "+"):
			p.hold(line[1:], 1)
		case strings.HasPrefix(line, "-"):
			p.hold(line[1:], -1)
		}
	}
}

func (p *Process) hold(lock string, by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[lock] += by
	if by > 0 {
		p.granted++
		p.took[lock] = time.Now()
	}
}

// Took is when the client said last that it was granted the lock; zero if it never did.
func (p *Process) Took(lock string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.took[lock]
}

// Granted is how many locks the client said that it was granted, members of multi-locks left out. The record counts.
func (p *Process) Granted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted
}

// Name is the client's name in the history.
func (p *Process) Name() string { return p.name }

// Holds tells whether the client said that it has the lock. It is for showing only: what a client says is a moment old.
func (p *Process) Holds(lock string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[lock] > 0
}

// Pause stops the whole process where it is (SIGSTOP).
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a stopped process go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("workload: %s: %w", p.name, err)
	}
	return nil
}

// Storm makes many more workers of the client want the hot lock for a second.
func (p *Process) Storm() error {
	if _, err := io.WriteString(p.in, client.StormLine+"\n"); err != nil {
		return fmt.Errorf("workload: %s: %w", p.name, err)
	}
	return nil
}

// Exited is closed when the process has ended, for whatever reason.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// finishTime is how long a client may take to give its locks back.
const finishTime = 10 * time.Second

// Finish has the client give back what it holds and end. When it ended badly, or not within 10 s or ctx, it is killed and the error says
// what it complained of.
func (p *Process) Finish(ctx context.Context) error {
	_ = p.Resume()
	_ = p.in.Close()
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("workload: %s: %w", p.name, ctx.Err())
	case <-time.After(finishTime):
		p.Kill()
		return errors.Join(fmt.Errorf("workload: %s did not end within %v", p.name, finishTime), p.complaint())
	}
	if p.err != nil {
		return fmt.Errorf("workload: %s: %w", p.name, errors.Join(p.err, p.complaint()))
	}
	return nil
}

// complaint is the end of what an ended process wrote to its stderr.
func (p *Process) complaint() error {
	s := strings.TrimSpace(p.stderr.String())
	if s == "" {
		return nil
	}
	return errors.New(s)
}

// Log returns the end of what the process wrote to its stderr. It returns nil while the process runs.
func (p *Process) Log() []byte {
	select {
	case <-p.exited:
		return p.stderr.Bytes()
	default:
		return nil
	}
}

// Kill ends the process at once and returns when it is reaped. One that has ended is left so.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.in.Close()
	<-p.exited
}
