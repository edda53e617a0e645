// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/chaos/workload"
)

// clientSlot is the place of one client in the run. It keeps the client's links to the masters and its current process. Upgrade and Kill
// replace the process. Any goroutine may call its methods.
type clientSlot struct {
	spec    workload.Spec
	name    string // c1, c2, ...; the processes after the first are called c1.2, c1.3, ...
	dir     string // holds the history files
	program string // the clients' program; empty: this one
	other   string // another build of it, for Upgrade

	process atomic.Pointer[workload.Process]
	before  atomic.Int64        // locks granted to processes that were replaced
	mu      sync.Mutex          // held while the process is replaced, and while something is done to it
	lives   int                 // counts processes; guarded by mu
	gone    []*workload.Process // that were replaced; guarded by mu
	failed  error               // why no process could be started in the place of another; guarded by mu
}

// startTime bounds the start of a process (docs/history.md). A test has less.
var startTime = 20 * time.Second

// inStartTime returns a context for the start of a process. Its cause says why that did not come to its end.
func inStartTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, startTime, fmt.Errorf("it did not print %s within %v", client.ReadyLine, startTime))
}

// start starts the first process.
func (s *clientSlot) start(ctx context.Context) error {
	ctx, cancel := inStartTime(ctx)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin(ctx)
}

// begin starts a process. The caller holds s.mu.
func (s *clientSlot) begin(ctx context.Context) error {
	s.lives++
	s.spec.Name = s.name
	if s.lives > 1 {
		s.spec.Name = fmt.Sprintf("%s.%d", s.name, s.lives)
	}
	s.spec.History = filepath.Join(s.dir, s.spec.Name+".jsonl")
	p, err := workload.Start(ctx, s.spec)
	if err == nil {
		s.process.Store(p)
	}
	return err
}

// now returns the current process.
func (s *clientSlot) now() *workload.Process { return s.process.Load() }

func (s *clientSlot) Name() string  { return s.now().Name() }
func (s *clientSlot) Pause() error  { return s.do((*workload.Process).Pause) }
func (s *clientSlot) Resume() error { return s.do((*workload.Process).Resume) }
func (s *clientSlot) Storm() error  { return s.do((*workload.Process).Storm) }

func (s *clientSlot) do(f func(*workload.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(s.now())
}

// granted returns how many locks the processes of the slot were granted.
func (s *clientSlot) granted() int { return int(s.before.Load()) + s.now().Granted() }

// logs returns what the processes of the slot that have ended wrote to their stderr.
func (s *clientSlot) logs() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := map[string][]byte{}
	for _, p := range append(s.gone, s.now()) {
		if log := p.Log(); len(log) > 0 {
			logs[p.Name()] = log
		}
	}
	return logs
}

// Upgrade ends the process and starts one of the other build, as a deployment does. The next Upgrade starts one of our build again. It
// returns which build it started. See nemesis.Client.
func (s *clientSlot) Upgrade(ctx context.Context) (string, error) {
	ctx, cancel := inStartTime(context.WithoutCancel(ctx))
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.now().Finish(ctx); err != nil {
		return "", err
	}
	to := "our build"
	if s.spec.Program == s.program {
		s.spec.Program, to = s.other, "the other build"
	} else {
		s.spec.Program = s.program
	}
	return to, s.replace(ctx)
}

// Kill kills the process with SIGKILL and starts another, which knows nothing of the first. See nemesis.Client.
func (s *clientSlot) Kill(ctx context.Context) error {
	ctx, cancel := inStartTime(context.WithoutCancel(ctx))
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now().Kill()
	return s.replace(ctx)
}

// replace starts a process in the place of one that has ended. The caller holds s.mu. A client that reaches no quorum at its start ends with
// an error. It is started again until ctx ends, as a supervisor would do.
func (s *clientSlot) replace(ctx context.Context) error {
	old := s.now()
	for {
		if s.failed = s.begin(ctx); s.failed == nil {
			s.before.Add(int64(old.Granted()))
			s.gone = append(s.gone, old)
			return nil
		}
		if ctx.Err() != nil {
			return s.failed
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

var errEnded = errors.New("it ended by itself, with exit code 0")

// ended waits until the process ends without being replaced, and returns why it ended. It returns nil when ctx ends.
func (s *clientSlot) ended(ctx context.Context) error {
	for {
		p := s.now()
		select {
		case <-p.Exited():
			s.mu.Lock() // waits for an Upgrade or a Kill under way, which replaces p
			same, why := s.now() == p, s.failed
			s.mu.Unlock()
			if same {
				return fmt.Errorf("chaos: client %s ended: %w", p.Name(), cmp.Or(why, p.Finish(ctx), errEnded))
			}
		case <-ctx.Done():
			return nil
		}
	}
}
