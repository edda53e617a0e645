// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package supervise

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The requests for the modes of a terminal. The one that sets them waits until what was written is out.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETAW
)

func executable() (string, error) { return os.Executable() }

// commandAttr: these systems have no PR_SET_PDEATHSIG.
func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// zombies is not known here.
func zombies(int) bool { return false }

// adoptOrphans does nothing: process 1 reaps them.
func adoptOrphans() {}

// StopJob stops all processes of this one's group, as Ctrl-Z does, and returns when this one is continued. It does nothing if the parent is
// no shell that would continue the group. SIGTSTP cannot be used: signal.Reset does not bring its default action back.
func StopJob() {
	parent := os.Getppid()
	session, err := unix.Getsid(parent)
	own, err2 := unix.Getsid(0)
	group, err3 := unix.Getpgid(parent)
	if err == nil && err2 == nil && err3 == nil && session == own && group != unix.Getpgrp() {
		_ = unix.Kill(0, syscall.SIGSTOP)
	}
}

// sharedClock is a clock that all processes of this machine share. It counts the time that the machine is suspended on macOS only.
func sharedClock() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
