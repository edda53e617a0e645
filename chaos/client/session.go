// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/redlock-go/redlock/chaos/history"
)

// Session is one client process, from its start to its end. Any goroutine may call its methods.
type Session struct {
	Task
	Line    []byte          // the task as it was sent
	Storms  <-chan struct{} // receives when many more threads should want the first lock for a second (waiter-storm); a client may ignore it
	Records *history.Writer // set by Ready

	file *os.File
	mu   sync.Mutex
	out  io.Writer // guarded by mu
}

// Started reports whether the harness started this process as a client.
func Started() bool { return os.Getenv(Env) != "" }

// Main is the main function of a client. It calls work with a context that ends when the harness wants the client to end, and exits when
// work has returned: with 0, or with 1 after an error, which it prints. Locks that are held then should be released.
func Main(work func(ctx context.Context, s *Session) error) {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP) // the harness is told, and ends us
	if err := Serve(os.Stdin, os.Stdout, work); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Serve is Main for other streams. It returns the error of work.
func Serve(in io.Reader, out io.Writer, work func(ctx context.Context, s *Session) error) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("client: no task, which redlock-bench chaos --client sends: %w", err)
	}
	task, err := parse(line)
	if err != nil {
		return err
	}
	storms := make(chan struct{}, 1)
	s := &Session{Task: task, Line: line, Storms: storms, out: out}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the process, or with the input
		defer cancel()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if strings.TrimSpace(line) == StormLine {
				select {
				case storms <- struct{}{}:
				default: // a storm is under way
				}
			}
		}
	}()
	err = work(ctx, s)
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	return err
}

// Ready opens the history and tells the harness that the client is connected to its masters. idle are the checkers to which this client gives
// nothing to judge, such as tokens if its locks have none (history.Header.Idle).
func (s *Session) Ready(idle ...string) error {
	f, err := os.Create(s.Task.History)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	s.Header.Idle = slices.Concat(s.Header.Idle, idle)
	if s.Records, err = history.NewWriter(f, s.Header); err != nil {
		return errors.Join(err, f.Close())
	}
	s.file = f
	s.say(ReadyLine)
	return nil
}

// Granted tells the harness that the client was granted a lock. A Thread does so by itself.
func (s *Session) Granted(lock string) { s.say("+" + lock) }

// Released tells the harness that the client is about to hold a lock no longer. A Thread does so by itself.
func (s *Session) Released(lock string) { s.say("-" + lock) }

// say sends a line to the harness. The client works the same if the line is lost.
func (s *Session) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, line+"\n")
}
