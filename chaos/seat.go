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

	"github.com/redlock-go/redlock/chaos/workload"
)

// seat is a client's place in the run: its links to the masters, and the process that is there now. Any goroutine may call its methods.
type seat struct {
	spec  workload.Spec
	name  string
	dir   string // of histories
	other string // another build of the program, for Upgrade

	process atomic.Pointer[workload.Process]
	before  atomic.Int64 // locks granted to processes that were replaced
	mu      sync.Mutex   // held while the process is replaced, and while something is done to it
	lives   int          // guarded by mu
	failed  error        // why there is no process any more; guarded by mu
}

// start starts the first process. name is the seat's, c1, c2, ...; later processes are c1.2, c1.3, ...
func (s *seat) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin(ctx)
}

func (s *seat) begin(ctx context.Context) error {
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

func (s *seat) now() *workload.Process { return s.process.Load() }

func (s *seat) Name() string  { return s.now().Name() }
func (s *seat) Pause() error  { return s.do((*workload.Process).Pause) }
func (s *seat) Resume() error { return s.do((*workload.Process).Resume) }
func (s *seat) Storm() error  { return s.do((*workload.Process).Storm) }

func (s *seat) do(f func(*workload.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(s.now())
}

func (s *seat) granted() int { return int(s.before.Load()) + s.now().Granted() }

// startTime bounds the start of a client that takes another's place.
const startTime = 20 * time.Second

// Upgrade ends the client as a deployment does, and starts one of the other build in its place; the next time it is ours again. It says
// which one. See nemesis.Client.
func (s *seat) Upgrade(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.now().Finish(ctx); err != nil {
		return "", err
	}
	to := "our build"
	if s.spec.Program == "" {
		s.spec.Program, to = s.other, "the other build"
	} else {
		s.spec.Program = ""
	}
	old := s.now()
	// A client that cannot reach a quorum at its start says so and ends, and is started again, as a supervisor does.
	for {
		if s.failed = s.begin(ctx); s.failed == nil {
			s.before.Add(int64(old.Granted()))
			return to, nil
		}
		if ctx.Err() != nil {
			return to, s.failed
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

var errEnded = errors.New("nobody told it to")

// ended returns why the seat's process ended without being replaced, or nil when ctx ended.
func (s *seat) ended(ctx context.Context) error {
	for {
		p := s.now()
		select {
		case <-p.Exited():
			s.mu.Lock() // so that it has been replaced by now, if it is
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
