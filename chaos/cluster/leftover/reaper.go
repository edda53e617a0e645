// SPDX-License-Identifier: Apache-2.0

package leftover

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// reaperEnv marks a process as a reaper, and names the program that it watches.
const reaperEnv = "REDLOCK_CHAOS_REAPER"

var served atomic.Bool // this program called Serve, so that started again it can be a reaper

// Serve turns this process into a reaper if Watch started it as one, and then does not return. A program that wants one calls it
// before anything else.
func Serve() {
	watched := owner(os.Getenv(reaperEnv))
	if watched == "" {
		served.Store(true)
		return
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	if said, _ := io.ReadAll(os.Stdin); len(said) == 0 { // not told that all is well: the program has ended
		reap(watched)
	}
	os.Exit(0)
}

// reapLimit bounds what a reaper does.
const reapLimit = time.Minute

func reap(watched owner) {
	ctx, cancel := context.WithTimeout(context.Background(), reapLimit)
	defer cancel()
	for !watched.dead() && ctx.Err() == nil { // its files are closed a moment before it is gone
		time.Sleep(time.Millisecond)
	}
	removed, err := Sweep(ctx)
	if len(removed) > 0 {
		fmt.Fprintf(os.Stderr, "chaos: the program ended without cleaning up; removed %s\n", strings.Join(removed, ", "))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "chaos: the program ended without cleaning up: %v\n", err)
	}
}

// Reaper is a process that cleans up after this program should it end without doing so: by a panic, or killed.
type Reaper struct {
	cmd *exec.Cmd // nil: none
	in  io.WriteCloser
}

// Watch starts a reaper, if this program called Serve. It writes to our standard error, which it keeps open until it is done.
func Watch() (*Reaper, error) {
	if !served.Load() {
		return &Reaper{}, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	r := &Reaper{cmd: exec.Command(exe)}
	r.cmd.Env = append(os.Environ(), reaperEnv+"="+string(self()))
	r.cmd.Stderr = os.Stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends a terminal's programs does not reach it
	if r.in, err = r.cmd.StdinPipe(); err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: start a reaper: %w", err)
	}
	return r, nil
}

// Close tells the reaper that there is nothing to do, and returns when it has ended. It may be called again.
func (r *Reaper) Close() {
	if r.cmd == nil {
		return
	}
	_, _ = io.WriteString(r.in, "done")
	_ = r.in.Close()
	_ = r.cmd.Wait() // it has nothing to fail at
	r.cmd = nil
}
