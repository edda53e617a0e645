// SPDX-License-Identifier: Apache-2.0

package leftover

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// owner names a program that opened a cluster: process id, when that process started, so that a later process with the same id is not
// taken for it, namespace of process ids, and host. Everything a cluster leaves when its program is killed carries it; see Sweep.
type owner string

func self() owner { return ownerOf(os.Getpid()) }

func ownerOf(pid int) owner {
	return owner(fmt.Sprintf("%d_%s_%s_%s", pid, startTime(pid), pidNamespace(), hostname()))
}

// dead tells whether the program is surely gone. One of another host, or of another container with the engine's socket or our directory for
// temporary files, is not ours to judge. Nor is one of a build that did not name its namespace.
func (o owner) dead() bool {
	fields := strings.SplitN(string(o), "_", 4)
	if len(fields) != 4 || fields[2] != pidNamespace() || fields[3] != hostname() {
		return false
	}
	pid, err := strconv.Atoi(fields[0])
	return err == nil && pid > 0 && (syscall.Kill(pid, 0) == syscall.ESRCH || ownerOf(pid) != o)
}

// pidNamespace returns the number of the namespace in which process ids mean something, empty where there is no /proc.
func pidNamespace() string {
	link, _ := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	return strings.Trim(link, "pid:[]")
}

func hostname() string {
	name, _ := os.Hostname() // where there is none, all agree on the empty one
	return name
}

// startTime returns a process's start in clock ticks since boot (field 22 of /proc/PID/stat), empty for a zombie and where there is no /proc.
func startTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// Field 2, the name, is in parentheses and may hold anything. What comes behind the last one starts with field 3, the state.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[22-3]
}
