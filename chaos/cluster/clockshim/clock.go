// SPDX-License-Identifier: Apache-2.0

// Package clockshim gives one process a wall clock and a disk that a test can change while the process runs.
//
// A process that is started with Env of a Clock reads the time of that Clock as its CLOCK_REALTIME. A change of the Clock is seen by the
// next reading. The Clock also says how long fsync and fdatasync of the process take. Monotonic clocks do not change.
//
// The shim is a library that the dynamic loader preloads. It needs Linux and a process that is dynamically linked. The process must not be
// set-uid and must have no file capabilities: the loader then ignores LD_PRELOAD without a message, so test the Clock with a first step. The
// file of the Clock must be on the same kernel. A reading of the time costs a system call, so do not measure latency with the shim.
//
// Linux has no wall clock for a single container, and libfaketime crashes Debian's redis-server. That is why this package has a library of
// its own.
package clockshim

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

//go:embed preload/shim.c
var source []byte

// Names of the files in a directory given to a process; see Build, New and Env.
const (
	Library = "shim.so"
	File    = "clock"
)

// ErrUnavailable says that the library cannot be built here, and what would help.
var ErrUnavailable = errors.New("clockshim: clock and disk faults are not available")

// Build compiles the library as dir/shim.so. It needs Linux and a C compiler called cc; without them the error is ErrUnavailable and
// names the remedy. On an error nothing is left behind.
func Build(ctx context.Context, dir string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w on %s: the preload library needs Linux", ErrUnavailable, runtime.GOOS)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return fmt.Errorf("%w: %w; install a C compiler: apt-get install -y gcc libc6-dev", ErrUnavailable, err)
	}
	out := filepath.Join(dir, Library)
	cmd := exec.CommandContext(ctx, cc, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-fno-stack-protector", "-nostdlib", "-x", "c", "-o", out, "-")
	cmd.Stdin = bytes.NewReader(source)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // what the compiler leaves goes with the folder
	if msg, err := cmd.CombinedOutput(); err != nil {
		_ = os.Remove(out) // half a library, if any
		return fmt.Errorf("%w: cc: %w\n%s(a missing header means: apt-get install -y libc6-dev)", ErrUnavailable, err, msg)
	}
	return nil
}

// Env returns the environment that puts a process under the Clock whose file and library are in dir, as the process itself sees dir
// (inside a container: the mount point).
func Env(dir string) []string {
	return []string{"LD_PRELOAD=" + filepath.Join(dir, Library), "REDLOCK_CLOCK=" + filepath.Join(dir, File)}
}

// state is what the library reads: struct state in preload/shim.c, in the machine's byte order.
type state struct {
	Anchor int64   // real time in ns at which Offset was true
	Offset int64   // ns
	Skew   float64 // rate - 1
	Stall  int64   // ns
	_      [4]int64
}

const slots = 64 // size of struct state and of what stands before slot 0 in the file

// Clock is the controlling side. Any goroutine may call its methods; each takes effect at once in every process that runs under it. It
// holds nothing open, so there is nothing to close: what was set last stays in its file.
type Clock struct {
	path string

	mu      sync.Mutex
	version byte  // guarded by mu
	state   state // guarded by mu
}

// New creates dir/clock, a clock that shows the right time and a disk that does not stall.
func New(dir string) (*Clock, error) {
	c := &Clock{path: filepath.Join(dir, File)}
	// The file has its full size before a process maps it.
	if err := os.WriteFile(c.path, make([]byte, 3*slots), 0o644); err != nil {
		return nil, fmt.Errorf("clockshim: %w", err)
	}
	return c, nil
}

// Step makes the clock show the real time plus offset, which may be negative. The offset is absolute: Step(0) puts a clock with
// rate 1 right, however often it was stepped. The rate stays.
func (c *Clock) Step(offset time.Duration) error {
	return c.change(func(s *state) { s.Offset = int64(offset) })
}

// SetRate makes the clock run factor times as fast as the real one from now on, without a step: 1 is right, 0 is stopped. What it has
// gained or lost stays until the next Step. A negative or infinite factor is an error.
func (c *Clock) SetRate(factor float64) error {
	if !(factor >= 0) || math.IsInf(factor, 0) {
		return fmt.Errorf("clockshim: rate %v: want a finite factor of at least 0", factor)
	}
	return c.change(func(s *state) { s.Skew = factor - 1 })
}

// Stall makes every fsync and fdatasync take d longer until told otherwise. Stall(0) also ends a call that is stalled right now.
func (c *Clock) Stall(d time.Duration) error {
	return c.change(func(s *state) { s.Stall = int64(d) })
}

// change brings the offset up to this moment, applies f and publishes: the idle slot first, then the one byte that makes it the current
// one. Writes through the file are seen in the mappings of it, page cache being one.
func (c *Clock) change(f func(*state)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.state
	now := time.Now().UnixNano()
	next.Offset += int64(float64(now-next.Anchor) * next.Skew)
	next.Anchor = now
	f(&next)
	var slot bytes.Buffer
	if err := binary.Write(&slot, binary.NativeEndian, next); err != nil {
		return fmt.Errorf("clockshim: %w", err)
	}
	file, err := os.OpenFile(c.path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("clockshim: %w", err)
	}
	defer file.Close()
	version := c.version + 1
	if _, err := file.WriteAt(slot.Bytes(), slots*(1+int64(version&1))); err != nil {
		return fmt.Errorf("clockshim: %w", err)
	}
	if _, err := file.WriteAt([]byte{version}, 0); err != nil {
		return fmt.Errorf("clockshim: %w", err)
	}
	c.version, c.state = version, next
	return nil
}
