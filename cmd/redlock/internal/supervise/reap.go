// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervise

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// child is a child process that ended or stopped.
type child struct {
	pid    int
	status unix.WaitStatus
}

// reaper waits for every child of this process. On Linux, and as process 1, they are more than the command and the guard: processes whose
// parent died. So there is one reaper for all calls of Run: two would take each other's children.
var reaper struct {
	mu   sync.Mutex
	runs bool
	to   chan<- child    // of the present Run; nil: nobody asks
	left <-chan struct{} // closed when that Run has returned
}

// join returns where the children are reported until leave is called.
func join() (children <-chan child, leave func()) {
	c, left := make(chan child), make(chan struct{})
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	reaper.to, reaper.left = c, left
	return c, func() {
		close(left)
		reaper.mu.Lock()
		defer reaper.mu.Unlock()
		reaper.to, reaper.left = nil, nil
	}
}

// begins tells the reaper that there are children.
func begins() {
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	if !reaper.runs {
		reaper.runs = true
		go reap()
	}
}

// reap returns when there is no child.
func reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED, nil)
		if errors.Is(err, unix.ECHILD) {
			var idle bool
			if pid, idle = rest(&status); idle {
				return
			}
		}
		if pid > 0 {
			report(child{pid, status})
		}
	}
}

// rest looks once more for a child. If there is none it says so, and the next child needs another reaper.
func rest(status *unix.WaitStatus) (pid int, idle bool) {
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	pid, err := unix.Wait4(-1, status, unix.WUNTRACED|unix.WNOHANG, nil)
	idle = errors.Is(err, unix.ECHILD)
	reaper.runs = !idle
	return pid, idle
}

func report(c child) {
	reaper.mu.Lock()
	to, left := reaper.to, reaper.left
	reaper.mu.Unlock()
	if to == nil {
		return
	}
	select {
	case to <- c:
	case <-left:
	}
}
