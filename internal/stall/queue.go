// SPDX-License-Identifier: Apache-2.0

package stall

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A queue adds up for how long the threads of this process and of its descendants have waited for a processor, as Linux counts it. A
// redis-server that a test started is one of them: it may wait while the test's own process does not. On other systems the sum is 0.
type queue struct {
	ours   map[string]bool                     // by process: whether it is this one or a descendant
	waited map[string]map[string]time.Duration // by process that runs, and thread
	sum    time.Duration                       // with threads that have ended
}

func newQueue() *queue {
	return &queue{ours: map[string]bool{strconv.Itoa(os.Getpid()): true}, waited: make(map[string]map[string]time.Duration)}
}

// look returns the sum so far. A thread that starts and ends between two looks is not in it.
func (q *queue) look() time.Duration {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // parents come before their children
	before := q.ours
	q.ours = make(map[string]bool, len(before)) // the number of a process that has ended may be another's the next time
	waited := make(map[string]map[string]time.Duration, len(q.waited))
	for _, pid := range names {
		if pid[0] < '0' || pid[0] > '9' {
			continue
		}
		ours, known := before[pid]
		if !known {
			ours = q.ours[parent(pid)]
		}
		q.ours[pid] = ours
		if ours {
			waited[pid] = q.lookAt(pid)
		}
	}
	q.waited = waited
	return q.sum
}

// lookAt adds what the threads of a process have waited since the last look, and returns what each has waited.
func (q *queue) lookAt(pid string) map[string]time.Duration {
	dir, err := os.Open("/proc/" + pid + "/task")
	if err != nil {
		return nil // it has ended
	}
	defer dir.Close()
	threads, _ := dir.Readdirnames(-1)
	before, now := q.waited[pid], make(map[string]time.Duration, len(threads))
	for _, thread := range threads {
		words := strings.Fields(text("/proc/" + pid + "/task/" + thread + "/schedstat")) // what it ran, waited, and how often, in nanoseconds
		if len(words) < 2 {
			continue
		}
		if ns, err := strconv.ParseInt(words[1], 10, 64); err == nil {
			now[thread] = time.Duration(ns)
			q.sum += now[thread] - before[thread]
		}
	}
	return now
}

// text returns the first line or so of a file that the kernel makes, or "" if it is gone. os.ReadFile has four calls of the kernel more, and there are
// hundreds of files in a look.
func text(file string) string {
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = syscall.Close(fd) }()
	var line [512]byte
	n, _ := syscall.Read(fd, line[:])
	return string(line[:max(n, 0)])
}

// parent returns the parent of a process, or "" if the process has ended.
func parent(pid string) string {
	stat := text("/proc/" + pid + "/stat")
	// pid (name) state parent ...: the name may have spaces and parentheses in it.
	words := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(words) < 2 {
		return ""
	}
	return words[1]
}
