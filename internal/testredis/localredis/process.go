// SPDX-License-Identifier: Apache-2.0

package localredis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errPortTaken: the server could not listen because another program took the port first. Start then tries another port.
var errPortTaken = errors.New("port taken")

const (
	pingLimit    = 200 * time.Millisecond // one try of the readiness check
	logTailBytes = 2048
)

// process is one child. cmd is complete once spawn returned; exited is closed when it has been reaped.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// spawn starts cmd as a child that the kernel kills when this program dies.
//
// Pdeathsig belongs to the OS thread that forked, and not to the process: when that thread ends, the child gets the signal although the
// program lives on. Go ends a thread when a goroutine returns that is locked to it. So a goroutine that is locked to its thread forks each
// child, and then waits for that child. The thread lives as long as the child. This costs no additional thread, because a goroutine that
// waits for a process blocks a thread anyway. The goroutine does not unlock the thread: back in the pool, the thread could be ended by
// another goroutine.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the error does not matter: the log says how the process ended
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// signal sends sig. It returns no error if the process has ended.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("localredis: signal %v: %w", sig, err)
	}
	return nil
}

// launch starts the process and waits until it is ready. If launch fails, the process has ended. The caller holds s.mu, or s is still unknown
// to other goroutines.
func (s *Server) launch(ctx context.Context) error {
	// The log is a file that is the child's stdout and stderr. Unlike a --logfile it also contains errors from outside redis-server's own log,
	// such as that of a bad option, or the dynamic linker's about a bad LD_PRELOAD.
	log, err := os.OpenFile(filepath.Join(s.dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("localredis: %w", err)
	}
	defer log.Close()
	if err := s.configure(); err != nil {
		return fmt.Errorf("localredis: %w", err)
	}
	cmd := exec.Command(s.cfg.Binary, s.args()...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(os.Environ(), s.cfg.Env...)
	cmd.SysProcAttr = childAttr()
	p, err := spawn(cmd)
	if err != nil {
		return fmt.Errorf("localredis: %w", err)
	}
	s.proc.Store(p)
	if err := s.waitReady(ctx, p); err != nil {
		tail := s.logTail()
		if strings.Contains(tail, "Address already in use") {
			err = errPortTaken
		}
		return errors.Join(fmt.Errorf("localredis: start %s: %w%s", s.Addr(), err, tail), s.kill())
	}
	return nil
}

// waitReady returns nil when p answers PING, or an error when p ends or ctx does.
func (s *Server) waitReady(ctx context.Context, p *process) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startLimit)
		defer cancel()
	}
	for {
		pingErr := s.ping(ctx, p.cmd.Process.Pid)
		if pingErr == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("redis-server ended (%v)", p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (last try: %v)", ctx.Err(), pingErr)
		case <-time.After(pollInterval):
		}
	}
}

// ping asks the server for PONG and for its process id. PONG alone is not enough: it could come from another program that took the port
// before this process failed to.
func (s *Server) ping(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	r := bufio.NewReader(conn)
	if s.cfg.Password != "" {
		if err := ask(conn, r, "+OK", "AUTH", s.cfg.Password); err != nil {
			return err
		}
	}
	if err := ask(conn, r, "+PONG", "PING"); err != nil { // "-LOADING" until the data is in memory
		return err
	}
	if err := ask(conn, r, "$", "INFO", "server"); err != nil {
		return err
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		if id, ok := strings.CutPrefix(line, "process_id:"); ok {
			if strings.TrimSpace(id) != strconv.Itoa(pid) {
				return fmt.Errorf("%s is answered by process %s, ours is %d", s.Addr(), strings.TrimSpace(id), pid)
			}
			return nil
		}
	}
}

// ask sends one command and checks the start of the first line of its reply.
func ask(w io.Writer, r *bufio.Reader, want string, cmd ...string) error {
	req := fmt.Sprintf("*%d\r\n", len(cmd))
	for _, arg := range cmd {
		req += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(w, req); err != nil {
		return err
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, want) {
		return fmt.Errorf("%s answered %q", cmd[0], strings.TrimSpace(line))
	}
	return nil
}

// logTail returns the end of the server's log, in the form in which an error message ends with it, or "" if the log is empty.
func (s *Server) logTail() string {
	log, err := os.ReadFile(filepath.Join(s.dir, logName))
	if err != nil || len(log) == 0 {
		return ""
	}
	return "\n--- " + logName + "\n" + strings.TrimSpace(string(log[max(0, len(log)-logTailBytes):]))
}

// remove removes a directory. A child of the server that was killed with it may have been about to make a file.
func remove(dir string) error {
	for try := 1; ; try++ {
		err := os.RemoveAll(dir)
		if try == removeTries || !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
			return err
		}
		time.Sleep(pollInterval)
	}
}
