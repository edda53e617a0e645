// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The requests for the modes of a terminal. The one that sets them waits until what was written is out.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETSW
)

// executable is this program, even if its file was replaced.
func executable() (string, error) { return "/proc/self/exe", nil }

func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of all its descendants whose parent dies. In a container nobody else may be there to reap
// them, and a process that is not reaped stays in its group.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// zombies reports whether zombies are all that is left of the group. It is false if another process hides what it is.
func zombies(group int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	seen := false
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		of := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // behind its name: the state, the parent, the group
		if len(of) < 3 || of[2] != strconv.Itoa(group) {
			continue
		}
		if of[0] != "Z" && of[0] != "X" {
			return false
		}
		seen = true
	}
	return seen
}

// StopJob stops all processes of this one's group, as Ctrl-Z does, and returns when this one is continued. If no shell is there to continue
// the group (it is orphaned), the kernel drops the signal.
func StopJob() {
	// The default action stops. signal.Reset does not bring it back: the handler stays, and does nothing. Whatever the layout is, all zeros
	// are the default action.
	var byDefault, caught [128]byte
	if !setAction(&byDefault, &caught) {
		return
	}
	_ = unix.Kill(0, syscall.SIGTSTP)
	setAction(&caught, nil)
}

// setAction sets the kernel's struct sigaction of SIGTSTP.
func setAction(action, old *[128]byte) bool {
	const sizeOfSet = 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(syscall.SIGTSTP), uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(old)), sizeOfSet, 0, 0)
	return errno == 0
}

// sharedClock is a clock that all processes of this machine share. It counts the time that the machine is suspended.
func sharedClock() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
